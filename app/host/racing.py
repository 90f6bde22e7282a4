"""One Race: the contest on the loaded target, with the loaded drafter where a side asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event as Flag

from msgspec.structs import replace as changed

from app.host.answering import options_of
from app.host.opened import Opened, release
from app.protocol import Answers, Race
from app.race.contest import Asked, Contest, level


class RaceUnderWay:
    """Raises UsageError for a law or sides that are nonsense."""

    def __init__(self, opened: Opened, request: Race, stop: Flag) -> None:
        self._opened, self._request, self._stop = opened, request, stop
        base = options_of(changed(request.law, draft_length=None))  # each side says whether it drafts trees
        self._asked = Asked(request.id, request.prompt, base, level(request.sides), request.runs)

    def answers(self) -> Iterator[Answers]:
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
                opened.target.model.read_by(None)
                release()
            else:
                opened.reset()
