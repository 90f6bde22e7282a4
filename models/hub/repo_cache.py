"""One repository in the Hugging Face cache, as huggingface_hub lays it out ("Understand caching" in its guide):

    models--owner--name/blobs/ETAG                        the bytes of a file
                        snapshots/COMMIT/config.json ->   ../../blobs/ETAG
                        refs/main                         the commit that a branch or tag stood for
                        .redline/COMMIT.json              ours: what is being pulled, or was
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

from filelock import FileLock, Timeout
from huggingface_hub.constants import REPO_ID_SEPARATOR

from engine.errors import HubError
from models.durable_files import sync_folder, write_file
from models.hub.repo_files import HubFile, RepoListing

CONFIG = "config.json"
PARTIAL = ".redline.incomplete"
_OWN = ".redline"


@dataclass(frozen=True)
class RepoCache:
    """Where one repository lies in the `cache`. Nothing is created by asking."""

    cache: Path
    repo: str

    @property
    def folder(self) -> Path:
        return self.cache / REPO_ID_SEPARATOR.join(("models", *self.repo.split("/")))

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
        """Whether the bytes of `file` are here, as a blob or (on a disk without links) in the snapshot itself."""
        return _size(self.blob(file)) == file.size_bytes or _size(self.snapshot(commit) / file.name) == file.size_bytes

    def present_bytes(self, file: HubFile, commit: str) -> int:
        """How much of `file` need not be fetched again."""
        if self.has(file, commit):
            return file.size_bytes
        left = _size(self.part(file))
        return left if 0 <= left <= file.size_bytes else 0

    def places(self, file: HubFile, listing: RepoListing) -> list[Path]:
        """Where the bytes of `file` lie: its blob and its names in the snapshot, those of them that are there."""
        names = [self.snapshot(listing.commit) / one.name for one in listing.files if one.digest == file.digest]
        return [path for path in (self.blob(file), *names) if path.is_file()]

    def is_whole(self, listing: RepoListing) -> bool:
        """Whether the snapshot holds every file of the listing, in its size."""
        folder = self.snapshot(listing.commit)
        return all(_size(folder / file.name) == file.size_bytes for file in listing.files)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the repository against other pulls of Redline; a killed one leaves it free. Raises HubError."""
        self._locks.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._locks / "redline-pull.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            what = f"{self.repo} is being pulled by another process already"
            raise HubError(f"{what}; wait until it is done, or end it", "busy") from error
        try:
            yield
        finally:
            lock.release()

    def keep(self, file: HubFile) -> None:
        """A proven partial file becomes the blob."""
        self.part(file).replace(self.blob(file))
        sync_folder(self.blob(file).parent)

    def publish(self, listing: RepoListing) -> Path:
        """Make the snapshot and the ref; every blob is there. Returns the snapshot's folder. Raises OSError."""
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
        """Link `path` to the blob, or where the disk knows no links, move the blob there."""
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
        """Let the revision mean this commit, for every tool."""
        if listing.revision == listing.commit:
            return
        ref = self.folder / "refs" / listing.revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        draft = ref.with_name(f"{ref.name}.redline.tmp")
        write_file(draft, listing.commit.encode())
        draft.replace(ref)
        sync_folder(ref.parent)


def _size(path: Path) -> int:
    """Bytes of a file, links followed; -1 where there is none."""
    try:
        return path.stat().st_size if path.is_file() else -1
    except OSError:
        return -1
