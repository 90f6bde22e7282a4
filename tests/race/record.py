"""Makes race.json anew, with the built-in model: python -m tests.race.record [RACE.json, to be made smaller]"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as changed

from app.cli.main import main
from app.protocol import RoundDone
from app.race.race_document import RaceDocument, open_race, race_json, write_file
from tests.race.made import RACE

PROMPT = "Why is the sky blue? Answer in a short paragraph, then give three facts as a list."
DIGITS = 4


def smaller(document: RaceDocument) -> RaceDocument:
    """Numbers with as many digits as anyone looks at, and nothing that follows from the rest."""
    runs = tuple(changed(run, rounds=tuple(_smaller(one) for one in run.rounds)) for run in document.runs)
    return changed(document, runs=runs)


def _smaller(told: RoundDone) -> RoundDone:
    r = told.round
    p, q = (tuple(round(value, DIGITS) for value in values) for values in (r.p, r.q))
    return changed(told, drafted_texts=(), round=replace(r, p=p, q=q, time_s=round(r.time_s, DIGITS)))


def record() -> None:
    if len(sys.argv) > 1:
        document = open_race(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "race.json"
            sides = ["--side", "none", "--side", "eagle3:2"]
            main(["race", "--prompt", PROMPT, "--max-tokens", "120", *sides, "--save", str(path), "--no-animation"])
            document = open_race(path)
    found = json.loads(race_json(smaller(document)))
    for run in found["runs"]:
        for told in run["told"]:
            told["round"] = {name: value for name, value in told["round"].items() if value not in (None, [], "")}
            told["round"].setdefault("drafted", [])
            told["round"].setdefault("q", [])
    write_file(RACE, json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


if __name__ == "__main__":
    record()
