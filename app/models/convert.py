"""`redline models convert`: a Hugging Face folder becomes an MLX model here, quantized if wanted."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.models.bringing import add_storage, bring

_ABOUT = """\
Make an MLX model of a folder with safetensors, as transformers writes them; with
--bits, quantized by mlx-lm. One tensor is in memory at a time. The model appears
when it is whole; stopped before that, the same command goes on where it was.
"""
_EXAMPLES = """examples:
  redline models convert path/to/folder                   the same precision
  redline models convert path/to/folder --bits 4          quantized, in groups of 64
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "convert",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", metavar="FOLDER", help="with config.json, safetensors and tokenizer.json")
    add_storage(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Raises UsageError, ModelError."""
    return bring(args, Path(args.path), convert=True)
