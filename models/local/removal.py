"""Plans the deletion of a model, with what it frees and who else uses the files, and carries it out.

Files of the Hugging Face cache are deleted by huggingface_hub, which knows which blobs other revisions need. LM
Studio's files belong to LM Studio, and the plan says so.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace

from huggingface_hub import scan_cache_dir
from huggingface_hub.utils import DeleteCacheStrategy

from engine.errors import ModelError
from models.hub.failures import disk_error
from models.hub.repo_cache import RepoCache, discard
from models.local.inventory import HUB_SHARERS, LM_STUDIO, Installed
from models.local.locations import ModelLocations


@dataclass(frozen=True)
class Removal:
    """A planned deletion of `models`: one, or several revisions of one. frees_bytes: on the disk; stays_bytes: kept
    because others need them. losers: who else can no longer use it; keepers: for whom files stay. note: for users."""

    models: tuple[Installed, ...]
    frees_bytes: int
    stays_bytes: int
    losers: tuple[str, ...]
    keepers: tuple[str, ...]
    note: str = ""


def plan_removal(models: Sequence[Installed], places: ModelLocations) -> Removal:
    """Returns what deleting `models` would mean: one, or revisions of one repository. Deletes nothing.
    Raises ModelError if huggingface_hub does not know a revision."""
    model = models[0]
    if model.origin == "hub":
        return _plan_of_hub(tuple(models), places)
    if model.path.is_symlink():
        note = f"only the link is deleted; the files stay at {model.path.resolve()}"
        return Removal((model,), 0, model.size_bytes, model.shared_with, (), note)
    if model.origin == "builtin":
        note = "it comes with Redline and is made again when it is next used"
        return Removal((model,), model.size_bytes, 0, (), (), note)
    losers = (LM_STUDIO,) if model.origin == "lm-studio" else ()
    note = "the files belong to LM Studio, which downloaded them" if losers else ""
    return Removal((model,), model.size_bytes, 0, losers, (), note)


def remove(removal: Removal, places: ModelLocations) -> int:
    """Deletes what the plan names; returns the bytes freed. Raises ModelError, HubError."""
    model = removal.models[0]
    doomed = model.path.with_name(f".{model.path.name}.removed")  # at once gone for everyone, then in pieces
    try:
        if model.origin == "hub":
            return _remove_from_hub(removal, places)
        _check_inside(model, places)
        if model.path.is_symlink():
            model.path.unlink()
        else:
            model.path.rename(doomed)
            shutil.rmtree(doomed)
    except OSError as error:
        raise disk_error(error, model.path) from error
    except RecursionError as error:  # rmtree, in folders that no download and no import makes
        raise ModelError(f"{model.path}: its folders are nested too deep; delete {doomed} by hand") from error
    return removal.frees_bytes


def _plan_of_hub(models: tuple[Installed, ...], places: ModelLocations) -> Removal:
    here = [model for model in models if model.path.is_dir()]
    if not here:
        return Removal(models, sum(model.size_bytes for model in models), 0, (), (), "an unfinished download")
    frees_bytes = int(_strategy(here, places).expected_freed_size)
    going = {f"revision {model.revision[:8]}" for model in here} | {HUB_SHARERS}
    keepers = tuple(sorted({other for model in here for other in model.shared_with} - going))
    stays_bytes = max(0, max(model.size_bytes for model in here) - frees_bytes)
    return Removal(models, frees_bytes, stays_bytes if keepers else 0, (HUB_SHARERS,), keepers)


def _remove_from_hub(removal: Removal, places: ModelLocations) -> int:
    cache = RepoCache(places.hub, removal.models[0].name.partition("@")[0])
    here = [model for model in removal.models if model.path.is_dir()]
    if here:
        with cache.alone():
            for model in here:
                (cache.plans / f"{model.revision}.json").unlink(missing_ok=True)
            _strategy(here, places).execute()
        for model in here:
            if model.path.exists():
                raise ModelError(f"{model.path}: could not be deleted; check its permissions")
    unfinished_bytes = discard(places.hub, cache.repo) if len(here) < len(removal.models) else 0
    return (removal.frees_bytes if here else 0) + unfinished_bytes


def _strategy(models: Sequence[Installed], places: ModelLocations) -> DeleteCacheStrategy:
    """Returns huggingface_hub's own plan. Raises ModelError if it does not know a revision.

    Of this repository alone: a copy of a repository has its commits too, and huggingface_hub takes the first it finds.
    """
    found = scan_cache_dir(places.hub)
    repos = frozenset(repo for repo in found.repos if models[0].path.is_relative_to(repo.repo_path))
    found = replace(found, repos=repos)
    commits = {revision.commit_hash for repo in repos for revision in repo.revisions}
    for model in models:
        if model.revision not in commits:
            raise ModelError(f"{model.path}: is not a snapshot that huggingface_hub can read; delete it by hand")
    return found.delete_revisions(*(model.revision for model in models))


def _check_inside(model: Installed, places: ModelLocations) -> None:
    """Raises ModelError for a folder outside the folders of models, which is never deleted."""
    roots = (places.own, *places.lm_studio)
    if not any(model.path.parent.resolve().is_relative_to(root.resolve()) for root in roots):
        raise ModelError(f"{model.path}: is in none of the folders of models; delete it by hand")
