"""Sidebar, centre and side pane beside each other, as many as there is room for; and how Tab moves between parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QSplitter, QStackedWidget, QWidget

from app.window.common.appearance import INSPECTOR_WIDTH, SIDEBAR_WIDTH
from app.window.common.preferences import Places, Side

MIN_CENTRE = 320  # px
SIDEBAR_RANGE, SIDE_RANGE = (190, 420), (300, 640)


class Panes(QSplitter):
    """Hides a pane for want of room and shows it again once there is room. Of two panes that do not fit together, the
    one that was requested last is shown. changed(): which panes are shown, or their widths."""

    changed = Signal()

    def __init__(self, sidebar: QWidget, centre: QWidget, sides: Mapping[Side, QWidget]) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._sidebar, self._sides = sidebar, sides
        self._stack = QStackedWidget()
        self._sidebar_wanted, self._side_wanted = True, False
        self._sidebar_last = True  # the sidebar was requested after the side pane
        self._side: Side = "inspector"
        self._widths = [SIDEBAR_WIDTH, INSPECTOR_WIDTH]
        for widget in sides.values():
            self._stack.addWidget(widget)
        sidebar.setMinimumWidth(SIDEBAR_RANGE[0])
        sidebar.setMaximumWidth(SIDEBAR_RANGE[1])
        centre.setMinimumWidth(MIN_CENTRE)
        self._stack.setMinimumWidth(SIDE_RANGE[0])
        self._stack.setMaximumWidth(SIDE_RANGE[1])
        for place, widget in enumerate((sidebar, centre, self._stack)):
            self.addWidget(widget)
            self.setStretchFactor(place, int(widget is centre))
        self.setChildrenCollapsible(False)
        self.setHandleWidth(1)
        self.splitterMoved.connect(self._remember_widths)
        self._stack.hide()

    @property
    def sidebar(self) -> bool:
        """Whether the sidebar is shown."""
        return not self._sidebar.isHidden()

    @property
    def side(self) -> Side:
        """What is shown at the right."""
        return "" if self._stack.isHidden() else self._side

    def request_sidebar(self, shown: bool) -> None:
        """Shows or hides the sidebar."""
        self._sidebar_wanted, self._sidebar_last = shown, True
        self._fit()
        self.changed.emit()

    def request_side(self, side: Side) -> None:
        """Shows this at the right, or nothing."""
        self._side_wanted, self._sidebar_last = bool(side), False
        if side:
            self._side = side
            self._stack.setCurrentWidget(self._sides[side])
        self._fit()
        self.changed.emit()

    def restore(self, places: Places) -> None:
        """Arranges the panes as they were saved."""
        self._widths = [places.sidebar_width or SIDEBAR_WIDTH, places.side_width or INSPECTOR_WIDTH]
        self._sidebar_wanted = places.sidebar
        self.request_side(places.side)

    def places(self) -> Places:
        """Returns the arrangement, to be saved."""
        side: Side = self._side if self._side_wanted else ""
        left, right = self._widths
        return Places(sidebar=self._sidebar_wanted, side=side, sidebar_width=left, side_width=right)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Shows the requested panes as far as the centre keeps its least width."""
        sidebar, side, free = self._sidebar_wanted, self._side_wanted, self.width() - MIN_CENTRE
        least = (SIDEBAR_RANGE[0], SIDE_RANGE[0])
        if sidebar and side and sum(least) > free:
            sidebar, side = self._sidebar_last, not self._sidebar_last
        shown = (not self._sidebar.isHidden(), not self._stack.isHidden())
        self._sidebar.setVisible(sidebar)
        self._stack.setVisible(side)
        left, right = self._widths[0] * sidebar, self._widths[1] * side
        if left + right > free:
            left, right = least[0] * sidebar, least[1] * side
        self.setSizes([left, self.width() - left - right, right])
        if shown != (sidebar, side):
            self.changed.emit()

    def _remember_widths(self) -> None:
        left, _, right = self.sizes()
        self._widths = [left or self._widths[0], right or self._widths[1]]
        self.changed.emit()


# --- the order of Tab -------------------------------------------------------------------------


def focus_next(parts: Sequence[QWidget], self_managed: QWidget, forward: bool) -> bool:
    """Moves the focus to the next or previous control and returns whether there is one. parts: of the window, in
    reading order. self_managed: the part that moves the focus within itself, and is left here."""
    current = QApplication.focusWidget()
    at = next((i for i, part in enumerate(parts) if current is not None and _within(part, current)), -1)
    if at >= 0 and current is not None and parts[at] is not self_managed:
        controls = tab_stops(parts[at])
        place = controls.index(current) + (1 if forward else -1) if current in controls else -1
        if 0 <= place < len(controls):
            return _focus(controls[place], forward)
    step = 1 if forward else -1
    for turn in range(1, len(parts) + 1):
        part = parts[(at + step * turn) % len(parts)]
        controls = tab_stops(part)
        if part is self_managed and not forward:
            controls.sort(key=_bottom_left)
        if controls:
            return _focus(controls[0 if forward else -1], forward)
    return False


def tab_stops(part: QWidget) -> list[QWidget]:
    """Returns the controls of a part that Tab reaches, in the order of Qt's own chain."""
    found: list[QWidget] = []
    widget = part.nextInFocusChain()
    while widget is not None and widget is not part:
        if _within(part, widget) and _takes_tab(widget):
            found.append(widget)
        widget = widget.nextInFocusChain()
    return found


def _takes_tab(widget: QWidget) -> bool:
    tabbed = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
    return tabbed and widget.isVisible() and widget.isEnabled() and widget.focusProxy() is None


def _within(part: QWidget, widget: QWidget) -> bool:
    return widget is part or part.isAncestorOf(widget)


def _bottom_left(widget: QWidget) -> tuple[int, int]:
    at = widget.mapToGlobal(QPoint(0, 0))
    return at.y() + widget.height(), at.x()


def _focus(widget: QWidget, forward: bool) -> bool:
    widget.setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
    return True
