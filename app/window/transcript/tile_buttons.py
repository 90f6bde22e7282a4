"""The buttons of messages: those of the footer and of code boxes, and flat ones with an icon and a text."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QGuiApplication, QPaintEvent
from PySide6.QtWidgets import QToolButton, QWidget

from app.window.common import theme
from app.window.common.icons import icon
from app.window.common.widgets import IconButton, style
from app.window.markdown import CodeBlock

BUTTON = 26  # px, of the buttons beside messages
_INSET = 4  # px from the corner of a code box to its button


class FooterButton(IconButton):
    """A button that the keyboard always reaches, but that is seen only when `shown`, focused or hovered."""

    shown = False

    def __init__(self, shape: str, name: str, parent: QWidget) -> None:
        super().__init__(shape, name, parent, BUTTON)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.shown or self.hasFocus() or self.underMouse():
            super().paintEvent(event)


class LabelledButton(QToolButton):
    """A button with a small icon beside its text. role: its style. size: of the icon, px."""

    def __init__(self, parent: QWidget, role: str, size: int = 16) -> None:
        super().__init__(parent)
        self._shape, self._tone = "info", "faint"
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAutoRaise(True)
        self.setIconSize(QSize(size, size))
        style(self, role=role)

    def show_icon(self, shape: str, tone: str = "faint") -> None:
        """Shows an icon in a tone of the appearance, now and after the appearance has changed."""
        self._shape, self._tone = shape, tone
        self.setIcon(icon(shape, theme.current().colour(tone)))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.show_icon(self._shape, self._tone)


class CodeButtons:
    """The buttons of one page that copy its code blocks, in their order. They do not refer to the page, so that it goes
    without the garbage collector."""

    def __init__(self) -> None:
        self.blocks: Sequence[CodeBlock] = ()
        self.buttons: list[IconButton] = []

    def follow(self, blocks: Sequence[CodeBlock], page: QWidget, code: Callable[[int], str]) -> None:
        """Places one button on each of `blocks` of `page`. code: returns the code of a block by its number."""
        while len(self.buttons) > len(blocks):
            self.buttons.pop().deleteLater()
        while len(self.buttons) < len(blocks):
            self.buttons.append(self._make(len(self.buttons), page, code))
        self.blocks = blocks
        for button, block in zip(self.buttons, blocks, strict=True):
            button.setAccessibleName(f"Copy {block.language} code".replace("  ", " "))
            button.move(round(block.box.right()) - BUTTON - _INSET, round(block.box.top()) + _INSET)

    def _make(self, index: int, page: QWidget, code: Callable[[int], str]) -> IconButton:
        button = IconButton("copy", "Copy Code", page, BUTTON)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        button.clicked.connect(lambda: self._copy(index, code))
        button.show()
        return button

    def _copy(self, index: int, code: Callable[[int], str]) -> None:
        QGuiApplication.clipboard().setText(code(index))
        self.buttons[index].show_done()
