"""One repository in the Hugging Face cache: its files, the plans of its downloads, and their deletion.

The cache is as huggingface_hub lays it out ("Understand caching" in its guide):

    models--owner--name/blobs/ETAG                        the bytes of a file
                        snapshots/COMMIT/config.json ->   ../../blobs/ETAG
                        refs/main                         the commit that a branch or tag stood for
                        .redline/COMMIT.json              ours: the plan of a download
                        blobs/ETAG.redline.incomplete     ours: the first bytes of a file

Invariants:
1. A snapshot appears by one rename, after all its blobs are there and proven; before that no tool sees any of it. Where
   another tool has made the snapshot's folder already, links join it one by one, config.json last.
2. A ref is written after its snapshot.
3. Blobs that another tool has put there are taken as they are if their size is right.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from huggingface_hub import constants

from engine.errors import HubError, RedlineError
from models.durable_files import locked, replace_json, sync_folder, write_file
from models.hub.failures import disk_error
from models.hub.repo_files import HubFile, RepoListing
from models.hub.repo_names import check_commit, check_listed, check_repo, check_revision, check_wanted

CONFIG = "config.json"
_LARGEST_PLAN_BYTES = 4 * 1024 * 1024
PARTIAL = ".redline.incomplete"
_OWN = ".redline"


@dataclass(frozen=True)
class RepoCache:
    """The places of one repository in the `cache`. Reading them creates nothing."""

    cache: Path
    repo: str

    @property
    def folder(self) -> Path:
        return self.cache / constants.REPO_ID_SEPARATOR.join(("models", *self.repo.split("/")))

    @property
    def plans(self) -> Path:
        """The folder of plans: one file a commit."""
        return self.folder / _OWN

    def snapshot(self, commit: str) -> Path:
        return self.folder / "snapshots" / commit

    def blob(self, file: HubFile) -> Path:
        return self.folder / "blobs" / file.digest

    def part(self, file: HubFile) -> Path:
        return self.folder / "blobs" / f"{file.digest}{PARTIAL}"

    def lock_of(self, file: HubFile) -> Path:
        """huggingface_hub's lock for the blob."""
        return self._locks / f"{file.digest}.lock"

    @property
    def _locks(self) -> Path:
        return self.cache / ".locks" / self.folder.name

    def has(self, file: HubFile, commit: str) -> bool:
        """Whether `file` is on disk, as a blob or (on a disk without links) in the snapshot itself."""
        return _size(self.blob(file)) == file.size_bytes or _size(self.snapshot(commit) / file.name) == file.size_bytes

    def present_bytes(self, file: HubFile, commit: str) -> int:
        """Returns how many bytes of `file` need not be downloaded again."""
        if self.has(file, commit):
            return file.size_bytes
        left = _size(self.part(file))
        return left if 0 <= left <= file.size_bytes else 0

    def places(self, file: HubFile, listing: RepoListing) -> list[Path]:
        """Returns the existing files with the bytes of `file`: its blob and its names in the snapshot."""
        names = [self.snapshot(listing.commit) / one.name for one in listing.files if one.digest == file.digest]
        return [path for path in (self.blob(file), *names) if path.is_file()]

    def is_whole(self, listing: RepoListing) -> bool:
        """Whether the snapshot holds every file of the listing, in its size."""
        folder = self.snapshot(listing.commit)
        return all(_size(folder / file.name) == file.size_bytes for file in listing.files)

    def current_snapshot(self) -> Path | None:
        """Returns the snapshot that the repository's name means: what main was at the last download, else the newest;
        None if there is none."""
        snapshots = self.folder / "snapshots"
        try:
            commit = (self.folder / "refs" / "main").read_text().strip()
        except (OSError, UnicodeDecodeError):
            commit = ""
        if commit.isalnum() and (snapshots / commit).is_dir():
            return snapshots / commit
        try:
            found = [path for path in snapshots.iterdir() if path.is_dir()]
            return max(found, key=lambda path: (path.stat().st_mtime, path.name), default=None)
        except OSError:
            return None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Locks the repository against other downloads of Redline. Raises HubError if one is running."""
        what = f"{self.repo} is being pulled by another process already; wait until it is done, or end it"
        with locked(self._locks / "redline-pull.lock", 0, HubError(what, "busy")):
            yield

    def keep(self, file: HubFile) -> None:
        """Renames a complete partial file to the blob."""
        self.part(file).replace(self.blob(file))
        sync_folder(self.blob(file).parent)

    def publish(self, listing: RepoListing) -> Path:
        """Creates the snapshot and the ref from blobs that are all there. Returns the snapshot. Raises OSError."""
        snapshot = self.snapshot(listing.commit)
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f"{_OWN}-{listing.commit}"
        if draft.exists():
            shutil.rmtree(draft)
        at = snapshot if snapshot.exists() else draft
        for file in sorted(listing.files, key=lambda file: file.name == CONFIG):
            self._place(file, at / file.name)
        sync_folder(at)
        if at is draft:
            draft.rename(snapshot)
        sync_folder(snapshot.parent)
        self._point(listing)
        return snapshot

    def _place(self, file: HubFile, path: Path) -> None:
        """Links `path` to the blob, or moves the blob there on a disk without links."""
        if _size(path) == file.size_bytes:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        ups = "../" * (2 + file.name.count("/"))  # as seen from the snapshot, wherever the draft lies
        try:
            path.symlink_to(f"{ups}blobs/{file.digest}")
        except OSError:
            shutil.copyfile(self.blob(file), path)
            self.blob(file).unlink()

    def _point(self, listing: RepoListing) -> None:
        """Writes the ref, by which every tool takes the revision for this commit."""
        if listing.revision == listing.commit:
            return
        ref = self.folder / "refs" / listing.revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        draft = ref.with_name(f"{ref.name}.redline.tmp")
        write_file(draft, listing.commit.encode())
        draft.replace(ref)
        sync_folder(ref.parent)


def _size(path: Path) -> int:
    """Returns the bytes of a file, links followed; -1 if there is none."""
    try:
        return path.stat().st_size if path.is_file() else -1
    except OSError:
        return -1


def write_plan(cache: RepoCache, listing: RepoListing) -> None:
    """Writes the plan of a download, by which a killed one is found again and a snapshot is known to be complete.

    Raises OSError.
    """
    cache.plans.mkdir(parents=True, exist_ok=True)
    replace_json(cache.plans / f"{listing.commit}.json", msgspec.to_builtins(listing))


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
        if path.stat().st_size > _LARGEST_PLAN_BYTES:
            return None
        listing = msgspec.json.decode(path.read_bytes(), type=RepoListing)
        names = [file.name for file in listing.files]
        check_listed(names, repo)
        check_wanted(names, repo)
        check_repo(listing.repo)
        check_revision(listing.revision)
        check_commit(listing.commit, repo)
    except (OSError, msgspec.DecodeError, RedlineError):
        return None
    digests = all(file.size_bytes >= 0 and file.digest.isalnum() for file in listing.files)
    return listing if listing.repo == repo and path.stem == listing.commit and digests else None


def discard(cache_folder: Path, repo: str) -> int:
    """Deletes the unfinished downloads of `repo` from the Hugging Face cache; returns the number of bytes freed.

    The case of the repository's name does not matter. Raises UsageError for an invalid name, HubError if it is being
    downloaded right now or cannot be deleted.
    """
    plain_name = check_repo(repo).casefold()
    spelled = [planned for planned in planned_repos(cache_folder) if planned.casefold() == plain_name]
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
