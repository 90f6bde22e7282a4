"""One reply while it streams: a fold of the host's answers into text, statistics and the record of the message."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as changed

from app.protocol import RoundDone
from app.store.records import MessageRecord, State, Statistics
from engine.events import PromptProgress
from engine.metrics import Metrics


class InconsistentRound(ValueError):
    """A round that cannot be the next of this reply; the text says why."""


class ReplyInProgress:
    """record: as the store has it. note: what the user should know about the reply. rounds: every round so far, those
    from before an interruption included, numbered and timed as of one reply. shown, saved: how many of them."""

    def __init__(self, record: MessageRecord, earlier: list[RoundDone]) -> None:
        self.record = record
        self.rounds = list(earlier)
        self.shown = self.saved = len(earlier)
        self.note = ""
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
        """The text of every token so far."""
        return "".join(text for one in self.rounds for text in one.round.texts)

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

    def current_record(self) -> MessageRecord:
        """Returns the message as it is on screen."""
        return changed(self.record, text=self.text, state="streaming", note=self.note)

    def final_record(self, state: State, note: str, tail: str, seed: int | None) -> MessageRecord:
        """Returns the message as it stays. tail: text at its end that belongs to no token."""
        sampling = self.record.sampling
        if sampling is not None and seed is not None:
            sampling = replace(sampling, seed=seed)
        return changed(
            self.record,
            text=self.text + tail,
            state=state,
            note=" ".join(part for part in (self.note, note) if part),
            statistics=Statistics.of(self.metrics) if self.rounds else None,
            sampling=sampling,
        )
