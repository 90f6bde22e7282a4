"""The column of messages: widgets for those near the view, estimated heights for all others.

1. What the reader looks at stays where it is: the first line in view is the anchor of every layout, whatever heights
   turn out to be above it; or the end is, as long as the reader stands there.
2. A message that is not near the view costs nothing but a number.
3. A widget that the user is at work in is never taken away.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent, QShortcut, QShowEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QFrame, QWidget

from app.window.common.appearance import GAP
from app.window.common.timer import Timer
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.message_tile import LayoutSlice, MessageTile, TextPlace
from app.window.transcript.text_page import SIDE, DisplayOptions, column_width

_ABOVE, _BELOW = 2 * GAP, 2 * GAP  # px of free space before the first message and after the last
_MARGIN = 500  # px beyond the view that is made ready when there is time
_KEPT = 2500  # px beyond the view within which widgets that were made stay
_PASSES = 5
_IDLE_MS = 40
_STEP_MS, _STEP = 30, 24  # how a selection that is dragged past the view scrolls it: every so often, so many px

TileFactory = Callable[[MessageEntry, DisplayOptions, QWidget], MessageTile]


class _Anchor(NamedTuple):
    """What stays where it is: a place in the text of a message, or its top, which is `pixels` above the view's."""

    message: int
    place: TextPlace | None
    pixels: int


