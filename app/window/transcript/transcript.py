"""The conversation on screen: shows a branch, follows a reply as it streams, and reports what the reader asks for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QEvent, QPoint, QRect, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent, QShowEvent, QTextDocument
from PySide6.QtWidgets import QWidget

from app.reply import Change, Reply
from app.store.records import MessageRecord
from app.window.common import theme
from app.window.common.appearance import GAP, LIGHT
from app.window.common.layouts import column
from app.window.common.timer import Timer, clock_s
from app.window.common.widgets import IconButton, announce, style
from app.window.markdown import write
from app.window.markdown.formula_parser import katex
from app.window.markdown.text_blocks import common_length
from app.window.transcript.announcer import Announcer, Say
from app.window.transcript.find_bar import FindBar
from app.window.transcript.message_entry import MessageEntry, ReplyOf
from app.window.transcript.message_tile import MessageTile
from app.window.transcript.question_tile import QuestionTile
from app.window.transcript.receipt_badge import receipt_text
from app.window.transcript.reply_tile import ReplyTile, ending
from app.window.transcript.text_page import NONE, DisplayOptions
from app.window.transcript.token_panel import TokenPanel, as_text
from app.window.transcript.virtual_list import VirtualList
from engine.events import PromptProgress

_HOVER_MS = 260  # a token is pointed at for so long before its panel opens
_JUMP_SIZE = 32  # px, of the button that leads to the end
_FAR = 120  # px from the end, from which on that button shows
_PRELOAD_MS = 200  # between one part and the next
_LANGUAGES = ("python", "bash", "javascript", "json", "html", "c")
PRELOADED = ("Words.", "| a |\n| - |\n| $x$ |", *(f"```{language}\nx = 1\n```" for language in _LANGUAGES))


class Transcript(QWidget):
    """The messages of one branch of a conversation.

    regenerate(message), resume(message), edit(message, text), edit_changed(message, text so far; "" if it is the
    message's own), select(id of another version), delete_version(message), race(question), verify(message): the reader
    asks for it. say: has a screen reader read a sentence.
    """

    regenerate = Signal(int)
    resume = Signal(int)
    edit = Signal(int, str)
    edit_changed = Signal(int, str)
    select = Signal(int)
    delete_version = Signal(int)
    race = Signal(int)
    verify = Signal(int)
    link_clicked = Signal(QUrl)

    def __init__(self, parent: QWidget | None = None, say: Say | None = None) -> None:
        super().__init__(parent)
        self.options = DisplayOptions(theme.current())
        self._reply_of: ReplyOf = lambda _: Reply()
        self._edits: Mapping[int, str] = {}
        self._say: Say = say or (lambda text: announce(self, text))
        self.column = VirtualList(_tile, self.options, self)
        self.column.setAccessibleName("Conversation")
        self.column.made.connect(self._connect_tile)
        self.column.settled.connect(self._settle)
        self.find_bar = FindBar(self.column, self)
        self.find_bar.closed.connect(self._end_find)
        column(self.find_bar, self.column, on=self)
        self.jump_button = self._make_jump_button()
        self.panel = TokenPanel(self)
        self._hover = Timer(self, singleShot=True, interval=_HOVER_MS)
        self._hover.timeout.connect(self._show_panel)
        self._pointed: tuple[MessageTile, int, QRect] | None = None
        self._panel_at = QPoint()
        self._preloaded = iter(PRELOADED)
        self._preload = Timer(self, interval=_PRELOAD_MS)
        self._preload.timeout.connect(self._preload_next)
        self._announcer = Announcer(self._say)

    def _make_jump_button(self) -> IconButton:
        button = IconButton("latest", "Jump to Latest Message", self, _JUMP_SIZE)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        button.tone = "text"
        style(button, role="round")
        button.clicked.connect(self.column.go_to_end)
        button.hide()
        return button

    # --- what is shown ------------------------------------------------------------------------

    def show_branch(self, path: list[MessageRecord], reply_of: ReplyOf, edits: Mapping[int, str] | None = None) -> None:
        """Shows a conversation, or another branch of it. reply_of: returns a reply; called when it comes into view.
        edits: of messages, by their ids, that have not been sent; their editors are opened."""
        self._reply_of, self._edits = reply_of, edits or {}
        before = self.column.entries
        known = {entry.record.id: entry for entry in before}
        entries = [self._entry(record, known.get(record.id)) for record in path]
        same = before and entries and before[0].record.conversation == entries[0].record.conversation
        shared = common_length(before, entries)
        longer = shared == len(before) < len(entries)
        self._point(None)
        self.column.set_entries(entries, to_end=not same or longer, hold=shared)
        if not same and not self.find_bar.isHidden():
            self.find_bar.end()

    def begin_reply(self, record: MessageRecord) -> None:
        """Shows a reply that begins, or one that continues."""
        entries, entry = self.column.entries, self._find(record.id)
        if entry is None or not entry.live:
            self._announcer.begin()
        if entry is None:
            above = next((i for i, entry in enumerate(entries) if entry.record.id == record.parent), len(entries) - 1)
            entry = MessageEntry(record, self._reply_of)
            entry.live = True
            self.column.set_entries([*entries[: above + 1], entry], to_end=True)
        elif not entry.live:
            entry.resume(record)
            self.column.at_end = True
        self._refresh(entry)

    def show_change(self, message: int, change: Change) -> None:
        """Shows what was added to a reply, if it is here."""
        entry = self._find(message)
        if entry is not None and entry.live:
            self._announcer.receive(entry.reply.answer_since(change.start), clock_s())  # the thought is not read aloud
            self.column.touch(entry)
            self.column.arrange()

    def show_progress(self, message: int, progress: PromptProgress) -> None:
        """Shows how far the prompt has been read."""
        entry = self._find(message)
        if entry is not None:
            entry.progress, entry.waits = progress, ""
            self._refresh(entry)

    def show_waiting(self, message: int, why: str) -> None:
        """Shows why a reply does not begin yet."""
        entry = self._find(message)
        if entry is not None:
            entry.waits = why
            self._refresh(entry)

    def end_reply(self, record: MessageRecord) -> None:
        """Ends a reply, and shows all of it."""
        entry = self._find(record.id)
        if entry is not None:
            entry.end(record)
            self.column.touch(entry)
            self._refresh(entry)
            how = ending(record)
            said = "The reply is complete." if record.state == "complete" else f"Reply {how[:1].lower()}{how[1:]}"
            self._announcer.end(said, clock_s())

    def show_verification_progress(self, message: int, progress: str) -> None:
        """Shows how far the verification of a reply is; "" once it is over."""
        entry = self._find(message)
        if entry is not None:
            entry.check_progress = progress
            entry.check_error = "" if progress else entry.check_error
            self._refresh(entry)

    def show_receipt(self, record: MessageRecord) -> None:
        """Shows the receipt of a reply, and announces it."""
        entry = self._find(record.id)
        if entry is not None and not entry.live:
            entry.record = record
            self._refresh(entry)
            self._say(f"Verified: {receipt_text(record)}")

    def show_verification_error(self, message: int, why: str) -> None:
        """Shows why a reply could not be verified. It keeps the receipt that it had."""
        entry = self._find(message)
        if entry is not None:
            entry.check_error = why
            self._refresh(entry)

    def reveal(self, message: int) -> None:
        """Scrolls to a message."""
        entry = self._find(message)
        if entry is not None:
            self.column.reveal(entry)

    def begin_edit(self, message: int, focused_after: QWidget) -> None:
        """Opens the editor of a message, in view. focused_after: what has the focus once the editor is left."""
        entry = self._find(message)
        tile = self.column.show_page(entry, 0) if entry is not None else None
        if tile is not None:
            tile.begin_edit(focused_after)

    def find_next(self, by: int) -> None:
        """Goes to the next match (1) or the one before (-1) of what is looked for; asks for it first."""
        if self.find_bar.isHidden():
            self.find_bar.begin()
        else:
            self.find_bar.step(by)

    def _end_find(self) -> None:
        self.find_bar.end()
        self.column.setFocus(Qt.FocusReason.OtherFocusReason)

    # --- how it is shown ----------------------------------------------------------------------

    def change_options(self, **changes: Any) -> None:
        """Changes some of the `options`."""
        before, self.options = self.options, replace(self.options, **changes)
        if self.options != before:
            self.update()
            self._point(None)
            self.column.set_options(replace(self.options, find=self.find_bar.term))
        if self.options.raw != before.raw and self.find_bar.term:
            self.find_bar.search()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.PaletteChange) and hasattr(self, "column"):
            self._follow_theme()

    def _follow_theme(self) -> None:
        """Writes the documents anew in the colours of the theme: they carry them in their formats."""
        self.change_options(appearance=theme.current())

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(event.rect(), QColor(theme.current().background))

    # --- parts --------------------------------------------------------------------------------

    def _entry(self, record: MessageRecord, known: MessageEntry | None) -> MessageEntry:
        streams = known is not None and known.live and record.state == "streaming"
        if known is None or not (streams or known.record.text == record.text):
            return MessageEntry(record, self._reply_of, self._edits.get(record.id, ""))
        if known.record != record:
            known.record = record
            tile = self.column.tiles.get(known)
            if tile is not None:
                tile.refresh()
        return known

    def _find(self, message: int) -> MessageEntry | None:
        return next((entry for entry in reversed(self.column.entries) if entry.record.id == message), None)

    def _refresh(self, entry: MessageEntry) -> None:
        tile = self.column.tiles.get(entry)
        if tile is not None:
            tile.refresh()
        self.column.arrange()

    def _connect_tile(self, tile: MessageTile) -> None:
        tile.pointed.connect(lambda token, box, by_keyboard: self._point_at(tile, token, box, by_keyboard))
        tile.link_clicked.connect(self.link_clicked)
        tile.requested.connect(lambda name, values: getattr(self, name).emit(*values))

    # --- tokens -------------------------------------------------------------------------------

    def _point(self, pointed: tuple[MessageTile, int, QRect] | None) -> None:
        """Remembers the token that is pointed at, if any; its panel opens after a moment."""
        self._pointed = pointed
        self._panel_at = pointed[0].mapTo(self, pointed[2].topLeft()) if pointed else QPoint()
        self.panel.hide()
        detail = pointed[0].entry.detail(pointed[1]) if pointed else None
        if detail is None or not (self.options.tints or self.options.refused or detail.differs):
            self._hover.stop()
        else:
            self._hover.start()

    def _point_at(self, tile: MessageTile, token: int, box: QRect, by_keyboard: bool) -> None:
        """Shows the token that the mouse or the keyboard went to. For the keyboard its panel opens at once, and is read
        aloud."""
        detail = tile.entry.detail(token)
        if not by_keyboard or detail is None:
            self._point((tile, token, box) if token != NONE else None)
            return
        self.column.bring_into_view(box.translated(tile.pos()))
        self._point((tile, token, box))
        self._hover.stop()
        self._show_panel()
        self._say(as_text(detail))

    def _show_panel(self) -> None:
        if self._pointed is None:
            return
        tile, token, box = self._pointed
        detail = tile.entry.detail(token)
        if detail is not None:
            self.panel.show_detail(detail, QRect(tile.mapTo(self, box.topLeft()), box.size()))

    # --- geometry -----------------------------------------------------------------------------

    def _settle(self) -> None:
        if self._pointed is not None:
            tile, _, box = self._pointed
            if tile not in self.column.tiles.values() or tile.mapTo(self, box.topLeft()) != self._panel_at:
                self._point(None)
        self._place_jump_button()

    def _place_jump_button(self) -> None:
        bar, view = self.column.verticalScrollBar(), self.column.geometry()
        self.jump_button.setVisible(not self.column.at_end and bar.maximum() - bar.value() > _FAR)
        x = view.x() + (self.column.viewport().width() - _JUMP_SIZE) // 2
        self.jump_button.move(x, view.bottom() - _JUMP_SIZE - 2 * GAP)
        self.jump_button.raise_()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._follow_theme()
        self._preload.start()

    def _preload_next(self) -> None:
        """Loads a part of KaTeX or renders one of the samples, so that no reply has to wait for its parsers or lexer,
        which take up to 50 ms each to load."""
        if katex().load_next():
            return
        source = next(self._preloaded, None)
        if source is None:
            self._preload.stop()
        else:
            write(QTextDocument(), source, [], LIGHT, True)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_jump_button()


def _tile(entry: MessageEntry, options: DisplayOptions, parent: QWidget) -> MessageTile:
    return (QuestionTile if entry.record.role == "user" else ReplyTile)(entry, options, parent)
