"""Downloads a whole model from the hub into the Hugging Face cache, as a stream of events that can stop at any time.

If it stops (the generator is closed, the process ends, the power fails), everything received is kept, and the next
download of the same revision continues from there. `models.hub.cleanup` deletes it instead.
"""

import time
from collections.abc import Callable, Generator
from pathlib import Path

from models.hub.cleanup import remove_empty
from models.hub.client import Hub
from models.hub.disk_space import check_space
from models.hub.download_events import Done, DownloadEvent, Planned, PlannedFile, Resolving
from models.hub.download_plan import write_plan
from models.hub.failures import disk_error
from models.hub.repo_cache import RepoCache
from models.hub.repo_files import RepoListing, request_listing
from models.hub.repo_names import check_repo, check_revision
from models.hub.transfer_threads import DownloadWorkers

MAIN = "main"


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
    try:
        with cache.alone():
            yield _plan(cache, listing)
            crew = DownloadWorkers(hub, cache, listing, verify, clock)
            try:
                yield from crew.events()
                write_plan(cache, listing)
                snapshot = cache.publish(listing)
            finally:
                remove_empty(cache)
    except OSError as error:
        raise disk_error(error, cache.folder) from error
    yield _done(listing, snapshot, crew, clock() - begun_s)


def _plan(cache: RepoCache, listing: RepoListing) -> Planned:
    """Returns the plan. Raises HubError if the disk has too little space."""
    files = tuple(
        PlannedFile(file.name, file.size_bytes, cache.present_bytes(file, listing.commit)) for file in listing.contents
    )
    present_bytes = sum(file.present_bytes for file in files)
    free_bytes = check_space(listing.repo, listing.total_bytes - present_bytes, cache.folder)
    return Planned(
        listing.repo,
        listing.revision,
        listing.commit,
        files,
        listing.total_bytes,
        present_bytes,
        free_bytes,
        listing.left_out,
    )


def _done(listing: RepoListing, snapshot: Path, crew: DownloadWorkers, seconds: float) -> Done:
    fetched, verified = crew.tally.fetched_bytes, crew.verified_bytes
    return Done(listing.repo, listing.commit, str(snapshot), listing.total_bytes, fetched, verified, seconds)
