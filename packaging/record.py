"""Records what the app imports: `uv run packaging/record.py DIR/Redline.app`, of a bundle for Linux.

That bundle (`uv run packaging/build.py --platform linux --out DIR`) is laid out and trimmed as the one for macOS is,
and can run here. What is written, packaging/imports.txt, is what `packaging/verify.py` asks of every bundle.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bundling.imports import RECORD, worth_recording, write_record
from bundling.launch_check import tried_out


def main() -> int:
    """Run the app, write the record, and return the exit code."""
    parser = argparse.ArgumentParser(prog="record.py", description="Records what the app imports.")
    parser.add_argument("bundle", type=Path, help="the folder Redline.app, built for Linux")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = tried_out(args.bundle.resolve(), Path(folder))
    write_record(report["modules"])
    print(
        f"{RECORD.name}: {len(worth_recording(report['modules']))} modules; the app said {json.dumps(report['reply'])}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
