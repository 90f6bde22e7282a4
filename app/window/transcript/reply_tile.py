"""A reply: its text, how it ended, its numbers and actions; before its first token, what it waits for."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication, QTextDocument
from PySide6.QtWidgets import QWidget

from app.store.records import MessageRecord
from app.window.common.appearance import GAP, LIGHT
from app.window.common.widgets import label, style
from app.window.markdown import plain_text, write
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.message_tile import (
    BETWEEN,
    CONTINUE,
    COPY,
    COPY_PLAIN,
    REGENERATE,
    VERIFY,
    MessageFooter,
    MessageTile,
)
from app.window.transcript.reply_body import ReplyBody, TextPlace
from app.window.transcript.reply_pieces import sections
from app.window.transcript.text_page import BUTTON, SIDE, DisplayOptions, Selection

_TONES = {"failed": "error", "cut": "warning"}  # by the state of the reply
ACTIONS = (COPY, COPY_PLAIN, VERIFY, REGENERATE, CONTINUE)
_LONG_PROMPT = 256  # tokens to read, from which on the progress is shown
_BLINK_MS = 530


class ReplyTile(MessageTile):
    """An assistant's message, whether it is being written or not."""

    def __init__(self, entry: MessageEntry, options: DisplayOptions, parent: QWidget) -> None:
        super().__init__(entry, options, MessageFooter(entry.record, ACTIONS), parent)
        self.body = ReplyBody(entry, options, self)
        self.body.pointed.connect(lambda token, box: self.pointed.emit(token, box.translated(self.body.pos())))
        self.body.stepped.connect(lambda token, box: self.stepped.emit(token, box.translated(self.body.pos())))
        self.body.link_clicked.connect(self.link_clicked)
        self.body.dragged.connect(self.dragged)
        self.body.copy_asked.connect(self.copy)
        self.body.menu_asked.connect(self.open_menu)
        self.body.refolded.connect(self.resized)
        self.footer.triggered.connect(self._run)
        self.note, self.waiting = label(wrap=True), label(role="lead", tone="faint", wrap=True)
        for part in (self.note, self.waiting):
            part.setParent(self)
        self.note.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._blink = QTimer(self, interval=_BLINK_MS)
        self._blink.timeout.connect(self._toggle_caret)
        self._caret = True
        self.refresh()
        self.set_options(options)

    def arrange(self, width: int, top: int, bottom: int) -> int:
        y = GAP
        height = self.body.arrange(width, top - y, bottom - y)
        self.body.setGeometry(SIDE, y, width, height)
        y += height
        for part in (self.waiting, self.note):
            if part.isVisibleTo(self):
                y += GAP if height else 0
                part.setGeometry(SIDE, y, width, part.heightForWidth(width))
                y += part.height()
        y += GAP // 2
        self.footer.setGeometry(SIDE, y, width, BUTTON)
        return y + BUTTON + BETWEEN

    def place_at(self, y: int) -> TextPlace | None:
        return self.body.place_at(y - self.body.y())

    def y_of(self, place: TextPlace) -> int:
        return self.body.y_of(place) + self.body.y()

    def focus_widgets(self) -> list[QWidget]:
        return [*self.body.focus_widgets(), *(self.footer.focus_widgets() if self.footer.isVisibleTo(self) else [])]

    def set_options(self, options: DisplayOptions) -> None:
        super().set_options(options)
        self.body.options = options
        self._show_waiting()

    def refresh(self) -> None:
        super().refresh()
        record = self.entry.record
        self.note.setText(ending(record))
        self.note.setVisible(bool(self.note.text()) and not self.entry.live)
        style(self.note, tone=_TONES.get(record.state, "faint"))
        self.footer.setVisible(not self.entry.live)
        self._show_continue()
        for name in (COPY[1], COPY_PLAIN[1]):
            self.footer.buttons[name].setVisible(bool(record.text))
        self.footer.buttons[VERIFY[1]].setVisible(record.checkable)
        self.body.mark_differences()
        self._show_waiting()

    def refresh_text(self) -> None:
        if self.waiting.isVisibleTo(self):
            self._show_waiting()

    def set_focused(self, focused: bool) -> None:
        self.body.focused = focused
        super().set_focused(focused)

    def set_last(self, last: bool) -> None:
        super().set_last(last)
        self._show_continue()

    def step(self, by: int) -> bool:
        return self.body.step(by)

    def clear_token(self) -> bool:
        return self.body.token_cursor.clear(self.options.appearance)

    def drag_on(self) -> None:
        self.body.drag_on()

    @property
    def selection(self) -> Selection:
        return self.body.selection

    def _show_continue(self) -> None:
        self.footer.buttons[CONTINUE[1]].setVisible(self._last and can_continue(self.entry.record))

    def _run(self, name: str) -> None:
        record = self.entry.record
        if name == REGENERATE[1]:
            self.regenerate.emit(record.id)
        elif name == CONTINUE[1]:
            self.resume.emit(record.id)
        elif name == VERIFY[1]:
            self.verify.emit(record.id)
        else:
            QGuiApplication.clipboard().setText(record.text if name == COPY[1] else plain(record.text))
            self.footer.buttons[name].show_done()

    # --- waiting ------------------------------------------------------------------------------

    def _show_waiting(self) -> None:
        waits = self.entry.live and not self.entry.source
        self.waiting.setVisible(waits)
        progress = self.entry.progress
        reading = progress is not None and progress.total - progress.reused > _LONG_PROMPT
        if progress is not None and reading and progress.done < progress.total - 1:
            self.waiting.setText(f"Reading the prompt, {progress.done:,} of {progress.total:,} tokens")
        else:
            self.waiting.setText("▍" if self._caret or self.options.still else " ")
        self.waiting.setAccessibleName("Waiting for the reply")
        if waits and not self.options.still:
            self._blink.start()
        else:
            self._blink.stop()

    def _toggle_caret(self) -> None:
        self._caret = not self._caret
        self._show_waiting()


def ending(record: MessageRecord) -> str:
    """Returns how a reply ended that is not whole, or a note on it; "" when there is nothing to say."""
    if record.state in ("complete", "streaming"):
        return record.note
    return f"{record.state}: {record.note}" if record.note else record.state


def can_continue(record: MessageRecord) -> bool:
    """Whether a reply can be continued: it broke off, or reached the longest that the settings allow."""
    if record.state == "complete":
        limit = record.sampling.max_tokens if record.sampling else None
        return bool(record.note and record.statistics and limit and record.statistics.tokens >= limit)
    return record.state != "streaming"


def plain(source: str) -> str:
    """Returns a reply without the marks of Markdown. What the model thought is left out, unless there is nothing
    else."""
    parts = sections(source)
    shown = [part for part in parts if part.kind == "text"] or parts
    return "\n\n".join(_plain(source[part.start : part.end]) for part in shown)


def _plain(source: str) -> str:
    document = QTextDocument()
    write(document, source, [], LIGHT, False)
    return plain_text(document, 0, document.characterCount() - 1).strip()
