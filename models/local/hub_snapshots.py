"""The Hugging Face cache, as models: which revisions are there, whole or in part.

Scanned by huggingface_hub itself. What Redline is pulling has no snapshot yet, and is known by its plan.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import scan_cache_dir
from huggingface_hub.errors import CacheNotFound
from huggingface_hub.utils import CachedRepoInfo, CachedRevisionInfo

from models.hub.repo_cache import RepoCache, planned_repos, read_plans
from models.hub.repo_names import is_repo
from models.size_text import size_words

MAIN = "main"
_SHORT = 8


@dataclass(frozen=True)
class Revision:
    """One revision of a repository. name: as users write it; that of an older revision ends in @ and its commit.
    trouble: what is known to be missing, "" for nothing. twins: commits with which it has files in common."""

    repo: str
    name: str
    commit: str
    path: Path
    size_bytes: int
    total_bytes: int
    trouble: str
    twins: tuple[str, ...] = ()


def revisions(cache: Path) -> list[Revision]:
    """Every revision of a repository with weights in safetensors, and every unfinished pull."""
    try:
        repos = scan_cache_dir(cache).repos
    except (CacheNotFound, ValueError, OSError):
        return []
    models = [repo for repo in repos if repo.repo_type == "model" and is_repo(repo.repo_id)]
    found = [revision for repo in models for revision in _of_repo(cache, repo)]
    known = {(revision.repo, revision.commit) for revision in found}
    return [*found, *(partial for partial in _unfinished(cache) if (partial.repo, partial.commit) not in known)]


def current(cache: Path, repo: str) -> Path | None:
    """The snapshot that `repo` means: what main was at the last pull, else the newest; None where there is none."""
    folder = RepoCache(cache, repo).folder
    try:
        commit = (folder / "refs" / MAIN).read_text().strip()
    except (OSError, UnicodeDecodeError):
        commit = ""
    if commit.isalnum() and (folder / "snapshots" / commit).is_dir():
        return folder / "snapshots" / commit
    try:
        snapshots = [path for path in (folder / "snapshots").iterdir() if path.is_dir()]
        return max(snapshots, key=lambda path: (path.stat().st_mtime, path.name), default=None)
    except OSError:
        return None


def _of_repo(cache: Path, repo: CachedRepoInfo) -> Iterator[Revision]:
    now = current(cache, repo.repo_id)
    for revision in sorted(repo.revisions, key=lambda revision: revision.commit_hash):
        if not any(file.file_name.endswith((".safetensors", ".safetensors.index.json")) for file in revision.files):
            continue
        commit = revision.commit_hash
        old = now is None or revision.snapshot_path.name != now.name
        yield Revision(
            repo=repo.repo_id,
            name=f"{repo.repo_id}@{commit[:_SHORT]}" if old else repo.repo_id,
            commit=commit,
            path=revision.snapshot_path,
            size_bytes=revision.size_on_disk,
            total_bytes=revision.size_on_disk,
            trouble=_lack(cache, repo.repo_id, commit),
            twins=_twins(repo, revision),
        )


def _lack(cache: Path, repo: str, commit: str) -> str:
    """What the plan of a pull says is missing from its snapshot."""
    own = RepoCache(cache, repo)
    for listing in read_plans(own):
        if listing.commit == commit and not own.is_whole(listing):
            return "not all of its files are here"
    return ""


def _twins(repo: CachedRepoInfo, revision: CachedRevisionInfo) -> tuple[str, ...]:
    blobs = {file.blob_path for file in revision.files}
    others = (other for other in repo.revisions if other.commit_hash != revision.commit_hash)
    return tuple(sorted(other.commit_hash for other in others if blobs & {file.blob_path for file in other.files}))


def _unfinished(cache: Path) -> Iterator[Revision]:
    """Pulls that Redline has begun and not ended: the newest of each repository."""
    for repo in planned_repos(cache):
        own = RepoCache(cache, repo)
        listing = read_plans(own)[0]
        if own.is_whole(listing):
            continue
        present = sum(own.present_bytes(file, listing.commit) for file in listing.contents)
        share = f"{size_words(present)} of {size_words(listing.total_bytes)} are here"
        path = own.snapshot(listing.commit)
        yield Revision(repo, repo, listing.commit, path, present, listing.total_bytes, share)
