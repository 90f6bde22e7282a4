"""Is this Redline.app what it should be? `uv run packaging/verify.py dist/Redline.app`, on macOS and Linux.

Reads the bundle and changes nothing. Exit code 0: no fault; 1: faults, a line each; 2: usage.
"""

import argparse
import sys
import time
from pathlib import Path

from bundling.checks import CHECKS, LIMIT_BYTES, Bundle, bytes_by_part
from bundling.imports import ELSEWHERE, ON_MACOS, RECORD, recorded
from bundling.leaks import machine_paths

_SHOWN = 12  # faults of one check; the rest are counted


def main() -> int:
    """Check, tell, and return the exit code."""
    args = _parser().parse_args()
    if not (args.bundle / "Contents").is_dir():
        print(f"verify: {args.bundle} is no app: give the folder Redline.app", file=sys.stderr)
        return 2
    bundle = Bundle(args.bundle, [*recorded(args.record), *ON_MACOS, *ELSEWHERE], machine_paths(*args.machine))
    faults = sum(_check(bundle, name) for name in CHECKS)
    _tell_sizes(bundle)
    print(f"{len(bundle.machos)} Mach-O files; " + (f"{faults} faults" if faults else "no fault"))
    return 1 if faults else 0


def _check(bundle: Bundle, name: str) -> int:
    """Run a check and print how it went; the number of faults."""
    began_s = time.monotonic()
    found = list(CHECKS[name](bundle))
    took = f"{time.monotonic() - began_s:5.1f} s"
    what = (CHECKS[name].__doc__ or "").split(": ")[0].strip()
    print(f"{'ok  ' if not found else 'FAIL'}  {name:<13}{took}  {what}")
    for place, fault in found[:_SHOWN]:
        print(f"        {place} {fault}")
    if len(found) > _SHOWN:
        print(f"        and {len(found) - _SHOWN} more")
    return len(found)


def _tell_sizes(bundle: Bundle) -> None:
    parts = bytes_by_part(bundle.layout)
    print(f"\n{sum(parts.values()) / 1e6:7.1f} MB of at most {LIMIT_BYTES / 1e6:.0f}")
    for part, size in parts.items():
        print(f"{size / 1e6:7.1f}    {part}")
    print()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="verify.py", description="Checks a Redline.app, on macOS or Linux.")
    add = parser.add_argument
    add("bundle", type=Path, help="the folder Redline.app")
    add("--record", type=Path, default=RECORD, metavar="FILE", help="modules that must be there, one a line")
    add("--machine", type=Path, action="append", default=[], metavar="DIR", help="a folder that no file may name")
    return parser


if __name__ == "__main__":
    sys.exit(main())
