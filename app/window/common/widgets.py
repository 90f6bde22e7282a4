"""The small widgets that every window is made of. They take their colours from the theme while they are drawn."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QAction,
    QColor,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QLabel, QSizePolicy, QToolButton, QWidget

from app.window.common import theme
from app.window.common.appearance import Appearance
from app.window.common.icons import pixmap

NATIVE_TEXT = QKeySequence.SequenceFormat.NativeText
BAR_HEIGHT = 8  # px
_DONE_MS = 1400


def style(widget: QWidget, **properties: str) -> None:
    """Selects styles of the application's style sheet by dynamic properties; `style_sheet` lists them."""
    changed = {name: value for name, value in properties.items() if widget.property(name) != value}
    for name, value in changed.items():
        widget.setProperty(name, value)
    if "ground" in changed or "kind" in changed:
        widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    if changed and widget.testAttribute(Qt.WidgetAttribute.WA_WState_Polished):
        widget.style().unpolish(widget)
        widget.style().polish(widget)
        widget.update()


def label(text: str = "", role: str = "body", tone: str = "", wrap: bool = False) -> QLabel:
    """Returns a label of plain text, which is never taken for HTML. wrap: in as many lines as it needs."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(wrap)
    style(made, role=role, tone=tone)
    return made


def wrapped(text: str = "", parent: QWidget | None = None, role: str = "", tone: str = "") -> QLabel:
    """Returns a label of plain text in as many lines as it needs."""
    made = label(text, role, tone, wrap=True)
    if parent is not None:
        made.setParent(parent)
    return made


def announce(widget: QWidget, text: str, assertive: bool = False) -> None:
    """Has assistive technology read `text` out once it is done with what it reads, or at once if that is urgent."""
    if not QAccessible.isActive():
        return
    event = QAccessibleAnnouncementEvent(widget, text)
    if assertive:
        event.setPoliteness(QAccessible.AnnouncementPoliteness.Assertive)
    QAccessible.updateAccessibility(event)


class IconButton(QToolButton):
    """A flat button of one icon. Its name is read to those who cannot see it, and shown on hovering."""

    def __init__(self, shape: str, name: str, parent: QWidget | None = None, size: int = 32) -> None:
        super().__init__(parent)
        self._shape, self._marked, self._done = shape, True, False
        self.tone = "faint"  # of the icon: a colour of the appearance
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAutoRaise(True)
        self.setFixedSize(size, size)
        self.setIconSize(QSize(18, 18) if size > 28 else QSize(16, 16))
        style(self, role="flat")
        self.set_shape(shape, name)

    def set_shape(self, shape: str, name: str) -> None:
        """Gives the button another icon and another purpose."""
        self._shape = shape
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.update()

    def set_marked(self, marked: bool) -> None:
        """Whether the button is tinted while it is on; not where one sees that anyway."""
        self._marked = marked
        style(self, marked="true" if marked else "false")

    def follow(self, action: QAction) -> None:
        """Does what `action` does, while it is enabled; its shortcut is shown on hovering."""
        self.setCheckable(action.isCheckable())
        self.clicked.connect(action.trigger)
        action.changed.connect(lambda: self._mirror(action))
        self._mirror(action)

    def show_done(self) -> None:
        """Shows a check mark for a moment: what the button does was done."""
        self._done = True
        self.update()
        QTimer.singleShot(_DONE_MS, self, self._show_shape)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        shape = "check" if self._done else self._shape
        size = self.iconSize().width()
        painter = QPainter(self)
        drawn = pixmap(shape, self.icon_colour(theme.current()), size, self.devicePixelRatioF())
        painter.drawPixmap(QPoint((self.width() - size) // 2, (self.height() - size) // 2), drawn)
        painter.end()

    def icon_colour(self, look: Appearance) -> str:
        """Returns the colour of the icon in its present state."""
        if self._done:
            return look.good
        if not self.isEnabled():
            return look.hairline
        return look.accent if self.isChecked() and self._marked else look.colour(self.tone)

    def _show_shape(self) -> None:
        self._done = False
        self.update()

    def _mirror(self, action: QAction) -> None:
        self.setEnabled(action.isEnabled())
        self.setChecked(action.isChecked())
        self.setToolTip(hint(self.accessibleName(), action))


class SendButton(IconButton):
    """The round button of the composer: sends, or stops the reply that is being written."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("send", "Send", parent)
        style(self, role="send")
        self.show_state(live=False, busy=False)

    def show_state(self, live: bool, busy: bool) -> None:
        """live: whether there is anything to send or to stop. busy: whether the button stops."""
        self.setEnabled(live)
        self.set_shape("stop" if busy else "send", "Stop" if busy else "Send")
        self.setToolTip("Stop (Esc)" if busy else "Send (Enter)")

    def icon_colour(self, look: Appearance) -> str:
        return look.on_accent if self.isEnabled() else look.faint


def hint(name: str, action: QAction) -> str:
    """Returns `name` with the keys that do the same."""
    keys = action.shortcut().toString(NATIVE_TEXT)
    return f"{name} ({keys})" if keys else name


class Glyph(QWidget):
    """An icon in a tone of the appearance. size: px at scale 1."""

    def __init__(self, shape: str = "", tone: str = "text", size: float = 16, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shape, self._tone, self._size = shape, tone, size
        self._fit()

    def show_shape(self, shape: str, tone: str) -> None:
        """Shows another icon, or the same in another tone."""
        self._shape, self._tone = shape, tone
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._shape:
            look, painter = theme.current(), QPainter(self)
            drawn = pixmap(self._shape, look.colour(self._tone), self.width(), self.devicePixelRatioF())
            painter.drawPixmap(0, 0, drawn)
            painter.end()

    def _fit(self) -> None:
        px = theme.current().px(self._size)
        self.setFixedSize(px, px)


class ElidedLabel(QLabel):
    """One line of text that ends in an ellipsis where there is no room; all of it shows on hovering."""

    def __init__(self, text: str = "", parent: QWidget | None = None, role: str = "") -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setText(text)
        style(self, role=role)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.contentsRect().width())
        painter.drawText(self.contentsRect(), self.alignment(), text)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        cut = self.fontMetrics().horizontalAdvance(self.text()) > self.contentsRect().width()
        self.setToolTip(self.text() if cut else "")


class Hairline(QFrame):
    """A line of one px between two parts of a window."""

    def __init__(self, orientation: Qt.Orientation = Qt.Orientation.Horizontal, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        if orientation == Qt.Orientation.Horizontal:
            self.setFixedHeight(1)
        else:
            self.setFixedWidth(1)


class ProgressBar(QWidget):
    """How much of something is done. name: of what, for assistive technology."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(BAR_HEIGHT)
        self.setAccessibleName(name)
        self._share, self._done = 0.0, False

    @property
    def share(self) -> float:
        """How much is done, 0 to 1."""
        return self._share

    def show_share(self, share: float, done: bool) -> None:
        """share: 0 to 1. done: whether it has ended, which a bar that is full need not mean."""
        if (share, done) != (self._share, self._done):
            self._share, self._done = share, done
            self.setAccessibleDescription(f"{share:.0%}")
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        bar, radius = QRectF(self.rect()), BAR_HEIGHT / 2
        painter.setBrush(QColor(look.hairline))
        painter.drawRoundedRect(bar, radius, radius)
        if self._share:
            bar.setWidth(max(BAR_HEIGHT, bar.width() * self._share))
            painter.setBrush(QColor(look.good if self._done else look.accent))
            painter.drawRoundedRect(bar, radius, radius)
        painter.end()
