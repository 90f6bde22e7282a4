"""Has replies written and saved, one in each conversation: requests a reply once its pair is loaded, and sees it
through. Replies of other models than the loaded ones wait until those are done with what was asked before.

What a frame brought of a reply is on disk before anyone is told. Where the disk refuses, it is shown with a notice, and
saving is tried again. A reply that the host has ended is shown whole, saved, and reported in turns of the event loop of
their own; killed in between, it is marked as cut, with all of its text.
"""

from concurrent.futures import Future, wait
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import partial
from weakref import WeakValueDictionary

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from app.protocol import (
    AnyAnswer,
    Failed,
    FellBack,
    Message,
    Pair,
    PrefillProgress,
    ReplyDone,
    RoundDone,
    Waiting,
)
from app.protocol import Reply as ReplyRequest
from app.reply import InconsistentRound, Reply, ReplyLog
from app.reply_history import ReplyHistory
from app.reply_statistics import drafting_in_words
from app.store.records import (
    CONTEXT_FULL,
    LENGTH_REACHED,
    THOUGHT_REACHED,
    UNANSWERED,
    Ending,
    MessageRecord,
    State,
)
from app.window.chat.conversation_library import ConversationLibrary
from app.window.chat.host_connection import HostConnection, HostTask
from app.window.chat.notices import Notice
from app.window.common.sentence import sentence
from app.window.common.timer import Timer, call_later

QUIT_NOTE = "Redline quit while writing this reply."
RETRY_MS = 1000  # from one attempt to save what the disk refused to the next
LONG = 1_000_000  # characters of a reply that is saved in a thread: they may be 4 MB, for which the disk takes 40 ms
SAVING_MS = 10  # from one look whether it is saved to the next
LATE_STOP = "The engine has not stopped yet. Restarting it ends the reply; the text so far is saved."
OTHER_MODEL_FIRST = "Waiting for a reply of another model"
END_NOTES = {"length": LENGTH_REACHED, "thought": THOUGHT_REACHED, "context": CONTEXT_FULL}


@dataclass(eq=False)
class ReplyInProgress:
    """record: the message as it was when it began, with what is known of how it is made. pair, messages: that write it,
    and that it answers. task: its request. note: what the user should know about the reply. ending: how it ends, once
    that is known. saving: its end, while a thread writes it."""

    record: MessageRecord
    reply: Reply
    pair: Pair
    messages: tuple[Message, ...]
    task: HostTask
    note: str = ""
    ending: Ending | None = None
    saving: Future[MessageRecord] | None = None

    def so_far(self) -> MessageRecord:
        """Returns the message with its text so far."""
        return replace(self.record, text=self.reply.answer_since(0), thought=self.reply.thought, note=self.note)

    def ending_of(self, state: State, note: str, tail: str, seed: int | None) -> Ending:
        """Returns how the reply ends. tail: text at its end that belongs to no token."""
        sampling = self.record.sampling
        if sampling is not None and seed is not None:
            sampling = replace_fields(sampling, seed=seed)
        return Ending(
            state=state,
            statistics=self.reply.statistics,
            note=" ".join(part for part in (self.note, note) if part),
            sampling=sampling,
            tail=tail,
            prompt=self.record.prompt,
        )


