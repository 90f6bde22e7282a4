"""Deleting conversations, which can be undone until the window closes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.reply_history import ReplyHistory
from app.store.records import UNTITLED
from app.window.chat.conversation_library import ConversationLibrary
from app.window.chat.notices import Notice


class ConversationDeletion(QObject):
    """Deletes conversations and restores them.

    history: earlier replies to draft from, of which a conversation's go with it. leave: stops what is written in a
    conversation, and opens another if it is open; returns whether it was. open: opens a conversation.
    """

    changed = Signal()  # another one can be restored, or one fewer
    notice = Signal(object)  # Notice

    def __init__(
        self,
        library: ConversationLibrary,
        history: ReplyHistory | None,
        leave: Callable[[int], bool],
        open: Callable[[int], object],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._library, self._history, self._leave, self._open = library, history, leave, open
        self._deleted: list[tuple[int, bool]] = []  # that can be restored, the last one last; whether it was open

    @property
    def can_undo(self) -> bool:
        """Whether there is a deletion to undo."""
        return bool(self._deleted)

    def delete(self, conversation: int) -> None:
        """Deletes a conversation until `undo`, or for good when the window closes. A reply there is stopped."""
        library = self._library
        record = library.find(conversation)
        if record is None or not library.change(partial(library.store.delete, conversation)):
            return
        if self._history is not None:
            library.attempt(partial(self._history.forget, conversation), None)
        was_open = self._leave(conversation)
        self._deleted.append((conversation, was_open))
        undo = ("Undo", partial(self._restore, conversation, was_open))
        self.notice.emit(Notice("info", f"“{record.title or UNTITLED}” was deleted.", (undo,)))
        self.changed.emit()

    def undo(self) -> None:
        """Restores the conversation that was deleted last."""
        if self._deleted:
            self._restore(*self._deleted[-1])

    def _restore(self, conversation: int, was_open: bool) -> None:
        if (conversation, was_open) not in self._deleted:
            return
        if self._library.change(partial(self._library.store.undelete, conversation)):
            self._deleted.remove((conversation, was_open))
            if was_open:
                self._open(conversation)
            self.changed.emit()
