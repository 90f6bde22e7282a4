"""The stored plan of a download, by which a killed one is found again and a snapshot is known to be complete."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from huggingface_hub import constants

from engine.errors import RedlineError
from models.durable_files import replace_json
from models.hub.repo_cache import RepoCache
from models.hub.repo_files import HubFile, RepoListing
from models.hub.repo_names import check_commit, check_listed, check_repo, check_revision, check_wanted

FORMAT = 1
_LARGEST_BYTES = 4 * 1024 * 1024


class _Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    repo: str
    revision: str
    commit: str
    left_out: int
    files: list[HubFile]


def write_plan(cache: RepoCache, listing: RepoListing) -> None:
    """Writes `listing` durably. Raises OSError."""
    cache.plans.mkdir(parents=True, exist_ok=True)
    plan = _Plan(FORMAT, listing.repo, listing.revision, listing.commit, listing.left_out, list(listing.files))
    replace_json(cache.plans / f"{listing.commit}.json", msgspec.to_builtins(plan))


def read_plans(cache: RepoCache) -> list[RepoListing]:
    """Returns the plans of a repository, newest first, without those that are invalid or belong to another repository.
    All names are checked before paths are made of them."""
    found = sorted(_files(cache.plans), key=lambda place: place[1], reverse=True)
    return [listing for path, _ in found if (listing := _read(path, cache.repo)) is not None]


def planned_repos(cache: Path) -> list[str]:
    """Returns the repositories in the `cache` that Redline has started to download."""
    folders = sorted(path.parent.name for path in cache.glob("models--*/.redline"))
    names = (name.removeprefix("models--").replace(constants.REPO_ID_SEPARATOR, "/") for name in folders)
    return [name for name in names if read_plans(RepoCache(cache, name))]


def _files(folder: Path) -> Iterator[tuple[Path, float]]:
    for path in folder.glob("*.json"):
        try:
            yield path, path.stat().st_mtime
        except OSError:
            continue


def _read(path: Path, repo: str) -> RepoListing | None:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return None
        plan = msgspec.json.decode(path.read_bytes(), type=_Plan)
        names = [file.name for file in plan.files]
        check_listed(names, repo)
        check_wanted(names, repo)
        commit = check_commit(plan.commit, repo)
        listing = RepoListing(
            check_repo(plan.repo), check_revision(plan.revision), commit, tuple(plan.files), plan.left_out
        )
    except (OSError, msgspec.DecodeError, RedlineError):
        return None
    digests = all(file.size_bytes >= 0 and file.digest.isalnum() for file in plan.files)
    return listing if plan.format == FORMAT and plan.repo == repo and path.stem == commit and digests else None
