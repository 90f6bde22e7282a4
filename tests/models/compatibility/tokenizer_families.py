"""Which tokenizer family may draft for which, as `models.compatibility` decides for small ones of each, with reasons.

    uv run python -m tests.models.compatibility.tokenizer_families

Rows are targets, columns drafters.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from models.compatibility.pair_check import check_compatibility
from models.drafters.drafter_kind import Compatibility
from models.model_folder import check_folder
from tests.toys.tokenizers import families, write_model

SAME, PART, OTHER = "=", "<", "x"
LEGEND = f"{SAME} the same tokens, {PART} the target has more at its end, which are never drafted, {OTHER} other tokens"


def verdicts(root: Path) -> dict[tuple[str, str], Compatibility]:
    """By target and drafter, every pair of families, written into the folder `root`."""
    targets = [check_folder(write_model(root / "targets", family, width=16)) for family in families()]
    drafters = [write_model(root / "drafters", family) for family in families()]
    return {(target.path.name, path.name): check_compatibility(target, path) for target in targets for path in drafters}


def symbol(verdict: Compatibility) -> str:
    """One cell."""
    if verdict.other_tokenizer or not verdict.fits:
        return OTHER
    return SAME if " up to " not in verdict.reason else PART


def line(verdict: Compatibility) -> str:
    """The reason and the notes."""
    return "; ".join((verdict.reason, *verdict.notes))


def table(found: Mapping[tuple[str, str], Compatibility]) -> str:
    """The grid: a line for each target, a column for each drafter in the same order."""
    names = list(dict.fromkeys(target for target, _ in found))
    lines = [f"{'target':14}{' '.join(f'{number:>2}' for number in range(1, len(names) + 1))}"]
    for number, target in enumerate(names, 1):
        cells = " ".join(f"{symbol(found[target, drafter]):>2}" for drafter in names)
        lines.append(f"{target:14}{cells}   {number:>2} {target}")
    return "\n".join(lines)


def main() -> None:
    with tempfile.TemporaryDirectory() as root:
        found = verdicts(Path(root))
    print(table(found))
    print(f"\n{LEGEND}\n")
    for (target, drafter), verdict in found.items():
        print(f"{target} <- {drafter}: {'fits' if verdict.fits else 'refused'}: {line(verdict)}")


if __name__ == "__main__":
    main()
