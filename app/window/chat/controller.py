"""Everything the window can do, without widgets: slots for what the user does, signals for what happens.

One conversation is open; a new one is not on disk until a message is sent in it. In each conversation one reply is
written at a time; several conversations have theirs at once.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace as replace_fields
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from app.protocol import Count, Pair, RoundDone, SamplingSettings
from app.reply_history import ReplyHistory
from app.store import Store
from app.store.records import (
    UNTITLED,
    Attachment,
    ChatSettings,
    ContextTrim,
    ConversationRecord,
    MessageRecord,
    Role,
    StoredReceipt,
    draft_of,
    messages_of,
)
from app.window.chat.chat_pair import ChatPair
from app.window.chat.context_trimmer import ContextTrimmer
from app.window.chat.conversation_deletion import ConversationDeletion
from app.window.chat.conversation_import import ConversationImport
from app.window.chat.conversation_library import LAST_OPEN, ConversationLibrary, title_of
from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import RESTARTED, HostProcess
from app.window.chat.notices import Action, Notice
from app.window.chat.reply_controller import QUIT_NOTE, ReplyController
from app.window.chat.reply_verification import ReplyVerification

UNSAVED = 0  # the id of a conversation that is not on disk
SAME_AGAIN = (
    "At temperature 0 this model always writes the same reply. Choose a higher temperature in the chat settings to get "
    "another one."
)
NO_ROUNDS = "This reply cannot be continued, because the record of its tokens is lost. Regenerate it instead."


class Controller(QObject):
    """Carries out what the user does and emits what happens to the open conversation; its parts emit the rest.

    library: conversations, presets and values on disk. host: the connection to the engine. conversation: the open one;
    its id is 0 until a message is sent in it. path: its current branch. pair: its models. replies: those that are being
    written, and how. verification: of a reply. trimmer: what goes on where the context is full. deletion: deletes
    conversations and restores them. importing: imports files of them. learned: earlier replies to draft from.
    """

    conversation_opened = Signal(object)  # ConversationRecord
    settings_changed = Signal(object)  # ConversationRecord
    path_changed = Signal(object)  # list[MessageRecord], the listener's to keep
    reply_began = Signal(object)  # MessageRecord; also where the reply is shown again
    reply_ended = Signal(object)  # MessageRecord
    busy_changed = Signal(bool)  # whether a reply of the open conversation is being written
    question_sent = Signal()  # the one that waited for `send_trimmed`
    notice = Signal(object)  # Notice, of any part

    def __init__(
        self,
        store: Store,
        process: HostProcess,
        parent: QObject | None = None,
        history: ReplyHistory | None = None,
    ) -> None:
        super().__init__(parent)
        self.library = library = ConversationLibrary(store, self)
        self.host = host = HostConnection(process, self)
        self.conversation = _unsaved(library.default_settings())
        self.path: list[MessageRecord] = []
        self.replies = ReplyController(host, library, self)
        self.learned = history
        self.verification = ReplyVerification(host, lambda: self.in_use, self._save_receipt, self.verify, self)
        self.trimmer = ContextTrimmer(host, self)
        self._waiting_question: tuple[int | None, str, tuple[Attachment, ...]] = (None, "", ())  # for the trimmer
        self.pair = ChatPair(host, lambda: self.conversation.settings, lambda: self.in_use, self._count_request, self)
        self.deletion = ConversationDeletion(library, history, self._leave, self.open, self)
        self.importing = ConversationImport(store, self)
        self._was_busy = False
        self._connect()

    def _connect(self) -> None:
        library, replies, verification = self.library, self.replies, self.verification
        for part in (library, self.host, replies, verification, self.pair, self.deletion, self.importing):
            part.notice.connect(self.notice)
        library.latest, library.held = replies.latest, replies.held
        library.changed.connect(self._refresh_record)
        library.updated.connect(self._handle_update)
        replies.changed.connect(self._handle_change)
        replies.ended.connect(self._handle_reply_ended)
        verification.verified.connect(self._replace)
        verification.ended.connect(self.pair.load)
        self.pair.use_alone_asked.connect(self._use_alone)
        self.trimmer.found.connect(self._send_with)
        self.trimmer.failed.connect(self._handle_trim_failure)
        self.host.load_failed.connect(self._handle_load_failure)
        self.host.died.connect(self._handle_death)
        self.importing.imported.connect(self._show_imported)

    # --- start and end -------------------------------------------------------------------------

    def open_last(self) -> None:
        """Opens the conversation that was open when the window closed, or a new one."""
        last = self.library.value(LAST_OPEN) or ""
        if not (last.isdecimal() and self._open_saved(int(last))):
            self.new()

    def start(self) -> None:
        """Starts the engine; everything else can be used before it answers."""
        self.host.start()

    def close(self) -> None:
        """Saves everything and ends the engine, within two seconds."""
        self.replies.finish(QUIT_NOTE)
        self.replies.save()
        self.importing.cancel()
        self.host.process.quit()
        if self.learned is not None:
            self.library.attempt(self.learned.purge, None)
        self.library.close()

    def set_learning(self, on: bool) -> None:
        """Has drafts copy from earlier replies, or not; then what was learned is deleted. So is what belongs to
        conversations that are gone."""
        history = self.learned
        self.replies.history = history if on else None
        if history is not None:
            known = {record.id for record in self.library.conversations()}
            self.library.attempt(partial(history.keep, known) if on else history.clear, None)

    # --- state ---------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a reply of the open conversation, or a summary of it, is being written."""
        return self.trimmer.active or self.replies.of_conversation(self.conversation.id) is not None

    @property
    def in_use(self) -> bool:
        """Whether a reply, a verification or a race is in progress, in any conversation."""
        decodes = bool(self.replies.running) or self.verification.message is not None
        return decodes or self.host.racing or self.trimmer.active

    def find(self, message: int) -> MessageRecord | None:
        """Returns a message of the current branch."""
        return next((record for record in self.path if record.id == message), None)

    def last(self, role: Role) -> MessageRecord | None:
        """Returns the last message of the current branch by the user or the assistant."""
        return next((record for record in reversed(self.path) if record.role == role), None)

    def path_to(self, message: int | None) -> list[MessageRecord]:
        """Returns the current branch up to this message, which is included; nothing where it is not on the branch."""
        ids = [record.id for record in self.path]
        return self.path[: ids.index(message) + 1] if message in ids else []

    def rounds_of(self, message: int) -> list[RoundDone]:
        """Returns the rounds of a reply, the newest included; none where they are damaged, and a notice says so."""
        reply = self.replies.reply_of(message)
        reply.read()
        return reply.rounds

    def _count_request(self, draft: MessageRecord) -> Count | None:
        """Returns the request to count the next message, of which `draft` is typed; None during a reply."""
        if self.busy:
            return None
        settings, history = self.conversation.settings, self.replies.history
        path = [*self.path, *([draft] if draft.content.strip() else [])]
        cache = history.written_cache_file(self.conversation.id) if history is not None else ""
        return Count(id=0, messages=messages_of(settings.system, path), sampling=settings.sampling, cache=cache)

    # --- messages ------------------------------------------------------------------------------

    def send(self, text: str, attachments: Sequence[Attachment] = ()) -> bool:
        """Sends a message at the end of the branch. Returns False where it was not taken; a notice says why."""
        if not text.strip() and not attachments:
            return False
        last = self.path[-1] if self.path else None
        # A question that never got its reply stays as another version of this one.
        parent = last.parent if last is not None and last.role == "user" else last.id if last is not None else None
        sent = self._ask(parent, text, tuple(attachments), partial(self.send, text, attachments))
        if sent:
            self.pair.set_draft("")
        return sent

    def send_trimmed(self, text: str, attachments: Sequence[Attachment], summarize: bool) -> None:
        """Sends a message although the context is full, with the last messages that fit before it and, to `summarize`,
        what the model writes about the others. `question_sent` is emitted once it is sent; a notice says why not."""
        if self._refuse_second_reply() or self.trimmer.active or not (text.strip() or attachments):
            return
        last = self.path[-1] if self.path else None
        before = self.path[:-1] if last is not None and last.role == "user" else self.path
        self._waiting_question = (before[-1].id if before else None, text, tuple(attachments))
        self.pair.cancel_count()
        self.trimmer.begin(self.conversation.settings, before, draft_of(text, tuple(attachments)), summarize)
        self._update_busy()

    def _send_with(self, trim: ContextTrim) -> None:
        """Sends the question that waited."""
        parent, text, attachments = self._waiting_question
        retry = partial(self.send_trimmed, text, attachments, bool(trim.summary))
        if (parent is None or self.find(parent)) and self._ask(parent, text, attachments, retry, trim):
            self.question_sent.emit()
        self._update_busy()

    def _handle_trim_failure(self, why: str) -> None:
        self.notice.emit(Notice("warning", why))
        self._update_busy()

    def edit(self, message: int, text: str) -> bool:
        """Sends another version of a question, with the same attachments; or adds a version of a reply with this text.
        Returns whether it was taken."""
        record = self.find(message)
        if record is None or not (text.strip() or record.attachments):
            return False
        if record.role == "assistant":
            if self._refuse_while_busy():
                return False
            edited = self.library.change(lambda: self.library.store.add_edited_reply(message, text))
            self._reload()
            return edited
        return self._ask(record.parent, text, record.attachments, partial(self.edit, message, text))

    def regenerate(self, message: int, again: bool = False) -> bool:
        """Has another version of a reply written, or the reply to a question that has none. One that would be the same
        is written only `again`, if the user still wants it."""
        record = self.find(message)
        if record is None or self._refuse_second_reply():
            return False
        question = record if record.role == "user" else self.find(record.parent or 0)
        if question is None:
            return False
        if not again and _repeats(record, self.conversation.settings):
            anyway: Action = ("Write It Again", partial(self.regenerate, message, again=True))
            self.notice.emit(Notice("info", SAME_AGAIN, (anyway,)))
            return False
        return self._answer(question)

    def resume(self, message: int) -> bool:
        """Continues the last reply, where it was stopped or interrupted, with the sampling settings and system prompt
        that it began with."""
        record = self.find(message)
        if record is None or record.role != "assistant" or self._refuse_second_reply():
            return False
        if record.id != self.path[-1].id or (record.state == "complete" and not record.note):
            text = "Only the last reply can be continued, and only if it was interrupted."
            self.notice.emit(Notice("info", text))
            return False
        reply = self.replies.reply_of(message)
        reply.read()  # now, as the store compares the rounds with the text only where a reply does not stream
        if not reply.rounds and (record.text or record.thought):
            self.notice.emit(Notice("info", NO_ROUNDS))
            return False
        retry: Action = ("Try Again", partial(self.resume, message))
        resumed = self.library.attempt(lambda: self.library.store.resume_reply(message), None, (retry,))
        if resumed is None:
            return False
        sampling = resumed.sampling  # noise of its seed may have been used for drafts that were lost
        sampling = (
            replace_fields(sampling, fresh=False) if sampling else _with_seed(self.conversation.settings.sampling)
        )
        self._begin_reply(replace(resumed, sampling=sampling), self._pair_to_resume(resumed))
        return True

    def stop(self) -> None:
        """Stops the reply of the open conversation; its text so far stays. Or the summary of one."""
        if self.trimmer.active:
            self.trimmer.stop()
        else:
            self.replies.stop(self.conversation.id)

    def select(self, message: int) -> None:
        """Switches to the branch of another version of a message."""
        if self.library.change(lambda: self.library.store.select(message)):
            self._reload()

    def delete_version(self, message: int) -> None:
        """Deletes one version of a message and what follows it, until that is undone or the window closes."""
        record = self.find(message)
        if record is None or self._refuse_while_busy():
            return
        store = self.library.store
        place = self.library.attempt(lambda: store.delete_version(message), None)
        if place is None:
            return

        def restore() -> bool:
            restored = self.library.change(lambda: store.restore_version(place, record))
            if self.conversation.id == record.conversation:
                self._reload()
            return restored

        self._reload()
        self.deletion.offer(f"Version {record.version} of {record.versions} was deleted.", restore)

    def _refuse_while_busy(self) -> bool:
        """Says that a reply of this conversation has to end before its messages change, if one is being written."""
        if self.busy:
            self.notice.emit(Notice("info", "Wait for the reply to end, or stop it, then try again."))
        return self.busy

    def verify(self, message: int) -> bool:
        """Compares a reply with plain decoding and saves the receipt; stops where that is in progress. Returns whether
        a verification has begun."""
        if self.verification.message == message:
            self.verification.stop()
            return False
        return self.verification.begin(self.path_to(message), self.rounds_of, self.conversation.settings)

    def _save_receipt(self, message: int, receipt: StoredReceipt) -> MessageRecord | None:
        return self.library.attempt(lambda: self.library.store.save_receipt(message, receipt), None)

    def _ask(
        self,
        parent: int | None,
        text: str,
        attachments: tuple[Attachment, ...],
        retry: Callable[[], object],
        trim: ContextTrim | None = None,
    ) -> bool:
        """Adds a question after `parent` and has it answered; returns whether it was saved."""
        if self._refuse_second_reply():
            return False

        def add_question() -> MessageRecord:
            self._save_conversation(title_of(text) or (attachments[0].name if attachments else ""))
            return self.library.store.add_question(self.conversation.id, parent, text, attachments, trim)

        question = self.library.attempt(add_question, None, (("Try Again", retry),))
        if question is None:
            return False
        self._show([*self.path_to(parent), question])
        self._answer(question)
        return True

    def _answer(self, question: MessageRecord) -> bool:
        """Begins a reply to a question of the branch; returns whether the store has taken it."""
        settings = self.conversation.settings
        pair, sampling = settings.pair, _with_seed(settings.sampling)
        reply = self.library.attempt(
            lambda: self.library.store.begin_reply(self.conversation.id, question.id, pair, sampling, settings.system),
            None,
            (("Try Again", partial(self.regenerate, question.id)),),
        )
        if reply is None:
            return False
        branch = self.path_to(question.id)
        if len(branch) < len(self.path):
            self._show(branch)
        self._begin_reply(reply, pair)
        return True

    def _begin_reply(self, reply: MessageRecord, pair: Pair) -> None:
        before = [record for record in self.path if record.id != reply.id]
        system = self.conversation.settings.system if reply.system is None else reply.system
        self.path = [*before, reply]
        self.verification.stop()
        self.pair.cancel_count()
        self.replies.begin(reply, pair, messages_of(system, before))
        self.reply_began.emit(reply)
        self._update_busy()
        self.library.report(reply.conversation)

    def _pair_to_resume(self, reply: MessageRecord) -> Pair:
        """Returns the pair that began a reply, but with today's drafter: an earlier one may be why it was interrupted,
        and the text is the target's with either."""
        pair = self.conversation.settings.pair
        return pair if reply.pair is None or reply.pair.target == pair.target else reply.pair

    def _refuse_second_reply(self) -> bool:
        """Returns whether another reply is being written in the open conversation, which a notice says."""
        if self.replies.of_conversation(self.conversation.id) is None:
            return False
        stop: Action = ("Stop Reply", partial(self.replies.stop, self.conversation.id))
        text = "A reply is still being written. Wait for it to finish, or stop it first."
        self.notice.emit(Notice("info", text, (stop,)))
        return True

    # --- conversations and settings ------------------------------------------------------------

    def new(self) -> None:
        """Opens an empty conversation with the settings used last, which is saved once a message is sent in it."""
        self._open(_unsaved(self.library.default_settings()))

    def open(self, conversation: int) -> None:
        """Opens a conversation."""
        if conversation != UNSAVED and not self._open_saved(conversation):
            self.notice.emit(Notice("warning", "This conversation no longer exists."))

    def import_file(self, path: str) -> None:
        """Imports the conversations of an export, in the background; the newest is opened then."""
        self.importing.begin(Path(path))

    def _show_imported(self, conversations: list[int]) -> None:
        self.library.changed.emit()
        if len(conversations) > 1:
            self.notice.emit(Notice("info", f"{len(conversations):,} conversations were imported."))
        self._open_saved(conversations[0])

    def change_settings(self, settings: ChatSettings) -> None:
        """Changes the settings of the open conversation and, but for its system prompt, of new ones."""
        conversation = self.conversation.id
        if conversation == UNSAVED:
            self.conversation = _unsaved(settings)
        elif not self.library.change(lambda: self.library.store.change_settings(conversation, settings)):
            return
        system = self.library.default_settings().system
        self.library.set_default_settings(replace(settings, system=system))
        self.settings_changed.emit(self.conversation)
        self.pair.load()
        self.pair.schedule_count()

    def _use_alone(self, pair: Pair) -> None:
        """Has the open conversation use no other machines, if it still would use these."""
        settings = self.conversation.settings
        if settings.pair == pair:
            self.change_settings(replace(settings, pair=replace(pair, hosts="")))

    def _leave(self, conversation: int) -> bool:
        """Stops the reply in a conversation and opens another, if that one is open; returns whether it was."""
        self.replies.stop(conversation)
        if conversation != self.conversation.id:
            return False
        self.new()
        return True

    def _open_saved(self, conversation: int) -> bool:
        """Opens a conversation; returns whether it exists."""
        record = self.library.find(conversation)
        if record is not None:
            self._open(record)
        return record is not None

    def _open(self, record: ConversationRecord) -> None:
        self.trimmer.stop()
        self.conversation = record
        self.library.set_value(LAST_OPEN, str(record.id))
        self.pair.cancel_count()
        self.conversation_opened.emit(record)
        self.pair.update_status()
        self._reload()

    def _save_conversation(self, title: str) -> None:
        """Makes sure that the conversation is on disk and has a title. Raises StoreError."""
        if self.conversation.id == UNSAVED:
            self.conversation = self.library.store.create(self.conversation.settings)
            self.library.set_value(LAST_OPEN, str(self.conversation.id))
        if title and not self.conversation.title:
            self.library.store.rename(self.conversation.id, title)
        self._refresh_record()

    def _refresh_record(self) -> None:
        """Reads the record again, whose title or settings may have changed."""
        if self.conversation.id != UNSAVED:
            self.conversation = self.library.find(self.conversation.id) or self.conversation

    def _reload(self) -> None:
        """Shows the branch as the store has it, with what is not saved yet."""
        stored: list[MessageRecord] = []
        if self.conversation.id != UNSAVED:
            stored = self.library.attempt(lambda: self.library.store.path(self.conversation.id), [])
        self._show([self.replies.latest(record) for record in stored])

    def _show(self, path: list[MessageRecord]) -> None:
        self.path = path
        self.path_changed.emit(list(path))
        current = self.replies.of_conversation(self.conversation.id)
        if current is not None and (shown := self.find(current.record.id)):
            self.reply_began.emit(shown)
        self._update_busy()
        self.pair.schedule_count()

    # --- events --------------------------------------------------------------------------------

    def _handle_update(self, record: ConversationRecord) -> None:
        if record.id == self.conversation.id:
            self.conversation = record

    def _handle_change(self, message: int, _: object) -> None:
        """Counts how much of the context the reply has taken."""
        pair = self.host.loaded
        if pair is not None and self.find(message) is not None:
            metrics = self.replies.reply_of(message).metrics
            self.pair.counted.emit(metrics.prompt_tokens + metrics.tokens, pair.context)

    def _handle_reply_ended(self, record: MessageRecord) -> None:
        if self._replace(record):
            self.reply_ended.emit(record)
        elif record.conversation != self.conversation.id and record.state in ("complete", "failed"):
            self._report_reply_elsewhere(record)
        self._update_busy()
        self.library.report(record.conversation)
        self.pair.schedule_count()
        self.pair.load_if_waiting()

    def _replace(self, record: MessageRecord) -> bool:
        """Puts a record in place of its older state; returns whether it is on the branch."""
        shown = self.find(record.id) is not None
        self.path = [record if older.id == record.id else older for older in self.path]
        return shown

    def _report_reply_elsewhere(self, record: MessageRecord) -> None:
        """Reports that a reply in another conversation has ended."""
        found = self.library.find(record.conversation)
        if found is not None:
            outcome = "is complete." if record.state == "complete" else f"failed: {record.note}"
            text = f"The reply in “{found.title or UNTITLED}” {outcome}"
            self.notice.emit(Notice("info", text, (self._show_action(record.conversation),)))

    def _show_action(self, conversation: int) -> Action:
        return ("Show Conversation", partial(self._open_saved, conversation))

    def _update_busy(self) -> None:
        if self.busy != self._was_busy:
            self._was_busy = self.busy
            self.busy_changed.emit(self._was_busy)

    def _handle_load_failure(self, pair: Pair, reason: str) -> None:
        if not self.verification.handle_load_failure(pair, reason):
            self.pair.handle_load_failure(pair, reason)

    def _handle_death(self, cause: str) -> None:
        """Reports the death of the host, and a reply that it interrupted, which can be continued."""
        cut = [one for one in self.replies.handle_death(cause) if self.library.find(one.conversation) is not None]
        copy: Action = ("Copy Report", self.host.copy_error_report)
        for record in cut:
            found = self.library.find(record.conversation)
            where = f"the reply in “{found.title or UNTITLED}”" if found is not None and len(cut) > 1 else "a reply"
            resume: Action = ("Continue", partial(self._resume_cut, record))
            text = f"The engine {cause} while writing {where}. The text so far is saved."
            self.notice.emit(Notice("error", text, (resume, copy)))
        if not cut and not self.host.gave_up and cause != RESTARTED:
            self.notice.emit(Notice("warning", f"The engine {cause} and is restarting.", (copy,)))

    def _resume_cut(self, record: MessageRecord) -> None:
        if self.conversation.id == record.conversation or self._open_saved(record.conversation):
            self.resume(record.id)


def _unsaved(settings: ChatSettings) -> ConversationRecord:
    return ConversationRecord(id=UNSAVED, title="", pinned=False, created_s=0.0, updated_s=0.0, settings=settings)


def _repeats(record: MessageRecord, settings: ChatSettings) -> bool:
    """Returns whether these settings would write the same reply again: both are greedy and differ in nothing that
    shapes the text."""
    before, now = record.sampling, settings.sampling
    if record.state != "complete" or before is None or record.pair is None or not (before.greedy and now.greedy):
        return False
    same_model = record.pair.target == settings.pair.target and (record.system or "") == settings.system
    return same_model and _shape(before) == _shape(now)


def _shape(sampling: SamplingSettings) -> SamplingSettings:
    """Returns the settings without those that leave a greedy text as it is."""
    return replace_fields(sampling, seed=None, fresh=False, acceptance="rejection", draft_length=None)


def _with_seed(sampling: SamplingSettings) -> SamplingSettings:
    """Returns the settings with a seed, so that a reply that is interrupted can be continued with the same one."""
    return (
        sampling if sampling.seed is not None else replace_fields(sampling, seed=secrets.randbelow(2**31), fresh=True)
    )
