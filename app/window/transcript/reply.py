"""A reply: its text, how it ended, its numbers and actions; before its first token, what it waits for."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QWidget

from app.records import MessageRecord
from app.terminal import LONG_PROMPT
from app.window.fonts import font
from app.window.look import GAP, Look
from app.window.transcript.body import Body, Place
from app.window.transcript.buttons import SIZE
from app.window.transcript.entry import Entry
from app.window.transcript.footer import AGAIN, COPY, ON, PLAIN, VERIFY, Footer
from app.window.transcript.manner import BODY, SIDE, SMALL, Manner
from app.window.transcript.plain import plain
from app.window.transcript.selection import Selection
from app.window.transcript.tile import BETWEEN, Tile

ACTIONS = (COPY, PLAIN, VERIFY, AGAIN, ON)
_BLINK_MS = 530


class ReplyTile(Tile):
    """Of an assistant's message, live or not."""

    def __init__(self, entry: Entry, manner: Manner, parent: QWidget) -> None:
        super().__init__(entry, manner, Footer(entry.record, ACTIONS, manner.look), parent)
        self.body = Body(entry, manner, self)
        self.body.pointed.connect(lambda token, box: self.pointed.emit(token, box.translated(self.body.pos())))
        self.body.stepped.connect(lambda token, box: self.stepped.emit(token, box.translated(self.body.pos())))
        self.body.link_asked.connect(self.link_asked)
        self.body.dragged.connect(self.dragged)
        self.body.copy_asked.connect(self.copy)
        self.body.menu_asked.connect(self.open_menu)
        self.body.refolded.connect(self.resized)
        self.footer.asked.connect(self._do)
        self.note, self.waiting = QLabel(self), QLabel(self)
        for label in (self.note, self.waiting):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
        self.note.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._blink = QTimer(self, interval=_BLINK_MS)
        self._blink.timeout.connect(self._wink)
        self._caret = True
        self.refresh()
        self.set_manner(manner)

    def arrange(self, width: int, top: int, bottom: int) -> int:
        y = GAP
        height = self.body.arrange(width, top - y, bottom - y)
        self.body.setGeometry(SIDE, y, width, height)
        y += height
        for label in (self.waiting, self.note):
            if label.isVisibleTo(self):
                y += GAP if height else 0
                label.setGeometry(SIDE, y, width, label.heightForWidth(width))
                y += label.height()
        y += GAP // 2
        self.footer.setGeometry(SIDE, y, width, SIZE)
        return y + SIZE + BETWEEN

    def place_at(self, y: int) -> Place | None:
        return self.body.place_at(y - self.body.y())

    def y_of(self, place: Place) -> int:
        return self.body.y_of(place) + self.body.y()

    def stops(self) -> list[QWidget]:
        return [*self.body.stops(), *(self.footer.stops() if self.footer.isVisibleTo(self) else [])]

    def set_manner(self, manner: Manner) -> None:
        super().set_manner(manner)
        self.body.manner = manner
        look = manner.look
        self.note.setFont(font(look, SMALL + 1))
        self.note.setStyleSheet(f"color: {_colour(self.entry.record, look)};")
        self.waiting.setFont(font(look, BODY))
        self.waiting.setStyleSheet(f"color: {look.faint};")
        self._show_waiting()

    def refresh(self) -> None:
        super().refresh()
        record = self.entry.record
        self.note.setText(ending(record))
        self.note.setVisible(bool(self.note.text()) and not self.entry.live)
        self.note.setStyleSheet(f"color: {_colour(record, self.manner.look)};")
        self.footer.setVisible(not self.entry.live)
        self._show_continue()
        for name in (COPY[1], PLAIN[1]):
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

    def unpoint(self) -> bool:
        return self.body.token_cursor.clear(self.manner.look)

    def drag_on(self) -> None:
        self.body.drag_on()

    @property
    def selection(self) -> Selection:
        return self.body.selection

    def _show_continue(self) -> None:
        self.footer.buttons[ON[1]].setVisible(self._last and can_go_on(self.entry.record))

    def _do(self, name: str) -> None:
        record = self.entry.record
        if name == AGAIN[1]:
            self.regenerate.emit(record.id)
        elif name == ON[1]:
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
        reading = progress is not None and progress.total - progress.reused > LONG_PROMPT
        if progress is not None and reading and progress.done < progress.total - 1:
            self.waiting.setText(f"reading the prompt {progress.done:,} of {progress.total:,}")
        else:
            self.waiting.setText("▍" if self._caret or self.manner.still else " ")
        self.waiting.setAccessibleName("Waiting for the reply")
        if waits and not self.manner.still:
            self._blink.start()
        else:
            self._blink.stop()

    def _wink(self) -> None:
        self._caret = not self._caret
        self._show_waiting()


def ending(record: MessageRecord) -> str:
    """What is said of a reply that is not whole, or of what befell it; "" when there is nothing to say."""
    if record.state in ("complete", "streaming"):
        return record.note
    return f"{record.state}: {record.note}" if record.note else record.state


def _colour(record: MessageRecord, look: Look) -> str:
    """As loud as what befell the reply."""
    return {"failed": look.error, "cut": look.warning}.get(record.state, look.faint)


def can_go_on(record: MessageRecord) -> bool:
    """Whether there is more to be had of a reply: it broke off, or reached the longest that the settings allow."""
    if record.state == "complete":
        limit = record.law.max_tokens if record.law else None
        return bool(record.note and record.statistics and limit and record.statistics.tokens >= limit)
    return record.state != "streaming"
