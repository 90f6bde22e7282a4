"""The files of one revision of a repository, as plain values."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class HubFile:
    """One file. digest: hexadecimal; sha256 of the bytes where the file is in LFS, else git's sha1 of them as a blob.
    It is the file's ETag too, and its name among the cache's blobs."""

    name: str
    size_bytes: int
    kind: Literal["sha256", "git"]
    digest: str


@dataclass(frozen=True)
class Listing:
    """The files that make the model, of one commit. left_out: how many files of the repository do not."""

    repo: str
    revision: str
    commit: str
    files: tuple[HubFile, ...]
    left_out: int

    @property
    def contents(self) -> tuple[HubFile, ...]:
        """One file for each content: twins are fetched and kept once."""
        return tuple({file.digest: file for file in self.files}.values())

    @property
    def total_bytes(self) -> int:
        return sum(file.size_bytes for file in self.contents)
