"""Tries an app as a user would: `uv run packaging/try.py dist/Redline.dmg`, or dist/Redline.app.

A copy of it, read-only, in a folder with spaces and accents, in an empty home and with an empty environment, opens its
window (off screen), answers a message, runs a few commands, and must not have changed itself.

`--record` also writes down what the app imports, packaging/imports.txt, which `verify.py` asks of every bundle. It is
for a bundle for Linux (`uv run packaging/build.py --platform linux --out DIR`), laid out and trimmed as that for macOS.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bundling import imports
from bundling.image import opened
from bundling.launch_check import exercised_by_double_click, tried_out
from bundling.layout import NAME
from bundling.tools import BuildError


def main() -> int:
    """Try it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="try.py", description="Tries an app as a user would.")
    parser.add_argument("app", type=Path, help="Redline.app or, on a Mac, Redline.dmg")
    parser.add_argument("--double-click", action="store_true", help="have macOS open Redline.app, where it lies")
    parser.add_argument("--record", action="store_true", help="write down what the app imports")
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            if args.double_click:
                found = exercised_by_double_click(args.app.resolve(), Path(folder))
            elif args.app.is_dir():
                found = tried_out(args.app.resolve(), Path(folder))
            else:
                with opened(args.app) as image:
                    found = tried_out(image / f"{NAME}.app", Path(folder))
    except BuildError as error:
        print(f"try: {error}", file=sys.stderr)
        return 1
    if args.record:
        imports.write_record(found["modules"])
    print(f"{found['tokens']} tokens: {found['reply']!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
