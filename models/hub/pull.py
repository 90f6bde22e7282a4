"""A whole model from the hub into the Hugging Face cache: a stream of events that can be left at any moment.

Leave it (close the generator, end the process, pull the plug) and what came is kept: the next pull of the same
revision goes on from there. To throw it away instead: `models.hub.discard`.
"""

import time
from collections.abc import Callable, Generator
from pathlib import Path

from models.hub.cache import RepoCache
from models.hub.crew import Crew
from models.hub.discard import tidy
from models.hub.events import Asking, Done, Planned, PlannedFile, Told
from models.hub.failures import disk_error
from models.hub.files import Listing
from models.hub.hub import Hub
from models.hub.listing import ask_listing
from models.hub.names import check_repo, check_revision
from models.hub.plan import write_plan
from models.hub.space import check_space

MAIN = "main"


def pull(
    hub: Hub, repo: str, revision: str = MAIN, verify: bool = False, clock: Callable[[], float] = time.monotonic
) -> Generator[Told]:
    """Fetch `revision` (a branch, a tag or a commit) of `repo`; the last event is Done, with the folder.

    verify: read what is here already too, and fetch anew what is not what the hub lists. clock: seconds.

    Raises UsageError for a name that cannot be, HubError for everything that stands in the way.
    """
    begun_s = clock()
    check_repo(repo)
    check_revision(revision)
    yield Asking(repo, revision)
    listing = yield from ask_listing(hub, repo, revision)
    cache = RepoCache(hub.cache, listing.repo)
    try:
        with cache.alone():
            yield _plan(cache, listing)
            crew = Crew(hub, cache, listing, verify, clock)
            try:
                yield from crew.events()
                write_plan(cache, listing)
                snapshot = cache.publish(listing)
            finally:
                tidy(cache)
    except OSError as error:
        raise disk_error(error, cache.folder) from error
    yield _done(listing, snapshot, crew, clock() - begun_s)


def _plan(cache: RepoCache, listing: Listing) -> Planned:
    """Raises HubError where the disk has no room for what is missing."""
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


def _done(listing: Listing, snapshot: Path, crew: Crew, seconds: float) -> Done:
    fetched, verified = crew.tally.fetched_bytes, crew.verified_bytes
    return Done(listing.repo, listing.commit, str(snapshot), listing.total_bytes, fetched, verified, seconds)
