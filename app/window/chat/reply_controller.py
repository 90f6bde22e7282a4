"""Has replies written and saved, one at a time: requests a reply once its pair is loaded, and sees it through.

A reply is saved while it streams, and nothing of it is shown before it is on disk. Where the disk refuses, it is shown
with a notice, and saving is tried again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed
from PySide6.QtCore import QObject, Qt, Signal

from app.protocol import (
    AnyAnswer,
    Failed,
    FellBack,
    Message,
    Pair,
    PrefillProgress,
    Reply,
    ReplyDone,
    RoundDone,
)
from app.store import ReplyWriter
from app.store.records import (
    CONTEXT_FULL,
    LENGTH_REACHED,
    THOUGHT_REACHED,
    UNANSWERED,
    Ending,
    MessageRecord,
    State,
    Statistics,
)
from app.store.reply_writer import Report
from app.store.round_encoding import text_of
from app.window.chat.host_connection import HostConnection, HostTask
from app.window.chat.notices import Notice
from app.window.common.sentence import sentence
from app.window.common.timer import Timer
from engine.errors import RedlineError
from engine.events import PromptProgress
from engine.metrics import Metrics

if TYPE_CHECKING:
    from app.reply_history import ReplyHistory
    from app.store import Store

STOP_S = 0.1  # for saving that a reply was stopped which had not begun
CLOSE_S = 1.0  # for saving what is left when the window closes
TURN_MS, TURN_ROUNDS = 1, 500  # from one turn to the next, and the rounds that are shown in one
SERVED_FIRST = "The models are writing a reply for another app. Yours is next."
END_NOTES = {"length": LENGTH_REACHED, "thought": THOUGHT_REACHED, "context": CONTEXT_FULL}


class InconsistentRound(ValueError):
    """A round that cannot be the next of this reply; the text says why."""


class ReplyInProgress:
    """One reply while it streams: a fold of the host's answers into text, statistics and the record of the message.

    record: as the store has it. note: what the user should know about the reply. rounds: every round so far, those
    from before an interruption included, numbered and timed as of one reply. handed, saved, shown: how many of them
    were handed to the writer, are on disk or were refused there, and were emitted after that. ending: how the reply
    ends, None while it streams. end: what became of its ending on disk, None until that is known."""

    def __init__(self, record: MessageRecord, earlier: list[RoundDone]) -> None:
        self.record = record
        self.rounds = list(earlier)
        self.handed = self.saved = self.shown = len(earlier)
        self.ending: Ending | None = None
        self.end: Report | None = None
        self.note = ""
        self.plain_s: float | None = None  # of a plain step, as ReplyDone has it
        self.metrics = Metrics.of(one.round for one in earlier)
        self._earlier_tokens = sum(len(one.round.tokens) for one in earlier)
        self._first_index = earlier[-1].round.index + 1 if earlier else 0
        self._first_s = earlier[-1].round.time_s if earlier else 0.0
        self._host_index: int | None = None  # the number that the host gave to the first round it sent
        self._prompt_tokens = record.statistics.prompt_tokens if earlier and record.statistics else None
        self.metrics.prompt_tokens = self._prompt_tokens or 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """Every token so far."""
        return tuple(token for one in self.rounds for token in one.round.tokens)

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return text_of(self.rounds)

    @property
    def thought(self) -> str:
        """What the model thought so far."""
        return text_of(self.rounds, "thought")

    @property
    def thinks(self) -> bool:
        """Whether its last token is of a thought, or marks one."""
        last = self.rounds[-1].round.channels if self.rounds else ()
        return last[-1:] not in ((), ("answer",))

    @property
    def has_more_to_show(self) -> bool:
        """Whether rounds, or the end, wait to be shown."""
        return self.shown < self.saved or self.end is not None

    def add_progress(self, progress: PromptProgress) -> None:
        """Counts the prompt. Tokens from before an interruption are not part of it."""
        tokens = progress.total - self._earlier_tokens if self._prompt_tokens is None else self._prompt_tokens
        self.metrics.add(replace(progress, total=max(0, tokens)))

    def add_round(self, one: RoundDone) -> None:
        """Appends the next round. Raises InconsistentRound."""
        round_, tokens = one.round, len(one.round.tokens)
        if self._host_index is None:
            self._host_index = round_.index
        index = round_.index - self._host_index + self._first_index
        expected = self.rounds[-1].round.index + 1 if self.rounds else 0
        if index != expected:
            raise InconsistentRound(f"received round {index}, expected round {expected}")
        if {len(round_.texts), len(round_.p)} != {tokens} or len(round_.q) != len(round_.drafted):
            raise InconsistentRound(f"the tokens of round {index} differ in number from their texts or probabilities")
        if not 0 <= round_.accepted <= min(tokens, len(round_.drafted)):
            raise InconsistentRound(f"round {index} has accepted {round_.accepted} of {len(round_.drafted)} tokens")
        round_ = replace(round_, index=index, time_s=round_.time_s + self._first_s)
        self.metrics.add(round_)
        self.rounds.append(changed(one, round=round_))

    def current_record(self, count: int) -> MessageRecord:
        """Returns the message with its first `count` rounds."""
        rounds = self.rounds[:count]
        text, thought = text_of(rounds), text_of(rounds, "thought")
        return changed(self.record, text=text, thought=thought, state="streaming", note=self.note)

    def finish(self, state: State, note: str, tail: str, seed: int | None) -> Ending:
        """Says how the reply ends, and returns it. tail: text at its end that belongs to no token."""
        sampling = self.record.sampling
        if sampling is not None and seed is not None:
            sampling = replace(sampling, seed=seed)
        self.ending = Ending(
            state=state,
            statistics=Statistics.of(self.metrics, self.plain_s) if self.rounds else None,
            note=" ".join(part for part in (self.note, note) if part),
            sampling=sampling,
            tail=tail,
            prompt=self.record.prompt,
        )
        return self.ending

    def final_record(self, ending: Ending) -> MessageRecord:
        """Returns the message as it stays. Needed only where the store could not save it: joining the text of
        a long reply takes long."""
        return changed(
            self.record,
            text=self.text + ending.tail,
            thought=self.thought,
            state=ending.state,
            note=ending.note,
            statistics=ending.statistics,
            sampling=ending.sampling,
        )


class ReplyController(QObject):
    """Requests one reply at a time, receives it and saves it.

    reply: the one that is being written. times_phases: whether the next one measures draft and verify apart. history:
    earlier replies, which the next one is drafted from and added to; None for none.
    """

    rounds_received = Signal(int, object)  # a message, list[RoundDone]; as they were saved
    progress = Signal(int, object)  # a message, PromptProgress
    ended = Signal(object)  # MessageRecord, as it was saved or should have been
    notice = Signal(object)  # Notice
    _written = Signal()  # emitted in the thread of the writer

    def __init__(self, host: HostConnection, store: Store, parent: QObject) -> None:
        super().__init__(parent)
        self.reply: ReplyInProgress | None = None
        self.times_phases = False
        self.history: ReplyHistory | None = None
        self._host, self._store = host, store
        self._writer = ReplyWriter(store, self._written.emit)
        self._written.connect(self._handle_reports, Qt.ConnectionType.QueuedConnection)
        self._turn = Timer(self, singleShot=True, interval=TURN_MS)
        self._turn.timeout.connect(self._show_part)
        self._pair, self._messages = Pair(), tuple[Message, ...]()
        self._unsaved: dict[int, MessageRecord] = {}  # replies that have ended, but not on disk
        self._cannot_save = False
        self._task = HostTask(host, self)
        self._task.answered.connect(self._receive)
        self._task.silent.connect(self._report_silence)
        host.load_failed.connect(self._handle_load_failure)
        host.frame_ended.connect(self.flush)
        host.died.connect(self._handle_death)

    def begin(self, record: MessageRecord, pair: Pair, messages: tuple[Message, ...], earlier: list[RoundDone]) -> None:
        """Has `pair` write `record`, which continues `earlier`."""
        assert self.reply is None
        self.reply = ReplyInProgress(record, earlier)
        self._pair, self._messages = pair, messages
        self._task.begin(self._make_request)

    def stop(self) -> None:
        """Stops the reply, as the user asked for it."""
        if self.reply is not None and self.reply.ending is None and not self._task.stop():
            self.finish("", STOP_S)

    def close(self, note: str) -> None:
        """Ends the reply without waiting for the host, saves what can be saved, and ends saving."""
        self._end("stopped", note)
        self._writer.close(CLOSE_S)
        self._show_all()

    def finish(self, note: str, timeout_s: float) -> None:
        """Ends the reply without waiting for the host, and waits until it is saved or cannot be."""
        self._end("stopped", note)
        self._writer.wait(timeout_s)
        self._show_all()

    def save(self, timeout_s: float) -> bool:
        """Saves what is not saved yet, as far as that is possible in this time. Returns whether everything is saved."""
        self._writer.retry()
        saved = self._writer.wait(timeout_s)
        self._show_all()
        return saved

    def unsaved(self) -> list[int]:
        """Returns the conversations with a reply that is not on disk, or not all of it."""
        records = [*self._unsaved.values(), *([self.reply.record] if self.reply and self._cannot_save else [])]
        return list(dict.fromkeys(record.conversation for record in records))

    def flush(self) -> None:
        """Hands what a frame brought to the writer; it is shown once it is on disk."""
        reply = self.reply
        if reply is not None and (rounds := reply.rounds[reply.handed :]):
            reply.handed = len(reply.rounds)
            self._writer.append(reply.record.id, rounds)

    def latest(self, record: MessageRecord) -> MessageRecord:
        """Returns a message as far as it is shown, with what the store does not know of it."""
        if self.reply is not None and self.reply.record.id == record.id:
            return self.reply.current_record(self.reply.shown)
        return self._unsaved.get(record.id, record)

    def for_export(self, record: MessageRecord) -> MessageRecord:
        """Returns a message with all that the store can have of it, whether shown or not: an export takes the rounds
        from the store, and the text has to begin with theirs."""
        if record.state == "streaming" and self.reply is not None and self.reply.record.id == record.id:
            return self.reply.current_record(self.reply.handed)
        return self._unsaved.get(record.id, record)

    # --- the request and its answers -----------------------------------------------------------

    def _make_request(self) -> Reply | None:
        """Returns the request, or has its pair loaded first."""
        reply = self.reply
        if reply is None:
            return None
        if not self._host.has(self._pair):
            self._host.load(self._pair)
            return None
        sampling = reply.record.sampling
        assert sampling is not None
        if self._host.serving.tokens is not None:
            self._host.show_reply_status("loading", SERVED_FIRST)
        else:
            self._host.show_pair_status()
        return Reply(
            id=0,
            messages=self._messages,
            sampling=sampling,
            continuation_ids=reply.tokens,
            timed=self.times_phases,
            history="" if self.history is None else str(self.history.folder),
            cache="" if self.history is None else self.history.cache_file(reply.record.conversation),
        )

    def _receive(self, answer: AnyAnswer) -> None:
        reply = self.reply
        if reply is None:
            return
        if isinstance(answer, RoundDone):
            try:
                reply.add_round(answer)
            except InconsistentRound as error:
                self._reject(str(error))
        elif isinstance(answer, PrefillProgress):
            reply.add_progress(answer.progress)
            self.progress.emit(reply.record.id, answer.progress)
        elif isinstance(answer, FellBack):
            reply.note = sentence(f"Fell back to plain decoding: {answer.reason}")
            self._host.show_reply_status("fell back", answer.reason)
        elif isinstance(answer, ReplyDone):
            self._handle_done(reply, answer)
        elif isinstance(answer, Failed):
            stopped = answer.kind == "Cancelled"
            self._end("stopped" if stopped else "failed", "" if stopped else sentence(answer.message))
        else:
            self._reject(f"it answered a reply with {type(answer).__name__}")

    def _handle_done(self, reply: ReplyInProgress, answer: ReplyDone) -> None:
        reply.plain_s = answer.plain_s
        if answer.sampling is not None:
            reply.record = changed(reply.record, sampling=answer.sampling)
        if not reply.record.prompt:  # of a continued reply, the prompt of its first part stays
            reply.record = changed(reply.record, prompt=answer.prompt_digest)
        reason = answer.finished.reason
        state: State = "stopped" if reason == "cancelled" else "complete"
        note = END_NOTES.get(reason, "")
        if reason in ("length", "context", "eos") and reply.thinks:
            note = f"{note} {UNANSWERED}".strip()
        self._end(state, note, answer.finished.text, answer.seed)

    def _learn(self, reply: ReplyInProgress) -> None:
        """Adds a reply that was saved to those that later ones are drafted from."""
        loaded, record = self._host.loaded, reply.record
        if self.history is None or loaded is None or loaded.pair != self._pair or record.id in self._unsaved:
            return
        if self._is_kept(record.conversation):
            self.history.add(loaded.vocabulary, record.conversation, record.id, reply.tokens)

    def _is_kept(self, conversation: int) -> bool:
        """Returns whether a conversation is neither deleted nor gone."""
        try:
            return self._store.find(conversation) is not None
        except RedlineError:
            return False

    def _reject(self, why: str) -> None:
        """Ends the reply here: what followed would not be what the model wrote."""
        self._task.stop()
        note = f"The engine sent inconsistent data ({why}). The reply is saved up to that point."
        self.notice.emit(Notice("error", note, (self._host.restart_action,)))
        self._end("failed", note)

    def _end(self, state: State, note: str = "", tail: str = "", seed: int | None = None) -> None:
        reply = self.reply
        if reply is None or reply.ending is not None:
            return
        self.flush()
        self._task.end()
        self._writer.end(reply.record.id, reply.finish(state, note, tail, seed))

    # --- failures and delays -------------------------------------------------------------------

    def _handle_load_failure(self, pair: Pair, reason: str) -> None:
        if pair == self._pair and not self._task.sent:
            self._end("failed", sentence(reason))

    def _handle_death(self, cause: str) -> None:
        """Ends the reply. One that the host had not begun waits for the next host, if there will be one."""
        began = self._task.sent
        if self._task.stopping:
            self._end("stopped")
        elif began or self._host.gave_up:
            self._end("cut", f"The engine {cause} {'while writing' if began else 'before writing'} this reply.")

    def _report_silence(self) -> None:
        if self._task.stopping:
            text = "The engine has not stopped yet. Restarting it ends the reply; the text so far is saved."
        else:
            text = f"The engine has not responded for {self._host.timeouts.silent_s:.0f} seconds."
        self.notice.emit(Notice("warning", text, (self._host.restart_action,)))

    # --- saving --------------------------------------------------------------------------------

    def _handle_reports(self) -> None:
        """Takes what the writer has written, or could not write, to be shown in the next turns of the event loop."""
        for report in self._writer.take_reports():
            self._report_saving(report.failure)
            if report.record is not None:
                self._unsaved.pop(report.message, None)
            reply = self.reply
            if reply is not None and reply.record.id == report.message:
                reply.saved = min(reply.saved + report.rounds, len(reply.rounds))
                if report.ended and reply.ending is not None:
                    reply.end = report
        self._turn.start()

    def _show_part(self) -> None:
        """Shows a part of what was written. The end of a reply has a turn of its own, since drawing all of a long reply
        takes as long as showing its last rounds."""
        reply = self.reply
        if reply is None:
            return
        if rounds := reply.rounds[reply.shown : min(reply.saved, reply.shown + TURN_ROUNDS)]:
            reply.shown += len(rounds)
            self.rounds_received.emit(reply.record.id, rounds)
        elif reply.end is not None and reply.ending is not None:
            self._finish(reply, reply.end.record, reply.ending)
        if self.reply is not None and self.reply.has_more_to_show:
            self._turn.start()

    def _show_all(self) -> None:
        """Shows all that was written, at once."""
        self._handle_reports()
        while self.reply is not None and self.reply.has_more_to_show:
            self._show_part()

    def _finish(self, reply: ReplyInProgress, saved: MessageRecord | None, ending: Ending) -> None:
        if saved is None:
            saved = self._unsaved[reply.record.id] = reply.final_record(ending)
        else:
            self._learn(reply)
        self.reply = None
        self.ended.emit(saved)

    def _report_saving(self, failure: str) -> None:
        """Reports the first failure in a row, and the end of them."""
        if failure and not self._cannot_save:
            self._cannot_save = True
            text = f"The conversation could not be saved: {failure}. You can keep chatting; Redline will keep trying."
            self.notice.emit(Notice("error", text, (("Try Now", self._writer.retry),)))
        elif not failure and self._cannot_save and self._writer.wait(0.0):
            self._cannot_save = False
            self.notice.emit(Notice("info", "Saving is working again, and all pending changes have been saved."))
