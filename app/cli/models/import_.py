"""`redline models import` and `convert`: make a model from a GGUF file or a model folder."""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from app.cli.terminal.output import error_console
from app.command_line import INTERRUPTED, OK, add_command, add_common, notify, print_json
from app.duration_text import duration_words
from app.safe_text import safe
from engine.errors import UsageError
from models.size_text import size_words

if TYPE_CHECKING:
    from app.command_line import Commands
    from models.convert.atomic_folder import ImportProgress, OnProgress
    from models.convert.model_import import ImportSource

_IMPORT = (
    "Import a GGUF file (llama, qwen2, qwen3 or gemma3), a Hugging Face folder, or an MLX folder, which stays where it "
    "is. An import that is stopped leaves no model."
)
_IMPORT_EXAMPLES = """examples:
  redline models import Qwen3-4B-Q4_K_M.gguf              keep the precision where MLX has it
  redline models import Qwen3-4B-F16.gguf --bits 4        quantize
  redline models import split-00001-of-00004.gguf         import all four parts
  redline models import path/to/mlx-folder --name mine    use the folder under another name
"""
_CONVERT = (
    "Convert a Hugging Face folder with safetensors to an MLX model; with --bits, mlx-lm quantizes it. A conversion "
    "that is stopped leaves no model."
)
_CONVERT_EXAMPLES = """examples:
  redline models convert path/to/folder                   keep the precision
  redline models convert path/to/folder --bits 4          quantize in groups of 64
"""
_KINDS = {"gguf": "GGUF file", "mlx": "MLX folder", "huggingface": "Hugging Face folder"}
_BITS = "quantize to this many bits; 16: do not quantize (default: as in the source)"
_GROUP_SIZE = "weights that share a scale, for --bits 2 to 8 (default: 64)"


def add_import(commands: Commands) -> None:
    parser = add_command(commands, "import", run, _IMPORT, _IMPORT_EXAMPLES)
    parser.add_argument("path", metavar="PATH", help="a GGUF file, a model folder, or the name of an installed model")
    _add_storage(parser)


def add_convert(commands: Commands) -> None:
    parser = add_command(commands, "convert", functools.partial(run, convert=True), _CONVERT, _CONVERT_EXAMPLES)
    source = "a folder with config.json, safetensors and tokenizer.json, or the name of an installed model"
    parser.add_argument("path", metavar="FOLDER", help=source)
    _add_storage(parser)


def _add_storage(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the model's name and the storage of its weights."""
    add = parser.add_argument
    add("--name", metavar="NAME", help="name of the model (default: that of the file or folder)")
    add("--bits", type=int, choices=(2, 3, 4, 5, 6, 8, 16), help=_BITS)
    add("--group-size", type=int, choices=(32, 64, 128), help=_GROUP_SIZE)
    add("--dtype", choices=("float16", "bfloat16", "float32"), help="type of the weights that are not quantized")
    add("--replace", action="store_true", help="replace a model of the same name")
    add_common(parser)


def run(args: argparse.Namespace, convert: bool = False) -> int:
    """Imports the model, shows the progress and reports the result. Raises UsageError, ModelError."""
    from models.convert.model_import import check_name, import_model, inspect
    from models.paths import models_dir
    from models.storage_options import StorageOptions

    if args.group_size and args.bits in (None, 16):
        raise UsageError("--group-size goes with --bits 2 to 8: give both or neither")
    options, began_s = StorageOptions(args.bits, args.group_size or 64, args.dtype), time.monotonic()
    found = inspect(_source(Path(args.path), args.cache_dir))
    folder = models_dir(args.cache_dir) / check_name(args.name or found.name)
    try:
        with _progress(found, sys.stderr.isatty() and not args.json) as report_progress:
            import_model(found, folder, options, report_progress, args.replace, convert)
    except KeyboardInterrupt:
        notify("stopped; nothing was imported")
        return INTERRUPTED
    report = _report(found, folder, time.monotonic() - began_s)
    if args.json:
        print_json(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        print(_report_text(report))
    return OK


def _source(path: Path, root: Path | None) -> Path:
    """Returns an existing path, else the folder of the installed model of that name, else the path. A model of LM
    Studio may be in GGUF. Raises ModelError for an unknown name that cannot be meant as a path."""
    from models.hub.repo_names import is_repo
    from models.local.locations import AbsentModel, find_locations, find_model

    if path.exists() or not is_repo(str(path)):
        return path
    places = find_locations(Path.home(), root)
    studios = [folder for studio in places.lm_studio if (folder := studio / path).is_dir()]
    try:
        return studios[0] if studios else find_model(str(path), places)
    except AbsentModel:
        if "/" in str(path) or path.suffix:
            return path  # whoever opens it reports that it does not exist
        raise


@contextmanager
def _progress(found: ImportSource, terminal: bool) -> Iterator[OnProgress]:
    """Shows a bar on a terminal, else one line."""
    what = f"{_KINDS[found.kind]} {safe(found.path.name)}"
    if not terminal:
        notify(f"importing the {what}")
        yield lambda progress: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(24), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=error_console(), transient=True) as bars:
        task = bars.add_task(what, total=None)

        def update(progress: ImportProgress) -> None:
            started = progress.done_bytes > 0  # until then the tokenizer is read, which has no measure
            bars.update(task, completed=progress.done_bytes, total=progress.total_bytes if started else None)

        yield update


def _report(found: ImportSource, folder: Path, seconds: float) -> dict[str, Any]:
    """Returns the report as a JSON object."""
    from models.model_folder import check_folder

    checked = check_folder(folder)
    return {
        "name": folder.name,
        "path": str(folder),
        "source": str(found.path),
        "kind": found.kind,
        "linked": folder.is_symlink(),
        "model_type": checked.model_type,
        "weights": _precision(checked.config),
        "size_bytes": checked.weights_bytes,
        "context_length": checked.context_length,
        "seconds": round(seconds, 2),
    }


def _report_text(report: dict[str, Any]) -> str:
    took = f"{size_words(report['size_bytes'])} in {duration_words(report['seconds'])}"
    stored = "used where it is" if report["linked"] else took
    return (
        f"{report['name']} ({report['model_type']}, {report['weights']}), {stored}\n"
        f"  {report['path']}\n"
        f"  redline chat --target {report['name']}"
    )


def _precision(config: Any) -> str:
    """Returns the precision in words, such as 4 bits or bfloat16."""
    plan = config.get("quantization")
    if not isinstance(plan, dict):
        return str(config.get("torch_dtype") or config.get("dtype") or "not quantized")
    parts = [plan, *(part for part in plan.values() if isinstance(part, dict))]
    bits = sorted({part["bits"] for part in parts if isinstance(part.get("bits"), int)})
    return f"{bits[0]} bits" if len(bits) == 1 else f"{bits[0]} to {bits[-1]} bits" if bits else "quantized"
