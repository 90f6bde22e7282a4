"""Downloads a whole model from the hub into the Hugging Face cache, as a stream of events that can stop at any time.

If it stops (the generator is closed, the process ends, the power fails), everything received is kept, and the next
download of the same revision continues from there. `discard` in `models.hub.repo_cache` deletes it instead.
"""

import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from filelock import FileLock, Timeout

from engine.errors import HubError, ModelError
from models.durable_files import free_disk_bytes, read_json_object
from models.hub.client import Hub
from models.hub.download_events import Done, DownloadEvent, Fetched, Planned, PlannedFile, Resolving, Verifying, Waiting
from models.hub.download_progress import ProgressCounter
from models.hub.failures import disk_error
from models.hub.file_transfer import FileDigest, FileTransfer, TransferCallbacks, TransferStopped
from models.hub.repo_cache import CONFIG, RepoCache, remove_empty, write_plan
from models.hub.repo_files import HubFile, RepoListing, request_listing
from models.hub.repo_names import check_repo, check_revision
from models.size_text import size_words

MAIN = "main"
INDEX = "model.safetensors.index.json"
SPARE_BYTES = 64 * 1024 * 1024  # for the file system itself, and so that the disk is not full afterwards
WORKERS = 4  # connections: one alone seldom uses the whole bandwidth
_SILENCE_S = 1.0  # after which the progress is reported all the same
_LOCK_WAIT_S = 0.5
_LEAVE_S = 1.0
Wanted = Callable[[str, Mapping[str, object]], bool]  # of the name of a tensor and the config.json


