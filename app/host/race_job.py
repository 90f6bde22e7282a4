"""One Race: the contest on the loaded target, with the loaded drafter where a side asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import Event as Flag

from app.host.hosted_pair import HostedPair
from app.host.reply_job import options_of
from app.inference.loaded_pair import release_memory
from app.protocol import AnyAnswer, Race
from app.race.contest import Contest, RaceOptions, level


class RaceJob:
    """A race in progress. Raises UsageError for sampling settings or sides that make no sense."""

    def __init__(self, hosted: HostedPair, request: Race, stop: Flag) -> None:
        self._hosted, self._stop = hosted, stop
        base = options_of(replace(request.sampling, draft_length=None))  # each side says whether it drafts trees
        self._options = RaceOptions(request.id, request.prompt, base, level(request.sides), request.runs)

    def answers(self) -> Iterator[AnyAnswer]:
        """Raises what target and drafters raise."""
        pair, request = self._hosted.pair, self._hosted.request
        loaded = {(request.drafter, request.tree): pair} if pair.has_drafter else {}
        contest = Contest(pair, self._options, self._stop.is_set, loaded)
        complete = False
        try:
            yield from contest.answers()
            complete = True
        finally:
            del contest, loaded
            if complete:
                pair.session.forget()
                pair.target.model.record()
                release_memory()
            else:
                pair.reset()
