"""The reply that is being written: requested once its pair is loaded, received round by round, saved, and ended."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as changed
from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import (
    AnyAnswer,
    Failed,
    FellBack,
    Loaded,
    Measuring,
    Message,
    Pair,
    PrefillProgress,
    Reply,
    ReplyDone,
    RoundDone,
    Stop,
)
from app.store.records import CONTEXT_FULL, MessageRecord, State, Statistics
from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import milliseconds
from app.window.chat.notices import Notice
from app.window.chat.reply_writer import ReplyWriter
from engine.events import Finished, PromptProgress, Round
from engine.metrics import Metrics


class InconsistentRound(ValueError):
    """A round that cannot be the next of this reply; the text says why."""


class ReplyInProgress:
    """One reply while it streams: a fold of the host's answers into text, statistics and the record of the message.

    record: as the store has it. rounds: every round so far, those from before an interruption included, numbered and
    timed as of one reply. unshown: those of them that no listener has received yet.
    """

    def __init__(self, record: MessageRecord, earlier: list[RoundDone]) -> None:
        self.record = record
        self.rounds = list(earlier)
        self.unshown: list[RoundDone] = []
        self.note = ""
        self.metrics = Metrics.of(one.round for one in earlier)
        self._texts = [text for one in earlier for text in one.round.texts]
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

    def add_progress(self, progress: PromptProgress) -> None:
        """Counts the prompt. Tokens from before an interruption are not part of it."""
        tokens = progress.total - self._earlier_tokens if self._prompt_tokens is None else self._prompt_tokens
        self.metrics.add(replace(progress, total=max(0, tokens)))

    def add_round(self, one: RoundDone) -> None:
        """Appends the next round. Raises InconsistentRound."""
        round_ = one.round
        if self._host_index is None:
            self._host_index = round_.index
        index = round_.index - self._host_index + self._first_index
        expected = self.rounds[-1].round.index + 1 if self.rounds else 0
        if index != expected:
            raise InconsistentRound(f"received round {index}, expected round {expected}")
        _check(round_)
        round_ = replace(round_, index=index, time_s=round_.time_s + self._first_s)
        one = changed(one, round=round_)
        self.metrics.add(round_)
        self.rounds.append(one)
        self.unshown.append(one)
        self._texts.extend(round_.texts)

    def set_prompt_digest(self, digest: str) -> None:
        """Keeps the digest of the prompt; of a continued reply, that of its first part."""
        if not self.record.prompt:
            self.record = changed(self.record, prompt=digest)

    def current_record(self) -> MessageRecord:
        """Returns the message as it is on screen."""
        return changed(self.record, text="".join(self._texts), state="streaming", note=self.note)

    def final_record(self, state: State, note: str, tail: str, seed: int | None) -> MessageRecord:
        """Returns the message as it stays. tail: text at its end that belongs to no token."""
        sampling = self.record.sampling
        if sampling is not None and seed is not None:
            sampling = replace(sampling, seed=seed)
        return changed(
            self.record,
            text="".join(self._texts) + tail,
            state=state,
            note=" ".join(part for part in (self.note, note) if part),
            statistics=Statistics.of(self.metrics) if self.rounds else None,
            sampling=sampling,
        )


class ReplyController(QObject):
    """Requests one reply at a time and sees it through.

    rounds_received(int, list[RoundDone]) and progress(int, PromptProgress): of a message, once a frame.
    ended(MessageRecord): as it was saved, or as it should have been. notice(Notice).
    """

    rounds_received = Signal(int, object)
    progress = Signal(int, object)
    ended = Signal(object)
    notice = Signal(object)

    def __init__(self, host: HostConnection, writer: ReplyWriter, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.reply: ReplyInProgress | None = None
        self.times_phases = False  # whether draft and verify are measured apart
        self._host = host
        self._writer = writer
        self._messages: tuple[Message, ...] = ()
        self._pair = Pair()
        self._request = 0  # 0 until it is sent
        self._stopping = False
        self._progress: PromptProgress | None = None
        self._silence = QTimer(self, singleShot=True)
        self._silence.timeout.connect(self._report_silence)
        host.became_ready.connect(self._request_reply)
        host.pair_loaded.connect(self._handle_loaded)
        host.load_failed.connect(self._handle_load_failure)
        host.frame_ended.connect(self.flush)
        host.died.connect(self._handle_death)

    def begin(self, record: MessageRecord, pair: Pair, messages: tuple[Message, ...], earlier: list[RoundDone]) -> None:
        """Has `pair` write `record`, which continues `earlier`."""
        assert self.reply is None
        self.reply = ReplyInProgress(record, earlier)
        self._pair, self._messages = pair, messages
        self._request, self._stopping, self._progress = 0, False, None
        self._host.start()
        self._request_reply()

    def stop(self) -> None:
        """Stops the reply, as the user asked for it."""
        if self.reply is None or self._stopping:
            return
        if not self._request:
            self._end("stopped", "")
            return
        self._stopping = True
        self._host.send(Stop(id=self._request))
        self._silence.start(milliseconds(self._host.timeouts.stop_s))

    def end_now(self, note: str) -> None:
        """Ends the reply without waiting for the host; its text so far stays, as stopped."""
        if self.reply is not None:
            self.flush()
            self._end("stopped", note)

    def flush(self) -> None:
        """Shows and saves what a frame brought."""
        reply = self.reply
        if reply is None:
            return
        if self._progress is not None:
            self.progress.emit(reply.record.id, self._progress)
            self._progress = None
        if reply.unshown:
            if self._host.status.state == "loading":
                self._host.show_pair_status()  # the measurement before the reply is over
            rounds, reply.unshown = reply.unshown, []
            self._writer.add(reply.record.id, rounds)
            self.rounds_received.emit(reply.record.id, rounds)

    # --- the request ---------------------------------------------------------------------------

    def _request_reply(self) -> None:
        """Requests the reply, or first its pair."""
        reply = self.reply
        if reply is None or self._request or not self._host.ready:
            return
        if not self._host.has(self._pair):
            self._host.load(self._pair)
            return
        sampling = reply.record.sampling
        assert sampling is not None
        self._host.show_pair_status()
        request = Reply(
            id=0, messages=self._messages, sampling=sampling, continuation_ids=reply.tokens, timed=self.times_phases
        )
        self._request = self._host.request(request, self._receive)
        self._restart_silence()

    def _handle_loaded(self, _: Loaded) -> None:
        self._request_reply()

    def _handle_load_failure(self, pair: Pair, reason: str) -> None:
        if self.reply is not None and pair == self._pair and not self._request:
            self._end("failed", reason)

    # --- answers -------------------------------------------------------------------------------

    def _receive(self, answer: AnyAnswer) -> None:
        reply = self.reply
        if reply is None:
            return
        self._restart_silence()
        if isinstance(answer, RoundDone):
            self._add_round(reply, answer)
        elif isinstance(answer, PrefillProgress):
            self._progress = answer.progress
            reply.add_progress(answer.progress)
        elif isinstance(answer, Measuring):
            self._host.show_reply_status("loading", answer.message)
        elif isinstance(answer, FellBack):
            reply.note = f"Fell back to plain decoding: {answer.reason}"
            self._host.show_reply_status("fell back", answer.reason)
        elif isinstance(answer, ReplyDone):
            state, note = _state_and_note(answer.finished)
            reply.set_prompt_digest(answer.prompt_digest)
            self._end(state, note, answer.finished.text, answer.seed)
        elif isinstance(answer, Failed):
            if answer.kind == "Cancelled":
                self._end("stopped", "")
            else:
                self._end("failed", answer.message)
        else:
            self._reject(f"it answered a reply with {type(answer).__name__}")

    def _add_round(self, reply: ReplyInProgress, one: RoundDone) -> None:
        try:
            reply.add_round(one)
        except InconsistentRound as error:
            self._reject(str(error))

    def _reject(self, why: str) -> None:
        """Ends the reply here: what followed would not be what the model wrote."""
        self._host.send(Stop(id=self._request))
        note = f"The engine sent inconsistent data ({why}). The reply is saved up to that point."
        self.notice.emit(Notice("error", note, (self._host.restart_action,)))
        self._end("failed", note)

    def _end(self, state: State, note: str, tail: str = "", seed: int | None = None) -> None:
        reply = self.reply
        if reply is None:
            return
        self.flush()
        self._silence.stop()
        if self._request:
            self._host.forget(self._request)
        record = self._writer.end(reply.final_record(state, note, tail, seed), tail)
        self.reply, self._request, self._stopping = None, 0, False
        self.ended.emit(record)

    # --- failures and delays -------------------------------------------------------------------

    def _handle_death(self, cause: str) -> None:
        """Ends the reply. One that the host had not begun waits for the next host, if there will be one."""
        began = self._request > 0
        if not began and not self._host.gave_up:
            return
        if self._stopping:
            self._end("stopped", "")
        else:
            self._end("cut", f"The engine {cause} {'while writing' if began else 'before writing'} this reply.")

    def _restart_silence(self) -> None:
        if not self._stopping:
            self._silence.start(milliseconds(self._host.timeouts.silent_s))

    def _report_silence(self) -> None:
        if self._stopping:
            text = "The engine has not stopped yet. Restarting it ends the reply; the text so far is saved."
        else:
            text = f"The engine has not responded for {self._host.timeouts.silent_s:.0f} seconds."
        self.notice.emit(Notice("warning", text, (self._host.restart_action,)))


def _check(round_: Round) -> None:
    """Raises InconsistentRound where lists that index each other differ in length."""
    n = len(round_.tokens)
    if not (len(round_.texts) == len(round_.p) == n and 0 <= round_.accepted <= min(n, len(round_.drafted))):
        raise InconsistentRound(f"round {round_.index} has {n} tokens and {len(round_.texts)} texts")
    if len(round_.q) != len(round_.drafted):
        raise InconsistentRound(f"round {round_.index} has {len(round_.drafted)} drafted tokens and {len(round_.q)} q")


def _state_and_note(finished: Finished) -> tuple[State, str]:
    """Returns the state of a reply and the note on why it ended."""
    if finished.reason == "cancelled":
        return "stopped", ""
    if finished.reason == "length":
        return "complete", "The reply reached its maximum length."
    if finished.reason == "context":
        return "complete", CONTEXT_FULL
    return "complete", ""
