"""The conversation on screen: opens a way, follows a reply as it is told, and says what the reader asks for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from PySide6.QtCore import QPoint, QRect, QTimer, QUrl, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.protocol import Told
from app.records import MessageRecord
from app.window.look import LIGHT, Look
from app.window.transcript.announce import Announcer, Say, announce
from app.window.transcript.column import Column
from app.window.transcript.details import in_words
from app.window.transcript.entry import Entry
from app.window.transcript.latest import Latest
from app.window.transcript.manner import Manner
from app.window.transcript.page import NONE
from app.window.transcript.panel import TokenPanel, as_text
from app.window.transcript.question import QuestionTile
from app.window.transcript.reply import ReplyTile, ending
from app.window.transcript.streams import Streams
from app.window.transcript.tile import Tile
from app.window.transcript.warm import Warming
from engine.events import PromptProgress

_HOVER_MS = 260  # a token is pointed at for so long before its panel opens


class Transcript(QWidget):
    """regenerate(message), resume(message), edit(message, text), select(id of another version), race(question),
    verify(message): asked by the reader.
    token_hovered: a TokenDetail, or None. clock: seconds, for pacing. say: reads a sentence to whoever listens."""

    regenerate = Signal(int)
    resume = Signal(int)
    edit = Signal(int, str)
    select = Signal(int)
    race = Signal(int)
    verify = Signal(int)
    token_hovered = Signal(object)
    link_asked = Signal(QUrl)

    def __init__(
        self,
        look: Look = LIGHT,
        parent: QWidget | None = None,
        clock: Callable[[], float] = time.monotonic,
        say: Say | None = None,
    ) -> None:
        super().__init__(parent)
        self.manner = Manner(look)
        self._told: Callable[[int], list[Told]] = lambda _: []
        self._clock = clock
        self._say: Say = say or (lambda text: announce(self, text))
        self.column = Column(_tile, self.manner, self)
        self.column.setAccessibleName("Conversation")
        self.column.made.connect(self._welcome)
        self.column.settled.connect(self._settle)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.column)
        self.latest = Latest(look, self)
        self.latest.clicked.connect(self.column.go_to_end)
        self.panel = TokenPanel(look, self)
        self._hover = QTimer(self, singleShot=True, interval=_HOVER_MS)
        self._hover.timeout.connect(self._show_panel)
        self._pointed: tuple[Tile, int, QRect] | None = None
        self._panel_at = QPoint()
        self._warming = Warming(self)
        self._streams = Streams(self.column, Announcer(self._say), clock, self)

    # --- what is shown ------------------------------------------------------------------------

    def show_path(self, path: list[MessageRecord], told: Callable[[int], list[Told]]) -> None:
        """A conversation opens, or its way changes. told: the rounds of a reply, asked for when it comes into view."""
        self._told = told
        before = self.column.entries
        known = {entry.record.id: entry for entry in before}
        entries = [self._entry(record, known.get(record.id)) for record in path]
        same = before and entries and before[0].record.conversation == entries[0].record.conversation
        longer = len(entries) > len(before) and all(a is b for a, b in zip(before, entries, strict=False))
        self._streams.keep([entry for entry in entries if entry.live])
        self._point(None)
        apart = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(before, entries, strict=False)))
        self.column.set_entries(entries, to_end=not same or longer, hold=apart)

    def begin(self, record: MessageRecord) -> None:
        """A reply is being written from now on; or an old one goes on."""
        entries = self.column.entries
        entry = next((entry for entry in entries if entry.record.id == record.id), None)
        if entry is None:
            above = next((i for i, entry in enumerate(entries) if entry.record.id == record.parent), len(entries) - 1)
            entry = Entry(record, self._told)
            entry.live = True
            self.column.set_entries([*entries[: above + 1], entry], to_end=True)
        elif not entry.live:
            entry.go_on(record)
            self.column.at_end = True
        self._streams.begin(entry)
        self._refresh(entry)

    def tell(self, message: int, told: list[Told]) -> None:
        """More rounds, once a frame. They are shown over the time that they took."""
        self._streams.hear(message, told)

    def progress(self, message: int, progress: PromptProgress) -> None:
        """How far the prompt has been read."""
        entry = self._find(message)
        if entry is not None:
            entry.progress = progress
            self._refresh(entry)

    def end(self, record: MessageRecord) -> None:
        """The reply is over. Whatever waited to be shown is shown."""
        entry = self._find(record.id)
        if entry is None:
            return
        self._streams.end(entry, record)
        self._refresh(entry)
        self._streams.announcer.end(_said(record), self._clock())

    def set_checking(self, message: int, said: str) -> None:
        """How far the check of a reply is; "" once it is over."""
        entry = self._find(message)
        if entry is not None:
            entry.checking = said
            entry.uncheckable = "" if said else entry.uncheckable
            self._refresh(entry)

    def set_checked(self, record: MessageRecord) -> None:
        """A reply has its receipt, which is read to whoever listens."""
        entry = self._find(record.id)
        if entry is not None and not entry.live:
            entry.record = record
            self._refresh(entry)
            self._say(f"Verified: {in_words(record)}")

    def set_uncheckable(self, message: int, why: str) -> None:
        """A reply cannot be checked; the receipt that it had, it keeps."""
        entry = self._find(message)
        if entry is not None:
            entry.uncheckable = why
            self._refresh(entry)

    def reveal(self, message: int) -> None:
        """Scroll to it."""
        entry = self._find(message)
        if entry is not None:
            self.column.reveal(entry)

    # --- how it is shown ----------------------------------------------------------------------

    def set_tints(self, tints: bool) -> None:
        """Tokens by their kind, and the panel of the token that the mouse rests on."""
        self._set(replace(self.manner, tints=tints))

    def set_raw(self, raw: bool) -> None:
        """The source as the model wrote it, instead of Markdown."""
        self._set(replace(self.manner, raw=raw))

    def set_ghosts(self, ghosts: bool) -> None:
        """Refused draft tokens, where they were refused."""
        self._set(replace(self.manner, ghosts=ghosts))

    def set_look(self, look: Look) -> None:
        self.latest.set_look(look)
        self.panel.set_look(look)
        self._set(replace(self.manner, look=look))

    def set_reduced_motion(self, reduced: bool) -> None:
        """Tokens are shown as soon as they are told, and nothing blinks."""
        self._streams.still = reduced
        self._set(replace(self.manner, still=reduced))

    def _set(self, manner: Manner) -> None:
        if manner != self.manner:
            self.manner = manner
            self.update()
            self._point(None)
            self.column.set_manner(manner)

    def paintEvent(self, event: QPaintEvent) -> None:
        """The ground, by hand: a palette of its own would be lost to the style sheets around it."""
        QPainter(self).fillRect(event.rect(), QColor(self.manner.look.background))

    # --- parts --------------------------------------------------------------------------------

    def _entry(self, record: MessageRecord, known: Entry | None) -> Entry:
        streams = known is not None and known.live and record.state == "streaming"
        if known is None or not (streams or known.record.text == record.text):
            return Entry(record, self._told)
        if known.record != record:
            known.record = record
            tile = self.column.tiles.get(known)
            if tile is not None:
                tile.refresh()
        return known

    def _find(self, message: int) -> Entry | None:
        return next((entry for entry in reversed(self.column.entries) if entry.record.id == message), None)

    def _refresh(self, entry: Entry) -> None:
        tile = self.column.tiles.get(entry)
        if tile is not None:
            tile.refresh()
        self.column.arrange()

    def _welcome(self, tile: Tile) -> None:
        tile.pointed.connect(lambda token, box: self._point((tile, token, box) if token != NONE else None))
        tile.stepped.connect(lambda token, box: self._step(tile, token, box))
        tile.link_asked.connect(self.link_asked)
        tile.regenerate.connect(self.regenerate)
        tile.resume.connect(self.resume)
        tile.edit.connect(self.edit)
        tile.select.connect(self.select)
        tile.race.connect(self.race)
        tile.verify.connect(self.verify)

    # --- tokens -------------------------------------------------------------------------------

    def _point(self, pointed: tuple[Tile, int, QRect] | None) -> None:
        """The mouse is over a token, or over none."""
        self._pointed = pointed
        self._panel_at = pointed[0].mapTo(self, pointed[2].topLeft()) if pointed else QPoint()
        self.panel.hide()
        detail = pointed[0].entry.detail(pointed[1]) if pointed else None
        self.token_hovered.emit(detail)
        if detail is None or not (self.manner.tints or self.manner.ghosts or detail.differs):
            self._hover.stop()
        else:
            self._hover.start()

    def _step(self, tile: Tile, token: int, box: QRect) -> None:
        """The token cursor stands on a token: shown at once, and read aloud."""
        detail = tile.entry.detail(token)
        if detail is not None:
            self.column.bring_into_view(box.translated(tile.pos()))
            self._point((tile, token, box))
            self._hover.stop()
            self._show_panel()
            self._say(as_text(detail))
        else:
            self._point(None)

    def _show_panel(self) -> None:
        if self._pointed is None:
            return
        tile, token, box = self._pointed
        detail = tile.entry.detail(token)
        if detail is not None:
            self.panel.tell(detail, QRect(tile.mapTo(self, box.topLeft()), box.size()))

    # --- geometry -----------------------------------------------------------------------------

    def _settle(self) -> None:
        if self._pointed is not None:
            tile, _, box = self._pointed
            if tile not in self.column.tiles.values() or tile.mapTo(self, box.topLeft()) != self._panel_at:
                self._point(None)
        self.latest.follow(self.column)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._warming.start()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.latest.follow(self.column)


def _tile(entry: Entry, manner: Manner, parent: QWidget) -> Tile:
    return (QuestionTile if entry.record.role == "user" else ReplyTile)(entry, manner, parent)


def _said(record: MessageRecord) -> str:
    """How a reply ended, for those who listen."""
    return f"Reply {ending(record)}" if record.state != "complete" else "The reply is complete."
