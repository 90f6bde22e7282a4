"""`redline models import`: a GGUF file or a model folder becomes a model here."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.models.bringing import add_storage, bring

_ABOUT = """\
Make a model here of a GGUF file (llama, qwen2, qwen3 and gemma3), of a Hugging
Face folder, or of an MLX folder, which stays where it is. The model appears when
it is whole; stopped at any moment, nothing is left that looks like one, and of a
folder the same command goes on where it was.
"""
_EXAMPLES = """examples:
  redline models import Qwen3-4B-Q4_K_M.gguf              keeps its precision, as far as MLX has it
  redline models import Qwen3-4B-F16.gguf --bits 4        quantized
  redline models import split-00001-of-00004.gguf         all four files
  redline models import path/to/mlx-folder --name mine    stays where it is, and is known by that name
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "import",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "path", metavar="PATH", help="GGUF file or model folder; or a model of LM Studio's, by its name"
    )
    add_storage(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Raises UsageError, ModelError."""
    return bring(args, Path(args.path), convert=False)
