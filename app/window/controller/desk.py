"""The conversation that is open and the way through it that is shown, one that is not on disk yet included."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.protocol import Told
from app.records import ChatSettings, ConversationRecord, MessageRecord
from app.window.controller.keeper import Keeper
from app.window.controller.library import OPENED, Library
from app.window.controller.replies import Replies

UNSAVED = 0  # id of a conversation that nothing has been said in


class Desk(QObject):
    """opened(ConversationRecord), path_changed(list[MessageRecord]). conversation, path: what they told last."""

    opened = Signal(object)
    path_changed = Signal(object)

    def __init__(self, library: Library, replies: Replies, keeper: Keeper, parent: QObject) -> None:
        super().__init__(parent)
        self._library = library
        self._replies = replies
        self._keeper = keeper
        self.conversation = _blank(library.last_settings())
        self.path: list[MessageRecord] = []

    def new(self) -> None:
        """An empty conversation, with the settings used last; on disk once something is said in it."""
        self._put(_blank(self._library.last_settings()))

    def open(self, conversation: int) -> bool:
        """Whether there is one of this id."""
        record = self._library.find(conversation)
        if record is not None:
            self._put(record)
        return record is not None

    def stored(self, title: str) -> ConversationRecord:
        """The conversation, on disk by now; `title` is its title if it has none. Raises StoreError."""
        if self.conversation.id == UNSAVED:
            self.conversation = self._library.store.create(self.conversation.settings)
            self._library.set_value(OPENED, str(self.conversation.id))
        if title and not self.conversation.title:
            self._library.store.rename(self.conversation.id, title)
        self.look_again()
        return self.conversation

    def look_again(self) -> None:
        """Take over what has changed in the record: its title, its settings."""
        if self.conversation.id != UNSAVED and (found := self._library.find(self.conversation.id)):
            self.conversation = found

    def settle(self, settings: ChatSettings) -> None:
        """Other settings from now on, of a conversation that is not on disk."""
        self.conversation = _blank(settings)

    def show(self, path: list[MessageRecord]) -> None:
        """Another way, or a longer one. What was told of the one before has been shown by then."""
        self._replies.flush()
        self.path = path
        self.path_changed.emit(list(path))

    def reload(self) -> None:
        """The way as the store has it, with what it does not have yet."""
        stored = [] if self.conversation.id == UNSAVED else self._library.path(self.conversation.id)
        self.show([self._current(record) for record in stored])

    def replace(self, record: MessageRecord) -> bool:
        """Have this record in place of its older self; whether it is on the way shown."""
        for i, older in enumerate(self.path):
            if older.id == record.id:
                self.path[i] = record
                return True
        return False

    def find(self, message: int) -> MessageRecord | None:
        """On the way shown."""
        return next((record for record in self.path if record.id == message), None)

    def up_to(self, message: int | None) -> list[MessageRecord]:
        """The way from its beginning to this message, which is the last; nothing for None."""
        ids = [record.id for record in self.path]
        return self.path[: ids.index(message) + 1] if message in ids else []

    def told_of(self, message: int) -> list[Told]:
        """Rounds of a message, the newest included."""
        run = self._replies.run
        if run is not None and run.record.id == message:
            return list(run.told)
        return self._library.told(message) + self._keeper.told_of(message)

    def _put(self, conversation: ConversationRecord) -> None:
        self.conversation = conversation
        self._library.set_value(OPENED, str(conversation.id))
        self.opened.emit(conversation)
        self.reload()

    def _current(self, record: MessageRecord) -> MessageRecord:
        run = self._replies.run
        if run is not None and run.record.id == record.id:
            return run.so_far()
        return self._keeper.over(record.id) or record


def _blank(settings: ChatSettings) -> ConversationRecord:
    return ConversationRecord(id=UNSAVED, title="", pinned=False, created_s=0.0, updated_s=0.0, settings=settings)