class ReplyController(QObject):
    """Requests replies, receives them and saves them.

    running: those that are being written or wait for that, in the order in which they began. times_phases: whether the
    next one measures draft and verify apart. history: earlier replies, which the next one is drafted from and added to;
    None for none.
    """

    changed = Signal(int, object)  # a message, Change: what was added to its reply, which is on disk
    progress = Signal(int, object)  # a message, PromptProgress
    waiting = Signal(int, str)  # a message, why its reply does not begin yet
    ended = Signal(object)  # MessageRecord, as it was saved or should have been
    running_changed = Signal()
    notice = Signal(object)  # Notice

    def __init__(self, host: HostConnection, library: ConversationLibrary, parent: QObject) -> None:
        super().__init__(parent)
        self.running: list[ReplyInProgress] = []
        self.times_phases = False
        self.history: ReplyHistory | None = None
        self._host, self._library = host, library
        self._log = ReplyLog(library.store)
        self._retry = Timer(self, interval=RETRY_MS)
        self._retry.timeout.connect(self.save)
        self._replies: WeakValueDictionary[int, Reply] = WeakValueDictionary()  # that somebody looks at
        self._unsaved: dict[int, tuple[MessageRecord, Reply]] = {}  # replies that have ended, but not on disk
        host.load_failed.connect(self._handle_load_failure)
        host.frame_ended.connect(self._show_change)

    def of_conversation(self, conversation: int) -> ReplyInProgress | None:
        """Returns the reply that is being written in a conversation, or waits for that."""
        return next((one for one in self.running if one.record.conversation == conversation), None)

    def conversations(self) -> set[int]:
        """Returns the conversations in which a reply is being written, or waits for that."""
        return {one.record.conversation for one in self.running}

    def reply_of(self, message: int) -> Reply:
        """Returns a reply, the same to all who look at it: the one that is being written, or one that is stored."""
        reply = self._replies.get(message)
        if reply is None:
            reply = self._replies[message] = Reply(self._library.iterate_rounds(message))
        return reply

    def begin(self, record: MessageRecord, pair: Pair, messages: tuple[Message, ...]) -> None:
        """Has `pair` write `record`, or continue it."""
        assert self.of_conversation(record.conversation) is None
        reply = self.reply_of(record.id)
        reply.read()
        reply.resume(record)
        task = HostTask(self._host, self._host.silence, LATE_STOP, alone=False)
        current = ReplyInProgress(record, reply, pair, messages, task)
        self.running.append(current)
        task.begin(partial(self._make_request, current), partial(self._receive, current))
        self.running_changed.emit()

    def stop(self, conversation: int) -> None:
        """Stops the reply in a conversation, as the user asked for it."""
        current = self.of_conversation(conversation)
        if current is not None and not current.task.stop():
            self._end(current, "stopped")

    def finish(self, note: str, conversation: int | None = None) -> None:
        """Ends the reply in a conversation, or all replies, without waiting for the host."""
        for current in list(self.running):
            if conversation in (None, current.record.conversation):
                current.task.stop()
                self._end(current, "stopped", note)

    def save(self) -> bool:
        """Saves what the disk has refused, as far as it takes it now. Returns whether everything is saved."""
        for message in self._log.retry():
            self._unsaved.pop(message, None)
        self._report_saving()
        return not self._log.holds_any

    def unsaved(self) -> list[int]:
        """Returns the conversations with a reply that is not on disk, or not all of it."""
        records = [record for record, _ in self._unsaved.values()]
        records += [one.record for one in self.running if self._log.held(one.record.id)]
        return list(dict.fromkeys(record.conversation for record in records))

    def held(self, message: int) -> list[RoundDone]:
        """Returns the rounds of a reply that are not on disk."""
        return self._log.held(message)

    def latest(self, record: MessageRecord) -> MessageRecord:
        """Returns a message with what the store does not know of it."""
        current = self.of_conversation(record.conversation)
        if current is not None and current.record.id == record.id:
            return current.so_far()
        return self._unsaved[record.id][0] if record.id in self._unsaved else record

    # --- the request and its answers -----------------------------------------------------------

    def _make_request(self, current: ReplyInProgress) -> ReplyRequest | None:
        """Returns the request; None while it is not its turn, or its pair has to be loaded first."""
        earlier = self.running[: self.running.index(current)]
        if not all(one.task.sent for one in earlier):
            return None
        if not self._host.has(current.pair):
            if earlier:
                self.waiting.emit(current.record.id, OTHER_MODEL_FIRST)
            else:
                self._host.load(current.pair)
            return None
        sampling = current.record.sampling
        assert sampling is not None
        self._host.show_pair_status()
        return ReplyRequest(
            id=0,
            messages=current.messages,
            sampling=sampling,
            continuation_ids=current.reply.tokens,
            timed=self.times_phases,
            history="" if self.history is None else str(self.history.folder),
            cache="" if self.history is None else self.history.cache_file(current.record.conversation),
        )

    def _receive(self, current: ReplyInProgress, answer: AnyAnswer) -> None:
        if isinstance(answer, RoundDone):
            try:
                current.reply.add(answer)
            except InconsistentRound as error:
                self._reject(current, str(error))
        elif isinstance(answer, PrefillProgress):
            current.reply.add_progress(answer.progress)
            self.progress.emit(current.record.id, answer.progress)
        elif isinstance(answer, Waiting):
            self.waiting.emit(current.record.id, sentence(answer.reason).rstrip("."))
        elif isinstance(answer, FellBack):
            current.note = sentence(f"Fell back to plain decoding: {answer.reason}")
            self._host.show_reply_status("fell back", answer.reason)
        elif isinstance(answer, ReplyDone):
            self._handle_done(current, answer)
        elif isinstance(answer, Failed):
            stopped = answer.kind == "Cancelled"
            self._end_soon(current, "stopped" if stopped else "failed", "" if stopped else sentence(answer.message))
        else:
            self._reject(current, f"it answered a reply with {type(answer).__name__}")

    def _show_change(self, *replies: ReplyInProgress) -> None:
        """Saves what has come of these replies, and then shows it; of all that are being written, unless a thread saves
        the end of one: what comes meanwhile is shown after it."""
        waits = not replies and self._is_saving()
        for current in () if waits else replies or list(self.running):
            change = current.reply.take_change()
            if rounds := current.reply.rounds[change.first_round :]:
                if self._host.status.state == "loading":
                    self._host.show_pair_status()  # what was served before the reply is over
                self._log.append(current.record.id, rounds)
                self._report_saving()
                self.changed.emit(current.record.id, change)

    def _is_saving(self) -> bool:
        return any(one.saving is not None for one in self.running)

    def _handle_done(self, current: ReplyInProgress, answer: ReplyDone) -> None:
        current.reply.plain_s = answer.plain_s or current.reply.plain_s
        if answer.sampling is not None:
            current.record = replace(current.record, sampling=answer.sampling)
        if not current.record.prompt:  # of a continued reply, the prompt of its first part stays
            current.record = replace(current.record, prompt=answer.prompt_digest)
        self._show_drafting(current.reply)
        reason = answer.finished.reason
        state: State = "stopped" if reason == "cancelled" else "complete"
        note = END_NOTES.get(reason, "")
        if reason in ("length", "context", "eos") and current.reply.thinks:
            note = f"{note} {UNANSWERED}".strip()
        self._end_soon(current, state, note, answer.finished.text, answer.seed)

    def _show_drafting(self, reply: Reply) -> None:
        """Has the status say why nothing or little was drafted for a reply, where something was to be."""
        status, words = self._host.status, drafting_in_words(reply.metrics)
        if words and status.state == "on":
            self._host.set_status(replace_fields(status, detail=sentence(f"In the last reply {words}")))

    def _reject(self, current: ReplyInProgress, why: str) -> None:
        """Ends the reply here: what followed would not be what the model wrote."""
        current.task.stop()
        note = f"The engine sent inconsistent data ({why}). The reply is saved up to that point."
        self.notice.emit(Notice("error", note, (self._host.restart_action,)))
        self._end_soon(current, "failed", note)

    def _end_soon(
        self, current: ReplyInProgress, state: State, note: str = "", tail: str = "", seed: int | None = None
    ) -> None:
        """Ends a reply in the next turns; this one shows its last frame."""
        current.ending = current.ending_of(state, note, tail, seed)
        current.task.end()
        call_later(self, partial(self._save_end, current.record.id))

    def _save_end(self, message: int) -> None:
        """Saves how a reply ends, that of a long one in a thread, and ends it once it is saved."""
        current = next((one for one in self.running if one.record.id == message), None)
        if current is None:
            return
        if current.saving is None and not self._is_saving():
            self._show_change(current)
            assert current.ending is not None
            if len(current.reply.text) >= LONG:
                current.saving = self._log.begin_end(message, current.ending)
            if current.saving is None:
                self._end(current)
                return
        if current.saving is not None and current.saving.done():
            self._end(current)
        else:
            call_later(self, partial(self._save_end, message), SAVING_MS)

    def _end(self, current: ReplyInProgress, state: State = "stopped", note: str = "") -> MessageRecord:
        """Ends a reply now: as it is known to end, else like this. Returns its message as it stays."""
        wait(one.saving for one in self.running if one.saving is not None)
        if current.saving is None:
            self._show_change(current)
        self.running.remove(current)
        current.task.end()
        ending = current.ending or current.ending_of(state, note, "", None)
        record = self._log.end(current.record.id, ending, current.saving)
        self._report_saving()
        if record is None:
            record = _as_ended(current, ending)
            self._unsaved[record.id] = record, current.reply
        else:
            self._learn(record, current)
        self.running_changed.emit()
        self.ended.emit(record)
        call_later(self, self._host.send_waiting)
        return record

    def _learn(self, record: MessageRecord, current: ReplyInProgress) -> None:
        """Adds a reply that was saved to those that later ones are drafted from."""
        loaded = self._host.loaded
        if self.history is None or loaded is None or loaded.pair != current.pair:
            return
        if self._library.find(record.conversation) is not None:  # neither deleted nor gone
            self.history.add(loaded.vocabulary, record.conversation, record.id, current.reply.tokens)

    # --- failures and delays -------------------------------------------------------------------

    def _handle_load_failure(self, pair: Pair, reason: str) -> None:
        for current in list(self.running):
            if pair == current.pair and not current.task.sent:
                self._end(current, "failed", sentence(reason))

    def handle_death(self, cause: str) -> list[MessageRecord]:
        """Ends the replies, as the host has died, and returns the messages of those that it cut off. A reply that the
        host had not begun waits for the next host, if there will be one."""
        cut = []
        for current in list(self.running):
            began = current.task.sent
            if current.ending is not None or current.task.stopping:
                self._end(current, "stopped")
            elif began or self._host.gave_up:
                when = "while writing" if began else "before writing"
                cut.append(self._end(current, "cut", f"The engine {cause} {when} this reply."))
        return cut

    def _report_saving(self) -> None:
        """Reports the first failure in a row, and the end of them."""
        if self._log.holds_any and not self._retry.isActive():
            self._retry.start()
            why = f"The conversation could not be saved: {self._log.failure}."
            text = f"{why} You can keep chatting; Redline will keep trying."
            self.notice.emit(Notice("error", text, (("Try Now", self.save),)))
        elif self._retry.isActive() and not self._log.holds_any:
            self._retry.stop()
            self.notice.emit(Notice("info", "Saving is working again, and all pending changes have been saved."))


def _as_ended(current: ReplyInProgress, ending: Ending) -> MessageRecord:
    """Returns a message that could not be saved as it stays."""
    return replace(
        current.so_far(),
        text=current.reply.answer_since(0) + ending.tail,
        state=ending.state,
        note=ending.note,
        statistics=ending.statistics,
        sampling=ending.sampling,
    )