class DownloadWorkers:
    """Downloads what a listing lacks into the blobs of `cache`; a queue carries the threads' events to the reader.

    verify: files that are present are checked against the hub's digests too, and downloaded again where they differ.
    clock: seconds. The first failure ends the other threads at their next byte. verified_bytes: in files whose digest
    was found to agree.
    """

    def __init__(
        self, hub: Hub, cache: RepoCache, listing: RepoListing, verify: bool, clock: Callable[[], float]
    ) -> None:
        self._hub, self._cache, self._listing, self._verify, self._clock = hub, cache, listing, verify, clock
        commit = listing.commit
        tasks = [file for file in listing.contents if verify or not cache.has(file, commit)]
        self._waiting = sorted(tasks, key=lambda file: file.size_bytes, reverse=True)  # the small ones, from the end
        present = {file.digest: cache.present_bytes(file, commit) for file in listing.contents}
        self.tally = ProgressCounter(present, listing.total_bytes, clock)
        self._events: SimpleQueue[DownloadEvent | BaseException | None] = SimpleQueue()
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._is_planned = False
        self.verified_bytes = 0

    def events(self) -> Iterator[DownloadEvent]:
        """Downloads all files; yields every event. Raises HubError, OSError."""
        (self._cache.folder / "blobs").mkdir(parents=True, exist_ok=True)
        threads = [threading.Thread(target=self._work, daemon=True) for _ in self._waiting[:WORKERS]]
        for thread in threads:
            thread.start()
        fault: BaseException | None = None
        try:
            working = len(threads)
            while working:
                event = self._next_event()
                if isinstance(event, DownloadEvent):
                    yield event
                    continue
                working -= 1
                if event is not None and fault is None:  # those that stop because of it come after it
                    fault = event
                    self._stop.set()
        finally:
            self._stop.set()
            last_s = self._clock() + _LEAVE_S  # one that is stuck in a read ends at its next byte, without writing it
            for thread in threads:
                thread.join(max(0.0, last_s - self._clock()))
        if fault is not None:
            raise fault

    def _next_event(self) -> DownloadEvent | BaseException | None:
        """Returns the next event of a thread, or the progress if all have been silent for a while."""
        while True:
            try:
                return self._events.get(timeout=_SILENCE_S)
            except Empty:
                if (progress := self.tally.current()) is not None:
                    return progress

    def _work(self) -> None:
        """Downloads file after file in a thread; its last event is None, or the error that ended it."""
        try:
            while (file := self._next_file()) is not None:
                self._complete(file)
        except (HubError, OSError, TransferStopped) as ended:
            self._events.put(ended)
        except BaseException as bug:  # noqa: BLE001 - of a thread: raised again by the reader, with its traceback
            self._events.put(bug)
        else:
            self._events.put(None)

    def _next_file(self) -> HubFile | None:
        with self._lock:
            return self._waiting.pop() if self._waiting else None

    def _complete(self, file: HubFile) -> None:
        """Completes one file, under the lock by which huggingface_hub keeps its own tools off the same blob."""
        lock = FileLock(self._cache.lock_of(file), timeout=_LOCK_WAIT_S, mode=0o664)
        self._acquire(lock)
        try:
            is_here = self._cache.has(file, self._listing.commit)
            if not is_here or (self._verify and not self._is_proven(file)):
                self._fetch(file)
                is_here = False
            if self._verify or not is_here:
                with self._lock:
                    self.verified_bytes += file.size_bytes
            self._moved(file, self.tally.missing_bytes(file), over_the_network=False)
            self._planned()
            self._events.put(Fetched(file.name, file.size_bytes))
        finally:
            lock.release()

    def _fetch(self, file: HubFile) -> None:
        callbacks = TransferCallbacks(self._events.put, partial(self._moved, file), self._check, self._sleep)
        FileTransfer(self._hub, self._listing, file, self._cache.part(file), callbacks).run()
        self._check()
        self._cache.keep(file)

    def _is_proven(self, file: HubFile) -> bool:
        """Returns whether what is on disk has the right digest. If not, it is deleted, so that nobody takes it for
        complete."""
        places = self._cache.places(file, self._listing)
        self._events.put(Verifying(file.name, file.size_bytes))
        for place in {path.resolve() for path in places}:
            digest = FileDigest(file)
            digest.add_file(place, self._check)
            if not digest.agrees:
                for damaged in places:
                    damaged.unlink()
                self._moved(file, -file.size_bytes)
                return False
        return True

    def _planned(self) -> None:
        """Stores the plan with the first bytes: a download that was refused leaves nothing to list."""
        with self._lock:
            if not self._is_planned:
                write_plan(self._cache, self._listing)
                self._is_planned = True

    def _acquire(self, lock: FileLock) -> None:
        reported = False
        while True:
            self._check()
            try:
                lock.acquire()
                return
            except Timeout:
                if not reported:
                    self._events.put(Waiting("another program is downloading the same file", _LOCK_WAIT_S, 1, 1))
                    reported = True

    def _moved(self, file: HubFile, count: int, over_the_network: bool = True) -> None:
        """Reports `count` more bytes of `file`, or fewer."""
        self._planned()
        progress = self.tally.moved(file, count, over_the_network)
        if progress is not None:
            self._events.put(progress)

    def _check(self) -> None:
        if self._stop.is_set():
            raise TransferStopped

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise TransferStopped


def pull(
    hub: Hub, repo: str, revision: str = MAIN, verify: bool = False, clock: Callable[[], float] = time.monotonic
) -> Generator[DownloadEvent]:
    """Downloads `revision` (a branch, a tag or a commit) of `repo`; the last event is Done, with the folder.

    verify: checks the digests of files that are present too, and downloads damaged ones again. clock: seconds.
    Raises UsageError for an invalid name, HubError for every other failure.
    """
    begun_s = clock()
    check_repo(repo)
    check_revision(revision)
    yield Resolving(repo, revision)
    listing = yield from request_listing(hub, repo, revision)
    cache = RepoCache(hub.cache, listing.repo)
    with _locked(cache):
        snapshot, workers = yield from _fetch(hub, cache, listing, verify, clock)
    yield _done(listing, snapshot, workers, clock() - begun_s)


