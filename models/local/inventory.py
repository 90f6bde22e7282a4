"""The models on this machine, judged without loading and measured.

The Hugging Face cache is scanned by huggingface_hub itself. A download that has not ended has no snapshot yet, and is
known by its plan.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub import scan_cache_dir
from huggingface_hub.errors import CacheNotFound
from huggingface_hub.utils import CachedRepoInfo, CachedRevisionInfo

from engine.errors import ModelError
from models.builtin import is_builtin
from models.drafters import kind_of
from models.durable_files import locked, read_json_object, replace_json
from models.hub.repo_cache import RepoCache, planned_repos, read_plans
from models.hub.repo_files import RepoListing
from models.hub.repo_names import is_repo
from models.local.completeness import missing_part
from models.local.locations import ModelLocations
from models.paths import BUILTIN, cache_dir
from models.size_text import size_words

Origin = Literal["hub", "lm-studio", "redline", "builtin"]
HUB_SHARERS = "other programs that use the Hugging Face cache (such as mlx-lm and transformers)"
LM_STUDIO = "LM Studio"
_USES_FILE = "models-used.json"  # every process of Redline may write it
_LOCK_WAIT_S = 5.0
_WEIGHTS = (".safetensors", ".safetensors.index.json")


@dataclass(frozen=True)
class Installed:
    """One model. name: what --target and --drafter take. size_bytes: on disk, the same content counted once.
    total_bytes: when it is complete. last_used_s: since the epoch, None if Redline never used it. trouble: why it is
    not complete. revision: of the hub, "" elsewhere. shared_with: who else uses it, or keeps its files."""

    name: str
    path: Path
    origin: Origin
    kind: str
    size_bytes: int
    total_bytes: int
    last_used_s: float | None
    complete: bool
    trouble: str = ""
    revision: str = ""
    shared_with: tuple[str, ...] = ()


def installed(places: ModelLocations) -> list[Installed]:
    """Returns every model in the places, sorted by name; unfinished downloads are included as incomplete."""
    uses = read_uses(places.root)
    found = [*_of_hub(places, uses), *_of_lm_studio(places, uses), *_own(places, uses)]
    return sorted(found, key=lambda model: (model.name.casefold(), model.origin, model.revision))


def _of_hub(places: ModelLocations, uses: dict[str, float]) -> Iterator[Installed]:
    """Yields every revision of a repository with weights in safetensors, and every unfinished download."""
    try:
        repos = scan_cache_dir(places.hub).repos
    except (CacheNotFound, ValueError, OSError):
        return
    seen: set[Path] = set()
    for repo in repos:
        if repo.repo_type == "model" and is_repo(repo.repo_id):
            for revision in repo.revisions:
                if any(file.file_name.endswith(_WEIGHTS) for file in revision.files):
                    seen.add(revision.snapshot_path)
                    yield _snapshot(RepoCache(places.hub, repo.repo_id), repo, revision, uses)
    for name in planned_repos(places.hub):
        cache = RepoCache(places.hub, name)
        listing = read_plans(cache)[0]
        if not cache.is_whole(listing) and cache.snapshot(listing.commit) not in seen:
            yield _unfinished(cache, listing)


def _snapshot(
    cache: RepoCache, repo: CachedRepoInfo, revision: CachedRevisionInfo, uses: dict[str, float]
) -> Installed:
    commit, path = revision.commit_hash, revision.snapshot_path
    current = cache.current_snapshot()
    is_current = current is not None and path.name == current.name
    lacks = any(plan.commit == commit and not cache.is_whole(plan) for plan in read_plans(cache))
    trouble = "not all of its files are here" if lacks else missing_part(path)
    return Installed(
        name=repo.repo_id if is_current else f"{repo.repo_id}@{commit[:8]}",
        path=path,
        origin="hub",
        kind=_kind(path),
        size_bytes=revision.size_on_disk,
        total_bytes=revision.size_on_disk,
        last_used_s=uses.get(os.path.realpath(path)),
        complete=not trouble,
        trouble=trouble,
        revision=commit,
        shared_with=(HUB_SHARERS, *_twins(repo, revision)),
    )


def _twins(repo: CachedRepoInfo, revision: CachedRevisionInfo) -> list[str]:
    """Returns the other revisions that have files in common with this one."""
    blobs = {file.blob_path for file in revision.files}
    others = (other for other in repo.revisions if other.commit_hash != revision.commit_hash)
    commits = sorted(other.commit_hash for other in others if blobs & {file.blob_path for file in other.files})
    return [f"revision {commit[:8]}" for commit in commits]


def _unfinished(cache: RepoCache, listing: RepoListing) -> Installed:
    present = sum(cache.present_bytes(file, listing.commit) for file in listing.contents)
    return Installed(
        name=cache.repo,
        path=cache.snapshot(listing.commit),
        origin="hub",
        kind="unknown",
        size_bytes=present,
        total_bytes=listing.total_bytes,
        last_used_s=None,
        complete=False,
        trouble=f"{size_words(present)} of {size_words(listing.total_bytes)} is here",
        revision=listing.commit,
        shared_with=(HUB_SHARERS,),
    )


def _of_lm_studio(places: ModelLocations, uses: dict[str, float]) -> Iterator[Installed]:
    """Yields LM Studio's models, in publisher/model as it documents. GGUF files can be imported, MLX folders used."""
    for root in places.lm_studio:
        for folder in _folders(root, 2):
            name = folder.relative_to(root).as_posix()
            yield from _plain(name, folder, "lm-studio", uses, (LM_STUDIO,))


