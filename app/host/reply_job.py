"""One Reply: the session's events as answers, and going on without the drafter when it fails.

Falling back begins a second leg: the same prompt, gone on with from the tokens that were told. They were drawn from the
target's law, and noise hangs on positions, so the text keeps its law, and greedy or coupled text does not change.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from threading import Event as Flag

from app.host.loaded_pair import LoadedPair, reason_of, turns
from app.host.monitored_drafter import MonitoredDrafter
from app.inference import digests
from app.inference import pair_loader as parts
from app.inference.options import Options
from app.protocol import AnyAnswer, FellBack, Measuring, PrefillProgress, Reply, ReplyDone, RoundDone, SamplingSettings
from engine.errors import ModelError, UsageError
from engine.events import Event, Finished, PromptProgress, Round
from engine.policy.fixed import Policy


class _StoppedError(Exception):
    """While costs are measured."""


class ReplyJob:
    """A reply under way. Raises UsageError for a law or ids that are nonsense."""

    def __init__(self, opened: LoadedPair, request: Reply, stop: Flag) -> None:
        self._opened, self._request, self._stop = opened, request, stop
        self._options = options_of(request.sampling, opened.pair.tree)
        check_ids(request.continuation_ids, opened)
        self._told = list(request.continuation_ids)  # ids, those of before the break included
        self._rounds = 0
        self._began_s = 0.0
        self._prompt = ""  # and its model, as digests

    def answers(self) -> Iterator[AnyAnswer]:
        """Raises what the target raises, ContextError and ModelError among it."""
        yield from self._measured()
        if self._stop.is_set():
            yield self._ended(Finished("cancelled", 0, 0.0))
            return
        prompt = digests.of_prompt(self._opened.prompt_of(self._request.messages))
        self._prompt = digests.together(prompt, self._opened.digest)
        self._began_s = time.monotonic()
        drafter = self._drafter()
        if drafter is not None:
            said = yield from self._drafted(drafter)
            if said is None:
                return
            yield FellBack(id=self._request.id, reason=said)
            self._opened.reset()
        yield from self._leg(None, None)

    def _drafter(self) -> MonitoredDrafter | None:
        """Who drafts for this reply, if anybody does."""
        drafter = self._opened.watched
        if drafter is None or self._options.draft_length == 0:
            return None
        if self._options.draft_length is None and self._opened.costs is None:  # they could not be measured
            return None
        drafter.timed, drafter.failed, drafter.busy = self._request.timed, False, False
        return drafter

    def _measured(self) -> Iterator[AnyAnswer]:
        """Measure what draft length auto needs to know, once a pair and milestone of context; say why nothing will be
        drafted."""
        opened, number = self._opened, self._request.id
        if self._options.draft_length == 0:
            return
        if opened.lost:
            yield FellBack(id=number, reason=opened.lost)
        if opened.watched is None or self._options.draft_length is not None:
            return
        opened.begins = opened.count(self._request.messages) + len(self._request.continuation_ids)
        if opened.is_measured:
            return
        yield Measuring(id=number, message="measuring what a pass costs here, once for this pair")
        try:
            opened.measure(self._break_off)
            return
        except _StoppedError:
            return
        except Exception as error:  # noqa: BLE001  broad: whatever a drafter does, the target can answer alone
            said = reason_of(error)
        opened.reset()
        yield FellBack(id=number, reason=said)

    def _break_off(self) -> None:
        if self._stop.is_set():
            raise _StoppedError

    def _drafted(self, drafter: MonitoredDrafter) -> Generator[AnyAnswer, None, str | None]:
        """The reply with drafts. Returns None at its end, or why the drafter could not go on."""
        try:
            policy = self._opened.policy(self._options, self._request.timed)
            yield from self._leg(parts.wanted(drafter, policy), policy)
        except Exception as error:
            if not (drafter.failed or drafter.busy):
                raise
            return f"the drafter failed ({reason_of(error)})"
        return None

    def _leg(self, drafter: MonitoredDrafter | None, policy: Policy | None) -> Iterator[AnyAnswer]:
        """Go on from what was told, to the end of the reply."""
        new = len(self._told) - len(self._request.continuation_ids)
        since_s = time.monotonic() - self._began_s
        settings = self._options.settings()
        settings = replace(settings, max_tokens=settings.max_tokens - new)
        messages, said = turns(self._request.messages), tuple(self._told)
        with closing(
            self._opened.session.reply(messages, settings, drafter, policy, self._stop.is_set, said)
        ) as events:
            for event in events:
                answer = self._answer(replace(event, time_s=event.time_s + since_s), new)
                if answer is not None:
                    yield answer

    def _answer(self, event: Event, new: int) -> AnyAnswer | None:
        """What to tell of an event, if anything. new: tokens of the reply that earlier legs told."""
        number = self._request.id
        if isinstance(event, PromptProgress):  # a prompt that is read again, to fall back, is no news
            return None if self._rounds else PrefillProgress(id=number, progress=event)
        if isinstance(event, Finished):
            return self._ended(replace(event, tokens=new + event.tokens))
        self._check_numbers(event)
        self._told += event.tokens
        self._rounds += 1
        pieces = tuple(self._opened.piece(token) for token in event.drafted)
        return RoundDone(id=number, round=replace(event, index=self._rounds - 1), drafted_texts=pieces)

    def _check_numbers(self, event: Round) -> None:
        """JSON has no name for what is no number, and no law has either."""
        if not all(map(math.isfinite, event.p)):
            raise ModelError("the target's probabilities are no numbers: its files are damaged, download it again")
        if not all(map(math.isfinite, event.q)):
            if self._opened.watched is not None:
                self._opened.watched.failed = True
            raise ModelError("its probabilities are no numbers: its files are damaged")

    def _ended(self, finished: Finished) -> ReplyDone:
        return ReplyDone(id=self._request.id, finished=finished, seed=self._options.seed, prompt_digest=self._prompt)


def options_of(law: SamplingSettings, tree: bool = False) -> Options:
    """The law of a reply, its seed drawn if none was given, as options. tree: whether trees are drafted. Raises
    UsageError for nonsense."""
    return Options(
        temperatures=(law.temperature,),
        draft_lengths=(law.draft_length,),
        tree=tree,
        exact=law.exact,
        rule=law.acceptance,
        top_p=law.top_p,
        top_k=law.top_k,
        min_p=law.min_p,
        repetition_penalty=law.repetition_penalty,
        seed=law.seed if law.seed is not None else secrets.randbelow(2**31),
        reproducible=law.seed is not None and not law.fresh,
        stop=law.stop,
        max_tokens=law.max_tokens,
    )


def check_ids(said: tuple[int, ...], opened: LoadedPair) -> None:
    """Raises UsageError."""
    words = opened.target.model.vocabulary
    if any(not 0 <= token < words for token in said):
        raise UsageError(f"`said` holds ids that are no tokens of this model, which has {words}: regenerate the reply")
