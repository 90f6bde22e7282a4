"""Everything the window can do, without widgets: slots for what the user does, signals for what happens.

One conversation is open. One reply is written at a time, in the open conversation or in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed
from PySide6.QtCore import QObject, Signal

from app.protocol import Loaded, Message, Pair, RoundDone
from app.store.records import Attachment, ChatSettings, ConversationRecord, MessageRecord, messages_of
from app.window.chat.context_counter import ContextCounter
from app.window.chat.conversation_library import ConversationLibrary
from app.window.chat.current_conversation import UNSAVED, CurrentConversation
from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import RESTARTED, HostProcess
from app.window.chat.idle_unload import IdleUnload
from app.window.chat.notices import Action, Notice, SpeculationStatus
from app.window.chat.reply_in_progress import ReplyController
from app.window.chat.reply_verification import ReplyVerification
from app.window.chat.reply_writer import ReplyWriter
from engine.events import PromptProgress

if TYPE_CHECKING:
    from app.store import Store

LARGEST_IMPORT_BYTES = 512 << 20


class Controller(QObject):
    """Signals carry these values; lists are the listener's to keep.

    conversation_opened(ConversationRecord)      conversations_changed()       settings_changed(ConversationRecord)
    path_changed(list[MessageRecord])            reply_began(MessageRecord)    reply_ended(MessageRecord)
    rounds_received(int, list[RoundDone]), once a frame                       prompt_progressed(int, PromptProgress)
    busy_changed(bool): whether a reply of the open conversation is being written.
    status_changed(SpeculationStatus)            pair_loaded(Loaded)           context_counted(int, int)
    verification_progressed(int, str): as text, "" once it is over. reply_verified(MessageRecord).
    verification_failed(int, str): why a message cannot be verified.           notice(Notice)

    Rounds are emitted only while their reply is on the branch shown. When its conversation is opened again the reply
    is part of `path_changed`, and `reply_began` is emitted for it again.

    library: conversations, presets and values on disk. host: the connection to the engine.
    """

    conversation_opened = Signal(object)
    conversations_changed = Signal()
    settings_changed = Signal(object)
    path_changed = Signal(object)
    reply_began = Signal(object)
    reply_ended = Signal(object)
    rounds_received = Signal(int, object)
    prompt_progressed = Signal(int, object)
    busy_changed = Signal(bool)
    status_changed = Signal(object)
    pair_loaded = Signal(object)
    context_counted = Signal(int, int)
    verification_progressed = Signal(int, str)
    reply_verified = Signal(object)
    verification_failed = Signal(int, str)
    notice = Signal(object)

    def __init__(self, store: Store, process: HostProcess, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.library = ConversationLibrary(store, self)
        self.host = HostConnection(process, self)
        self._writer = ReplyWriter(store, self)
        self._runner = ReplyController(self.host, self._writer, self)
        self._current = CurrentConversation(self.library, self._runner, self._writer, self)
        self._verification = ReplyVerification(self._current, self.library, self.host, self._runner, self)
        self._idle_unload = IdleUnload(self.host, lambda: self.in_use, self)
        self._counter = ContextCounter(self.host, self._messages_to_count, self)
        self._draft = MessageRecord(id=0, conversation=0, parent=None, role="user", text="")
        self._busy = self._load_later = False
        self._deleted: list[tuple[int, bool]] = []  # conversations that can be restored; whether they were open
        self._cut: MessageRecord | None = None  # a reply that the last death of the host interrupted
        self._status = self.host.status
        self._connect()

    def _connect(self) -> None:
        library, host, current, runner = self.library, self.host, self._current, self._runner
        for part in (library, host, self._writer, runner, current, self._verification):
            part.notice.connect(self.notice)
        library.changed.connect(current.refresh)
        library.changed.connect(self.conversations_changed)
        current.opened.connect(self._handle_opened)
        current.path_changed.connect(self._handle_path)
        current.reply_began.connect(self._handle_reply_began)
        current.reply_requested.connect(self._update_busy)
        current.refused.connect(self._report_busy)
        runner.rounds_received.connect(self._handle_rounds)
        runner.progress.connect(self._handle_progress)
        runner.ended.connect(self._handle_reply_ended)
        self._verification.progressed.connect(self.verification_progressed)
        self._verification.verified.connect(self.reply_verified)
        self._verification.failed.connect(self.verification_failed)
        self._verification.ended.connect(self._load_pair)
        self._counter.counted.connect(self.context_counted)
        host.status_changed.connect(self._update_status)
        host.became_ready.connect(self._load_pair)
        host.pair_loaded.connect(self._handle_loaded)
        host.load_failed.connect(self._handle_load_failure)
        host.died.connect(self._handle_death)
        host.race_ended.connect(self._load_pair)

    # --- start and end -------------------------------------------------------------------------

    def open_last(self) -> None:
        """Opens the conversation that was open when the window closed, or a new one."""
        self._current.open_last()

    def start(self) -> None:
        """Starts the engine; everything else can be used before it answers."""
        self.host.start()

    def close(self) -> None:
        """Saves everything and ends the engine, within two seconds."""
        self._runner.end_now("Redline quit while writing this reply.")
        self._writer.close()
        self.host.process.quit()
        self.library.close()

    # --- state ---------------------------------------------------------------------------------

    @property
    def conversation(self) -> ConversationRecord:
        """The open conversation; its id is 0 until a message is sent in it."""
        return self._current.record

    @property
    def path(self) -> list[MessageRecord]:
        """The current branch of the open conversation."""
        return list(self._current.path)

    @property
    def busy(self) -> bool:
        """Whether a reply of the open conversation is being written."""
        reply = self._runner.reply
        return reply is not None and reply.record.conversation == self.conversation.id

    @property
    def in_use(self) -> bool:
        """Whether a reply, a verification or a race is in progress, in any conversation."""
        return self._runner.reply is not None or self._verification.message is not None or self.host.racing

    @property
    def status(self) -> SpeculationStatus:
        """The status of speculation for the open conversation."""
        return self._status

    @property
    def loaded_pair(self) -> Loaded | None:
        """The pair that is loaded."""
        return self.host.loaded

    @property
    def verifying_message(self) -> int | None:
        """The message that is being verified."""
        return self._verification.message

    def rounds_of(self, message: int) -> list[RoundDone]:
        """Returns the rounds of a reply, the newest included."""
        return self._current.rounds_of(message)

    # --- messages ------------------------------------------------------------------------------

    def send(self, text: str, attachments: Sequence[Attachment] = ()) -> bool:
        """Sends a message at the end of the branch. Returns False where it was not taken; a notice says why."""
        taken = self._current.send(text, attachments)
        if taken:
            self._draft = changed(self._draft, text="", attachments=())
        return taken

    def edit(self, message: int, text: str) -> bool:
        """Sends another version of a question."""
        return self._current.edit(message, text)

    def regenerate(self, message: int) -> bool:
        """Has another version of a reply written."""
        return self._current.regenerate(message)

    def resume(self, message: int) -> bool:
        """Continues the last reply, where it was stopped or interrupted."""
        return self._current.resume(message)

    def stop(self) -> None:
        """Stops the reply of the open conversation; its text so far stays."""
        if self.busy:
            self._runner.stop()

    def select(self, message: int) -> None:
        """Switches to the branch of another version of a message."""
        self._current.select(message)

    def verify(self, message: int) -> bool:
        """Compares a reply with plain decoding and saves the receipt; stops where that is in progress. Returns whether
        a verification has begun."""
        if self._verification.message == message:
            self._verification.stop()
            return False
        return self._verification.begin(message)

    def set_draft(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Takes what is being typed: it is counted when typing pauses, and its models are loaded meanwhile."""
        self._draft = changed(self._draft, text=text, attachments=tuple(attachments))
        if text:
            self._load_pair()
        self._counter.schedule()

    # --- conversations and settings ------------------------------------------------------------

    def new(self) -> None:
        """Opens an empty conversation, which is saved once a message is sent in it."""
        self._current.new()

    def open(self, conversation: int) -> None:
        """Opens a conversation."""
        if conversation != UNSAVED and not self._current.open(conversation):
            self.notice.emit(Notice("warning", "This conversation no longer exists."))

    def delete(self, conversation: int) -> None:
        """Deletes a conversation until `undo_delete`, or for good when the window closes. A reply there is stopped."""
        record = self.library.find(conversation)
        if record is None:
            return
        reply = self._runner.reply
        if reply is not None and reply.record.conversation == conversation:
            self._runner.stop()
        if not self.library.change(partial(self.library.store.delete, conversation)):
            return
        was_open = conversation == self.conversation.id
        self._deleted.append((conversation, was_open))
        if was_open:
            self._current.new()
        undo = ("Undo", partial(self._undelete, conversation, was_open))
        self.notice.emit(Notice("info", f"“{record.title or 'Untitled'}” was deleted.", (undo,)))

    def undo_delete(self) -> None:
        """Restores the conversation that was deleted last."""
        if self._deleted:
            self._undelete(*self._deleted[-1])

    def _undelete(self, conversation: int, was_open: bool) -> None:
        if (conversation, was_open) not in self._deleted:
            return
        if self.library.change(partial(self.library.store.undelete, conversation)):
            self._deleted.remove((conversation, was_open))
            if was_open:
                self._current.open(conversation)

    def import_json(self, text: str) -> bool:
        """Imports an exported conversation and opens it; returns whether it is one."""
        record = self.library.attempt(lambda: self.library.store.import_json(text), None)
        if record is None:
            return False
        self.library.changed.emit()
        return self._current.open(record.id)

    def import_file(self, path: str) -> bool:
        """Imports an exported conversation from a file."""
        file = Path(path)
        try:
            if file.stat().st_size > LARGEST_IMPORT_BYTES:
                raise ValueError(f"it is larger than {LARGEST_IMPORT_BYTES >> 20} MiB")
            text = file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = f"“{file.name}” could not be read ({error}). Choose a conversation exported from Redline."
            self.notice.emit(Notice("error", why))
            return False
        return self.import_json(text)

    def change_settings(self, settings: ChatSettings) -> None:
        """Changes the settings of the open conversation and of new ones."""
        if self._current.change_settings(settings):
            self.settings_changed.emit(self.conversation)
            self._load_pair()
            self._counter.schedule()

    def use_preset(self, name: str) -> None:
        """Applies a preset to the open conversation."""
        if (settings := self.library.presets().get(name)) is not None:
            self.change_settings(settings)

    # --- the engine ----------------------------------------------------------------------------

    def unload(self) -> None:
        """Unloads the models to free their memory, unless they are in use; writing loads them again."""
        if not self.in_use:
            self.host.unload()

    def set_unload_minutes(self, minutes: float) -> None:
        """Sets after how many idle minutes models are unloaded; 0 is never."""
        self._idle_unload.set_minutes(minutes)

    def set_phase_timing(self, on: bool) -> None:
        """Has draft and verify measured apart in the next replies, which costs a little speed."""
        self._runner.times_phases = on

    # --- events of the conversation ------------------------------------------------------------

    def _handle_opened(self, conversation: ConversationRecord) -> None:
        self._counter.cancel()
        self.conversation_opened.emit(conversation)
        self._update_status()

    def _handle_path(self, path: list[MessageRecord]) -> None:
        self.path_changed.emit(path)
        reply = self._runner.reply
        if reply is not None and (shown := self._current.find(reply.record.id)):
            self.reply_began.emit(shown)
        self._update_busy()
        self._counter.schedule()

    # --- events of a reply ---------------------------------------------------------------------

    def _handle_reply_began(self, record: MessageRecord) -> None:
        self._verification.stop()
        self._counter.cancel()
        self.reply_began.emit(record)

    def _handle_rounds(self, message: int, rounds: list[RoundDone]) -> None:
        if self._current.find(message) is None:
            return
        self.rounds_received.emit(message, rounds)
        reply, pair = self._runner.reply, self.host.loaded
        if reply is not None and pair is not None:
            self.context_counted.emit(reply.metrics.prompt_tokens + reply.metrics.tokens, pair.context)

    def _handle_progress(self, message: int, progress: PromptProgress) -> None:
        if self._current.find(message) is not None:
            self.prompt_progressed.emit(message, progress)

    def _handle_reply_ended(self, record: MessageRecord) -> None:
        if self._current.replace(record):
            self.reply_ended.emit(record)
        elif record.conversation != self.conversation.id and record.state in ("complete", "failed"):
            self._report_reply_elsewhere(record)
        self._update_busy()
        self.library.changed.emit()
        self._counter.schedule()
        if record.state == "cut":
            self._cut = record
        if self._load_later:
            self._load_pair()

    def _report_reply_elsewhere(self, record: MessageRecord) -> None:
        """Reports that a reply in another conversation has ended."""
        found = self.library.find(record.conversation)
        if found is not None:
            outcome = "is complete." if record.state == "complete" else f"failed: {record.note}"
            text = f"The reply in “{found.title}” {outcome}"
            self.notice.emit(Notice("info", text, (self._show_action(record.conversation),)))

    def _report_busy(self) -> None:
        """Reports why another reply cannot begin."""
        reply = self._runner.reply
        if reply is None:
            return
        stop: Action = ("Stop Reply", self._runner.stop)
        if self.busy:
            text = "A reply is still being written. Wait for it to finish, or stop it first."
            self.notice.emit(Notice("info", text, (stop,)))
            return
        found = self.library.find(reply.record.conversation)
        text = f"Redline writes one reply at a time, and is writing one in “{found.title if found else ''}”."
        self.notice.emit(Notice("info", text, (self._show_action(reply.record.conversation), stop)))

    def _show_action(self, conversation: int) -> Action:
        return ("Show Conversation", partial(self._current.open, conversation))

    def _update_busy(self) -> None:
        if self.busy != self._busy:
            self._busy = self.busy
            self.busy_changed.emit(self._busy)

    # --- events of the engine ------------------------------------------------------------------

    def _load_pair(self) -> None:
        """Loads the models of the open conversation, unless others are in use or they have failed to load."""
        pair = self.conversation.settings.pair
        failure = self.host.failure
        if self.in_use:
            self._load_later = self.host.pair != pair
        elif failure is None or failure.pair != pair:
            self._load_later = False
            self.host.load(pair)
        self._update_status()

    def _handle_loaded(self, loaded: Loaded) -> None:
        self.pair_loaded.emit(loaded)
        self._counter.schedule()

    def _handle_load_failure(self, pair: Pair, reason: str) -> None:
        if self._verification.handle_load_failure(pair, reason):
            return
        self._update_status()
        self.notice.emit(Notice("error", reason, (("Try Again", partial(self._load_again, pair)),)))

    def _load_again(self, pair: Pair) -> None:
        self.host.failure = None
        if self._runner.reply is None:
            self.host.load(pair)

    def _handle_death(self, cause: str) -> None:
        """Reports the death of the host. A reply that it interrupted has ended by now."""
        cut, self._cut = self._cut, None
        copy: Action = ("Copy Report", self.host.copy_error_report)
        if cut is not None:
            resume: Action = ("Continue", partial(self._resume_cut, cut))
            text = f"The engine {cause} while writing a reply. The text so far is saved."
            self.notice.emit(Notice("error", text, (resume, copy)))
        elif not self.host.gave_up and cause != RESTARTED:
            self.notice.emit(Notice("warning", f"The engine {cause} and is restarting.", (copy,)))

    def _resume_cut(self, record: MessageRecord) -> None:
        if self.conversation.id == record.conversation or self._current.open(record.conversation):
            self._current.resume(record.id)

    def _update_status(self, _: object = None) -> None:
        """Sets the status for the open conversation, whose models may not be those that are loaded."""
        status, settings = self.host.status, self.conversation.settings
        failure, pair = self.host.failure, self.host.pair
        if failure is not None and failure.pair == settings.pair and self.host.ready:
            status = SpeculationStatus("unsupported", detail=failure.reason)
        elif pair is not None and pair != settings.pair:
            detail = "Other models are loaded. Those of this conversation load when you write."
            status = SpeculationStatus("off", detail=detail)
        elif status.state == "on" and settings.sampling.draft_length == 0:
            status = SpeculationStatus("off", status.target, status.drafter, "The draft length is 0.")
        if status != self._status:
            self._status = status
            self.status_changed.emit(status)

    def _messages_to_count(self) -> tuple[Message, ...] | None:
        """Returns what the next message would send, if the loaded models can count it."""
        settings = self.conversation.settings
        if self.busy or not self.host.has(settings.pair):
            return None
        branch = list(self._current.path)
        if self._draft.content.strip():
            branch.append(self._draft)
        return messages_of(settings.system, branch)
