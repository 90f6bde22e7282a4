"""One Reply request: the events of `app.inference.reply_runner` as answers of the protocol."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from threading import Event as Flag

from app.host.hosted_pair import HostedPair, messages_of
from app.inference import digests
from app.inference.options import Options
from app.inference.reply_events import FellBack, Measuring, ReplyEvent
from app.inference.reply_runner import ReplyRunner
from app.protocol import AnyAnswer, PrefillProgress, Reply, ReplyDone, RoundDone, SamplingSettings
from app.protocol import FellBack as FellBackAnswer
from app.protocol import Measuring as MeasuringAnswer
from engine.events import Finished, PromptProgress


class ReplyJob:
    """A reply in progress. Raises UsageError for settings or ids that make no sense."""

    def __init__(self, hosted: HostedPair, request: Reply, stop: Flag) -> None:
        self._hosted, self._request = hosted, request
        self._options = options_of(request.sampling, hosted.pair.trees)
        hosted.pair.check_ids(request.continuation_ids)
        self._runner = ReplyRunner(
            hosted.pair,
            self._options,
            messages_of(request.messages),
            stop.is_set,
            request.continuation_ids,
            request.timed,
        )

    def answers(self) -> Iterator[AnyAnswer]:
        """Raises what the target raises, ContextError and ModelError among it."""
        prompt = digests.of_prompt(self._hosted.prompt_ids(self._request.messages))
        digest = digests.together(prompt, self._hosted.digest)
        for event in self._runner.events():
            yield self._answer(event, digest)

    def _answer(self, event: ReplyEvent, digest: str) -> AnyAnswer:
        number = self._request.id
        if isinstance(event, Measuring):
            return MeasuringAnswer(id=number, message=event.message)
        if isinstance(event, FellBack):
            return FellBackAnswer(id=number, reason=event.reason)
        if isinstance(event, PromptProgress):
            return PrefillProgress(id=number, progress=event)
        if isinstance(event, Finished):
            return ReplyDone(id=number, finished=event, seed=self._options.seed, prompt_digest=digest)
        pieces = tuple(self._hosted.pair.piece(token) for token in event.drafted)
        return RoundDone(id=number, round=event, drafted_texts=pieces)


def options_of(sampling: SamplingSettings, trees: bool = False) -> Options:
    """Returns the sampling settings of a reply as options, with a random seed if they have none. Raises UsageError for
    nonsense. trees: whether trees are drafted."""
    return Options(
        temperatures=(sampling.temperature,),
        draft_lengths=(sampling.draft_length,),
        tree=trees,
        exact=sampling.exact,
        rule=sampling.acceptance,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        seed=sampling.seed if sampling.seed is not None else secrets.randbelow(2**31),
        reproducible=sampling.seed is not None and not sampling.fresh,
        stop=sampling.stop,
        max_tokens=sampling.max_tokens,
    )
