"""Prints the table of references: architecture, reference, differences and verdict.

python -m tests.models.references
"""

import json
import tempfile
from pathlib import Path

from tests.models.references.comparison import FOLDER, Difference, compare, folder_of, names
from tests.models.references.verdicts import CORRECTED, RENAMED, TOLERANCE


def line(name: str, found: Difference) -> str:
    """Returns a row of the table, in Markdown."""
    version = json.loads((FOLDER / name / "config.json").read_text())["transformers_version"]
    if found.reason is not None:
        return f"| {name} | transformers {version} | | | | refused |"
    right = found.largest < TOLERANCE
    verdict = "differs" if not right else "corrected" if name in CORRECTED else "names" if name in RENAMED else "right"
    numbers = f"{found.before:.0e} | {found.after:.0e} | {found.pieces:.0e}"
    return f"| {name} | transformers {version} | {numbers} | {verdict} |"


def main() -> None:
    print("| architecture | reference | before thresholds | after | in pieces | verdict |\n| - | - | - | - | - | - |")
    for name in names():
        with tempfile.TemporaryDirectory() as folder:
            print(line(name, compare(name, folder_of(name, Path(folder) / name))), flush=True)


if __name__ == "__main__":
    main()
