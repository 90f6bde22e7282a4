"""Has replies written and saved, one at a time: requests a reply once its pair is loaded, and sees it through.

What a frame brought of a reply is on disk before anyone is told. Where the disk refuses, it is shown with a notice, and
saving is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as replace_fields
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
from app.window.common.timer import Timer

RETRY_MS = 1000  # from one attempt to save what the disk refused to the next
SERVED_FIRST = "The models are writing a reply for another app. Yours is next."
END_NOTES = {"length": LENGTH_REACHED, "thought": THOUGHT_REACHED, "context": CONTEXT_FULL}


@dataclass
class ReplyInProgress:
    """record: the message as it was when it began, with what is known of how it is made. note: what the user should
    know about the reply."""

    record: MessageRecord
    reply: Reply
    note: str = ""

    def so_far(self) -> MessageRecord:
        """Returns the message with its text so far."""
        return replace(self.record, text=self.reply.answer_since(0), thought=self.reply.thought, note=self.note)

    def ending(self, state: State, note: str, tail: str, seed: int | None) -> Ending:
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
    """Requests one reply at a time, receives it and saves it.

    current: the one that is being written. times_phases: whether the next one measures draft and verify apart. history:
    earlier replies, which the next one is drafted from and added to; None for none.
    """

    changed = Signal(int, object)  # a message, Change: what was added to its reply, which is on disk
    progress = Signal(int, object)  # a message, PromptProgress
    ended = Signal(object)  # MessageRecord, as it was saved or should have been
    notice = Signal(object)  # Notice

    def __init__(self, host: HostConnection, library: ConversationLibrary, parent: QObject) -> None:
        super().__init__(parent)
        self.current: ReplyInProgress | None = None
        self.times_phases = False
        self.history: ReplyHistory | None = None
        self._host, self._library = host, library
        self._log = ReplyLog(library.store)
        self._retry = Timer(self, interval=RETRY_MS)
        self._retry.timeout.connect(self.save)
        self._pair, self._messages = Pair(), tuple[Message, ...]()
        self._replies: WeakValueDictionary[int, Reply] = WeakValueDictionary()  # that somebody looks at
        self._unsaved: dict[int, tuple[MessageRecord, Reply]] = {}  # replies that have ended, but not on disk
        self._task = HostTask(host, self)
        self._task.answered.connect(self._receive)
        self._task.silent.connect(self._report_silence)
        host.load_failed.connect(self._handle_load_failure)
        host.frame_ended.connect(self._show_frame)

    def reply_of(self, message: int) -> Reply:
        """Returns a reply, the same to all who look at it: the one that is being written, or one that is stored."""
        reply = self._replies.get(message)
        if reply is None:
            reply = self._replies[message] = Reply(self._library.iterate_rounds(message))
        return reply

    def begin(self, record: MessageRecord, pair: Pair, messages: tuple[Message, ...]) -> None:
        """Has `pair` write `record`, or continue it."""
        assert self.current is None
        reply = self.reply_of(record.id)
        reply.read()
        reply.resume(record)
        self.current = ReplyInProgress(record, reply)
        self._pair, self._messages = pair, messages
        self._task.begin(self._make_request)

    def stop(self) -> None:
        """Stops the reply, as the user asked for it."""
        if not self._task.stop():
            self.finish("")

    def finish(self, note: str) -> None:
        """Ends the reply without waiting for the host."""
        self._end("stopped", note)

    def save(self) -> bool:
        """Saves what the disk has refused, as far as it takes it now. Returns whether everything is saved."""
        for message in self._log.retry():
            self._unsaved.pop(message, None)
        self._report_saving()
        return not self._log.holds_any

    def unsaved(self) -> list[int]:
        """Returns the conversations with a reply that is not on disk, or not all of it."""
        records = [record for record, _ in self._unsaved.values()]
        if self.current is not None and self._log.held(self.current.record.id):
            records.append(self.current.record)
        return list(dict.fromkeys(record.conversation for record in records))

    def held(self, message: int) -> list[RoundDone]:
        """Returns the rounds of a reply that are not on disk."""
        return self._log.held(message)

    def latest(self, record: MessageRecord) -> MessageRecord:
        """Returns a message with what the store does not know of it."""
        if self.current is not None and self.current.record.id == record.id:
            return self.current.so_far()
        return self._unsaved[record.id][0] if record.id in self._unsaved else record

    # --- the request and its answers -----------------------------------------------------------

    def _make_request(self) -> ReplyRequest | None:
        """Returns the request, or has its pair loaded first."""
        current = self.current
        if current is None:
            return None
        if not self._host.has(self._pair):
            self._host.load(self._pair)
            return None
        sampling = current.record.sampling
        assert sampling is not None
        if self._host.serving.tokens is not None:
            self._host.show_reply_status("loading", SERVED_FIRST)
        else:
            self._host.show_pair_status()
        return ReplyRequest(
            id=0,
            messages=self._messages,
            sampling=sampling,
            continuation_ids=current.reply.tokens,
            timed=self.times_phases,
            history="" if self.history is None else str(self.history.folder),
            cache="" if self.history is None else self.history.cache_file(current.record.conversation),
        )

    def _receive(self, answer: AnyAnswer) -> None:
        current = self.current
        if current is None:
            return
        if isinstance(answer, RoundDone):
            try:
                current.reply.add(answer)
            except InconsistentRound as error:
                self._reject(str(error))
        elif isinstance(answer, PrefillProgress):
            current.reply.add_progress(answer.progress)
            self.progress.emit(current.record.id, answer.progress)
        elif isinstance(answer, FellBack):
            current.note = sentence(f"Fell back to plain decoding: {answer.reason}")
            self._host.show_reply_status("fell back", answer.reason)
        elif isinstance(answer, ReplyDone):
            self._handle_done(current, answer)
        elif isinstance(answer, Failed):
            stopped = answer.kind == "Cancelled"
            self._end("stopped" if stopped else "failed", "" if stopped else sentence(answer.message))
        else:
            self._reject(f"it answered a reply with {type(answer).__name__}")

    def _show_frame(self) -> None:
        """Saves what a frame brought, and reports it."""
        current = self.current
        if current is None:
            return
        change = current.reply.take_change()
        if rounds := current.reply.rounds[change.first_round :]:
            if self._host.status.state == "loading":
                self._host.show_pair_status()  # what was served before the reply is over
            self._log.append(current.record.id, rounds)
            self._report_saving()
            self.changed.emit(current.record.id, change)

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
        self._end(state, note, answer.finished.text, answer.seed)

    def _show_drafting(self, reply: Reply) -> None:
        """Has the status say why nothing or little was drafted for a reply, where something was to be."""
        status, words = self._host.status, drafting_in_words(reply.metrics)
        if words and status.state == "on":
            self._host.set_status(replace_fields(status, detail=sentence(f"In the last reply {words}")))

    def _reject(self, why: str) -> None:
        """Ends the reply here: what followed would not be what the model wrote."""
        self._task.stop()
        note = f"The engine sent inconsistent data ({why}). The reply is saved up to that point."
        self.notice.emit(Notice("error", note, (self._host.restart_action,)))
        self._end("failed", note)

    def _end(self, state: State, note: str = "", tail: str = "", seed: int | None = None) -> MessageRecord | None:
        """Ends the reply, if one is being written; returns its message as it stays."""
        self._show_frame()
        current, self.current = self.current, None
        if current is None:
            return None
        self._task.end()
        ending = current.ending(state, note, tail, seed)
        record = self._log.end(current.record.id, ending)
        self._report_saving()
        if record is None:
            record = _as_ended(current, ending)
            self._unsaved[record.id] = record, current.reply
        else:
            self._learn(record, current.reply)
        self.ended.emit(record)
        return record

    def _learn(self, record: MessageRecord, reply: Reply) -> None:
        """Adds a reply that was saved to those that later ones are drafted from."""
        loaded = self._host.loaded
        if self.history is None or loaded is None or loaded.pair != self._pair:
            return
        if self._library.find(record.conversation) is not None:  # neither deleted nor gone
            self.history.add(loaded.vocabulary, record.conversation, record.id, reply.tokens)

    # --- failures and delays -------------------------------------------------------------------

    def _handle_load_failure(self, pair: Pair, reason: str) -> None:
        if pair == self._pair and not self._task.sent:
            self._end("failed", sentence(reason))

    def handle_death(self, cause: str) -> MessageRecord | None:
        """Ends the reply, as the host has died, and returns its message if that cut it off. A reply that the host had
        not begun waits for the next host, if there will be one."""
        began = self._task.sent
        if self._task.stopping:
            self._end("stopped")
        elif began or self._host.gave_up:
            return self._end("cut", f"The engine {cause} {'while writing' if began else 'before writing'} this reply.")
        return None

    def _report_silence(self) -> None:
        if self._task.stopping:
            text = "The engine has not stopped yet. Restarting it ends the reply; the text so far is saved."
        else:
            text = f"The engine has not responded for {self._host.timeouts.silent_s:.0f} seconds."
        self.notice.emit(Notice("warning", text, (self._host.restart_action,)))

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