class VirtualList(QAbstractScrollArea):
    """The messages of a conversation, of which only those near the view have widgets.

    Tab goes through all that can be used, message by message. Ctrl (on a Mac Cmd) with Up and Down goes from message to
    message; Up, Down, Page Up, Page Down, Home and End scroll.

    settled: a layout is done. made: a widget was made. at_end: whether the reader is at the end, and so follows what
    streams.
    """

    settled = Signal()
    made = Signal(object)  # Tile

    def __init__(self, make: TileFactory, options: DisplayOptions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalScrollBar().setSingleStep(5 * GAP)
        self.verticalScrollBar().valueChanged.connect(self._scroll)
        self.viewport().setAutoFillBackground(False)
        self.entries: list[MessageEntry] = []
        self.tiles: dict[MessageEntry, MessageTile] = {}
        self.options = options
        self.at_end = True
        self._make = make
        self._heights: list[int] = []
        self._tops: list[int] = [0]
        self._width = 0
        self._top = 0
        self._arranging = False
        self._slice = LayoutSlice()
        self._idle = Timer(self, singleShot=True, interval=_IDLE_MS)
        self._idle.timeout.connect(lambda: self.arrange(_MARGIN))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        for keys, by in (("Ctrl+Up", -1), ("Ctrl+Down", 1)):  # as shortcuts, as a button takes arrows for itself
            shortcut = QShortcut(QKeySequence(keys), self, context=Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(partial(self.go, by))
        self._focused: MessageTile | None = None
        self._dragging: tuple[MessageTile, int] | None = None
        self._drag = Timer(self, interval=_STEP_MS)
        self._drag.timeout.connect(self._drag_on)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._follow_focus)

    # --- what is shown ------------------------------------------------------------------------

    def set_entries(self, entries: list[MessageEntry], to_end: bool, hold: int = 0) -> None:
        """Shows another branch. to_end: goes to its end; otherwise what both branches share stays where it is, also at
        the index `hold`, where they part, if that is in view."""
        anchor = self._anchor()
        if not to_end and hold < len(self.entries) and self._tops[hold] >= self._top:
            anchor = _Anchor(hold, None, self._top - self._tops[hold])
        for entry in set(self.tiles) - set(entries):
            self._drop(entry)
        self.entries = entries
        self._measure()
        self.at_end = to_end
        self.arrange(anchor=anchor)
        if self.isVisible():  # else it is laid out, and goes to its end, when it is shown
            self.at_end = self._top >= self._end() - 1

    def set_options(self, options: DisplayOptions) -> None:
        anchor = self._anchor()
        self.options = options
        for tile in self.tiles.values():
            tile.set_options(options)
        self._measure()
        self.arrange(anchor=anchor)

    def reveal(self, entry: MessageEntry) -> None:
        """Scrolls a message to the top of the view."""
        self.at_end = False
        self.arrange(_MARGIN, _Anchor(self.entries.index(entry), None, -GAP))

    def first_in_view(self) -> int:
        """Returns the place of the first message that can be seen; 0 if there are none."""
        return max(0, min(bisect_right(self._tops, self._top + GAP) - 1, len(self.entries) - 1))

    def show_page(self, entry: MessageEntry, number: int) -> MessageTile | None:
        """Scrolls so that the beginning of a page of a message can be seen, if it cannot be already. Returns the
        message's widget, in which the page may have to wait for the next turn to be laid out."""
        index, tile = self.entries.index(entry), self.tiles.get(entry)
        if tile is None or number not in tile.pages or not tile.pages[number].isVisibleTo(tile):
            top = 0 if tile is None else tile.top_of(number)
            self.at_end = False
            self.arrange(_MARGIN, _Anchor(index, None, top - 4 * GAP))
        return self.tiles.get(entry)

    def go_to_end(self) -> None:
        self.at_end = True
        self.arrange()

    def arrange(self, margin: int = 0, anchor: _Anchor | None = None) -> None:
        """Lays out what is in view, and `margin` px beyond."""
        if self._arranging or not self.isVisible():
            return
        self._arranging = True
        try:
            anchor = anchor or self._anchor()
            width = column_width(self.viewport().width(), self.options.appearance)
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
        """Lays out all that is in view once. Returns whether anything was not as tall as estimated."""
        self._top = self._wanted_top(anchor)
        top, bottom = self._top - margin, self._top + self.viewport().height() + margin
        before = list(self._heights)
        for index, matters in self._needed(top, bottom):
            entry = self.entries[index]
            with self._slice:
                self._heights[index] = self._tile(entry).arrange(self._width, *matters)
            entry.keep_height(self._heights[index], self._width, self.options)
        if changed := self._heights != before:
            self._add_up()
        return changed

    def _needed(self, top: int, bottom: int) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yields each message to be laid out, with the top and the bottom of what matters of it: those in view, and
        then those beside the focus that have no widget yet."""
        first = max(0, bisect_right(self._tops, top) - 1)
        for index in range(first, bisect_left(self._tops, bottom, first, len(self.entries))):
            yield index, (top - self._tops[index], bottom - self._tops[index])
        for index in self._beside_focus():
            yield index, (0, 1)

    def _beside_focus(self) -> list[int]:
        """Returns the neighbours of the message that has the focus, so that the keyboard can go there."""
        focused = [self.entries.index(entry) for entry, tile in self.tiles.items() if tile.focused]
        near = {index + by for index in focused for by in (-1, 1)} & set(range(len(self.entries)))
        return sorted(index for index in near if self.entries[index] not in self.tiles)

    def _put(self) -> None:
        """Moves widgets to their places or drops them, and sets the range of the scroll bar."""
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

    def touch(self, entry: MessageEntry) -> None:
        """Updates the estimate of a message that has grown while it has no widget."""
        if entry not in self.tiles and entry in self.entries:
            self._heights[self.entries.index(entry)] = entry.height(self._width, self.options)
            self._add_up()

    def _measure(self) -> None:
        self._heights = [entry.height(self._width, self.options) for entry in self.entries]
        self._add_up()

    def _add_up(self) -> None:
        self._tops = list(accumulate(self._heights, initial=_ABOVE))

    def _end(self) -> int:
        """Returns the greatest value of the scroll bar."""
        return max(0, self._tops[-1] + _BELOW - self.viewport().height())

    # --- the anchor ---------------------------------------------------------------------------

    def _anchor(self) -> _Anchor:
        """Returns what is at the top of the view. Where that is no text but the end of a message, the next one is."""
        if not self.entries:
            return _Anchor(0, None, 0)
        index = max(0, min(bisect_right(self._tops, self._top) - 1, len(self.entries) - 1))
        pixels = self._top - self._tops[index]
        tile = self.tiles.get(self.entries[index])
        place = tile.place_at(pixels) if tile else None
        if place is None and pixels > self._heights[index] // 2:
            index += 1
        return _Anchor(index, place, self._top - self._tops[index])

    def _wanted_top(self, anchor: _Anchor) -> int:
        if self.at_end or anchor.message > len(self.entries):
            return self._end()
        pixels = anchor.pixels
        if anchor.place is not None and (tile := self.tiles.get(self.entries[anchor.message])) is not None:
            pixels = tile.y_of(anchor.place)
        return max(0, min(self._tops[anchor.message] + pixels, self._end()))

    # --- widgets ------------------------------------------------------------------------------

    def _tile(self, entry: MessageEntry) -> MessageTile:
        if entry not in self.tiles:
            tile = self._make(entry, self.options, self.viewport())
            tile.slice = self._slice
            tile.resized.connect(self.arrange)
            tile.dragged.connect(lambda y, tile=tile: self._drag_to(tile, y))
            self.tiles[entry] = tile
            self.made.emit(tile)
        return self.tiles[entry]

    def _drop(self, entry: MessageEntry) -> None:
        tile = self.tiles.pop(entry)
        tile.hide()
        tile.deleteLater()
        entry.release()

    def shown_tiles(self) -> list[MessageTile]:
        """Returns the widgets there are, in order."""
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
        """Scrolls until `box` of the viewport is seen. What is taller than the view is only moved if none of it is
        seen."""
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

    # --- focus --------------------------------------------------------------------------------

    def focusNextPrevChild(self, forward: bool) -> bool:
        stops = [stop for tile in self.shown_tiles() for stop in tile.focus_widgets()]
        now, place = QApplication.focusWidget(), -1
        if now in stops:
            place = stops.index(now) + (1 if forward else -1)
        elif forward and now is self:
            place = next((i for i, stop in enumerate(stops) if self._box(stop).bottom() > 0), -1)
        if not 0 <= place < len(stops):
            return super().focusNextPrevChild(forward)
        stops[place].setFocus(Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason)
        return True

    def go(self, by: int) -> bool:
        """Moves the focus to the next message (by 1) or the one before (-1). Returns whether there is one."""
        tiles = self.shown_tiles()
        if self._focused in tiles:
            place = tiles.index(self._focused) + by
        else:
            seen = [number for number, tile in enumerate(tiles) if tile.geometry().bottom() > 0]
            place = seen[0] if by > 0 and seen else len(tiles) - 1
        if not 0 <= place < len(tiles) or not tiles[place].focus_widgets():
            return False
        tiles[place].focus_widgets()[0].setFocus(Qt.FocusReason.OtherFocusReason)
        self.bring_into_view(tiles[place].geometry())
        return True

    def _follow_focus(self, _: QWidget | None, now: QWidget | None) -> None:
        tiles = self.shown_tiles()
        tile = next((tile for tile in tiles if now is not None and (tile is now or tile.isAncestorOf(now))), None)
        if self._focused in tiles and self._focused is not tile:
            self._focused.set_focused(False)
        self._focused = tile
        if tile is not None and now is not None:
            tile.set_focused(True)
            if not QGuiApplication.mouseButtons():
                self.bring_into_view(self._box(now))
                self.arrange()

    def _box(self, widget: QWidget) -> QRect:
        """Returns where a part of a message is in the view."""
        return QRect(widget.mapTo(self.viewport(), widget.rect().topLeft()), widget.size())

    # --- keys ---------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar, by = self.verticalScrollBar(), {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()), 0)
        page = {Qt.Key.Key_PageUp: -1, Qt.Key.Key_PageDown: 1}.get(Qt.Key(event.key()), 0)
        if page:
            self.scroll_by(page * (bar.pageStep() - bar.singleStep()))
        elif by and event.modifiers() & Qt.KeyboardModifier.ControlModifier:  # a text may take it before the shortcut
            self.go(by)
        elif event.key() == Qt.Key.Key_Home:
            bar.setValue(0)
        elif event.key() == Qt.Key.Key_End:
            self.go_to_end()
        else:
            super().keyPressEvent(event)

    # --- selecting ----------------------------------------------------------------------------

    def _drag_to(self, tile: MessageTile, y: int) -> None:
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
