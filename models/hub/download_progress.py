"""The speed, the remaining time and the progress of a download."""

import threading
from collections import deque
from collections.abc import Callable

from models.hub.download_events import DownloadProgress
from models.hub.repo_files import HubFile

WINDOW_S = 5.0
_SHORTEST_S = 1.0  # before it, the first answers' delay is most of what is measured


class TransferSpeed:
    """The speed over the last WINDOW_S seconds. clock: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun_s = clock()
        self._received: deque[tuple[float, int]] = deque()
        self._bytes = 0

    def add(self, count: int) -> None:
        """Records `count` bytes received over the network."""
        self._received.append((self._clock(), count))
        self._bytes += count

    def bytes_per_s(self) -> float | None:
        """Returns the speed; None during the first second."""
        now_s = self._clock()
        while self._received and self._received[0][0] < now_s - WINDOW_S:
            self._bytes -= self._received.popleft()[1]
        span_s = min(now_s - self._begun_s, WINDOW_S)
        return self._bytes / span_s if span_s >= _SHORTEST_S else None

    def eta_s(self, left_bytes: int) -> float | None:
        """Returns the seconds that `left_bytes` take at this speed; None if it is unknown or zero."""
        speed = self.bytes_per_s()
        return left_bytes / speed if speed else None


_EVERY_S = 0.1  # of one file


class ProgressCounter:
    """Counts the bytes of every file. present: bytes on disk at the start, by digest. fetched_bytes: bytes
    received over the network."""

    def __init__(self, present: dict[str, int], total_bytes: int, clock: Callable[[], float]) -> None:
        self._present, self._total_bytes, self._clock = present, total_bytes, clock
        self._speed = TransferSpeed(clock)
        self._reported_s: dict[str, float] = {}
        self._last: HubFile | None = None
        self._lock = threading.Lock()
        self.fetched_bytes = 0

    @property
    def done_bytes(self) -> int:
        """Bytes of all files on disk."""
        return sum(self._present.values())

    def missing_bytes(self, file: HubFile) -> int:
        """Returns the number of bytes of `file` that are missing."""
        return file.size_bytes - self._present[file.digest]

    def moved(self, file: HubFile, count: int, over_the_network: bool) -> DownloadProgress | None:
        """Adds `count` bytes, which may be negative, to `file`; returns the progress at most ten times a second.

        Without the network the progress is always returned, because that is how a file ends.
        """
        with self._lock:
            self._present[file.digest] += count
            self._last = file
            if over_the_network and count > 0:
                self.fetched_bytes += count
                self._speed.add(count)
            now_s = self._clock()
            if over_the_network and now_s - self._reported_s.get(file.digest, float("-inf")) < _EVERY_S:
                return None
            self._reported_s[file.digest] = now_s
            return self._progress(file)

    def current(self) -> DownloadProgress | None:
        """Returns the current progress; None before the first byte."""
        with self._lock:
            return self._progress(self._last) if self._last is not None else None

    def _progress(self, file: HubFile) -> DownloadProgress:
        done = self.done_bytes
        speed, eta_s = self._speed.bytes_per_s(), self._speed.eta_s(self._total_bytes - done)
        return DownloadProgress(
            file.name, self._present[file.digest], file.size_bytes, done, self._total_bytes, speed, eta_s
        )
