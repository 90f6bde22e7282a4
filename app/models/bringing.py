"""What `redline models import` and `redline models convert` have in common: options, progress, the last words."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from app.cli import INTERRUPTED, OK
from app.models.words import duration_words
from app.safe_text import safe
from engine.errors import UsageError
from models.sizes import size_words

if TYPE_CHECKING:
    from models.convert.importing import Found
    from models.convert.progress import Progress, Tell

_BITS = (2, 3, 4, 5, 6, 8, 16)
_KINDS = {"gguf": "GGUF file", "mlx": "MLX folder", "huggingface": "Hugging Face folder"}


def add_storage(parser: argparse.ArgumentParser) -> None:
    """Options that say what the model is called and how its weights are stored."""
    add = parser.add_argument
    add("--name", metavar="NAME", help="what it is called here (default: after the file or folder)")
    add("--bits", type=int, choices=_BITS, help="quantize every matrix anew; 16: none (default: as the source has it)")
    add(
        "--group-size",
        type=int,
        choices=(32, 64, 128),
        help="columns that share a scale, for --bits 2 to 8 (default: 64)",
    )
    add("--dtype", choices=("float16", "bfloat16", "float32"), help="of scales, norms and plain matrices")
    add("--replace", action="store_true", help="in place of another import of the same name")
    add("--json", action="store_true", help="print one JSON document")
    add("--cache-dir", type=Path, metavar="DIR", help="where imported models are kept (default: the user's cache)")


def bring(args: argparse.Namespace, path: Path, convert: bool) -> int:
    """Bring the model in, show how far it is, say what came of it. Raises UsageError, ModelError."""
    from models.convert.importing import bring_in, check_name, look
    from models.gguf.tensors import Wish
    from models.paths import models_dir

    if args.group_size and args.bits in (None, 16):
        raise UsageError("--group-size goes with --bits 2 to 8: give both or neither")
    wish, began_s = Wish(args.bits, args.group_size or 64, args.dtype), time.monotonic()
    found = look(_place(path, args.cache_dir))
    folder = models_dir(args.cache_dir) / check_name(args.name or found.name)
    try:
        with _shown(found, sys.stderr.isatty() and not args.json) as tell:
            bring_in(found, folder, wish, tell, args.replace, convert)
    except KeyboardInterrupt:
        left = "nothing is left of it" if found.kind == "gguf" else "the same command goes on from here"
        print(f"redline: stopped; {left}", file=sys.stderr)
        return INTERRUPTED
    report = _report(found, folder, time.monotonic() - began_s)
    print(json.dumps(report, indent=2, ensure_ascii=False) if args.json else in_words(report))
    return OK


def in_words(report: dict[str, Any]) -> str:
    """The report for people."""
    kept = "is used where it is" if report["linked"] else f"{size_words(report['size_bytes'])}"
    took = "" if report["linked"] else f" in {duration_words(report['seconds'])}"
    return safe(
        f"{report['name']} ({report['model_type']}, {report['weights']}), {kept}{took}\n"
        f"  {report['path']}\n"
        f"  redline chat --target {report['name']}"
    )


def _place(path: Path, root: Path | None) -> Path:
    """A path that is there; else the folder of LM Studio's model of that name; else the path, for its error."""
    if path.exists():
        return path
    from models.hub.names import is_repo
    from models.installed.places import find_places

    if not is_repo(str(path)):
        return path
    studios = (studio / path for studio in find_places(Path.home(), root).lm_studio)
    return next((folder for folder in studios if folder.is_dir()), path)


@contextmanager
def _shown(found: Found, terminal: bool) -> Iterator[Tell]:
    """A bar on a terminal, else a line that it has begun."""
    what = f"{_KINDS[found.kind]} {safe(found.path.name)}"
    if not terminal:
        print(f"redline: importing the {what}", file=sys.stderr, flush=True)
        yield lambda progress: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(24), DownloadColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True, highlight=False), transient=True) as bars:
        task = bars.add_task(what, total=None)

        def tell(progress: Progress) -> None:
            started = progress.done_bytes > 0  # until then it is the tokenizer's time, which has no measure
            total_bytes = progress.total_bytes if started else None
            bars.update(task, completed=progress.done_bytes, total=total_bytes)

        yield tell


def _report(found: Found, folder: Path, seconds: float) -> dict[str, Any]:
    """JSON-ready: what was made, of what, how large."""
    from models.folder import check_folder

    checked = check_folder(folder)
    return {
        "name": folder.name,
        "path": str(folder),
        "source": str(found.path),
        "kind": found.kind,
        "linked": folder.is_symlink(),
        "model_type": checked.model_type,
        "weights": _weights(checked.config),
        "size_bytes": checked.weights_bytes,
        "context_length": checked.context_length,
        "seconds": round(seconds, 2),
    }


def _weights(config: Any) -> str:
    """ "4 bits" or "bfloat16"; of several widths, from the lowest to the highest."""
    plan = config.get("quantization")
    if not isinstance(plan, dict):
        return str(config.get("torch_dtype") or config.get("dtype") or "plain floats")
    parts = [plan, *(part for part in plan.values() if isinstance(part, dict))]
    bits = sorted({part["bits"] for part in parts if isinstance(part.get("bits"), int)})
    return f"{bits[0]} bits" if len(bits) == 1 else f"{bits[0]} to {bits[-1]} bits" if bits else "quantized"
