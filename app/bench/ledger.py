"""What was measured so far, on disk behind every prompt, and how a benchmark that was cut off goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.bench import document
from app.bench.questions import Question
from app.bench.rows import Document, Row, digest, plain, row_of
from app.bench.tournament import Run
from engine.choice import Rule
from engine.errors import RedlineError, UsageError
from engine.settings import Settings


class Ledger:
    """path: of the document, None to keep it in memory. environment: as `app.environment` describes it. contestants:
    their names. turns, repeats: of a question, as the tournament plays them. said: told when the disk is full."""

    def __init__(
        self,
        path: Path | None,
        environment: dict[str, Any],
        contestants: Sequence[str],
        turns: int | None = 1,
        repeats: int = 1,
        said: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._path, self._environment, self._contestants = path, environment, list(contestants)
        self._turns, self._repeats, self._said = turns, repeats, said
        self.rows: list[Row] = []

    def take_up(self, before: Document, questions: Sequence[Question], settings: Sequence[Settings]) -> None:
        """Go on from `before`. Conversations of which something is missing will be held anew, so they are dropped.

        Raises UsageError where it was measured with something else: rows of two kinds would make no medians.
        """
        if before.contestants != self._contestants:
            raise UsageError(
                f"the document has the contestants {', '.join(before.contestants)}, and this would have "
                f"{', '.join(self._contestants)}: give the options that it was made with, or another --json"
            )
        _check_same(before.environment, self._environment)
        laws = {(one.sampling.temperature, one.sampling.seed, one.rule) for one in settings}
        asked = {question.id: question for question in questions}
        for row in before.runs:
            _check_row(row, asked, laws)
        self.rows = list(before.runs)
        whole = [(one, law) for one in questions for law in settings if self.done(one, law)]
        kept = {(one.id, law.sampling.temperature) for one, law in whole}
        self.rows = [
            row for row in before.runs if row.question_id not in asked or (row.question_id, row.temperature) in kept
        ]

    def done(self, question: Question, settings: Settings) -> bool:
        """Whether everyone has answered every turn of it as often as wanted."""
        temperature = settings.sampling.temperature
        found = {
            (row.turn, row.repeat, row.drafter)
            for row in self.rows
            if (row.question_id, row.temperature) == (question.id, temperature)
        }
        turns, repeats = range(len(question.turns[: self._turns])), range(self._repeats)
        return all((turn, i, name) in found for turn in turns for i in repeats for name in self._contestants)

    @property
    def heats(self) -> int:
        """How many replies each contestant has given: the order goes on rotating from there."""
        return len(self.rows) // len(self._contestants)

    def add(self, runs: Sequence[Run]) -> None:
        """The runs of one prompt. A disk that is full now may have room in the end: that is told, and no reason to
        throw an hour away."""
        self.rows += [row_of(run) for run in runs]
        try:
            self.save(interrupted=True)
        except RedlineError as error:
            self._said(str(error))

    def save(self, interrupted: bool) -> None:
        """Raises RedlineError where the disk won't have it."""
        if self._path is not None:
            document.write(self._path, plain(self.document(interrupted)))

    def document(self, interrupted: bool) -> Document:
        return document.document(self._environment, self._contestants, self.rows, interrupted)


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for key in dict.fromkeys([*before, *now]):
        if before.get(key) != now.get(key):
            raise UsageError(
                f"the document was measured with {key} {before.get(key)!r}, and here it is {now.get(key)!r}: "
                "go on as it began, or give another --json"
            )


def _check_row(row: Row, asked: Mapping[int | str, Question], laws: set[tuple[float, int, Rule]]) -> None:
    """A row of another prompt, or drawn otherwise."""
    question = asked.get(row.question_id)
    turns = [digest(turn) for turn in question.turns] if question else []
    if question and row.prompt_digest not in turns[row.turn : row.turn + 1]:
        raise UsageError(
            f"question {row.question_id} was another one when the document was made: give its file of prompts, or "
            "another --json"
        )
    mine = [(seed, rule) for temperature, seed, rule in laws if temperature == row.temperature]
    drawn = row.temperature and not row.peer and (row.seed, row.acceptance_rule) not in mine
    if mine and drawn:
        raise UsageError(
            f"the document was drawn with seed {row.seed} and {row.acceptance_rule} acceptance at temperature "
            f"{row.temperature:g}: go on with these, or give another --json"
        )
