"""From what is told of a race to its document."""

from __future__ import annotations

from app.protocol import Answers, Compared, LinedUp, Raced, Racing, Ran, Told
from app.protocol.racing import SIDES, PairReceipt, Race, Run
from app.race.document import RaceDocument
from app.race.faults import fault_of
from app.race.replaying import tokens_of


class Gathering:
    """progress: what goes on now, None before anything does. over: whether the race has ended; document() is what there
    is of it by then, whole pairs alone. Answers of no race are left out."""

    def __init__(self, race: Race, created_s: float = 0.0) -> None:
        self.race = race
        self.progress: Racing | None = None
        self.lined_up: LinedUp | None = None
        self.raced: Raced | None = None
        self._created_s = created_s
        self._told: list[Told] = []
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

    def hear(self, answer: Answers) -> None:
        if isinstance(answer, Racing):
            self.progress = answer
        elif isinstance(answer, LinedUp):
            self.lined_up = answer
        elif isinstance(answer, Ran):
            self._hear_run(answer)
        elif isinstance(answer, Compared):
            self._receipts.append(answer.receipt)
        elif isinstance(answer, Raced):
            self.raced = answer

    def document(self) -> RaceDocument | None:
        """Of the pairs that are whole, whether or not the race is over; None where there is none, or where what was
        told does not fit together."""
        if self.lined_up is None or not self._receipts:
            return None
        document = RaceDocument(
            prompt=self.race.prompt,
            law=self.race.law,
            contestants=self.lined_up.contestants,
            environment=self.lined_up.environment,
            runs=tuple(run for run in self._runs if run.number <= self.pairs),
            receipts=tuple(self._receipts),
            created_s=self._created_s,
        )
        return None if fault_of(document) else document

    def _hear_run(self, part: Ran) -> None:
        self._told += part.told
        if part.finished is None:
            return
        run = Run(
            side=part.side,
            number=part.run,
            prompt_tokens=part.prompt_tokens,
            told=tuple(self._told),
            finished=part.finished,
        )
        self._told = []
        if tokens_of(run) and part.side in range(SIDES):
            self._runs.append(run)
