"""What may be asked of the window: a slot for everything that can be clicked, typed or chosen. No widgets.

One conversation is open; one reply is written at a time, in the open conversation or behind another. Widgets connect to
the signals (`events`) and call the slots; the store and the engine's host are out of their sight.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace as changed

from app.records import Attachment, ChatSettings, ConversationRecord, Hit
from app.window.controller.desk import UNSAVED
from app.window.controller.events import Events
from app.window.controller.library import OPENED
from app.window.controller.report import copy_report, error_report
from app.window.controller.values import Notice

HITS = 50
LARGEST_IMPORT_BYTES = 512 << 20


class Controller(Events):
    """Needs a running event loop for nothing but the engine and the timers."""

    # --- starting and leaving ------------------------------------------------------------------

    def open_last(self) -> None:
        """The conversation that was open when the window closed, or a new one."""
        last = self.library.value(OPENED) or ""
        if not (last.isdecimal() and int(last) != UNSAVED and self._desk.open(int(last))):
            self._desk.new()

    def start(self) -> None:
        """Start the engine; the window is usable before it answers."""
        self.engine.start()

    def close(self) -> None:
        """Everything written, the engine ended: within two seconds."""
        self._replies.cut_short("Redline was quit while this was written.")
        self._keeper.close()
        self._idle.stop()
        self.engine.client.quit()
        self.library.close()

    def report(self) -> str:
        """For an error report: versions, the engine's state, its last complaints."""
        return error_report(self.engine)

    def copy_report(self) -> None:
        """The same, to the clipboard."""
        copy_report(self.engine)

    # --- chat ----------------------------------------------------------------------------------

    def send(self, text: str, attachments: Sequence[Attachment] = ()) -> bool:
        """Ask at the end of the way shown. False where it was not taken; a notice has said why."""
        taken = self._asker.send(text, attachments)
        if taken:
            self._draft = changed(self._draft, text="", attachments=())
        return taken

    def stop(self) -> None:
        """End the reply of the open conversation; what is written stays."""
        if self.busy:
            self._replies.stop()

    def regenerate(self, message: int) -> bool:
        """Write another version of a reply."""
        return self._asker.regenerate(message)

    def resume(self, message: int) -> bool:
        """Go on with the last reply, where it was stopped or cut."""
        return self._asker.resume(message)

    def verify(self, message: int) -> bool:
        """Check a reply against plain decoding, and keep the receipt with it; the one whose check goes on is let be.
        Whether a check has begun."""
        if self._verifier.message == message:
            self._verifier.stop()
            return False
        return self._verifier.begin(message)

    @property
    def checked_now(self) -> int | None:
        """The message whose check goes on."""
        return self._verifier.message

    def edit(self, message: int, text: str) -> bool:
        """Ask another version of a question."""
        return self._asker.edit(message, text)

    def select(self, message: int) -> None:
        """Show the way through another version."""
        self._asker.select(message)

    def draft_changed(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """What is being typed: counted when the typing pauses, its models loaded meanwhile."""
        self._draft = changed(self._draft, text=text, attachments=tuple(attachments))
        if text:
            self._prepare()
        self._counter.refresh()

    def unload(self) -> None:
        """Let the models go, for their memory, unless they are at work; writing brings them back."""
        if not self.in_use:
            self.engine.unload()

    def set_unload_minutes(self, minutes: float) -> None:
        """After how long without use models are let go; 0 is never."""
        self._resting.set_minutes(minutes)

    def set_timed(self, timed: bool) -> None:
        """Whether draft and verify are measured apart in the next replies, which costs a little."""
        self._replies.timed = timed

    # --- conversations -------------------------------------------------------------------------

    def conversations(self) -> list[ConversationRecord]:
        """Of the sidebar, in its order."""
        return self.library.conversations()

    def search(self, text: str) -> list[Hit]:
        """Titles and texts that have it, best first."""
        return self.library.search(text, HITS) if text.strip() else []

    def new(self) -> None:
        """An empty conversation; on disk once something is said in it."""
        self._desk.new()

    def open(self, conversation: int) -> None:
        """Show this one."""
        if conversation != UNSAVED and not self._desk.open(conversation):
            self.notice.emit(Notice("warning", "This conversation is not there any more."))

    def rename(self, conversation: int, title: str) -> None:
        """A title of nothing but spaces changes nothing."""
        self.library.rename(conversation, title)

    def pin(self, conversation: int, pinned: bool) -> None:
        """To the top of the sidebar, or back."""
        self.library.pin(conversation, pinned)

    def delete(self, conversation: int) -> None:
        """Until `undo_delete`, or for good when the window closes. A reply that is being written there is ended."""
        record = self.library.find(conversation)
        if record is None:
            return
        run = self._replies.run
        if run is not None and run.record.conversation == conversation:
            self._replies.stop()
        if not self.library.change(partial(self.library.store.delete, conversation)):
            return
        was_open = conversation == self.conversation.id
        self._deleted.append((conversation, was_open))
        if was_open:
            self._desk.new()
        undo = ("Undo", partial(self._undelete, conversation, was_open))
        self.notice.emit(Notice("info", f"“{record.title or 'Untitled'}” is deleted.", (undo,)))

    def undo_delete(self) -> None:
        """Have the conversation back that was deleted last."""
        if self._deleted:
            self._undelete(*self._deleted[-1])

    def _undelete(self, conversation: int, was_open: bool) -> None:
        if (conversation, was_open) not in self._deleted:
            return
        if self.library.change(partial(self.library.store.undelete, conversation)):
            self._deleted.remove((conversation, was_open))
            if was_open:
                self._desk.open(conversation)

    def export_markdown(self, conversation: int) -> str:
        """Its way shown, for people; "" where the store fails."""
        return self.library.attempt(lambda: self.library.store.export_markdown(conversation), "")

    def export_json(self, conversation: int) -> str:
        """All of its tree, spans and statistics included; "" where the store fails."""
        return self.library.attempt(lambda: self.library.store.export_json(conversation), "")

    def import_json(self, text: str) -> bool:
        """A conversation that was exported, which is opened then; whether it is one."""
        record = self.library.attempt(lambda: self.library.store.import_json(text), None)
        if record is None:
            return False
        self.library.changed.emit()
        return self._desk.open(record.id)

    def import_file(self, path: str) -> bool:
        """The same from a file."""
        file = Path(path)
        try:
            if file.stat().st_size > LARGEST_IMPORT_BYTES:
                raise ValueError(f"it is larger than {LARGEST_IMPORT_BYTES >> 20} MiB")
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            self.notice.emit(Notice("error", f"{file.name} cannot be read ({error}): choose an exported conversation."))
            return False
        return self.import_json(text)

    # --- settings ------------------------------------------------------------------------------

    def change_settings(self, settings: ChatSettings) -> None:
        """Of the open conversation, and of every new one from now on."""
        conversation = self.conversation
        if conversation.id == UNSAVED:
            self._desk.settle(settings)
        elif not self.library.change(lambda: self.library.store.change_settings(conversation.id, settings)):
            return
        self.library.keep_settings(settings)
        self.settings_changed.emit(self.conversation)
        self._prepare()
        self._counter.refresh()

    def presets(self) -> dict[str, ChatSettings]:
        """By name."""
        return self.library.presets()

    def save_preset(self, name: str) -> None:
        """The settings of the open conversation, under this name."""
        self.library.attempt(lambda: self.library.store.save_preset(name, self.conversation.settings), None)

    def delete_preset(self, name: str) -> None:
        """The conversations that used it keep their settings."""
        self.library.attempt(lambda: self.library.store.delete_preset(name), None)

    def use_preset(self, name: str) -> None:
        """Its settings for the open conversation."""
        if (settings := self.presets().get(name)) is not None:
            self.change_settings(settings)

    # --- what the app remembers ----------------------------------------------------------------

    def value(self, key: str) -> str | None:
        """Something kept for the whole app, None where it never was."""
        return self.library.value(key)

    def set_value(self, key: str, value: str) -> None:
        """Keep something for the whole app: the window's place, its theme."""
        self.library.set_value(key, value)
