"""`redline doctor`: what this machine has, on one screen, and what to do about what is missing."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from app.checks import Finding, examine
from app.cli import FAILURE, OK
from app.safe_text import safe

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "doctor",
        description="What this machine has, and what to do about what is missing. "
        "Exit code 1 when something that every reply needs is missing.",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as one JSON document")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="where imported models are kept")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look and tell. Finds out by trying, in processes of their own, so that nothing broken breaks it."""
    findings = examine(args.cache_dir)
    if args.json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=2, ensure_ascii=False))
    elif sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        _print_table(findings)
    else:
        print(plain(findings))
    return FAILURE if any(finding.state == "missing" for finding in findings) else OK


def plain(findings: Sequence[Finding]) -> str:
    """A line each, and under it what to do."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        state = "" if finding.state == "ok" else f"{finding.state}: "
        lines.append(f"{finding.name:{width}}  {state}{safe(finding.value)}")
        if finding.advice:
            lines.append(f"{'':{width}}  -> {safe(finding.advice)}")
    return "\n".join(lines)


def _print_table(findings: Sequence[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    table.add_column()
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mark, colour = _MARKS[finding.state]
        value = Text(safe(finding.value))
        if finding.advice:
            value.append(f"\n→ {safe(finding.advice)}", style=colour)
        table.add_row(Text(mark, style=colour), finding.name, value)
    Console(highlight=False).print(table)
