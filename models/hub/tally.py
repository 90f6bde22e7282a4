"""How many bytes of each file are here, how fast they come, and when it is time to say so."""

import threading
from collections.abc import Callable

from models.hub.events import Progress
from models.hub.files import HubFile
from models.hub.pace import Pace

_EVERY_S = 0.1  # of one file


class Tally:
    """present: bytes that are here already, by digest. Any thread may count. fetched_bytes: over the network."""

    def __init__(self, present: dict[str, int], total_bytes: int, clock: Callable[[], float]) -> None:
        self._came, self._total_bytes, self._clock = present, total_bytes, clock
        self._pace = Pace(clock)
        self._said_s: dict[str, float] = {}
        self._last: HubFile | None = None
        self._lock = threading.Lock()
        self.fetched_bytes = 0

    @property
    def done_bytes(self) -> int:
        """Of all files."""
        return sum(self._came.values())

    def lacks(self, file: HubFile) -> int:
        """Bytes of `file` that are not here, as far as was counted."""
        return file.size_bytes - self._came[file.digest]

    def moved(self, file: HubFile, count: int, over_the_network: bool) -> Progress | None:
        """`count` more bytes of `file` are here, or fewer; what to say of it, a few times a second.

        Off the network it is always said: that is how a file ends.
        """
        with self._lock:
            self._came[file.digest] += count
            self._last = file
            if over_the_network and count > 0:
                self.fetched_bytes += count
                self._pace.add(count)
            now_s = self._clock()
            if over_the_network and now_s - self._said_s.get(file.digest, float("-inf")) < _EVERY_S:
                return None
            self._said_s[file.digest] = now_s
            return self._progress(file)

    def still(self) -> Progress | None:
        """How far it is though nothing came; None before anything has."""
        with self._lock:
            return self._progress(self._last) if self._last is not None else None

    def _progress(self, file: HubFile) -> Progress:
        done = self.done_bytes
        speed, eta_s = self._pace.bytes_per_s(), self._pace.eta_s(self._total_bytes - done)
        return Progress(file.name, self._came[file.digest], file.size_bytes, done, self._total_bytes, speed, eta_s)
