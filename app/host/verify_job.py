"""One Verify request: the reply as it was emitted, compared with plain decoding of its prompt, from nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from threading import Event as Flag

from app.host.hosted_pair import HostedPair
from app.host.reply_job import options_of
from app.inference import digests
from app.inference.replay_check import recheck
from app.protocol import AnyAnswer, Failed, PrefillProgress, RoundTokens, Verify, VerifyDone, VerifyProgress
from engine.audit.receipt import Difference, Receipt
from engine.errors import ContextError, RedlineError, UsageError
from engine.events import PromptProgress, Round

CANCELLED = "Cancelled"


class OtherPromptError(RedlineError):
    """The prompt of the reply is not what it would be now."""


class OtherModelError(RedlineError):
    """The weights are not those that wrote the reply."""


class _StoppedError(Exception):
    """In the middle of a measurement."""


class VerifyJob:
    """A check in progress. Raises UsageError for sampling settings or ids that make no sense, OtherModelError,
    OtherPromptError, ContextError."""

    def __init__(self, hosted: HostedPair, request: Verify, stop: Flag) -> None:
        self._hosted, self._request, self._stop = hosted, request, stop
        self._rounds = [round_of(i, stored) for i, stored in enumerate(request.rounds)]
        self._tokens = tuple(token for stored in request.rounds for token in stored.tokens)
        if not self._tokens:
            raise UsageError(
                "this reply has no tokens to check (they were not stored, or the reply was empty): regenerate it"
            )
        prompt, model = digests.apart(request.prompt_digest)
        self._check_model(model)
        hosted.pair.check_ids(self._tokens)
        self._settings = options_of(replace(request.sampling, draft_length=0)).settings()
        if request.sampling.seed is None and not self._settings.greedy:
            raise UsageError(
                "the seed of this reply was not kept, and nothing follows without it: regenerate the reply"
            )
        self._prompt = hosted.prompt_ids(request.messages)
        self._check_prompt(prompt)

    def answers(self) -> Iterator[AnyAnswer]:
        """Raises what the target raises."""
        try:
            receipt = yield from self._checked()
        except _StoppedError:
            yield Failed(id=self._request.id, kind=CANCELLED, message="stopped before all of the reply was checked")
            return
        named = tuple(self._named(difference) for difference in receipt.differences)
        yield VerifyDone(id=self._request.id, receipt=replace(receipt, differences=named))

    def _checked(self) -> Generator[AnyAnswer, None, Receipt]:
        """The check as answers; returns the receipt."""
        pair, settings, whole = self._hosted.pair, self._settings, self._request.complete
        steps = recheck(pair.target, pair.session, settings, self._prompt, self._rounds, whole, self._break_off)
        try:
            while True:
                yield self._answer(next(steps))
                self._break_off()
        except StopIteration as done:
            receipt: Receipt = done.value
            return receipt
        finally:
            steps.close()

    def _answer(self, step: PromptProgress | int) -> AnyAnswer:
        if isinstance(step, PromptProgress):
            return PrefillProgress(id=self._request.id, progress=step)
        return VerifyProgress(id=self._request.id, done=step, total=len(self._tokens))

    def _break_off(self) -> None:
        if self._stop.is_set():
            raise _StoppedError

    def _check_model(self, digest: str) -> None:
        """Raises OtherModelError if the weights are not those of `digest`, which wrote the reply; "" is unknown. Other
        weights would be blamed for a reply that is not theirs."""
        if digest and digest != self._hosted.digest:
            folder = self._hosted.pair.target.folder.path.name
            raise OtherModelError(
                f"the weights in {folder} are not those that wrote this reply: put those back, or regenerate the reply "
                "and verify that"
            )

    def _check_prompt(self, digest: str) -> None:
        """digest: of the prompt as it was, or "". Another one would make a failure of every reply, and of a lucky one
        no receipt."""
        request, tokens, context = self._request, len(self._prompt), self._hosted.pair.session.context
        known = request.prompt_tokens in (None, tokens) and digest in ("", digests.of_prompt(self._prompt))
        if not known:
            before = "" if request.prompt_tokens is None else f" had {request.prompt_tokens} tokens and"
            raise OtherPromptError(
                f"the prompt of this reply{before} reads otherwise now ({tokens} tokens): the system prompt, a date in "
                "the model's chat template or the model itself has changed; regenerate the reply and verify that"
            )
        if tokens + len(self._tokens) > context:
            raise ContextError(
                f"prompt and reply have {tokens + len(self._tokens)} tokens and the context holds {context}: "
                "load the model with the context that the reply was written in"
            )

    def _named(self, difference: Difference) -> Difference:
        """With the texts of its tokens."""
        texts = [
            "" if token is None else self._hosted.pair.piece(token)
            for token in (difference.plain_token, difference.other_token)
        ]
        return replace(difference, plain_text=texts[0], other_text=texts[1])


def round_of(index: int, stored: RoundTokens) -> Round:
    """As far as it is known. Raises UsageError for one that contradicts itself."""
    if stored.parents is not None:
        nodes = [-1, *stored.path]
        fits = len(stored.parents) == len(stored.drafted) and all(-1 <= up < at for at, up in enumerate(stored.parents))
        steps = zip(nodes, stored.path, strict=False)
        fits = fits and all(0 <= at < len(stored.parents) and stored.parents[at] == up for up, at in steps)
        fits = fits and len(stored.tokens) <= len(stored.path) + 1
    else:
        fits = not stored.path and len(stored.tokens) <= len(stored.drafted) + 1
    if not fits:
        raise UsageError(f"round {index} of this reply contradicts itself: what is kept of it is damaged")
    accepted = len(stored.path) if stored.parents is not None else max(0, len(stored.tokens) - 1)
    made = Round(
        index, stored.tokens, stored.drafted, accepted, (), (), 0, 0.0, parents=stored.parents, path=stored.path
    )
    return replace(made, fingerprints=stored.fingerprints)
