"""Prints the table of references: architecture, reference, differences and verdict.

python -m tests.models.references            prints it
python -m tests.models.references --write    and writes models/references.json and models/architectures.md
"""

import json
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from mlx_lm.utils import MODEL_REMAPPING

from models.architecture_references import FILE, Reference, ReferenceVerdict, references
from tests.models.references.comparison import FOLDER, Difference, compare, folder_of, names
from tests.models.references.verdicts import CORRECTED, REFUSED, RENAMED, TOLERANCE
from tests.programs.architecture_page import write_part
from tests.toys.architectures import NOT_MODELS, architecture_names

PART = "references"
_COLUMNS = ("architecture", "reference", "before thresholds", "after", "in pieces", "verdict", "since")
_HEAD = f"| {' | '.join(_COLUMNS)} |\n{'| - ' * len(_COLUMNS)}|"
_IN_WORDS = {"renamed": "right, under other names of tensors"}


def verdict_of(name: str) -> ReferenceVerdict:
    """Returns what `verdicts.py` says of a reference."""
    if name in REFUSED:
        return "refused"
    return "corrected" if name in CORRECTED else "renamed" if name in RENAMED else "right"


def reference(name: str, found: Difference, today: str) -> Reference:
    """Returns what a comparison found. Raises ValueError where `verdicts.py` says something else."""
    if (found.reason is not None) != (name in REFUSED) or found.largest >= TOLERANCE:
        raise ValueError(f"{name}: {found}, but verdicts.py says {verdict_of(name)}")
    config = json.loads((FOLDER / name / "config.json").read_text())
    return Reference(
        name=name,
        architecture=config["model_type"],
        implementation=f"transformers {config['transformers_version']}",
        before=_rounded(found.before),
        after=_rounded(found.after),
        pieces=_rounded(found.pieces),
        verdict=verdict_of(name),
        since=_since(name, today),
    )


def _rounded(number: float) -> float:
    return float(f"{number:.0e}")


def _since(name: str, today: str) -> str:
    """Returns since when the verdict holds: as it was written before, where it is the same."""
    before = {one.name: one for one in references()} if FILE.exists() else {}
    return before[name].since if name in before and before[name].verdict == verdict_of(name) else today


def row(one: Reference) -> str:
    """Returns a row of the table, in Markdown."""
    named = one.name if one.name == one.architecture else f"{one.architecture} ({one.name})"
    numbers = (f"{number:.0e}" if one.verdict != "refused" else "" for number in (one.before, one.after, one.pieces))
    cells = (named, one.implementation, *numbers, _IN_WORDS.get(one.verdict, one.verdict), one.since)
    return f"| {' | '.join(cells)} |"


def table(found: list[Reference]) -> str:
    """Returns the page's part: the table, and the architectures without a reference."""
    networks = {_file_of(one.architecture) for one in found}
    alone = [name for name in architecture_names() if name not in NOT_MODELS and _plain(name) not in networks]
    lines = [_HEAD, *map(row, found)]
    return "\n".join([*lines, "", f"No independent reference ({len(alone)}): {', '.join(alone)}."])


def _file_of(architecture: str) -> str:
    return _plain(MODEL_REMAPPING.get(architecture, architecture))


def _plain(name: str) -> str:
    return name.removesuffix("_text").replace("-", "_")


def main() -> None:
    today = datetime.now(UTC).date().isoformat()
    found = []
    print(_HEAD)
    for name in names():
        with tempfile.TemporaryDirectory() as folder:
            found.append(reference(name, compare(name, folder_of(name, Path(folder) / name)), today))
        print(row(found[-1]), flush=True)
    if "--write" in sys.argv[1:]:
        lines = ",\n".join(json.dumps(asdict(one)) for one in found)
        FILE.write_text(f'{{"networks": {json.dumps(MODEL_REMAPPING)},\n"references": [\n{lines}\n]}}\n')
        write_part(PART, table(found))


if __name__ == "__main__":
    main()
