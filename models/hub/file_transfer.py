"""Downloads one file from the hub to a partial file beside its blob, and continues where a killed download ended.

Our own, because huggingface_hub 2 writes to a file with a random name and deletes it when it fails, so that nothing
could be continued. The session, its headers, redirects and errors are huggingface_hub's.

Invariants:
1. A partial file holds the first bytes of the file, from any download. Only its digest says whether they are right.
2. It becomes a blob by a rename, once its digest matches and it is safely on disk.
3. A partial file whose digest does not match is deleted; if part was from an earlier download, it starts once more from
   scratch.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import httpx2
from huggingface_hub import hf_hub_url
from huggingface_hub.utils import get_session, hf_raise_for_status

from engine.errors import HubError
from models.hub.client import HTTP_ERRORS, Hub, Retries, RetryPolicy
from models.hub.download_events import DownloadEvent, Verifying
from models.hub.failures import disk_error
from models.hub.repo_files import HubFile, RepoListing
from models.hub.request_bounds import FILE, within

_CHUNK_BYTES = 1 << 20


class FileDigest:
    """The digest of the first `count` bytes of a file as the hub knows it, updated as they arrive: sha256 of the bytes,
    or git's sha1 of them as a blob."""

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


class TransferPace:
    """How fast an attempt is. clock: seconds. A hub that sends a byte now and then would otherwise never end."""

    def __init__(self, policy: RetryPolicy, clock: Callable[[], float]) -> None:
        self._policy, self._clock = policy, clock
        self._begun_s = self._window_s = clock()
        self._window_bytes = self._new_bytes = 0

    def add(self, count: int, new: int) -> None:
        """Counts bytes that arrived, `new` of them for the first time. Raises httpx2.ReadTimeout at the end of a window
        that brought too few."""
        self._new_bytes += new
        self._window_bytes += count
        spent_s = self._clock() - self._window_s
        if spent_s < self._policy.slow_window_s:
            return
        if self._window_bytes < self._policy.least_bytes_per_s * spent_s:
            raise httpx2.ReadTimeout(f"{self._window_bytes} bytes in {spent_s:.0f} s")
        self._window_s, self._window_bytes = self._clock(), 0

    @property
    def brought_something(self) -> bool:
        """Whether the attempt brought new bytes, and not too slowly, so that the next one may bring the rest."""
        return self._new_bytes > self._policy.least_bytes_per_s * (self._clock() - self._begun_s)


_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_UNSATISFIABLE = 416


class TransferStopped(Exception):
    """Raised to end a download: it was paused, or another file failed."""


@dataclass(frozen=True)
class TransferCallbacks:
    """What a transfer calls. tell: with every event. moved: with the number of bytes received (negative: discarded).
    check, sleep: raise TransferStopped to end it."""

    tell: Callable[[DownloadEvent], None]
    moved: Callable[[int], None]
    check: Callable[[], None]
    sleep: Callable[[float], None]


class FileTransfer:
    """Fetches one file of a listing into `part`."""

    def __init__(self, hub: Hub, listing: RepoListing, file: HubFile, part: Path, callbacks: TransferCallbacks) -> None:
        self._hub, self._listing, self._file, self._part = hub, listing, file, part
        self._tell, self._moved, self._check = callbacks.tell, callbacks.moved, callbacks.check
        self._digest = FileDigest(file)
        self._retries = Retries(hub, callbacks.sleep, reached=True)
        self._pace = TransferPace(hub.policy, time.monotonic)
        self._furthest = 0

    def run(self) -> None:
        """Downloads the rest of the partial file and checks its digest. Raises HubError, TransferStopped."""
        try:
            with self._part.open("ab", buffering=0) as out:
                resumed = self._read_again(out)
                self._fill(out)
                if not self._digest.agrees and resumed:
                    self._begin_anew(out)
                    self._fill(out)
                if not self._digest.agrees:
                    raise self._damaged("its digest is not the one that the hub lists")
                os.fsync(out.fileno())
        except OSError as error:
            raise disk_error(error, self._part.parent) from error

    def _read_again(self, out: BinaryIO) -> bool:
        """Adds what an earlier download left to the digest. Returns whether there was anything."""
        left = os.fstat(out.fileno()).st_size
        if left > self._file.size_bytes:
            out.truncate(0)
            left = 0
        if left:
            self._tell(Verifying(self._file.name, left))
            self._digest.add_file(self._part, self._check)
        return left > 0

    def _fill(self, out: BinaryIO) -> None:
        while self._digest.count < self._file.size_bytes:
            self._check()
            self._pace = TransferPace(self._hub.policy, time.monotonic)
            try:
                self._stream(out)
                if self._digest.count < self._file.size_bytes:
                    raise httpx2.RemoteProtocolError("the answer ended early")
            except HTTP_ERRORS as error:
                if self._pace.brought_something:
                    self._retries.reset()
                self._wait(error)

    def _wait(self, error: Exception) -> None:
        try:
            for waiting in self._retries.wait(error):
                self._tell(waiting)
        except HTTP_ERRORS as last:
            raise self._hub.explain(last, self._listing.repo, self._listing.revision) from last

    def _stream(self, out: BinaryIO) -> None:
        """Requests what is missing, once. Raises HTTP_ERRORS, OSError, HubError, TransferStopped."""
        listing, headers = self._listing, self._hub.headers
        url = hf_hub_url(listing.repo, self._file.name, revision=listing.commit, endpoint=self._hub.endpoint)
        if self._digest.count:
            headers["Range"] = f"bytes={self._digest.count}-"
        policy, session = self._hub.policy, get_session()
        request = session.build_request("GET", url, headers=headers, timeout=policy.silence_s, extensions=FILE)
        ask = partial(session.send, request, stream=True, follow_redirects=True)
        with closing(within(policy.answer_s, ask, httpx2.Response.close)) as response:
            if response.status_code == _UNSATISFIABLE:
                self._begin_anew(out)
                return
            hf_raise_for_status(response)
            if self._digest.count and not self._continues(response):
                self._begin_anew(out)
            for data in response.iter_bytes():  # as it arrives: what is buffered is lost with the process
                self._take(data, out)

    def _continues(self, response: httpx2.Response) -> bool:
        """Whether the answer begins at the requested byte; some caches and proxies send the whole file."""
        found = _RANGE.match(response.headers.get("Content-Range", ""))
        packed = response.headers.get("Content-Encoding", "identity") != "identity"
        return response.status_code == 206 and not packed and found is not None and int(found[1]) == self._digest.count

    def _take(self, data: bytes, out: BinaryIO) -> None:
        self._check()
        if self._digest.count + len(data) > self._file.size_bytes:
            raise self._damaged(f"more came than the {self._file.size_bytes} bytes that the hub lists")
        view = memoryview(data)
        while view:
            view = view[out.write(view) :]
        self._digest.add(data)
        self._moved(len(data))
        further = max(0, self._digest.count - self._furthest)  # 0 where a server without ranges begins over and over
        self._furthest += further
        self._pace.add(len(data), further)

    def _begin_anew(self, out: BinaryIO) -> None:
        self._moved(-self._digest.count)
        out.truncate(0)
        self._digest.restart()

    def _damaged(self, what: str) -> HubError:
        """Deletes the partial file, so that the next download does not continue it. Returns the error."""
        self._part.unlink(missing_ok=True)
        to_do = "pull again; if it recurs, a proxy or the mirror is altering files"
        return HubError(f"{self._listing.repo}: {self._file.name} arrived damaged: {what}; {to_do}", "damaged")
