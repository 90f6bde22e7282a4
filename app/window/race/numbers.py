"""Small numbers with their names below, side by side; in two rows where there is no room."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from app.window.fonts import font
from app.window.look import Look
from app.window.shell.styles import faint_style, wear

APART = 14  # px


class Numbers(QWidget):
    """names: of the numbers, from left to right. widest: values as long as any that will be shown, of each."""

    def __init__(self, names: Sequence[str], widest: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names = [_label(name) for name in names]
        self.values = [_label("") for _ in names]
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(APART)
        self._grid.setVerticalSpacing(0)
        self._widest, self._columns = widest, 0
        self._lay_out(len(names))

    def minimumSizeHint(self) -> QSize:
        """As wide as half of them need."""
        return QSize(self._width(self._halved()), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        all_ = len(self.values)
        self._lay_out(all_ if self.width() >= self._width(all_) else self._halved())

    def show_values(self, values: Sequence[str]) -> None:
        """In the order of the names."""
        for label, name, value in zip(self.values, self._names, values, strict=True):
            if label.text() != value:
                label.setText(value)
                label.setAccessibleName(f"{name.text()}: {value}")

    def _halved(self) -> int:
        return (len(self.values) + 1) // 2

    def _width(self, columns: int) -> int:
        """That so many columns need, px."""
        metrics = QFontMetrics(self.values[0].font())
        widths = [
            max(name.sizeHint().width(), metrics.horizontalAdvance(value))
            for name, value in zip(self._names, self._widest, strict=True)
        ]
        rows = [widths[start : start + columns] for start in range(0, len(widths), columns)]
        return sum(map(max, zip_longest(*rows, fillvalue=0))) + APART * (columns - 1)

    def _lay_out(self, columns: int) -> None:
        if columns == self._columns:
            return
        for number, (name, value) in enumerate(zip(self._names, self.values, strict=True)):
            row, column = divmod(number, columns)
            self._grid.addWidget(value, 3 * row, column)
            self._grid.addWidget(name, 3 * row + 1, column)
        for column in range(len(self.values)):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
        self._grid.setRowMinimumHeight(2, 4 if columns < len(self.values) else 0)
        self._columns = columns

    def set_look(self, look: Look) -> None:
        for name, value in zip(self._names, self.values, strict=True):
            value.setFont(font(look, 15, QFont.Weight.DemiBold))
            wear(value, f"color: {look.text}; background: transparent;")
            wear(name, faint_style(look, 11))


def _label(text: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label
