"""Deleting conversations and versions of messages, which can be undone until the window closes."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.reply_history import ReplyHistory
from app.store.records import UNTITLED
from app.window.chat.conversation_library import ConversationLibrary
from app.window.chat.notices import Notice


class ConversationDeletion(QObject):
    """Deletes conversations and restores them, and keeps what undoes other deletions.

    history: earlier replies to draft from, of which a conversation's go and come back with it. leave: stops what is
    written in a conversation, and opens another if it is open; returns whether it was. open: opens a conversation.
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
        self._undos: list[Callable[[], bool]] = []  # of what was deleted, the last one last

    @property
    def can_undo(self) -> bool:
        """Whether there is a deletion to undo."""
        return bool(self._undos)

    def delete(self, conversation: int) -> None:
        """Deletes a conversation until `undo`, or for good when the window closes. A reply there is stopped."""
        library = self._library
        record = library.find(conversation)
        if record is None or not library.change(partial(library.store.delete, conversation)):
            return
        if self._history is not None:
            library.attempt(partial(self._history.set_aside, conversation), None)
        was_open = self._leave(conversation)
        self.offer(f"“{record.title or UNTITLED}” was deleted.", partial(self._restore, conversation, was_open))

    def offer(self, text: str, restore: Callable[[], bool]) -> None:
        """Says that something was deleted, and offers to undo it. restore: does so; returns whether it succeeded."""
        self._undos.append(restore)
        self.notice.emit(Notice("info", text, (("Undo", partial(self._run, restore)),)))
        self.changed.emit()

    def undo(self) -> None:
        """Restores what was deleted last."""
        if self._undos:
            self._run(self._undos[-1])

    def _run(self, restore: Callable[[], bool]) -> None:
        if restore in self._undos and restore():
            self._undos.remove(restore)
            self.changed.emit()

    def _restore(self, conversation: int, was_open: bool) -> bool:
        restored = self._library.change(partial(self._library.store.undelete, conversation))
        if restored and self._history is not None:
            self._history.bring_back(conversation)
        if restored and was_open:
            self._open(conversation)
        return restored
