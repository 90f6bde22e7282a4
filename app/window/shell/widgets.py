"""Small parts that the window is made of: icon buttons, elided labels, hairlines. Each shows the Look it is given."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction, QKeySequence, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QSizePolicy, QToolButton, QWidget

from app.window.icons import icon
from app.window.look import Look
from app.window.shell.styles import flat_style

NATIVE_TEXT = QKeySequence.SequenceFormat.NativeText
QUIET = "QToolButton:checked:!hover { background: transparent; }"


class IconButton(QToolButton):
    """A flat button of one icon. Its name is read to those who cannot see it, and shown on hovering."""

    def __init__(self, shape: str, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.marked = True  # while it is on; not where one sees that anyway
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAutoRaise(True)
        self.setFixedSize(32, 32)
        self.setIconSize(QSize(18, 18))
        self._shape = shape
        self.name(name)

    def name(self, name: str) -> None:
        """What the button does."""
        self.setAccessibleName(name)
        self.setToolTip(name)

    def follow(self, action: QAction) -> None:
        """Do what `action` does, as long as it can be done; its shortcut is shown on hovering."""
        self.setCheckable(action.isCheckable())
        self.clicked.connect(action.trigger)
        action.changed.connect(lambda: self._mirror(action))
        self._mirror(action)

    def set_look(self, look: Look) -> None:
        self.setIcon(icon(self._shape, look.faint, look.accent if self.marked else look.faint, look.hairline))
        self.setStyleSheet(flat_style(look) + ("" if self.marked else QUIET))

    def _mirror(self, action: QAction) -> None:
        self.setEnabled(action.isEnabled())
        self.setChecked(action.isChecked())
        self.setToolTip(hint(self.accessibleName(), action))


class SendButton(IconButton):
    """Round and filled: sends, or stops what is being written."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("send", "Send", parent)
        self._state: tuple[Look, bool, bool] | None = None

    def show_state(self, look: Look, live: bool, busy: bool) -> None:
        """live: whether there is anything to send or stop. busy: whether it stops."""
        if self._state == (look, live, busy):
            return
        self._state = (look, live, busy)
        self.setEnabled(live)
        self.setAccessibleName("Stop" if busy else "Send")
        self.setToolTip("Stop (Esc)" if busy else "Send (Enter)")
        self.setIcon(icon("stop" if busy else "send", look.on_accent, faded=look.faint))
        self.setStyleSheet(
            f"QToolButton {{ border: 2px solid transparent; border-radius: 16px; background: {look.accent}; }}"
            f"QToolButton:disabled {{ background: {look.hairline}; }}"
            f"QToolButton:focus {{ border-color: {look.text}; }}"
        )


def hint(name: str, action: QAction) -> str:
    """`name` with the keys that do the same."""
    keys = action.shortcut().toString(NATIVE_TEXT)
    return f"{name} ({keys})" if keys else name


class ElidedLabel(QLabel):
    """One line of text that ends in an ellipsis where there is no room; all of it shows on hovering."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setText(text)

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
    """A line of one px between two parts."""

    def __init__(self, orientation: Qt.Orientation = Qt.Orientation.Horizontal, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        if orientation == Qt.Orientation.Horizontal:
            self.setFixedHeight(1)
        else:
            self.setFixedWidth(1)

    def set_look(self, look: Look) -> None:
        self.setStyleSheet(f"Hairline {{ background: {look.hairline}; border: none; }}")


def wrapped(text: str = "", parent: QWidget | None = None) -> QLabel:
    """Plain text in as many lines as it needs; it is never taken for HTML."""
    label = QLabel(text, parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    return label
