"""A recording of a race, which `app.host --replay` plays to whoever races."""

import sys
from collections.abc import Iterator
from pathlib import Path

from app.protocol import AnyAnswer, PairCompared, RaceDone, RaceProgress, RaceReady, RunPart, encode_line
from app.race.race_document import RaceDocument

NEVER_S = 1e6


def race_answers(document: RaceDocument, runs: int | None) -> Iterator[AnyAnswer]:
    """Yields what a host said of a race. runs: how many come at once, None for all; the others never come."""
    yield RaceProgress(id=2, message="opening lookup", time_s=0.0)
    yield RaceReady(id=2, sides=document.sides, environment=document.environment)
    for number, run in enumerate(document.runs):
        begins_s, ends_s = (0.0 if runs is None or count <= runs else NEVER_S for count in (number, number + 1))
        message = f"run {run.number} of {document.pairs}"
        yield RaceProgress(id=2, message=message, time_s=begins_s, run=run.number, side=run.side)
        yield RunPart(
            id=2, side=run.side, run=run.number, prompt_tokens=run.prompt_tokens, rounds=run.rounds,
            finished=run.finished, time_s=ends_s,
        )  # fmt: skip
        if number % 2:
            yield PairCompared(id=2, receipt=document.receipts[run.number - 1])
    yield RaceDone(id=2, pairs=document.pairs)


def replaying_host(folder: Path, document: RaceDocument, runs: int | None = None) -> list[str]:
    """Returns the command of a host that plays a race, whichever it is asked for. runs: as above."""
    path = folder / "recording.jsonl"
    path.write_bytes(b"".join(map(encode_line, race_answers(document, runs))))
    return [sys.executable, "-m", "app.host", "--replay", str(path)]