def pull_shards(
    hub: Hub, repo: str, wanted: Wanted, clock: Callable[[], float] = time.monotonic
) -> Generator[DownloadEvent, None, Path | None]:
    """Downloads config.json and those files of weights of `repo` that hold a wanted tensor; returns their folder, None
    if no tensor is wanted. wanted: of the name of a tensor and the config.json.

    What is downloaded is no model, so give `hub` a cache of its own. Raises UsageError for an invalid name, HubError.
    """
    check_repo(repo)
    yield Resolving(repo, MAIN)
    listing = yield from request_listing(hub, repo, MAIN)
    cache = RepoCache(hub.cache, listing.repo)
    with _locked(cache):
        first = _only(listing, {CONFIG, INDEX})
        snapshot, _ = yield from _fetch(hub, cache, first, False, clock)
        shards = _shards(snapshot, listing, wanted)
        if not shards:
            shutil.rmtree(cache.folder)
            return None
        snapshot, _ = yield from _fetch(hub, cache, _only(listing, {CONFIG, INDEX, *shards}), False, clock)
    return snapshot


def _only(listing: RepoListing, names: set[str]) -> RepoListing:
    """Returns the listing with the files `names` alone."""
    files = tuple(file for file in listing.files if file.name in names)
    return replace(listing, files=files, left_out=listing.left_out + len(listing.files) - len(files))


def _shards(snapshot: Path, listing: RepoListing, wanted: Wanted) -> set[str]:
    """Returns the files of weights with a wanted tensor, by the index; without one the files are all there is to ask.
    Raises HubError for a damaged index."""
    listed = {file.name for file in listing.files if file.name.endswith(".safetensors")}
    if not (snapshot / INDEX).is_file():
        return listed
    try:
        config, index = read_json_object(snapshot / CONFIG), read_json_object(snapshot / INDEX)
    except ModelError as error:
        raise HubError(str(error), "damaged") from error
    named = index.get("weight_map")
    if not isinstance(named, dict) or not listed.issuperset(map(str, named.values())):
        raise HubError(f"{listing.repo}: its index names files that are not there; choose another", "damaged")
    return {str(file) for name, file in named.items() if wanted(str(name), config)}


@contextmanager
def _locked(cache: RepoCache) -> Iterator[None]:
    """Locks the repository, and tells what the disk refuses as a HubError."""
    try:
        with cache.alone():
            yield
    except OSError as error:
        raise disk_error(error, cache.folder) from error


def _fetch(
    hub: Hub, cache: RepoCache, listing: RepoListing, verify: bool, clock: Callable[[], float]
) -> Generator[DownloadEvent, None, tuple[Path, DownloadWorkers]]:
    """Downloads the files of a listing; returns the snapshot and the workers that fetched it."""
    yield _plan(cache, listing)
    workers = DownloadWorkers(hub, cache, listing, verify, clock)
    try:
        yield from workers.events()
        write_plan(cache, listing)
        return cache.publish(listing), workers
    finally:
        remove_empty(cache)


def _plan(cache: RepoCache, listing: RepoListing) -> Planned:
    """Returns the plan. Raises HubError if the disk has too little space."""
    files = tuple(
        PlannedFile(file.name, file.size_bytes, cache.present_bytes(file, listing.commit)) for file in listing.contents
    )
    present_bytes = sum(file.present_bytes for file in files)
    free_bytes = _check_space(listing.repo, listing.total_bytes - present_bytes, cache.folder)
    amounts = (listing.total_bytes, present_bytes, free_bytes, listing.left_out)
    return Planned(listing.repo, listing.revision, listing.commit, files, *amounts)


def _check_space(repo: str, needed_bytes: int, place: Path) -> int:
    """Returns the free bytes of the disk. Raises HubError if they are too few for `needed_bytes` more."""
    free = free_disk_bytes(place)
    if needed_bytes and free < needed_bytes + SPARE_BYTES:
        needs = f"{repo} needs {size_words(needed_bytes)} more and {size_words(SPARE_BYTES)} to spare"
        lacking = size_words(needed_bytes + SPARE_BYTES - free)
        there = f"only {size_words(free)} is free on the disk of {place}"
        raise HubError(f"{needs}, but {there}; free {lacking}, or point HF_HOME to another disk", "disk")
    return free


def _done(listing: RepoListing, snapshot: Path, workers: DownloadWorkers, seconds: float) -> Done:
    fetched, verified = workers.tally.fetched_bytes, workers.verified_bytes
    return Done(listing.repo, listing.commit, str(snapshot), listing.total_bytes, fetched, verified, seconds)
