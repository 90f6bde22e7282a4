"""Deletes unfinished downloads. Complete models and the files that they need stay."""

import shutil
from pathlib import Path

from models.hub.download_plan import planned_repos, read_plans
from models.hub.failures import disk_error
from models.hub.repo_cache import PARTIAL, RepoCache
from models.hub.repo_names import check_repo


def discard(cache_folder: Path, repo: str) -> int:
    """Deletes the unfinished downloads of `repo` from the Hugging Face cache; returns the number of bytes freed.

    The case of the repository's name does not matter. Raises UsageError for an invalid name, HubError if it is being
    downloaded right now or cannot be deleted.
    """
    folded = check_repo(repo).casefold()
    spelled = [planned for planned in planned_repos(cache_folder) if planned.casefold() == folded]
    cache = RepoCache(cache_folder, repo if repo in spelled or not spelled else spelled[0])
    if not cache.folder.is_dir():
        return 0
    try:
        with cache.alone():
            freed = sum(_unlink(part) for part in (cache.folder / "blobs").glob(f"*{PARTIAL}"))
            for listing in read_plans(cache):
                if not cache.is_whole(listing):
                    linked = _linked(cache)
                    blobs = [cache.blob(file) for file in listing.contents if file.digest not in linked]
                    freed += sum(_unlink(blob) for blob in blobs)
                    (cache.plans / f"{listing.commit}.json").unlink(missing_ok=True)
            for draft in cache.folder.glob(".redline-*"):
                shutil.rmtree(draft)
            remove_empty(cache)
            return freed
    except OSError as error:
        raise disk_error(error, cache.folder) from error


def remove_empty(cache: RepoCache) -> None:
    """Deletes empty partial files and empty folders. Raises OSError."""
    for part in (cache.folder / "blobs").glob(f"*{PARTIAL}"):
        if part.stat().st_size == 0:
            part.unlink()
    for folder in (cache.plans, cache.folder / "blobs", cache.folder):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _linked(cache: RepoCache) -> set[str]:
    """Returns the names of the blobs that snapshots link to."""
    links = (path for path in (cache.folder / "snapshots").glob("**/*") if path.is_symlink())
    return {link.readlink().name for link in links}


def _unlink(path: Path) -> int:
    """Deletes a file if it exists; returns its size."""
    try:
        size_bytes = path.lstat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    return size_bytes
