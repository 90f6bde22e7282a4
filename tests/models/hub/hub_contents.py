"""What a hub on loopback holds, what can go wrong with it, and what it has seen."""

import hashlib
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Repo:
    """files: by name. lfs: which of them lie in LFS. gated: answers 403 to whoever lacks the token."""

    name: str
    files: dict[str, bytes]
    lfs: tuple[str, ...] = (".safetensors", ".bin")
    branches: tuple[str, ...] = ("main",)
    gated: bool = False
    private: bool = False
    listed: dict[str, Any] = field(default_factory=dict)  # entries of siblings, over the true ones
    sha: str = ""

    @property
    def commit(self) -> str:
        """Follows from the content, like git's."""
        digests = sorted((name, hashlib.sha1(data).hexdigest()) for name, data in self.files.items())
        return self.sha or hashlib.sha1(repr(digests).encode()).hexdigest()

    def is_lfs(self, name: str) -> bool:
        return name.endswith(self.lfs)

    def etag(self, name: str) -> str:
        data = self.files[name]
        return hashlib.sha256(data).hexdigest() if self.is_lfs(name) else git_blob(data)


def git_blob(data: bytes) -> str:
    """What `git hash-object` says."""
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()


@dataclass
class Trouble:
    """What goes wrong with a request whose path contains `where`, `times` times (None: always).

    status: answered instead. body: sent instead. cut_after: bytes of the body before the connection breaks. flip: the
    byte at this place of the file is wrong. extra: bytes too many. deaf: ranges are ignored. hold: after so many bytes
    of the body the server waits for `Loopback.go`, and says so by `Loopback.held`.
    """

    where: str
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut_after: int | None = None
    flip: int | None = None
    extra: int = 0
    deaf: bool = False
    hold: int | None = None
    times: int | None = 1


@dataclass(frozen=True)
class Seen:
    """A request that came. cdn: to the other port."""

    method: str
    path: str
    headers: dict[str, str]
    cdn: bool

    @property
    def range(self) -> str:
        return self.headers.get("range", "")
