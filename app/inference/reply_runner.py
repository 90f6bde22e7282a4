"""One reply of a loaded pair, as events. It goes on without a drafter that fails.

Going on is a second attempt: the same prompt, continued from the tokens that were already emitted. They were drawn from
the target's distribution, and noise depends on the position alone, so the distribution stays the target's, and greedy
or coupled text does not change.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from app.inference.loaded_pair import LoadedPair, reason_of
from app.inference.pair_loader import MonitoredDrafter, wanted
from app.inference.reply_events import FellBack, ReplyEvent
from engine.backend import raise_if_machine_lost
from engine.drafters import Drafter
from engine.drafters.prompt_lookup import HISTORY_SHORTEST
from engine.errors import ModelError, StoppedError
from engine.events import Event, Finished, PromptProgress, Round
from engine.policy import Policy
from engine.policy.adaptive import Adaptive
from engine.policy.fixed import FixedLength
from engine.session import Prompt
from engine.settings import SamplingSettings


@dataclass(frozen=True)
class ReplyInput:
    """What a reply begins with.

    messages: the conversation, or a text to continue without the chat template. continuation_ids: tokens of the reply
    that are there already. timed: whether every draft is waited for and timed. prediction: a text to draft from.
    tools: that the model is told of, as OpenAI describes them.
    """

    messages: Sequence[Mapping[str, Any]] | str
    continuation_ids: Sequence[int] = ()
    timed: bool = False
    prediction: str = ""
    tools: Sequence[dict[str, Any]] = ()


class ReplyRunner:
    """A reply in progress. pair, settings: of the reply; until the events begin they may be replaced by another pair of
    the same weights. cancelled: asked between passes, and while the prompt is made. prompt: its ids, once they have
    been made or the events have begun. predicted: how many accepted tokens the prediction has too, after the same
    HISTORY_SHORTEST tokens, which is where it is drafted from. unused_prediction: why it is not, "" where there is none
    or it is."""

    def __init__(
        self, pair: LoadedPair, settings: SamplingSettings, given: ReplyInput, cancelled: Callable[[], bool]
    ) -> None:
        self.pair, self.settings, self._input, self._cancelled = pair, settings, given, cancelled
        self._ids = list(given.continuation_ids)
        self._given = len(self._ids)
        self.prompt: list[int] = []
        self._stable_lengths: tuple[int, ...] = ()
        self.predicted, self.unused_prediction = 0, ""
        self._prediction: set[tuple[int, ...]] = set()  # every stretch of it that a draft begins or goes on in
        self._thought = 0  # how many tokens of the new ones are thought, and what marks it
        self._rounds = 0
        self._prompt_s = 0.0  # to make the ids of the prompt
        self._began_s = 0.0
        self._policy: Policy | None = None

    def make_prompt(self) -> None:
        """Makes the ids of the prompt. Raises ModelError where the model's template refuses it, and StoppedError."""
        began_s, given = time.monotonic(), self._input
        prompt = self.pair.prompt_ids(given.messages, self.settings, self._cancelled, given.tools)
        self._stable_lengths = self._lengths_of(prompt)
        self.prompt, self._prompt_s = prompt, time.monotonic() - began_s

    def _lengths_of(self, prompt: Sequence[int]) -> tuple[int, ...]:
        """Returns the lengths of a prompt to which later prompts will go back; only that for the next question where
        the target's caches go back to any place by themselves."""
        messages, tools, switches = self._input.messages, self._input.tools, self.settings.switches
        if isinstance(messages, str):
            return ()
        tokenizer = self.pair.target.tokenizer
        if not self.pair.target.model.cache.needs_pins:
            return (max(0, len(prompt) - tokenizer.withdrawn_tokens(tools, **switches)),)
        return tokenizer.stable_prompt_lengths(list(messages), self._cancelled, tools, others=True, **switches)

    def events(self) -> Iterator[ReplyEvent]:
        """Yields the reply; its times are counted from here, with what the ids of the prompt took. Raises whatever the
        target raises, including ContextError and ModelError."""
        try:
            if not self.prompt:
                self.make_prompt()
            self._began_s = time.monotonic() - self._prompt_s
            if text := self._input.prediction:
                tokens, self.unused_prediction = self.pair.draft_from_prediction(text, self.prompt, self.settings)
                self._prediction = set(zip(*(tokens[i:] for i in range(HISTORY_SHORTEST + 1)), strict=False))
            if self._cancelled():
                raise StoppedError("stopped before the reply began")
        except StoppedError:
            yield Finished("cancelled", 0, 0.0)
            return
        why_plain = ""
        if self.settings.draft_length != 0 and (drafter := self.pair.drafter.monitored) is not None:
            why_plain = yield from self._draft(drafter)
            if not why_plain:
                return
            yield FellBack(why_plain)
            self.pair.reset()
        elif self.settings.draft_length != 0 and self.pair.refusal:
            why_plain = f"the drafter is not loaded ({self.pair.refusal})"
        yield from self._attempt(None, FixedLength(0, why_plain))

    @property
    def plain_s(self) -> float | None:
        """What a plain step takes now, as the rounds of this reply tell; None where they do not."""
        return self._policy.plain_s if isinstance(self._policy, Adaptive) else None

    def _draft(self, drafter: MonitoredDrafter) -> Generator[Event, None, str]:
        """Yields the reply with drafts. Returns "" at its end, or why the drafter could not go on."""
        drafter.timed, drafter.failed, drafter.busy = self._input.timed, False, False
        try:
            self._policy = policy = self.pair.policy(self.settings, len(self.prompt) + self._given, self._input.timed)
            yield from self._attempt(wanted(drafter, policy), policy)
            if isinstance(policy, Adaptive):
                self.pair.learnt.save()
        except Exception as error:
            raise_if_machine_lost(error)
            if not (drafter.failed or drafter.busy):
                raise
            return f"the drafter failed ({reason_of(error)})"
        return ""

    def _attempt(self, drafter: Drafter | None, policy: Policy) -> Iterator[Event]:
        """Continues from the tokens that were emitted, to the end of the reply."""
        emitted = len(self._ids) - self._given
        since_s = time.monotonic() - self._began_s
        settings = self._settings_of_rest()
        session = self.pair.session
        prompt = Prompt(self.prompt, self._stable_lengths)
        given = (drafter, policy, self._cancelled, tuple(self._ids))
        with closing(session.continue_tokens(prompt, settings, *given)) as events:
            for event in events:
                timed = replace(event, time_s=event.time_s + since_s)
                if isinstance(timed, PromptProgress):
                    if self._rounds == 0:  # that the prompt is read again, to fall back, is no news
                        yield timed
                elif isinstance(timed, Finished):
                    yield replace(timed, tokens=emitted + timed.tokens)
                else:
                    self._check_probabilities(timed)
                    self._count_predicted(timed)
                    self._ids += timed.tokens
                    self._thought += sum(channel != "answer" for channel in timed.channels)
                    self._rounds += 1
                    yield replace(timed, index=self._rounds - 1)

    def _count_predicted(self, round_: Round) -> None:
        if self._prediction:
            tail = [*self.prompt[-HISTORY_SHORTEST:], *self._ids[-HISTORY_SHORTEST:]][-HISTORY_SHORTEST:]
            told = [*tail, *round_.tokens[: round_.accepted]]
            grams = zip(*(told[i:] for i in range(HISTORY_SHORTEST + 1)), strict=False)
            self.predicted += sum(gram in self._prediction for gram in grams)

    def _settings_of_rest(self) -> SamplingSettings:
        """Returns the settings for what is still to be written: each limit without the tokens that count to it."""
        settings, thought = self.settings, self._thought
        if settings.max_thought_tokens is None:
            return replace(settings, max_tokens=settings.max_tokens - (len(self._ids) - self._given))
        answer = len(self._ids) - self._given - thought
        left = max(1, settings.max_thought_tokens - thought)  # with none left, another token of thought ends the reply
        return replace(settings, max_tokens=settings.max_tokens - answer, max_thought_tokens=left)

    def _check_probabilities(self, round_: Round) -> None:
        """Raises ModelError for probabilities that are not numbers: JSON has no name for them."""
        if not all(map(math.isfinite, round_.p)):
            raise ModelError("the target's probabilities are not numbers: its files are damaged, download it again")
        if not all(map(math.isfinite, round_.q)):
            if (drafter := self.pair.drafter.monitored) is not None:
                drafter.failed = True
            raise ModelError("its probabilities are not numbers: its files are damaged")
