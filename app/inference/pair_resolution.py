"""From options to folders: which target, which drafters. Nothing is loaded."""

from __future__ import annotations

from pathlib import Path

from app.inference.last_used_models import model_folder
from app.inference.options import AUTO, BUILTIN, Options
from app.inference.usable_models import present_models
from engine.errors import ModelError, UsageError
from models.builtin import SHIPPED, builtin_folder, is_builtin, shipped_folder
from models.catalogue import read_catalogue
from models.compatibility.best_drafter import LOOKUP, auto_drafter
from models.model_folder import ModelFolder

NONE = "none"


def target_folder(options: Options) -> Path:
    """The target's folder, by path or by name; the built-in's is written when it is first needed.

    Raises UsageError for an empty name, ModelError for a name that is not here, or not whole."""
    if not options.target:
        raise UsageError("target is empty: give builtin, the name of a model or a model folder")
    if options.target == BUILTIN:
        return builtin_folder(options.cache_root)
    return Path(options.target) if exists(options.target) else model_folder(options.target, options.cache_root)


def drafter_folder(spec: str) -> Path:
    """The folder of a drafter that has one: shipped, by path, or by name.

    Raises UsageError for no such thing, ModelError for a name that is not here, or not whole."""
    if spec in SHIPPED:
        return shipped_folder(spec)
    if exists(spec):
        return Path(spec)
    try:
        return model_folder(spec)
    except ModelError as error:
        if "/" in spec:
            raise
        names = ", ".join((AUTO, NONE, LOOKUP, *SHIPPED))
        raise UsageError(f"drafter {spec!r} is none of {names}, nor a folder or a model that is here") from error


def drafter_folders(spec: str, target: ModelFolder) -> list[Path]:
    """The folders of all drafters that `spec` names, auto for `target` included. Raises what `drafter_folder` does."""
    named = chosen(target)[0] if spec == AUTO else spec
    return [drafter_folder(part) for part in parts_of(named) if part not in (NONE, LOOKUP)]


def parts_of(spec: str) -> list[str]:
    """Several drafters are named with a plus between them."""
    return spec.split("+") if "+" in spec and not exists(spec) else [spec]


def chosen(target: ModelFolder) -> tuple[str, str]:
    """What auto comes to for `target`, and why."""
    found = auto_drafter(target, [] if is_builtin(target.path) else present_models(), read_catalogue())
    return found.spec, f"auto took {found.why}"


def exists(spec: str) -> bool:
    """Whether `spec` names a place on disk, whatever it holds. A name that no file can have names none."""
    try:
        return bool(spec) and Path(spec).exists()
    except (OSError, ValueError):  # too long, or with a NUL in it
        return False
