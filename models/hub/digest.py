"""The digest by which the hub knows a file: sha256 of the bytes, or git's sha1 of them as a blob."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from models.hub.repo_files import HubFile

_CHUNK_BYTES = 1 << 20


class FileDigest:
    """The digest of the first `count` bytes of a file, updated as they arrive."""

    def __init__(self, file: HubFile) -> None:
        self._file = file
        self.restart()

    def restart(self) -> None:
        """Starts again with no bytes."""
        self.count = 0
        if self._file.kind == "sha256":
            self._hash = hashlib.sha256()
        else:  # git hash-object: a header of type and length goes before the bytes
            self._hash = hashlib.sha1(f"blob {self._file.size_bytes}\0".encode(), usedforsecurity=False)

    def add(self, data: bytes) -> None:
        self._hash.update(data)
        self.count += len(data)

    def add_file(self, path: Path, check: Callable[[], None]) -> None:
        """Adds the contents of `path`. check: called between chunks; may raise."""
        with path.open("rb") as file:
            while data := file.read(_CHUNK_BYTES):
                check()
                self.add(data)

    @property
    def agrees(self) -> bool:
        """Whether the bytes are exactly the file that the hub lists."""
        return self.count == self._file.size_bytes and self._hash.hexdigest() == self._file.digest
