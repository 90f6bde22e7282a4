"""An inspector that shows a reply, and what can be read off it."""

from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QImage, QMouseEvent
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.protocol import RoundDone
from app.reply import Reply
from app.store.records import MessageRecord, Statistics
from app.window.inspector import Inspector
from app.window.inspector.round_rows import RoundRows


def open_inspector(told: list[RoundDone] | None = None, statistics: Statistics | None = None) -> Inspector:
    """Returns an inspector on screen. told: the rounds of a reply that it shows, if any."""
    inspector = Inspector()
    inspector.resize(320, 820)
    inspector.show()
    if told is not None:
        inspector.show_reply(Reply(told), statistics)
        take_all(inspector)
        QApplication.processEvents()
    return inspector


def rows_of(told: list[RoundDone]) -> RoundRows:
    """Returns the rows of a reply with these rounds."""
    found = RoundRows(Reply(told))
    found.reply.read()
    found.grow(len(told))
    return found


def take_all(inspector: Inspector) -> None:
    """Has the inspector show all rounds that it was given, at once."""
    while inspector.busy:
        inspector.read_on()


def record(statistics: Statistics | None, note: str = "") -> MessageRecord:
    return MessageRecord(id=1, conversation=1, parent=None, role="assistant", text="", note=note, statistics=statistics)


def tiles(inspector: Inspector) -> tuple[str, ...]:
    return tuple(tile.value.text() for tile in inspector.summary.tiles)


def words(inspector: Inspector) -> str:
    """All text in sight."""
    return "\n".join(label.text() for label in inspector.findChildren(QLabel) if label.isVisible())


def rows(inspector: Inspector) -> list[str]:
    model = inspector.rounds.round_model
    return [model.index(i, 0).data() for i in range(model.rowCount())]


def plot_words(inspector: Inspector) -> list[str]:
    """What each chart says once its tab is chosen."""
    said = []
    for which, chart in enumerate(inspector.charts.charts):
        inspector.charts.choose(which)
        said.append(chart.accessibleDescription())
    return said


def hover(widget: QWidget, x: float, y: float) -> None:
    """Moves the pointer over `widget`, to (x, y) in it."""
    spot, none = QPointF(x, y), Qt.MouseButton.NoButton
    everywhere = QPointF(widget.mapToGlobal(spot))
    kind, modifiers = QEvent.Type.MouseMove, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(widget, QMouseEvent(kind, spot, everywhere, none, none, modifiers))


def colours(widget: QWidget) -> set[str]:
    """Returns every colour in the picture of a widget, as "#rrggbb"."""
    image = widget.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    return {f"#{pixel & 0xFFFFFF:06x}" for pixel in set(memoryview(image.constBits()).cast("B").cast("I"))}
