"""From names to folders: which target, which drafters, what automatic choice takes. Nothing is loaded."""

from contextlib import suppress
from pathlib import Path

from filelock import Timeout

from app.inference.options import AUTO, Options
from app.spelling_suggestion import did_you_mean
from engine.errors import UsageError
from models.builtin import SHIPPED, builtin_folder, is_builtin, shipped_folder
from models.catalogue.entries import read_catalogue
from models.compatibility.best_drafter import UsableModel, auto_drafter
from models.drafters import LOOKUP
from models.local.inventory import installed, note_use
from models.local.locations import AbsentModel, find_locations, find_model, names_in
from models.model_folder import ModelFolder
from models.paths import BUILTIN, exists

NONE = "none"


def target_folder(options: Options) -> Path:
    """Returns the target's folder, by path or by name; the built-in model's is written when it is first needed.

    Raises UsageError for an empty name, ModelError for a name that is not on this machine, or not complete.
    """
    if not options.target:
        raise UsageError("target is empty: give builtin, the name of a model or a model folder")
    return _model_folder(options.target, options.cache_root)


def _model_folder(spec: str, cache_root: Path | None) -> Path:
    """Returns the folder of a model: the built-in one, by path, or by name. Raises ModelError."""
    if spec == BUILTIN:
        return builtin_folder(cache_root)
    return Path(spec) if exists(spec) else find_model(spec, find_locations(Path.home(), cache_root))


def drafter_folder(spec: str, cache_root: Path | None = None) -> Path:
    """Returns the folder of a drafter that has one: shipped, the built-in model, by path, or by name. cache_root: as in
    `Options`.

    Raises UsageError for no such drafter, ModelError for a name that is not on this machine, or not complete.
    """
    if spec in SHIPPED:
        return shipped_folder(spec)
    try:
        return _model_folder(spec, cache_root)
    except AbsentModel as error:
        if "/" in spec:
            raise
        places = find_locations(Path.home(), cache_root)
        names = (AUTO, NONE, LOOKUP, *SHIPPED, BUILTIN)
        unknown = f"unknown drafter {spec!r}: give {', '.join(names)}, a folder, or an installed model"
        raise UsageError(f"{unknown}{did_you_mean(spec, (*names, *names_in(places)))}") from error


def drafter_folders(spec: str, target: ModelFolder, cache_root: Path | None = None) -> list[Path]:
    """Returns the folders of all drafters that `spec` names, for `target` if it is auto. Raises what `drafter_folder`
    raises."""
    named = resolve_auto(target, cache_root)[0] if spec == AUTO else spec
    return [drafter_folder(part, cache_root) for part in parts_of(named) if part not in (NONE, LOOKUP)]


def parts_of(spec: str) -> list[str]:
    """Returns the drafters that `spec` names; a plus stands between several."""
    return spec.split("+") if "+" in spec and not exists(spec) else [spec]


def resolve_auto(target: ModelFolder, cache_root: Path | None = None) -> tuple[str, str]:
    """Returns what auto takes for `target`, and a note that says why."""
    models = [] if is_builtin(target.path) else present_models(cache_root)
    found = auto_drafter(target, models, read_catalogue(), cache_root)
    return found.spec, f"auto took {found.why}"


def present_models(cache_root: Path | None = None) -> list[UsableModel]:
    """Returns the models and drafters on this machine that Redline can load. cache_root: as in `Options`."""
    return [
        UsableModel(one.name, one.path, one.size_bytes, one.name if one.origin in ("hub", "lm-studio") else None)
        for one in installed(find_locations(Path.home(), cache_root))
        if one.complete and one.kind not in ("gguf", "unknown")
    ]


def note_used(folder: Path, cache_root: Path | None = None) -> None:
    """Records that the model in `folder` is used now, if it is in a place where Redline looks for models. Does nothing
    where the record cannot be written."""
    with suppress(OSError, Timeout):
        if find_locations(Path.home(), cache_root).holds(folder):
            note_use(folder, cache_root)
