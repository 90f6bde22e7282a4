"""A layout that fills rows from the left and goes on in the next, as words do. After Qt's flow layout example."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget


class FlowLayout(QLayout):
    """Its height follows from its width."""

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
        return self._place(QRect(0, 0, width, 0), False)

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._place(rect, True)

    def sizeHint(self) -> QSize:
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        size = QSize()
        for item in self._items:
            size = size.expandedTo(item.minimumSize())
        return size.grownBy(self.contentsMargins())

    def _place(self, rect: QRect, move: bool) -> int:
        """Put every item where it goes, or only find out; returns the height that takes."""
        inside = rect.marginsRemoved(self.contentsMargins())
        y = inside.top()
        for row in self._rows(inside.width()):
            height, x = max(size.height() for _, size in row), inside.left()
            for item, size in row:
                if move:
                    item.setGeometry(QRect(QPoint(x, y + (height - size.height()) // 2), size))
                x += size.width() + self._gap
            y += height + self._gap
        return y - (self._gap if self._items else 0) - rect.top() + self.contentsMargins().bottom()

    def _rows(self, width: int) -> list[list[tuple[QLayoutItem, QSize]]]:
        """Which items stand beside each other, and how large."""
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
