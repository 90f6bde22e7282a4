"""One conversation: the committed tokens, what the caches hold of them, and its replies as events.

Invariant: the target's cache, and the cache of the drafter used last, hold a prefix of `tokens`. It holds at every
yield, so a reply may be abandoned anywhere (its generator closed) and the next one reuses what is common: the turns so
far, or everything up to an edit. A reply in another conversation keeps this one in `kept`, for its next reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from engine import together
from engine.audit.exact_target import ExactTarget
from engine.audit.identical_width import blocks_for
from engine.audit.verify_blocks import VerifyBlocks
from engine.drafters import Drafter
from engine.errors import ContextError, SupersededError, UsageError
from engine.events import Event, Finished, PromptProgress, Round
from engine.grammar import Matcher, ReplyGrammar
from engine.kept_conversations import LEAST_TOKENS, KeptConversation, KeptConversations, Request, common_prefix
from engine.loop import Limits, decode
from engine.policy import Policy
from engine.policy.fixed import FixedLength
from engine.reply_channels import Parser
from engine.reply_text import ReplyText, Tokenizer
from engine.sampling import Sampler
from engine.settings import Grammar, SamplingSettings
from engine.target.cached_model import PREFILL_CHUNK, CachedModel


@dataclass(frozen=True)
class Prompt:
    """What a reply answers. stable_lengths: how many of its ids later prompts of the conversation begin with, by what
    may come next; a cache that cannot drop tokens stays able to return there."""

    ids: Sequence[int]
    stable_lengths: Sequence[int] = ()

    @property
    def next_question(self) -> int:
        """With how many of its ids the next question begins. A text without stable lengths has no questions: one with
        another end of a few tokens is the same text, being written."""
        return max(self.stable_lengths, default=max(0, len(self.ids) - LEAST_TOKENS))


class Session:
    """A conversation with `target`. context: the most tokens that prompt and reply may have together. kept: other
    conversations, which a reply may continue; none until it has a limit. matchers: makes the matcher of a grammar for
    the tokenizer, None where replies follow no grammar."""

    def __init__(
        self,
        target: CachedModel,
        tokenizer: Tokenizer,
        context: int,
        matchers: Callable[[Grammar], Matcher] | None = None,
    ) -> None:
        self._matchers = matchers
        self.target = target
        self.tokenizer = tokenizer
        self.context = context
        self.tokens: list[int] = []
        self.kept = KeptConversations()
        self._next_question = 0  # how many of the tokens the next prompt of this conversation begins with
        self._drafter: Drafter | None = None
        self._reply = object()  # stands for the latest reply, as the target's owner
        self._blocks: VerifyBlocks | None = None
        self._driver: CachedModel = target  # the target as that reply drives it: itself, or in exact-verify its blocks

    def for_another_reply(self) -> Session:
        """Returns a session on the same weights with caches of its own, for a reply that alternates with those of this
        one. Both keep their conversations in one place, and each may continue the other's."""
        other = Session(self.target.for_another_reply(), self.tokenizer, self.context, self._matchers)
        other.kept = self.kept
        return other

    def continue_tokens(
        self,
        prompt: Prompt,
        settings: SamplingSettings,
        drafter: Drafter | None = None,
        policy: Policy | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        continuation_ids: Sequence[int] = (),
    ) -> Generator[Event]:
        """Answers a prompt, by plain decoding without a `policy`. continuation_ids: the answer so far, whose text is
        not emitted again, and which max_tokens does not count. Raises ContextError for a prompt without room."""
        settings.check(tree=True)  # a policy may draft trees, which may be longer than chains
        began_s = time.monotonic()
        parser = self.tokenizer.channels(prompt.ids)
        text = ReplyText(self.tokenizer.stream(), settings.stop, continuation_ids, parser)
        if text.stopped or self.tokenizer.eos.intersection(continuation_ids):
            yield Finished("stop" if text.stopped else "eos", 0, time.monotonic() - began_s)
            return
        grammar = self.reply_grammar(settings, parser, continuation_ids)
        blocks = blocks_for(self.target, len(prompt.ids)) if settings.exact else None
        self._check_length(ids := [*prompt.ids, *continuation_ids])
        reused = self._reuse(Request(ids, drafter, blocks, settings.repeats_rounds))
        self._next_question, reply = prompt.next_question, self._reply
        stable = self._pinned_lengths(prompt, blocks)
        for count, done in enumerate(self._prefill(ids, reused, drafter, cancelled, stable)):
            yield PromptProgress(done, len(ids), reused, time.monotonic() - began_s)
            self._check_owner(reply)
            if count and cancelled():
                yield Finished("cancelled", 0, time.monotonic() - began_s)
                return
        self.target.pin_mark(stable)
        if drafter is not None and not _synced(drafter, ids, cancelled):
            yield Finished("cancelled", 0, time.monotonic() - began_s)
            return
        sampler, policy = Sampler(settings, self.target.vocabulary, grammar), policy or FixedLength(0)
        ends = (settings.max_tokens, self.context, self.tokenizer.eos, cancelled, settings.max_thought_tokens)
        rounds = decode(self._driver, drafter, policy, sampler, self.tokens, Limits(*ends, parser), began_s)
        for event in self._with_text(rounds, text, len(ids)):
            yield event
            self._check_owner(reply)

    def _pinned_lengths(self, prompt: Prompt, blocks: VerifyBlocks | None) -> Sequence[int]:
        """Returns the lengths of a prompt to be marked; none where the caches go back to any place without a mark."""
        if not self.target.cache.needs_pins:
            return ()
        return prompt.stable_lengths if blocks is None else blocks.shared_ends(prompt.stable_lengths)

    def reply_grammar(
        self, settings: SamplingSettings, parser: Parser | None, continuation_ids: Sequence[int] = ()
    ) -> ReplyGrammar | None:
        """Returns the grammar of a reply after its first tokens, None where its settings have none. parser: at the end
        of the prompt. Raises UsageError where the grammar cannot be followed."""
        if settings.grammar is None:
            return None
        if self._matchers is None:
            raise UsageError("this model's replies cannot follow a grammar: leave it out, or choose another model")
        matcher = self._matchers(settings.grammar)
        return ReplyGrammar(matcher, self.target.vocabulary, self.tokenizer.eos, parser, continuation_ids)

    def forget(self) -> None:
        """Empties the caches; the next reply starts from nothing, or from a conversation that is kept."""
        self.tokens, self._next_question = [], 0
        self._drafter, self._blocks, self._driver = None, None, self.target
        if self.target.owner in (None, self._reply):  # else the cache is another conversation's by now
            self.target.reset()
            self.target.owner = None

    def put_aside(self) -> bool:
        """Keeps the conversation and empties the caches; returns False, with everything as it was, where that would
        cost its next reply more than LEAST_TOKENS."""
        held = self._held()
        if len(self.tokens) >= LEAST_TOKENS and (held is None or not self.kept.add(held)):
            return False
        self.forget()
        return True

    def keep_copy(self) -> None:
        """Keeps a copy of the conversation for other sessions, where there is room, and goes on with it. Must not be
        called within a round."""
        held = self._held()
        if held is not None:
            self.kept.add(held)

    def conversation(self, tokens: Sequence[int]) -> KeptConversation | None:
        """Returns the conversation of just these tokens, where it is in the caches or kept."""
        held = self._held()
        return held if held is not None and held.tokens == tuple(tokens) else self.kept.find(tokens)

    def _held(self) -> KeptConversation | None:
        """Returns what the caches hold; None where another session has used the target since, and where other machines
        hold parts of it."""
        if self.target.owner is not self._reply or self.target.leader is not None:
            return None
        drafter, target = self._drafter, self.target.snapshot()
        key, drafted = (None, None) if drafter is None else (drafter.snapshot_key, drafter.snapshot())
        return KeptConversation(tuple(self.tokens), target, self._blocks, key, drafted, self._next_question)

    def _check_owner(self, reply: object) -> None:
        """A reply that goes on must still own the caches."""
        if self.target.owner is not reply:
            raise SupersededError("another reply began on this target while this one was open: start this reply again")

    def _check_length(self, prompt: Sequence[int]) -> None:
        if not prompt:
            raise UsageError("the prompt is empty: enter some text")
        if len(prompt) >= self.context:
            # It begins as the error of Anthropic's API, by which agents know that a conversation must be shortened.
            raise ContextError(
                f"prompt is too long: {len(prompt)} tokens > {self.context} maximum, including the reply: shorten the "
                "conversation or start a new one"
            )

    def _reuse(self, request: Request) -> int:
        """Makes the prompt of a reply the session's tokens; returns how many of them the target's cache keeps."""
        prompt, drafter, blocks = request.prompt, request.drafter, request.blocks
        if self.target.owner is not self._reply:  # another conversation has used the cache since
            self.tokens, self._blocks, self._driver = [], None, self.target
        only_begins_alike = self._choose_conversation(request)
        self.target.read_as(len(prompt))
        self.target.owner = self._reply = object()
        common = min(common_prefix(self.tokens, prompt), len(prompt) - 1)
        self._lay_blocks(blocks)
        if drafter is not None:
            drafter.rewind(common if drafter is self._drafter else 0, request.repeats)
            self.target.record(drafter.needs.taps, drafter.needs.latest_only)
            if drafter.needs.taps:
                common = drafter.reusable(common)
        else:
            self.target.record()
        self._driver = self.target
        if blocks is not None:
            together.keep_passes_apart()
            self._driver = ExactTarget(self.target, blocks)
        self._drafter = drafter
        self.tokens = list(prompt)
        reused = self._driver.rewind(common)
        if only_begins_alike:
            self.target.cache.shrink()
        return reused

    def _choose_conversation(self, request: Request) -> bool:
        """Puts into the caches what is kept of a conversation, if more of it can be reused than of what they hold, and
        keeps what they hold of another one. Returns whether what they hold then is another one, which only begins
        alike."""
        held = self._held()
        found = self.kept.use(request, 1 if held is None else request.reusable(held) + 1)
        is_another = held is not None and not request.goes_on_with(held)
        if held is not None and is_another and len(self.tokens) >= LEAST_TOKENS:
            self.kept.add(held)
        if found is None:
            return is_another
        self.forget()
        self._continue_kept(found, request.drafter)
        return not request.goes_on_with(found)

    def _continue_kept(self, kept: KeptConversation, drafter: Drafter | None) -> None:
        """Puts a conversation that was kept into the caches, which are empty."""
        self.tokens, self._blocks = list(kept.tokens), kept.blocks
        self.target.restore(kept.target)
        if kept.blocks is not None:
            self._driver = ExactTarget(self.target, kept.blocks)
        if drafter is not None and kept.drafter == drafter.snapshot_key:
            drafter.restore(kept.drafted)
            self._drafter = drafter

    def _lay_blocks(self, blocks: VerifyBlocks | None) -> None:
        """Keeps the part of the cache that passes over `blocks` would also have made, and drops the rest."""
        before = self._blocks
        if blocks != before:
            shared = before.shared(blocks, self.target.length) if before is not None and blocks is not None else 0
            self._driver.rewind(shared)
            self._blocks = blocks

    def _prefill(
        self,
        prompt: Sequence[int],
        reused: int,
        drafter: Drafter | None,
        cancelled: Callable[[], bool],
        stable_lengths: Sequence[int],
    ) -> Iterator[int]:
        """Feeds what the caches lack of `prompt`, all but its last token; yields before and after each chunk how many
        of its tokens target and drafter have read. Pins the marks at its stable lengths."""
        read = reused if drafter is None else drafter.reusable(reused)
        while drafter is not None and read < reused:  # what the target alone has read before
            if reused - read > PREFILL_CHUNK:
                yield read
            read = min(read + PREFILL_CHUNK, reused)
            drafter.sync(prompt[: read + 1], cancelled, len(prompt) - read - 1)
        yield reused
        ends = [*(length for length in stable_lengths if reused < length < len(prompt) - 1), len(prompt) - 1]
        for begin, end in pairwise([reused, *ends]):
            done = 0
            for done in self._driver.prefill(prompt[begin:end], cancelled=cancelled):
                if drafter is not None:  # so that it is ready where the target is, and states need not be kept
                    read = self.target.length + 1
                    drafter.sync(prompt[:read], cancelled, len(prompt) - read)
                yield begin + done
            if done < end - begin:  # it was cancelled
                return
            if end < len(prompt) - 1:
                self.target.pin_mark(stable_lengths)

    def _with_text(self, rounds: Iterator[Round | Finished], text: ReplyText, prompt: int) -> Iterator[Event]:
        """Yields the events with their texts, and ends the reply at a stop string."""
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
        """Drops the tokens after the one that completed a stop string."""
        del self.tokens[length:]
        self._driver.rewind(length - 1)
        if self._drafter is not None:
            self._drafter.rewind(length - 1)


def _synced(drafter: Drafter, prompt: Sequence[int], cancelled: Callable[[], bool]) -> bool:
    """Lets the drafter catch up with the prompt; returns whether that was not cancelled."""
    heard = False

    def listen() -> bool:
        nonlocal heard
        heard = heard or cancelled()
        return heard

    drafter.sync(prompt, listen)
    return not heard
