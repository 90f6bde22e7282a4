"""The line below a message: which version it is, its numbers, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from app.numbers import in_words
from app.records import MessageRecord
from app.window.fonts import font
from app.window.look import Look
from app.window.transcript.badge import Badge
from app.window.transcript.buttons import IconButton
from app.window.transcript.manner import SMALL

Actions = tuple[tuple[str, str], ...]  # (icon, name)

COPY, PLAIN, AGAIN, ON, EDIT, RACE, VERIFY = (
    ("copy", "Copy message"),
    ("plain", "Copy as plain text"),
    ("again", "Regenerate"),
    ("continue", "Continue"),
    ("edit", "Edit"),
    ("race", "Race this prompt"),
    ("verify", "Verify"),
)


class Quiet(IconButton):
    """Is there, and reached by the keyboard, but seen only when it is `shown`, has the focus or is hovered."""

    shown = False

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.shown or self.hasFocus() or self.underMouse():
            super().paintEvent(event)


class Footer(QWidget):
    """asked: the name of an action. select: the id of another version. right: whether all stands at the right."""

    asked = Signal(str)
    select = Signal(int)

    def __init__(self, record: MessageRecord, actions: Actions, look: Look, right: bool = False) -> None:
        super().__init__()
        self._record = record
        self._shown = self._checking = False
        self.buttons = {name: Quiet(shape, name, look, self) for shape, name in actions}
        self.before = IconButton("left", "Previous version", look, self)
        self.after = IconButton("right", "Next version", look, self)
        self._place = QLabel(self)
        self._place.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self.numbers = Elided(self)
        self.badge = Badge(look, self)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        self.numbers.setVisible(not right)
        for part in (self.badge, self.numbers, self.before, self._place, self.after):
            row.addWidget(part, 1 if part is self.numbers else 0)
        if right:
            row.insertStretch(0)
        for name, button in self.buttons.items():
            row.addWidget(button)
            button.clicked.connect(lambda _=False, name=name: self.asked.emit(name))
        self.before.clicked.connect(lambda: self._go(-1))
        self.after.clicked.connect(lambda: self._go(1))
        self.set_look(look)
        self.tell(record)

    def tell(self, record: MessageRecord, checking: str = "", uncheckable: str = "") -> None:
        """What is known of the message now. checking: how far its check is, uncheckable: why it came to nothing; or
        ""."""
        self._record = record
        self.badge.tell(record, checking, uncheckable)
        self._checking = bool(checking)
        if (button := self.buttons.get(VERIFY[1])) is not None:
            button.set_shape(*(("stop", "Stop verifying") if checking else VERIFY))
            button.shown = self._shown or self._checking  # what goes on can be stopped without looking for it
        several = record.versions > 1
        for part in (self.before, self._place, self.after):
            part.setVisible(several)
        self._place.setText(f"{record.version}/{record.versions}")
        self._place.setAccessibleName(f"Version {record.version} of {record.versions}")
        self.before.setEnabled(self._sibling(-1) is not None)
        self.after.setEnabled(self._sibling(1) is not None)
        self.numbers.setText(in_words(record.statistics) if record.statistics else "")

    def set_look(self, look: Look) -> None:
        for button in (*self.buttons.values(), self.before, self.after):
            button.set_look(look)
        self.badge.set_look(look)
        for label in (self._place, self.numbers):
            label.setFont(font(look, SMALL))
            label.setStyleSheet(f"color: {look.faint};")

    def show_actions(self, shown: bool) -> None:
        if shown != self._shown:
            self._shown = shown
            for name, button in self.buttons.items():
                button.shown = shown or (self._checking and name == VERIFY[1])
                button.update()

    def stops(self) -> list[QWidget]:
        """What the keyboard reaches, in order."""
        found = [self.badge, self.before, self.after, *self.buttons.values()]
        return [button for button in found if button.isVisibleTo(self) and button.isEnabled()]

    def _sibling(self, by: int) -> int | None:
        place = self._record.version - 1 + by
        return self._record.siblings[place] if 0 <= place < len(self._record.siblings) else None

    def _go(self, by: int) -> None:
        sibling = self._sibling(by)
        if sibling is not None:
            self.select.emit(sibling)


class Elided(QLabel):
    """One line of text that ends in an ellipsis where there is no room; all of it shows on hovering."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def paintEvent(self, event: QPaintEvent) -> None:
        metrics, text = self.fontMetrics(), self.text()
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, self.width())
        self.setToolTip(text if shown != text else "")
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.rect(), int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), shown)
        painter.end()
