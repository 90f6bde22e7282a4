"""Deleting conversations, which can be undone until the window closes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.store.records import UNTITLED
from app.window.chat.notices import Notice

if TYPE_CHECKING:
    from app.window.chat.controller import Controller


class ConversationDeletion(QObject):
    """Deletes conversations and restores them. changed(): another one can be restored, or one fewer."""

    changed = Signal()

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._controller = controller
        self._deleted: list[tuple[int, bool]] = []  # that can be restored, the last one last; whether it was open

    @property
    def can_undo(self) -> bool:
        """Whether there is a deletion to undo."""
        return bool(self._deleted)

    def delete(self, conversation: int) -> None:
        """Deletes a conversation until `undo`, or for good when the window closes. A reply there is stopped."""
        controller, library = self._controller, self._controller.library
        record = library.find(conversation)
        if record is None:
            return
        reply = controller.replies.reply
        if reply is not None and reply.record.conversation == conversation:
            controller.replies.stop()
        if not library.change(partial(library.store.delete, conversation)):
            return
        if (history := controller.learned) is not None:
            library.attempt(partial(history.forget, conversation), None)
        was_open = conversation == controller.conversation.id
        self._deleted.append((conversation, was_open))
        if was_open:
            controller.new()
        undo = ("Undo", partial(self._restore, conversation, was_open))
        controller.notice.emit(Notice("info", f"“{record.title or UNTITLED}” was deleted.", (undo,)))
        self.changed.emit()

    def undo(self) -> None:
        """Restores the conversation that was deleted last."""
        if self._deleted:
            self._restore(*self._deleted[-1])

    def _restore(self, conversation: int, was_open: bool) -> None:
        library = self._controller.library
        if (conversation, was_open) not in self._deleted:
            return
        if library.change(partial(library.store.undelete, conversation)):
            self._deleted.remove((conversation, was_open))
            if was_open:
                self._controller.open(conversation)
            self.changed.emit()
