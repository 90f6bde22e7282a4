"""Makes resources/races/demonstration.json anew, with the built-in model:

    python -m tests.programs.record_race [RACE.json]

RACE.json: a saved race, to be made smaller instead.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from app.cli.main import main
from app.race.race_document import open_race, read_race, write_file
from tests.app.race.sample_races import RACE

PROMPT = "Write a Python function that counts the words in a text, with an example."
DIGITS = 4
NEEDED = ("drafted", "q", "name")  # though they may be empty


def smaller(value: Any) -> Any:
    """Returns the same with as many digits as anyone looks at, and without texts of drafts and empty values."""
    if isinstance(value, dict):
        kept = {name: smaller(part) for name, part in value.items() if name != "drafted_texts"}
        return {name: part for name, part in kept.items() if name in NEEDED or part not in (None, [], "")}
    if isinstance(value, list):
        return [smaller(part) for part in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def record(path: Path) -> None:
    sides = ["--side", "none", "--side", "auto"]
    main(["race", "--prompt", PROMPT, "--max-tokens", "96", *sides, "--save", str(path), "--no-animation"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        source = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "race.json"
        if len(sys.argv) == 1:
            record(source)
        open_race(source)
        found = smaller(json.loads(source.read_text()))
    data = json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    read_race(data)
    write_file(RACE, data)
