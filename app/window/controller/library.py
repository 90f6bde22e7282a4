"""The conversations and presets on disk, as the window uses them: an error becomes a notice, and nothing comes back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec
from PySide6.QtCore import QObject, Signal

from app.protocol import Told
from app.records import ChatSettings, ConversationRecord, Hit, MessageRecord
from app.window.controller.values import Action, Notice
from engine.errors import RedlineError

if TYPE_CHECKING:
    from app.store import Store

T = TypeVar("T")

SETTINGS, OPENED = "chat.settings", "chat.opened"  # keys of values


class Library(QObject):
    """changed(): a title, an order, a conversation more or less. notice(Notice)."""

    changed = Signal()
    notice = Signal(object)

    def __init__(self, store: Store, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.store = store
        self._closed = False
        self._forgetful = False  # values could not be kept, and that has been said

    def attempt(self, do: Callable[[], T], otherwise: T, actions: tuple[Action, ...] = ()) -> T:
        """What `do` returns; where the store fails, a notice and `otherwise`."""
        try:
            return do()
        except RedlineError as error:
            self.notice.emit(Notice("error", str(error), actions))
            return otherwise

    def conversations(self) -> list[ConversationRecord]:
        """Of the sidebar, in its order."""
        return self.attempt(self.store.conversations, [])

    def find(self, conversation: int) -> ConversationRecord | None:
        """By its id."""
        return next((record for record in self.conversations() if record.id == conversation), None)

    def path(self, conversation: int) -> list[MessageRecord]:
        """The way shown."""
        return self.attempt(lambda: self.store.path(conversation), [])

    def told(self, message: int) -> list[Told]:
        """Rounds of a message, as far as they are on disk."""
        return self.attempt(lambda: self.store.told(message), [])

    def search(self, text: str, limit: int) -> list[Hit]:
        """Best first."""
        return self.attempt(lambda: self.store.search(text, limit), [])

    def rename(self, conversation: int, title: str) -> None:
        """A title of nothing but spaces changes nothing."""
        if title := " ".join(title.split()):
            self.change(lambda: self.store.rename(conversation, title))

    def pin(self, conversation: int, pinned: bool) -> None:
        """To the top, or back to its place."""
        self.change(lambda: self.store.pin(conversation, pinned))

    def change(self, do: Callable[[], object]) -> bool:
        """Do something that shows in the sidebar; whether it succeeded."""

        def done() -> bool:
            do()
            return True

        succeeded = self.attempt(done, False)
        if succeeded:
            self.changed.emit()
        return succeeded

    def tidy(self) -> bool:
        """A hundredth of a second of what can wait; whether there is more. What fails here is tried again some day."""
        with suppress(RedlineError):
            return self.store.tidy()
        return False

    def close(self) -> None:
        """The last that is asked of it."""
        self._closed = True
        self.attempt(self.store.close, None)

    # --- settings ------------------------------------------------------------------------------

    def presets(self) -> dict[str, ChatSettings]:
        """By name."""
        return self.attempt(self.store.presets, {})

    def last_settings(self) -> ChatSettings:
        """Those used last, for the next new conversation; the built-in ones where none can be read."""
        text = self.value(SETTINGS)
        try:
            return msgspec.json.decode(text, type=ChatSettings) if text else ChatSettings()
        except msgspec.MsgspecError:
            return ChatSettings()

    def keep_settings(self, settings: ChatSettings) -> None:
        """Remember them as used last."""
        self.set_value(SETTINGS, msgspec.json.encode(settings).decode())

    def value(self, key: str) -> str | None:
        """Something the whole app remembers, None where it was never set."""
        return self.attempt(lambda: self.store.value(key), None)

    def set_value(self, key: str, value: str) -> None:
        """Remember something for the whole app. Where that fails it is said once: nothing depends on it. What is left
        to be remembered once the store is closed is forgotten."""
        if self._closed:
            return
        try:
            self.store.set_value(key, value)
            self._forgetful = False
        except RedlineError as error:
            if not self._forgetful:
                self._forgetful = True
                self.notice.emit(Notice("warning", f"What the window looks like cannot be kept: {error}."))
