"""The results of a benchmark so far, saved after every prompt, and how an interrupted benchmark continues."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.bench import bench_document
from app.bench.bench_document import BenchDocument, BenchRun, digest
from app.bench.prompt_file import Question
from engine.errors import RedlineError, UsageError
from engine.settings import AcceptanceRule, SamplingSettings


class SavedResults:
    """The results so far.

    path: of the document; None to keep it in memory. contestants: their names. turns, repeats: as in `Benchmark`.
    notice: receives the message when the document cannot be saved.
    """

    def __init__(
        self,
        path: Path | None,
        environment: dict[str, Any],
        contestants: Sequence[str],
        turns: int | None = 1,
        repeats: int = 1,
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._path, self._environment, self._contestants = path, environment, list(contestants)
        self._turns, self._repeats, self._notice = turns, repeats, notice
        self.rows: list[BenchRun] = []
        self.drift: float | None = None

    def resume(
        self, before: BenchDocument, questions: Sequence[Question], settings: Sequence[SamplingSettings]
    ) -> None:
        """Continues from `before`. Drops incomplete conversations, which will be measured again.

        Raises UsageError if `before` was measured with other settings.
        """
        if before.contestants != self._contestants:
            raise UsageError(
                f"cannot resume: the document has {', '.join(before.contestants)}, and these options give "
                f"{', '.join(self._contestants)}; use the same options or another --json file"
            )
        _check_same(before.environment, self._environment)
        sampling = {(one.temperature, one.seed or 0, one.acceptance) for one in settings}
        requested = {question.id: question for question in questions}
        for row in before.runs:
            _check_row(row, requested, sampling)
        self.rows = list(before.runs)
        whole = [(one, chosen) for one in questions for chosen in settings if self.done(one, chosen)]
        kept = {(one.id, chosen.temperature) for one, chosen in whole}
        self.rows = [
            row for row in before.runs if row.question_id not in requested or (row.question_id, row.temperature) in kept
        ]

    def done(self, question: Question, settings: SamplingSettings) -> bool:
        """Returns whether every contestant has answered every turn of a question."""
        temperature = settings.temperature
        found = {
            (row.turn, row.repeat, row.drafter)
            for row in self.rows
            if (row.question_id, row.temperature) == (question.id, temperature)
        }
        turns, repeats = range(len(question.turns[: self._turns])), range(self._repeats)
        return all((turn, i, name) in found for turn in turns for i in repeats for name in self._contestants)

    @property
    def replies_each(self) -> int:
        """How many replies each contestant has given; the order keeps rotating from there."""
        return len(self.rows) // len(self._contestants)

    def add(self, runs: Sequence[BenchRun]) -> None:
        """Adds the runs of one prompt and saves. A failed save is only reported: a later one may succeed."""
        self.rows += runs
        try:
            self.save(interrupted=True)
        except RedlineError as error:
            self._notice(str(error))

    def save(self, interrupted: bool) -> None:
        """Saves the document. Raises RedlineError when it cannot be written."""
        if self._path is not None:
            bench_document.write_document(self._path, self.document(interrupted))

    def document(self, interrupted: bool) -> BenchDocument:
        return bench_document.make_document(self._environment, self._contestants, self.rows, interrupted, self.drift)


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for key in dict.fromkeys([*before, *now]):
        if before.get(key) != now.get(key):
            raise UsageError(
                f"cannot resume: {key} was {before.get(key)!r} and is {now.get(key)!r} now; "
                "use the same settings or another --json file"
            )


def _check_row(
    row: BenchRun, questions: Mapping[int | str, Question], sampling: set[tuple[float, int, AcceptanceRule]]
) -> None:
    """Raises UsageError for a run of another prompt or with other sampling settings."""
    question = questions.get(row.question_id)
    turns = [digest(turn) for turn in question.turns] if question else []
    if question and row.prompt_digest not in turns[row.turn : row.turn + 1]:
        raise UsageError(
            f"cannot resume: question {row.question_id} has changed; use the same prompt file or another --json file"
        )
    mine = [(seed, rule) for temperature, seed, rule in sampling if temperature == row.temperature]
    drawn = row.temperature and not row.peer and (row.seed, row.acceptance_rule) not in mine
    if mine and drawn:
        raise UsageError(
            f"cannot resume: the document used seed {row.seed} and {row.acceptance_rule} acceptance at temperature "
            f"{row.temperature:g}; use these or another --json file"
        )
