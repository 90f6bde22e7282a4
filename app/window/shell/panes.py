"""Sidebar, centre and side sheet beside each other, as many of them as there is room for."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QStackedWidget, QWidget

from app.window.look import INSPECTOR_WIDTH, SIDEBAR_WIDTH
from app.window.shell.preferences import Places, Side

CENTRE_LEAST = 320  # px
SIDEBAR_RANGE, SIDE_RANGE = (190, 420), (300, 640)


class Panes(QSplitter):
    """What the user wants to see comes back when there is room for it again; of two that do not fit together, the one
    asked for last is shown. changed(): what is wanted, or how wide."""

    changed = Signal()

    def __init__(self, sidebar: QWidget, centre: QWidget, sides: Mapping[Side, QWidget]) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._sidebar, self._sides = sidebar, sides
        self._stack = QStackedWidget()
        self._sidebar_wanted, self._side_wanted = True, False
        self._sidebar_last = True  # whether the sidebar was asked for after the side
        self._side: Side = "inspector"
        self._widths = [SIDEBAR_WIDTH, INSPECTOR_WIDTH]
        for widget in sides.values():
            self._stack.addWidget(widget)
        sidebar.setMinimumWidth(SIDEBAR_RANGE[0])
        sidebar.setMaximumWidth(SIDEBAR_RANGE[1])
        centre.setMinimumWidth(CENTRE_LEAST)
        self._stack.setMinimumWidth(SIDE_RANGE[0])
        self._stack.setMaximumWidth(SIDE_RANGE[1])
        for place, widget in enumerate((sidebar, centre, self._stack)):
            self.addWidget(widget)
            self.setStretchFactor(place, int(widget is centre))
        self.setChildrenCollapsible(False)
        self.setHandleWidth(1)
        self.splitterMoved.connect(self._remember)
        self._stack.hide()

    @property
    def sidebar(self) -> bool:
        """Whether the sidebar is wanted and there is room for it."""
        return not self._sidebar.isHidden()

    @property
    def side(self) -> Side:
        """What stands at the right."""
        return "" if self._stack.isHidden() else self._side

    def want_sidebar(self, wanted: bool) -> None:
        """Show the sidebar, or do not."""
        self._sidebar_wanted, self._sidebar_last = wanted, True
        self._fit()
        self.changed.emit()

    def want_side(self, side: Side) -> None:
        """Show this at the right, or nothing."""
        self._side_wanted, self._sidebar_last = bool(side), False
        if side:
            self._side = side
            self._stack.setCurrentWidget(self._sides[side])
        self._fit()
        self.changed.emit()

    def restore(self, places: Places) -> None:
        """As it was left."""
        self._widths = [places.sidebar_width or SIDEBAR_WIDTH, places.side_width or INSPECTOR_WIDTH]
        self._sidebar_wanted = places.sidebar
        self.want_side(places.side)

    def places(self) -> Places:
        """As it is left, geometry apart."""
        side: Side = self._side if self._side_wanted else ""
        left, right = self._widths
        return Places(sidebar=self._sidebar_wanted, side=side, sidebar_width=left, side_width=right)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Show what is wanted, as far as the centre keeps its room."""
        sidebar, side, free = self._sidebar_wanted, self._side_wanted, self.width() - CENTRE_LEAST
        if sidebar and side and sum(self._least()) > free:
            sidebar, side = self._sidebar_last, not self._sidebar_last
        shown = (not self._sidebar.isHidden(), not self._stack.isHidden())
        self._sidebar.setVisible(sidebar)
        self._stack.setVisible(side)
        left, right = self._widths[0] * sidebar, self._widths[1] * side
        if left + right > free:
            left, right = self._least()[0] * sidebar, self._least()[1] * side
        self.setSizes([left, self.width() - left - right, right])
        if shown != (sidebar, side):
            self.changed.emit()

    def _least(self) -> tuple[int, int]:
        return SIDEBAR_RANGE[0], SIDE_RANGE[0]

    def _remember(self) -> None:
        left, _, right = self.sizes()
        self._widths = [left or self._widths[0], right or self._widths[1]]
        self.changed.emit()
