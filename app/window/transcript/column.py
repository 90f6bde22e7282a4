"""The column of messages under keyboard and mouse: focus from message to message, and selecting past the view."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QApplication, QWidget

from app.window.transcript.flow import Flow, MakeTile
from app.window.transcript.manner import Manner
from app.window.transcript.tile import Tile

_STEP_MS, _STEP = 30, 24  # how a selection that is dragged past the view scrolls it: every so often, so many px

_CTRL = Qt.KeyboardModifier.ControlModifier


class Column(Flow):
    """Tab goes through all that can be used, message by message. Ctrl (on a Mac Cmd) with Up and Down goes from message
    to message; Up, Down, Page Up, Page Down, Home and End scroll."""

    def __init__(self, make: MakeTile, manner: Manner, parent: QWidget | None = None) -> None:
        super().__init__(make, manner, parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._focused: Tile | None = None
        self._dragging: tuple[Tile, int] | None = None
        self._drag = QTimer(self, interval=_STEP_MS)
        self._drag.timeout.connect(self._drag_on)
        self.made.connect(self._welcome)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._follow_focus)

    # --- focus --------------------------------------------------------------------------------

    def focusNextPrevChild(self, forward: bool) -> bool:
        stops = [stop for tile in self.shown() for stop in tile.stops()]
        now = QApplication.focusWidget()
        if now in stops:
            place = stops.index(now) + (1 if forward else -1)
        else:
            place = self._first_stop(stops) if forward and now is self else -1
        if not 0 <= place < len(stops):
            return super().focusNextPrevChild(forward)
        reason = Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason
        stops[place].setFocus(reason)
        return True

    def _first_stop(self, stops: list[QWidget]) -> int:
        """The first that is in view."""
        for place, stop in enumerate(stops):
            if self._box(stop).bottom() > 0:
                return place
        return -1

    def go(self, by: int) -> bool:
        """To the next message (by 1) or the one before (-1); False where there is none."""
        tiles = self.shown()
        if self._focused in tiles:
            place = tiles.index(self._focused) + by
        else:
            seen = [number for number, tile in enumerate(tiles) if tile.geometry().bottom() > 0]
            place = seen[0] if by > 0 and seen else len(tiles) - 1
        if not 0 <= place < len(tiles) or not tiles[place].stops():
            return False
        tiles[place].stops()[0].setFocus(Qt.FocusReason.OtherFocusReason)
        self.bring_into_view(tiles[place].geometry())
        return True

    def _follow_focus(self, _: QWidget | None, now: QWidget | None) -> None:
        tile = now
        while tile is not None and not isinstance(tile, Tile):
            tile = tile.parentWidget()
        tile = tile if tile in self.tiles.values() else None
        if self._focused is not None and self._focused in self.tiles.values() and self._focused is not tile:
            self._focused.set_focused(False)
        self._focused = tile
        if tile is not None and now is not None:
            tile.set_focused(True)
            if not QGuiApplication.mouseButtons():
                self.bring_into_view(self._box(now))
                self.arrange()

    def _box(self, widget: QWidget) -> QRect:
        """Where a part of a message stands in the view."""
        return QRect(widget.mapTo(self.viewport(), widget.rect().topLeft()), widget.size())

    # --- keys ---------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar, key = self.verticalScrollBar(), event.key()
        by = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(key), 0)
        if by and event.modifiers() & _CTRL:
            self.go(by)
        elif by:
            self.scroll_by(by * bar.singleStep())
        elif key in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            self.scroll_by((bar.pageStep() - bar.singleStep()) * (1 if key == Qt.Key.Key_PageDown else -1))
        elif key == Qt.Key.Key_Home:
            bar.setValue(0)
        elif key == Qt.Key.Key_End:
            self.go_to_end()
        else:
            event.ignore()

    # --- selecting ----------------------------------------------------------------------------

    def _welcome(self, tile: Tile) -> None:
        tile.dragged.connect(lambda y: self._drag_to(tile, y))

    def _drag_to(self, tile: Tile, y: int) -> None:
        view = QRect(self.viewport().mapToGlobal(self.viewport().rect().topLeft()), self.viewport().size())
        by = -_STEP if y < view.top() else _STEP if y > view.bottom() else 0
        self._dragging = (tile, by)
        if by and not self._drag.isActive():
            self._drag.start()

    def _drag_on(self) -> None:
        tile, by = self._dragging or (None, 0)
        if tile is None or not by or tile not in self.tiles.values() or not QGuiApplication.mouseButtons():
            self._drag.stop()
        else:
            self.scroll_by(by)
            tile.drag_on()
