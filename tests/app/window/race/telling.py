"""A race as a host tells it: a recording that `app.host --replay` plays to whoever races."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from app.protocol import AnyAnswer, PairCompared, RaceDone, RaceProgress, RaceReady, RunPart, encode_line
from app.race.race_document import RaceDocument


def told(document: RaceDocument, pause_s: float = 0.0) -> Iterator[AnyAnswer]:
    """What was said of it, a run every `pause_s` seconds."""
    yield RaceProgress(id=2, message="opening lookup", time_s=0.0)
    yield RaceReady(id=2, sides=document.sides, environment=document.environment)
    for number, run in enumerate(document.runs):
        time_s = number * pause_s
        yield RaceProgress(
            id=2, message=f"run {run.number} of {document.pairs}", time_s=time_s, run=run.number, side=run.side
        )
        yield RunPart(
            id=2, side=run.side, run=run.number, prompt_tokens=run.prompt_tokens, rounds=run.rounds,
            finished=run.finished, time_s=time_s,
        )  # fmt: skip
        if number % 2:
            yield PairCompared(id=2, receipt=document.receipts[run.number - 1])
    yield RaceDone(id=2, pairs=document.pairs)


def command(folder: Path, document: RaceDocument, pause_s: float = 0.0) -> list[str]:
    """A host that plays it."""
    path = folder / "recording.jsonl"
    path.write_bytes(b"".join(encode_line(answer) for answer in told(document, pause_s)))
    return [sys.executable, "-m", "app.host", "--replay", str(path)]
