"""Conversations, presets and values on disk, as the window uses them: a failure of the store becomes a notice."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from PySide6.QtCore import QObject, Signal

from app.protocol import RoundDone
from app.store import Store
from app.store.records import NEW_CHAT, ChatSettings, ConversationRecord, MessageRecord, SearchHit
from app.window.chat.notices import Action, Notice
from app.window.common.sentence import sentence
from engine.errors import RedlineError

T = TypeVar("T")

SETTINGS, LAST_OPEN = "chat.settings", "chat.opened"  # keys of values
MAX_HITS = 50


LONGEST_TITLE = 48  # characters


def title_of(text: str) -> str:
    """Returns a title for a conversation from its first question: the first line with words, cut between words. A slash
    between blanks, which would name a folder, loses them."""
    lines = (" ".join(line.lstrip("#>-*` \t").split()).replace(" / ", "/") for line in text.splitlines())
    line = next((line for line in lines if line), "")
    if len(line) <= LONGEST_TITLE:
        return line
    head, space, _ = line[:LONGEST_TITLE].rpartition(" ")
    return f"{head if space else line[: LONGEST_TITLE - 1]}…".replace(",…", "…")


class ConversationLibrary(QObject):
    """Reads and changes what the store holds. Where it fails, methods emit a notice and return nothing, [] or "".

    latest, held: return a message with what the disk has refused of it, and the rounds of that, for exports.
    """

    changed = Signal()  # a title, the order, or the number of conversations
    updated = Signal(object)  # ConversationRecord: the only one that has changed
    notice = Signal(object)  # Notice

    def __init__(self, store: Store, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.store = store
        self.latest: Callable[[MessageRecord], MessageRecord] = lambda message: message
        self.held: Callable[[int], list[RoundDone]] = lambda _: []
        self._closed = False
        self._reported_values = False  # that values cannot be saved

    def attempt(self, action: Callable[[], T], otherwise: T, actions: tuple[Action, ...] = ()) -> T:
        """Returns what `action` returns; where the store fails, emits a notice and returns `otherwise`."""
        try:
            return action()
        except RedlineError as error:
            self.notice.emit(Notice("error", sentence(str(error)), actions))
            return otherwise

    def iterate_rounds(self, message: int) -> Iterator[RoundDone]:
        """Yields the rounds of a reply as they are asked for. Where they are damaged, emits a notice and raises
        StoreError."""
        try:
            yield from self.store.iterate_rounds(message)
        except RedlineError as error:
            self.notice.emit(Notice("error", sentence(str(error))))
            raise

    def change(self, action: Callable[[], object]) -> bool:
        """Does something that shows in the sidebar; returns whether it succeeded."""
        succeeded = self.attempt(lambda: (action(), True)[1], False)
        if succeeded:
            self.changed.emit()
        return succeeded

    # --- conversations -------------------------------------------------------------------------

    def conversations(self) -> list[ConversationRecord]:
        """Returns the conversations in the order of the sidebar."""
        return self.attempt(self.store.conversations, [])

    def find(self, conversation: int) -> ConversationRecord | None:
        """Returns the conversation with this id."""
        return self.attempt(lambda: self.store.find(conversation), None)

    def report(self, conversation: int) -> None:
        """Emits `updated` for a conversation with a new message or another state of one, unless it is gone."""
        if (record := self.find(conversation)) is not None:
            self.updated.emit(record)

    def search(self, text: str) -> list[SearchHit]:
        """Returns the titles and messages that contain `text`, best first."""
        return self.attempt(lambda: self.store.search(text, MAX_HITS), []) if text.strip() else []

    def rename(self, conversation: int, title: str) -> None:
        """Renames a conversation, unless the title is blank."""
        if title := " ".join(title.split()):
            self.change(lambda: self.store.rename(conversation, title))

    def pin(self, conversation: int, pinned: bool) -> None:
        """Moves a conversation to the top of the sidebar, or back to its place."""
        self.change(lambda: self.store.pin(conversation, pinned))

    def export_markdown(self, conversation: int) -> str:
        """Returns the current branch as Markdown."""
        return self.attempt(lambda: self.store.export_markdown(conversation, latest=self.latest), "")

    def export_json(self, conversation: int) -> str:
        """Returns the whole conversation as JSON, rounds and statistics included."""
        return self.attempt(lambda: self.store.export_json(conversation, self.latest, self.held), "")

    def close(self) -> None:
        """Closes the store. Nothing else may be called after it but `set_value`, which then does nothing."""
        self._closed = True
        self.attempt(self.store.close, None)

    # --- presets and values --------------------------------------------------------------------

    def presets(self) -> dict[str, ChatSettings]:
        """Returns the presets by name."""
        return self.attempt(self.store.presets, {})

    def save_preset(self, name: str, settings: ChatSettings) -> None:
        """Saves settings under a name."""
        self.attempt(lambda: self.store.save_preset(name, settings), None)

    def delete_preset(self, name: str) -> None:
        """Deletes a preset. Conversations that used it keep their settings."""
        self.attempt(lambda: self.store.delete_preset(name), None)

    def default_settings(self) -> ChatSettings:
        """Returns the settings of the next new conversation; the built-in ones where none can be read."""
        text = self.value(SETTINGS)
        try:
            return msgspec.json.decode(text, type=ChatSettings) if text else NEW_CHAT
        except msgspec.MsgspecError:
            return NEW_CHAT

    def set_default_settings(self, settings: ChatSettings) -> None:
        """Saves the settings of the next new conversation."""
        self.set_value(SETTINGS, msgspec.json.encode(settings).decode())

    def value(self, key: str) -> str | None:
        """Returns a value of the whole app, None where it was never set."""
        return self.attempt(lambda: self.store.value(key), None)

    def set_value(self, key: str, value: str) -> None:
        """Saves a value of the whole app. A failure is reported once, as nothing depends on it."""
        if self._closed:
            return
        try:
            self.store.set_value(key, value)
            self._reported_values = False
        except RedlineError as error:
            if not self._reported_values:
                self._reported_values = True
                self.notice.emit(Notice("warning", f"Changes to the window could not be saved: {error}."))
