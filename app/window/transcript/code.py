"""A button over each code block of a page that copies it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from app.window.look import Look
from app.window.reading import CodeBlock
from app.window.transcript.buttons import SIZE, IconButton

_INSET = 4  # px from the box's corner


class CodeButtons:
    """The buttons of one page, in the order of its code blocks. code: of a block by its number, to copy."""

    def __init__(self, page: QWidget, code: Callable[[int], str]) -> None:
        self._page, self._code = page, code
        self.blocks: list[CodeBlock] = []
        self._look: Look | None = None
        self.buttons: list[IconButton] = []

    def follow(self, blocks: Sequence[CodeBlock], look: Look) -> None:
        """The page's code blocks are these now."""
        while len(self.buttons) > len(blocks):
            self.buttons.pop().deleteLater()
        while len(self.buttons) < len(blocks):
            self.buttons.append(self._made(len(self.buttons), look))
        self.blocks = list(blocks)
        if look != self._look:
            self._look = look
            for button in self.buttons:
                button.set_look(look)
        for button, block in zip(self.buttons, blocks, strict=True):
            button.setAccessibleName(f"Copy {block.language} code".replace("  ", " "))
            button.move(round(block.box.right()) - SIZE - _INSET, round(block.box.top()) + _INSET)

    def number_at(self, y: float) -> int | None:
        """Of the block at `y` of the page; None between them."""
        return next((i for i, block in enumerate(self.blocks) if block.box.top() <= y <= block.box.bottom()), None)

    def _made(self, index: int, look: Look) -> IconButton:
        button = IconButton("copy", "Copy code", look, self._page)
        button.setToolTip("Copy code")
        button.clicked.connect(lambda: self._copy(index))
        button.show()
        return button

    def _copy(self, index: int) -> None:
        QGuiApplication.clipboard().setText(self._code(index))
        self.buttons[index].show_done()
