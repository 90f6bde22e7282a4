"""Asks the hub whether every entry still exists, at the revision that it is pinned to.

One request an entry, a few at a time; the first goes alone, so that a network that is down is reported once and not a
hundred times. Nothing is downloaded.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from engine.errors import HubError
from models.catalogue.entries import Entry
from models.hub.client import Hub
from models.hub.repo_files import RepoListing, request_listing

State = Literal["there", "gated", "gone", "unknown"]
WORKERS = 4
_SAME = 0.05  # share by which a size may differ before it is reported
_HOPELESS = ("offline", "network", "proxy", "hub")  # the same for every entry


@dataclass(frozen=True)
class EntryState:
    """The state of one entry.

    reason: why it is not there, or what the catalogue should say otherwise; "" where all is well.
    size_bytes: of what would be downloaded, None where the hub did not list it."""

    repository: str
    state: State
    reason: str = ""
    size_bytes: int | None = None


def check_entries(hub: Hub, entries: Sequence[Entry], sleep: Callable[[float], None]) -> Iterator[EntryState]:
    """Yields the state of each of `entries`, in their order, as soon as it is known. sleep: waits between two attempts.

    Raises HubError if the hub cannot be reached at all.
    """
    if not entries:
        return
    yield _check(hub, entries[0], sleep)
    with ThreadPoolExecutor(WORKERS) as pool:
        running = [pool.submit(_check, hub, entry, sleep) for entry in entries[1:]]
        try:
            for one in running:
                yield one.result()
        finally:
            for one in running:
                one.cancel()


def _check(hub: Hub, entry: Entry, sleep: Callable[[float], None]) -> EntryState:
    try:
        listing = _listing(hub, entry, sleep)
    except HubError as error:
        if error.reason in _HOPELESS or (error.reason == "token" and hub.token is not None):
            raise
        return EntryState(entry.repository, _state(error), str(error))
    return EntryState(entry.repository, "there", _differs(entry, listing.total_bytes), listing.total_bytes)


def _listing(hub: Hub, entry: Entry, sleep: Callable[[float], None]) -> RepoListing:
    with closing(request_listing(hub, entry.repository, entry.revision or "main", sleep)) as asking:
        while True:
            try:
                next(asking)
            except StopIteration as done:
                assert isinstance(done.value, RepoListing)
                return done.value


def _state(error: HubError) -> State:
    """Returns the state for an error. The hub answers 401, not 404, for a missing repository if nobody is logged in."""
    if error.reason in ("missing", "token"):
        return "gone"
    if error.reason == "gated":
        return "gated"
    return "there" if error.reason in ("unsuitable", "refused") else "unknown"


def _differs(entry: Entry, size_bytes: int) -> str:
    """Returns what is wrong with the size in the catalogue, or ""."""
    listed = entry.size_bytes
    if listed is None or abs(size_bytes - listed) <= _SAME * listed:
        return ""
    return f"is {size_bytes / 1e9:.2f} GB to download, the catalogue says {listed / 1e9:.2f} ({entry.size})"
