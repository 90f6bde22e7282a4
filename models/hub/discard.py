"""Throws unfinished downloads away. What is whole, or belongs to something whole, stays."""

import shutil
from pathlib import Path

from models.hub.cache import PARTIAL, RepoCache
from models.hub.failures import disk_error
from models.hub.names import check_repo
from models.hub.plan import planned_repos, read_plans


def discard(cache_folder: Path, repo: str) -> int:
    """Delete what unfinished pulls of `repo` have left in the Hugging Face cache; returns how many bytes that frees.

    The repository may be spelled in other case than the hub spells it, as when it was pulled.
    Raises UsageError for a name that cannot be; HubError: it is being pulled right now, or the disk refuses.
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
            tidy(cache)
            return freed
    except OSError as error:
        raise disk_error(error, cache.folder) from error


def tidy(cache: RepoCache) -> None:
    """Partial files without a byte, and folders without a file, are nobody's. Raises OSError."""
    for part in (cache.folder / "blobs").glob(f"*{PARTIAL}"):
        if part.stat().st_size == 0:
            part.unlink()
    for folder in (cache.plans, cache.folder / "blobs", cache.folder):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _linked(cache: RepoCache) -> set[str]:
    """Names of the blobs that a snapshot needs."""
    links = (path for path in (cache.folder / "snapshots").glob("**/*") if path.is_symlink())
    return {link.readlink().name for link in links}


def _unlink(path: Path) -> int:
    """Delete a file if it is there; its bytes."""
    try:
        size_bytes = path.lstat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    return size_bytes
