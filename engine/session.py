"""One conversation: the committed tokens, what the caches hold of them, and reply() -> events.

Invariant: the target's cache, and the cache of the drafter used last, hold a prefix of `tokens`.
It holds at every yield, so a reply may be abandoned anywhere (its generator closed) and the next
one reuses what is common: the turns so far, or everything up to an edit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

from engine.choice import Chooser
from engine.drafters import Drafter
from engine.errors import ContextError, SupersededError, UsageError
from engine.events import Event, Finished, PromptProgress, Round
from engine.grid import Grid
from engine.loop import Limits, decode
from engine.policy import FixedLength, Policy
from engine.settings import Settings
from engine.target import CachedModel
from engine.text import Message, ReplyText, Tokenizer


class Session:
    """A target and the conversation that it has in mind.

    context: the most tokens that prompt and reply may have together.
    """

    def __init__(self, target: CachedModel, tokenizer: Tokenizer, context: int) -> None:
        self.target = target
        self.tokenizer = tokenizer
        self.context = context
        self.tokens: list[int] = []
        self._drafter: Drafter | None = None
        self._hold = object()

    def reply(
        self,
        messages: Sequence[Message],
        settings: Settings,
        drafter: Drafter | None = None,
        policy: Policy | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        said: Sequence[int] = (),
    ) -> Generator[Event]:
        """Answer a conversation. `policy` defaults to plain decoding. said: ids of the answer so far, to go on from:
        its text is not told again, and max_tokens and Finished count what is new.

        Raises ContextError when the prompt leaves no room for a single token.
        """
        return self.continue_tokens(self.tokenizer.chat(messages), settings, drafter, policy, cancelled, said)

    def continue_tokens(
        self,
        prompt: Sequence[int],
        settings: Settings,
        drafter: Drafter | None = None,
        policy: Policy | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        said: Sequence[int] = (),
    ) -> Generator[Event]:
        """The same for a prompt that is token ids already."""
        began_s = time.monotonic()
        text = ReplyText(self.tokenizer.stream(), settings.stop, said)
        if text.stopped or self.tokenizer.eos.intersection(said):
            yield Finished("stop" if text.stopped else "eos", 0, time.monotonic() - began_s)
            return
        grid = Grid.of(len(prompt)) if settings.exact else None
        prompt = [*prompt, *said]
        self._check(prompt)
        reused = self._adopt(prompt, drafter, grid)
        hold = self._hold
        for done in self._read(prompt, reused, drafter, cancelled):
            yield PromptProgress(done, len(prompt), reused, time.monotonic() - began_s)
            self._go_on(hold)
            if done > reused and cancelled():
                yield Finished("cancelled", 0, time.monotonic() - began_s)
                return
        self.target.pin()
        if drafter is not None and not _uninterrupted(drafter, prompt, cancelled):
            yield Finished("cancelled", 0, time.monotonic() - began_s)
            return
        chooser = Chooser(settings.sampling, settings.rule, self.target.vocabulary)
        limits = Limits(settings.max_tokens, self.context, self.tokenizer.eos, cancelled)
        rounds = decode(self.target, drafter, policy or FixedLength(0), chooser, self.tokens, limits, began_s)
        for event in self._told(rounds, text, len(prompt)):
            yield event
            self._go_on(hold)

    def forget(self) -> None:
        """Empty the caches; the next reply starts from nothing."""
        self.tokens, self._drafter = [], None
        if self.target.holder in (None, self._hold):  # else it is another conversation's by now
            self.target.rewind(0)
            self.target.lay(None)

    def _go_on(self, hold: object) -> None:
        """A reply goes on: the caches must still be its own."""
        if self.target.holder is not hold:
            raise SupersededError("another reply began on this target while this one was open: ask for it again")

    def _check(self, prompt: Sequence[int]) -> None:
        if not prompt:
            raise UsageError("the prompt is empty: say something to answer")
        if len(prompt) >= self.context:
            raise ContextError(
                f"the prompt has {len(prompt)} tokens and the context holds {self.context}, "
                "the reply included: shorten the conversation or start a new one"
            )

    def _adopt(self, prompt: Sequence[int], drafter: Drafter | None, grid: Grid | None) -> int:
        """Make `prompt` the session's tokens; returns how many of them the target's cache keeps."""
        self.target.lay(grid)
        if self.target.holder is not self._hold:  # another conversation has used the cache since
            self.tokens = []
        self.target.holder = self._hold = object()
        common = 0
        for mine, theirs in zip(self.tokens, prompt, strict=False):
            if mine != theirs:
                break
            common += 1
        common = min(common, len(prompt) - 1)
        known = common if drafter is self._drafter else 0
        if drafter is not None:
            drafter.rewind(known)
        reads = drafter.features if drafter is not None else None
        self.target.read_by(reads)
        if drafter is not None and reads is not None:
            common = min(common, drafter.reach())
        kept = self.target.rewind(common)
        self._drafter = drafter
        self.tokens = list(prompt)
        return kept

    def _read(
        self, prompt: Sequence[int], reused: int, drafter: Drafter | None, cancelled: Callable[[], bool]
    ) -> Iterator[int]:
        """Feed what the caches lack of `prompt`, all but its last token; says before and after each chunk how many of
        its tokens are in."""
        yield reused
        for done in self.target.prefill(prompt[reused:-1]):
            if drafter is not None and drafter.features is not None:  # so that they need not be kept
                drafter.prefill(prompt[: self.target.length + 1], cancelled)
            yield reused + done

    def _told(self, rounds: Iterator[Round | Finished], text: ReplyText, prompt: int) -> Iterator[Event]:
        for event in rounds:
            if isinstance(event, Finished):
                rest, tail = text.finish()
                yield from rest
                yield replace(event, text=tail)
                return
            ready = text.push(event)
            if text.stopped:
                self._cut(prompt + text.tokens)
            yield from ready
            if text.stopped:
                yield Finished("stop", text.tokens, event.time_s)
                return

    def _cut(self, length: int) -> None:
        """Drop the tokens behind the one that completed a stop string."""
        del self.tokens[length:]
        self.target.rewind(length - 1)
        if self._drafter is not None:
            self._drafter.rewind(length - 1)


def _uninterrupted(drafter: Drafter, prompt: Sequence[int], cancelled: Callable[[], bool]) -> bool:
    """Let the drafter read the prompt; whether nobody cancelled that."""
    heard = False

    def listen() -> bool:
        nonlocal heard
        heard = heard or cancelled()
        return heard

    drafter.prefill(prompt, listen)
    return not heard
