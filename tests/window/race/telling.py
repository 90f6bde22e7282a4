"""A race as a host tells it: a recording that `app.host --replay` plays to whoever races."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from app.protocol import Answers, Compared, LinedUp, Raced, Racing, Ran, to_line
from app.race.document import RaceDocument


def told(document: RaceDocument, pause_s: float = 0.0) -> Iterator[Answers]:
    """What was said of it, a run every `pause_s` seconds."""
    yield Racing(id=2, said="opening lookup", time_s=0.0)
    yield LinedUp(id=2, contestants=document.contestants, environment=document.environment)
    for number, run in enumerate(document.runs):
        time_s = number * pause_s
        yield Racing(id=2, said=f"run {run.number} of {document.pairs}", time_s=time_s, run=run.number, side=run.side)
        yield Ran(
            id=2, side=run.side, run=run.number, prompt_tokens=run.prompt_tokens, told=run.told, finished=run.finished,
            time_s=time_s,
        )  # fmt: skip
        if number % 2:
            yield Compared(id=2, receipt=document.receipts[run.number - 1])
    yield Raced(id=2, runs=document.pairs)


def command(folder: Path, document: RaceDocument, pause_s: float = 0.0) -> list[str]:
    """A host that plays it."""
    path = folder / "recording.jsonl"
    path.write_bytes(b"".join(to_line(answer) for answer in told(document, pause_s)))
    return [sys.executable, "-m", "app.host", "--replay", str(path)]