def _own(places: ModelLocations, uses: dict[str, float]) -> Iterator[Installed]:
    for folder in _folders(places.own, 1):
        origin: Origin = "builtin" if is_builtin(folder) else "redline"
        yield from _plain(BUILTIN if origin == "builtin" else folder.name, folder, origin, uses, ())


def _plain(
    name: str, folder: Path, origin: Origin, uses: dict[str, float], shared_with: tuple[str, ...]
) -> Iterator[Installed]:
    """Yields the model in an ordinary folder, if there is one."""
    sizes = _sizes(folder)
    gguf = "config.json" not in sizes and any(file.endswith(".gguf") for file in sizes)
    if not gguf and not any(file.endswith(_WEIGHTS) for file in sizes):
        return
    trouble = "is GGUF; `redline models import` makes an MLX model of it" if gguf else missing_part(folder)
    size_bytes = sum(sizes.values())
    used_s = uses.get(os.path.realpath(folder))
    kind = "gguf" if gguf else _kind(folder)
    yield Installed(
        name, folder, origin, kind, size_bytes, size_bytes, used_s, not trouble, trouble, shared_with=shared_with
    )


def _kind(folder: Path) -> str:
    try:
        return kind_of(folder).name
    except (ModelError, OSError):
        return "unknown"


def _folders(root: Path, depth: int) -> list[Path]:
    """Returns the folders `depth` levels below `root`, without hidden ones."""
    try:
        below = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return []
    return below if depth == 1 else [folder for path in below for folder in _folders(path, depth - 1)]


def _sizes(folder: Path) -> dict[str, int]:
    """Returns the bytes of each file of the folder, by name; 0 for what cannot be read."""
    try:
        return {path.name: _size(path) for path in folder.iterdir() if not path.is_dir()}
    except OSError:
        return {}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # a link to nothing, or to itself
        return 0


def note_use(folder: Path, root: Path | None = None, now_s: float | None = None) -> None:
    """Records that the model in `folder` is used now, and forgets folders that are gone. now_s: seconds since the
    epoch. Raises OSError."""
    record = cache_dir(root) / _USES_FILE
    busy = TimeoutError(f"{record} is being written by another process")
    with locked(record.with_name(f".{_USES_FILE}.lock"), _LOCK_WAIT_S, busy):
        uses = {path: used_s for path, used_s in read_uses(root).items() if Path(path).is_dir()}
        uses[os.path.realpath(folder)] = time.time() if now_s is None else now_s
        replace_json(record, {"used_s": uses}, private=True)  # it says where the user keeps models


def read_uses(root: Path | None = None) -> dict[str, float]:
    """Returns the last uses in seconds since the epoch, by the real path of the folder; {} if there is no record."""
    try:
        used = read_json_object(cache_dir(root) / _USES_FILE).get("used_s")
    except ModelError:
        return {}
    if not isinstance(used, dict):
        return {}
    return {path: float(used_s) for path, used_s in used.items() if type(used_s) in (int, float)}
