"""One reply while it streams: a fold of what the host tells into text, statistics and the record of the message."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as changed

from app.protocol import Told
from app.records import MessageRecord, State, Statistics
from engine.events import PromptProgress, Round
from engine.metrics import Metrics


class Incoherent(ValueError):
    """A round that cannot be the next of this reply; says why."""


class Run:
    """record: as the store has it. told: every round so far, those of before a break included, numbered and timed as of
    one reply. fresh: those that nobody has been shown yet. tail: text of no token, at the very end."""

    def __init__(self, record: MessageRecord, before: list[Told]) -> None:
        self.record = record
        self.told = list(before)
        self.fresh: list[Told] = []
        self.tail = ""
        self.note = ""
        self.metrics = Metrics.of(told.round for told in before)
        self._said = sum(len(told.round.tokens) for told in before)
        self._texts = [text for told in before for text in told.round.texts]
        self._from_index = before[-1].round.index + 1 if before else 0
        self._from_s = before[-1].round.time_s if before else 0.0
        self._first: int | None = None  # the number that the host gave to the first round since the break
        self._prompt_tokens = record.statistics.prompt_tokens if before and record.statistics else None
        self.metrics.prompt_tokens = self._prompt_tokens or 0

    @property
    def said(self) -> tuple[int, ...]:
        """Every token so far."""
        return tuple(token for told in self.told for token in told.round.tokens)

    @property
    def text(self) -> str:
        return "".join(self._texts) + self.tail

    def progress(self, progress: PromptProgress) -> None:
        """The prompt is read. What was said before a break is no part of it."""
        tokens = progress.total - self._said if self._prompt_tokens is None else self._prompt_tokens
        self.metrics.add(replace(progress, total=max(0, tokens)))

    def hear(self, told: Told) -> None:
        """The next round. Raises Incoherent for what cannot be it."""
        round_ = told.round
        if self._first is None:
            self._first = round_.index
        index = round_.index - self._first + self._from_index
        expected = self.told[-1].round.index + 1 if self.told else 0
        if index != expected:
            raise Incoherent(f"round {index} came where round {expected} was due")
        _check(round_)
        round_ = replace(round_, index=index, time_s=round_.time_s + self._from_s)
        told = changed(told, round=round_)
        self.metrics.add(round_)
        self.told.append(told)
        self.fresh.append(told)
        self._texts.extend(round_.texts)

    def be_answer_to(self, prompt: str) -> None:
        """The digest of what it answers; of the first part, where it was gone on with."""
        if not self.record.prompt:
            self.record = changed(self.record, prompt=prompt)

    def so_far(self) -> MessageRecord:
        """The message as it is on screen."""
        return changed(self.record, text=self.text, state="streaming", note=self.note)

    def over(self, state: State, note: str, tail: str, seed: int | None) -> MessageRecord:
        """The message as it stays. Its numbers are those of the metrics, where it came to anything."""
        self.tail = tail
        law = self.record.law
        if law is not None and seed is not None:
            law = changed(law, seed=seed)
        notes = " ".join(said for said in (self.note, note) if said)
        return changed(
            self.record,
            text=self.text,
            state=state,
            note=notes,
            statistics=Statistics.of(self.metrics) if self.told else None,
            law=law,
        )


def _check(round_: Round) -> None:
    """The parts of a round that others index one by the other must agree."""
    n = len(round_.tokens)
    if not (len(round_.texts) == len(round_.p) == n and 0 <= round_.accepted <= min(n, len(round_.drafted))):
        raise Incoherent(f"round {round_.index} contradicts itself: {n} tokens, {len(round_.texts)} texts")
    if len(round_.q) != len(round_.drafted):
        raise Incoherent(f"round {round_.index} contradicts itself: {len(round_.drafted)} drafted, {len(round_.q)} q")
