"""Builds the document of a race from the answers that report it."""

from __future__ import annotations

from app.protocol import AnyAnswer, PairCompared, RaceDone, RaceProgress, RaceReady, RoundDone, RunPart
from app.protocol.race_messages import SIDES, PairReceipt, Race, Run
from app.race.race_document import RaceDocument, fault_of, tokens_of


class RaceDocumentBuilder:
    """progress: what goes on now, None before anything does. over: whether the race has ended; document() is what there
    is of it by then, whole pairs alone. Answers of no race are left out."""

    def __init__(self, race: Race, created_s: float = 0.0) -> None:
        self.race = race
        self.progress: RaceProgress | None = None
        self.lined_up: RaceReady | None = None
        self.raced: RaceDone | None = None
        self._created_s = created_s
        self._rounds_done: list[RoundDone] = []
        self._runs: list[Run] = []
        self._receipts: list[PairReceipt] = []

    @property
    def over(self) -> bool:
        return self.raced is not None

    @property
    def stopped(self) -> bool:
        """Whether it is over before its time."""
        return self.raced is not None and self.raced.stopped

    @property
    def pairs(self) -> int:
        """That are whole."""
        return len(self._receipts)

    def hear(self, answer: AnyAnswer) -> None:
        if isinstance(answer, RaceProgress):
            self.progress = answer
        elif isinstance(answer, RaceReady):
            self.lined_up = answer
        elif isinstance(answer, RunPart):
            self._hear_run(answer)
        elif isinstance(answer, PairCompared):
            self._receipts.append(answer.receipt)
        elif isinstance(answer, RaceDone):
            self.raced = answer

    def document(self) -> RaceDocument | None:
        """Of the pairs that are whole, whether or not the race is over; None where there is none, or where what was
        told does not fit together."""
        if self.lined_up is None or not self._receipts:
            return None
        document = RaceDocument(
            prompt=self.race.prompt,
            sampling=self.race.sampling,
            contestants=self.lined_up.contestants,
            environment=self.lined_up.environment,
            runs=tuple(run for run in self._runs if run.number <= self.pairs),
            receipts=tuple(self._receipts),
            created_s=self._created_s,
        )
        return None if fault_of(document) else document

    def _hear_run(self, part: RunPart) -> None:
        self._rounds_done += part.rounds
        if part.finished is None:
            return
        run = Run(
            side=part.side,
            number=part.run,
            prompt_tokens=part.prompt_tokens,
            rounds=tuple(self._rounds_done),
            finished=part.finished,
        )
        self._rounds_done = []
        if tokens_of(run) and part.side in range(SIDES):
            self._runs.append(run)
