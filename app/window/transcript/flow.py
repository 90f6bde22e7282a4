"""The column of messages: widgets for those near the view, estimated heights for all others.

1. What the reader looks at stays where it is: the first line in view is the anchor of every layout, whatever heights
   turn out to be above it; or the end is, as long as the reader stands there.
2. A message that is not near the view costs nothing but a number.
3. A widget that the user is at work in is never taken away.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

from PySide6.QtCore import QRect, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from app.window.look import GAP
from app.window.transcript.body import Place
from app.window.transcript.entry import Entry
from app.window.transcript.manner import SIDE, Manner, column
from app.window.transcript.tile import Tile

_ABOVE, _BELOW = 2 * GAP, 2 * GAP  # px of free space before the first message and after the last
_MARGIN = 500  # px beyond the view that is made ready when there is time
_KEPT = 2500  # px beyond the view within which widgets that were made stay
_PASSES = 5
_IDLE_MS = 40

MakeTile = Callable[[Entry, Manner, QWidget], Tile]


class _Anchor(NamedTuple):
    """What is at the top of the view. place: of its text; share, pixels: of the message above the view, if None."""

    message: int
    place: Place | None
    share: float
    pixels: int


class Flow(QAbstractScrollArea):
    """settled: a layout is done. at_end: whether the reader stands at the end, and so follows what streams."""

    settled = Signal()
    made = Signal(object)  # Tile

    def __init__(self, make: MakeTile, manner: Manner, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalScrollBar().setSingleStep(5 * GAP)
        self.verticalScrollBar().valueChanged.connect(self._scroll)
        self.viewport().setAutoFillBackground(False)
        self.entries: list[Entry] = []
        self.tiles: dict[Entry, Tile] = {}
        self.manner = manner
        self.at_end = True
        self._make = make
        self._heights: list[int] = []
        self._tops: list[int] = [0]
        self._width = 0
        self._top = 0
        self._arranging = False
        self._idle = QTimer(self, singleShot=True, interval=_IDLE_MS)
        self._idle.timeout.connect(lambda: self.arrange(_MARGIN))

    # --- what is shown ------------------------------------------------------------------------

    def set_entries(self, entries: list[Entry], to_end: bool, hold: int = 0) -> None:
        """Another way. to_end: go there; else what both ways have stays where it is, also at the place `hold`, where
        they part, if that is in view."""
        anchor = self._anchor()
        if not to_end and hold < len(self.entries) and self._tops[hold] >= self._top:
            anchor = _Anchor(hold, None, 0.0, self._top - self._tops[hold])
        gone = set(self.tiles) - set(entries)
        for entry in gone:
            self._drop(entry)
        self.entries = entries
        self._measure()
        self.at_end = to_end
        self.arrange(anchor=anchor)
        self.at_end = self._top >= self._end() - 1

    def set_manner(self, manner: Manner) -> None:
        anchor = self._anchor()
        self.manner = manner
        for tile in self.tiles.values():
            tile.set_manner(manner)
        self._measure()
        self.arrange(anchor=anchor)

    def reveal(self, entry: Entry) -> None:
        """Have a message begin at the top of the view."""
        self.at_end = False
        index = self.entries.index(entry)
        self.arrange(_MARGIN, _Anchor(index, None, 0.0, -GAP))

    def go_to_end(self) -> None:
        self.at_end = True
        self.arrange()

    def arrange(self, margin: int = 0, anchor: _Anchor | None = None) -> None:
        """Lay out what is in view, and `margin` px beyond."""
        if self._arranging or not self.isVisible():
            return
        self._arranging = True
        try:
            anchor = anchor or self._anchor()
            width = column(self.viewport().width(), self.manner.look)
            if width != self._width:
                self._width = width
                self._measure()
            for _ in range(_PASSES):
                if not self._pass(anchor, margin):
                    break
            self._put()
        finally:
            self._arranging = False
        if not margin:
            self._idle.start()
        self.settled.emit()

    def _pass(self, anchor: _Anchor, margin: int) -> bool:
        """One look at all that is in view; whether anything was not as tall as was thought."""
        self._top = self._wanted_top(anchor)
        top, bottom = self._top - margin, self._top + self.viewport().height() + margin
        first = max(0, bisect_right(self._tops, top) - 1)
        changed = False
        for index in range(first, len(self.entries)):
            begins = self._tops[index]
            if begins >= bottom:
                break
            changed |= self._arrange(index, top - begins, bottom - begins)
        for index in self._beside_focus():
            changed |= self._arrange(index, 0, 1)
        if changed:
            self._add_up()
        return changed

    def _arrange(self, index: int, top: int, bottom: int) -> bool:
        """Lay out one message, of which `top` to `bottom` matters; whether it is not as tall as was thought."""
        entry = self.entries[index]
        before = self._heights[index]
        self._heights[index] = self._tile(entry).arrange(self._width, top, bottom)
        entry.measured(self._width, self.manner, self._heights[index])
        return self._heights[index] != before

    def _beside_focus(self) -> list[int]:
        """The neighbours of the message that has the focus, so that the keyboard can go there."""
        focused = [self.entries.index(entry) for entry, tile in self.tiles.items() if tile.focused]
        near = {index + by for index in focused for by in (-1, 1)}
        return sorted(
            index for index in near if 0 <= index < len(self.entries) and self.entries[index] not in self.tiles
        )

    def _put(self) -> None:
        """Widgets to their places, or away; the scroll bar to its range."""
        self._top = max(0, min(self._top, self._end()))
        view = self.viewport().height()
        left = (self.viewport().width() - self._width) // 2 - SIDE
        last = self.entries[-1] if self.entries else None
        for index, entry in enumerate(self.entries):
            tile = self.tiles.get(entry)
            if tile is None:
                continue
            y = self._tops[index] - self._top
            if (y > view + _KEPT or y + self._heights[index] < -_KEPT) and not tile.kept:
                self._drop(entry)
                continue
            tile.setGeometry(left, y, self._width + 2 * SIDE, self._heights[index])
            tile.set_last(entry is last)
            tile.show()
        bar = self.verticalScrollBar()
        bar.setPageStep(view)
        bar.setRange(0, self._end())
        bar.setValue(self._top)

    # --- heights ------------------------------------------------------------------------------

    def touch(self, entry: Entry) -> None:
        """A message that may have no widget now has grown."""
        if entry not in self.tiles and entry in self.entries:
            self._heights[self.entries.index(entry)] = entry.height(self._width, self.manner)
            self._add_up()

    def _measure(self) -> None:
        self._heights = [entry.height(self._width, self.manner) for entry in self.entries]
        self._add_up()

    def _add_up(self) -> None:
        self._tops = list(accumulate(self._heights, initial=_ABOVE))

    def _end(self) -> int:
        """The greatest value of the scroll bar."""
        return max(0, self._tops[-1] + _BELOW - self.viewport().height())

    # --- the anchor ---------------------------------------------------------------------------

    def _anchor(self) -> _Anchor:
        index = max(0, min(bisect_right(self._tops, self._top) - 1, len(self.entries) - 1))
        if not self.entries:
            return _Anchor(0, None, 0.0, 0)
        pixels, height = self._top - self._tops[index], self._heights[index]
        tile = self.tiles.get(self.entries[index])
        place = tile.place_at(pixels) if tile else None
        if pixels > 0 and (tile is None or pixels > height // 2):
            return _Anchor(index, place, pixels / max(1, height), 0)
        return _Anchor(index, place, 0.0, pixels)

    def _wanted_top(self, anchor: _Anchor) -> int:
        if self.at_end or anchor.message >= len(self.entries):
            return self._end()
        begins = self._tops[anchor.message]
        tile = self.tiles.get(self.entries[anchor.message])
        if tile is not None and anchor.place is not None:
            top = begins + tile.y_of(anchor.place)
        else:
            top = begins + round(anchor.share * self._heights[anchor.message]) + anchor.pixels
        return max(0, min(top, self._end()))

    # --- widgets ------------------------------------------------------------------------------

    def _tile(self, entry: Entry) -> Tile:
        if entry not in self.tiles:
            tile = self._make(entry, self.manner, self.viewport())
            tile.resized.connect(self.arrange)
            self.tiles[entry] = tile
            self.made.emit(tile)
        return self.tiles[entry]

    def _drop(self, entry: Entry) -> None:
        tile = self.tiles.pop(entry)
        tile.hide()
        tile.deleteLater()

    def shown(self) -> list[Tile]:
        """The widgets there are, in order."""
        return [self.tiles[entry] for entry in self.entries if entry in self.tiles]

    # --- scrolling ----------------------------------------------------------------------------

    def _scroll(self, value: int) -> None:
        if self._arranging:
            return
        self._top = value
        self.at_end = value >= self._end() - 1
        self.arrange()

    def scroll_by(self, pixels: int) -> None:
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + pixels)

    def bring_into_view(self, box: QRect) -> None:
        """box: of the viewport. What is taller than the view is only brought in where none of it is seen."""
        view = self.viewport().height()
        if box.height() > view - 4 * GAP and box.bottom() > 0 and box.top() < view:
            return
        if box.top() < GAP:
            self.scroll_by(box.top() - 3 * GAP)
        elif box.bottom() > view - GAP:
            self.scroll_by(min(box.bottom() - view + 3 * GAP, box.top() - 3 * GAP))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.arrange()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.arrange()

    def wheelEvent(self, event: QWheelEvent) -> None:
        super().wheelEvent(event)
        event.accept()
