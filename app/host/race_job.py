"""One Race: the contest on the loaded target, with the loaded drafter where a side asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import Event as Flag

from app.host.loaded_pair import LoadedPair, release
from app.host.reply_job import options_of
from app.protocol import AnyAnswer, Race
from app.race.contest import Contest, RaceOptions, level


class RaceJob:
    """Raises UsageError for a law or sides that are nonsense."""

    def __init__(self, opened: LoadedPair, request: Race, stop: Flag) -> None:
        self._opened, self._request, self._stop = opened, request, stop
        base = options_of(replace(request.sampling, draft_length=None))  # each side says whether it drafts trees
        self._asked = RaceOptions(request.id, request.prompt, base, level(request.sides), request.runs)

    def answers(self) -> Iterator[AnyAnswer]:
        """Raises what target and drafters raise."""
        opened, pair = self._opened, self._opened.pair
        there = {(pair.drafter, pair.tree): opened.drafter} if opened.watched is not None else {}
        contest = Contest(opened.target, opened.session, self._asked, self._stop.is_set, there)
        whole = False
        try:
            yield from contest.answers()
            whole = True
        finally:
            del contest, there
            if whole:
                opened.session.forget()
                opened.target.model.record()
                release()
            else:
                opened.reset()
