"""Layouts: rows and columns that are written as one expression, and a layout that wraps as words do."""

from typing import Any

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLayout, QLayoutItem, QVBoxLayout, QWidget

STRETCH = "stretch"
Part = QWidget | QLayout | int | str | tuple[Any, ...]
Margins = tuple[int, int, int, int]  # px: left, top, right, bottom
NONE: Margins = (0, 0, 0, 0)


def row(*parts: Part, on: QWidget | None = None, margins: Margins = NONE, gap: int = 0) -> QHBoxLayout:
    """Returns a layout of these parts from left to right, which is set on the widget `on`.

    A part is a widget or a layout, a tuple of one with the other arguments of `addWidget` (stretch, alignment), a
    number of px to leave empty, or STRETCH, which may be in a tuple with its factor. gap: px between two parts.
    """
    made = QHBoxLayout()
    _fill(made, parts, on, margins, gap)
    return made


def column(*parts: Part, on: QWidget | None = None, margins: Margins = NONE, gap: int = 0) -> QVBoxLayout:
    """Returns a layout of these parts from top to bottom, as `row` does from left to right."""
    made = QVBoxLayout()
    _fill(made, parts, on, margins, gap)
    return made


def _fill(layout: QBoxLayout, parts: tuple[Part, ...], on: QWidget | None, margins: Margins, gap: int) -> None:
    if on is not None:
        on.setLayout(layout)
    layout.setContentsMargins(*margins)
    layout.setSpacing(gap)
    for part in parts:
        item, *arguments = part if isinstance(part, tuple) else (part,)
        if isinstance(item, QWidget):
            layout.addWidget(item, *arguments)
        elif isinstance(item, QLayout):
            layout.addLayout(item, *arguments)
        elif isinstance(item, int):
            layout.addSpacing(item)
        else:
            layout.addStretch(*arguments or (1,))


def clear(layout: QLayout) -> None:
    """Takes all widgets out of a layout and deletes them."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()


class FlowLayout(QLayout):
    """Fills rows from the left and goes on in the next row, after Qt's flow layout example. Its height follows from
    its width."""

    def __init__(self, parent: QWidget | None = None, gap: int = 6) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._gap = gap

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # type: ignore[override]
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._place(QRect(0, 0, width, 0), move=False)

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._place(rect, move=True)

    def sizeHint(self) -> QSize:
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        size = QSize()
        for item in self._items:
            size = size.expandedTo(item.minimumSize())
        return size.grownBy(self.contentsMargins())

    def _place(self, rect: QRect, move: bool) -> int:
        """Returns the height of the rows within the width of `rect`. move: also puts the items in their places."""
        inside = rect.marginsRemoved(self.contentsMargins())
        y = inside.top()
        for items in self._rows(inside.width()):
            height, x = max(size.height() for _, size in items), inside.left()
            for item, size in items:
                if move:
                    item.setGeometry(QRect(QPoint(x, y + (height - size.height()) // 2), size))
                x += size.width() + self._gap
            y += height + self._gap
        return y - (self._gap if self._items else 0) - rect.top() + self.contentsMargins().bottom()

    def _rows(self, width: int) -> list[list[tuple[QLayoutItem, QSize]]]:
        """Returns the items of each row, with their sizes."""
        rows: list[list[tuple[QLayoutItem, QSize]]] = []
        left = -1
        for item in self._items:
            size = QSize(min(item.sizeHint().width(), width), item.sizeHint().height())
            if size.width() > left or not rows:
                rows.append([])
                left = width
            rows[-1].append((item, size))
            left -= size.width() + self._gap
        return rows
