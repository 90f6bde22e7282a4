"""Checks a reply against plain decoding: afterwards by its tokens alone, or beside a plain reply to the same prompt."""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.audit import fingerprints
from engine.audit.exact_target import ExactTarget
from engine.audit.identical_width import blocks_for
from engine.audit.receipt import Difference, Receipt, first_difference
from engine.audit.rounding import Mismatch, assume_noise, clear_caches, feed_afresh, measure_noise, mismatch_at
from engine.events import PromptProgress, Round
from engine.reply_channels import Parser
from engine.reply_text import ReplyText, TokenStream
from engine.sampling import Sampler, TokenCounts
from engine.target.cached_model import CachedModel
from engine.target.sharded_target import check_present

MEASURED = 32  # differences whose noise is measured, each with its own prefill; later ones are assumed to have as much
_STRIDE = 8  # passes in a row before their results are compared


@dataclass(frozen=True)
class EndConditions:
    """What ends a reply. stream: makes a detokenizer, to find `stops`. whole: this reply ended by itself, or, with
    `longest` tokens, because of its length. parser: at the end of the prompt, tells the answer, which stop strings end,
    from the thought."""

    stream: Callable[[], TokenStream]
    eos: frozenset[int] = frozenset()
    stops: tuple[str, ...] = ()
    whole: bool = False
    longest: int = 0
    parser: Parser | None = None

    def first(self, reply: Sequence[int]) -> int | None:
        """Returns after how many tokens of `reply` it should have ended; None where it goes on."""
        parser = self.parser.fork() if self.parser is not None else None
        text = ReplyText(self.stream(), self.stops, (), parser) if self.stops else None
        for i, token in enumerate(reply):
            if text is not None:
                text.push(Round(i, (token,), (), 0, (1.0,), (), 1, 0.0))
            if token in self.eos or (text is not None and text.stopped):
                return i + 1
        return None


def check_reply(
    target: CachedModel,
    sampler: Sampler,
    prompt: Sequence[int],
    rounds: Sequence[Round],
    ends: EndConditions,
    between: Callable[[], None] = lambda: None,
) -> Generator[PromptProgress | int, None, Receipt]:
    """Decodes `prompt` plainly again, one row a pass in fresh caches, and compares the reply of `rounds` with it.

    The reply's own tokens are fed, so that a difference does not hide later ones: at each position the token that plain
    decoding chooses after the reply so far is compared with the reply's. Where choices are bound to the seed
    (greedy, coupled, or nothing was ever drafted) they must be equal; under rejection sampling each token must be
    possible. A reply must end where plain decoding would have ended, and if it is `ends.whole`, not before. Rounds of
    exact-verify have fingerprints; they are compared with those of the plain passes, for which `target` must be an
    `ExactTarget`.

    Yields how far the prompt is, then how many tokens are checked; returns the receipt. between: called between passes
    of a measurement; may raise to break off. UsageError: a token is outside the grammar. The target is left empty.
    """
    reply = [token for round_ in rounds for token in round_.tokens]
    end = ends.first(reply)
    kept = reply if end is None else reply[:end]
    goes_on = ends.whole and end is None and len(reply) < ends.longest
    bound = sampler.accepts_by_match or not any(round_.drafted for round_ in rounds)
    passes = _PlainPasses(target, sampler, prompt, kept, bound)
    marks = [mark for round_ in rounds for mark in round_.fingerprints][: len(kept)]
    passes.checks_bits = bool(kept) and len(marks) == len(kept)
    try:
        yield from _read(target, prompt, between)
        yield from passes.run(goes_on)
        differences = _differences(target, sampler, passes.mismatches, prompt, rounds, between)
    finally:
        clear_caches(target)
    if len(kept) < len(reply):
        differences.append(Difference(len(kept), None, reply[len(kept)], None, None, near_tie=False))
    elif goes_on:
        differences.append(Difference(len(reply), passes.next_token, None, None, None, near_tie=False))
    same_bits = passes.fingerprints == marks if passes.checks_bits else None
    return Receipt(len(reply), tuple(differences), "tokens" if bound else "distribution", same_bits)


def compare_replies(
    target: CachedModel,
    sampler: Sampler,
    prompt: Sequence[int],
    plain: Sequence[int],
    other: Sequence[Round],
    exact: bool = False,
    between: Callable[[], None] = lambda: None,
) -> Receipt | None:
    """Compares the rounds of a reply with the tokens of plain decoding, both for the same prompt and settings. Reports
    the first difference alone: after it the two continue different texts.

    Drafted ids below 0 stand for tokens that are not known. exact: both are of exact-verify, so the passes that measure
    lie on its blocks, where no rounding excuses anything. None where no such promise is made: rejection sampling above
    temperature 0 keeps the distribution, not the tokens. When the replies differ, `target` is run and left empty.
    between: called between passes; may raise to break off.
    """
    if not sampler.accepts_by_match:
        return None
    tokens = [token for round_ in other for token in round_.tokens]
    position = first_difference(plain, tokens)
    if position is None:
        return Receipt(len(tokens))
    checked = min(position + 1, len(tokens))
    if position == min(len(plain), len(tokens)):
        ends = [reply[position] if position < len(reply) else None for reply in (plain, tokens)]
        return Receipt(checked, (Difference(position, ends[0], ends[1], None, None, near_tie=False),))
    before = [*prompt, *plain[:position]]
    target = ExactTarget(target, blocks_for(target, len(prompt))) if exact else target
    narrow = _plain_logits(target, sampler, prompt, plain[:position], between)
    mismatch = mismatch_at(sampler, narrow, before, position, plain[position], tokens[position])
    difference = measure_noise(target, sampler, mismatch, before, other, between)
    clear_caches(target)
    return Receipt(checked, (difference,))


class _PlainPasses:
    """A pass of plain decoding for each token of a reply, whatever it chooses there.

    bound: choices must be equal; else each token must be possible. mismatches: in order, the logits of the first
    MEASURED with them. next_token: what plain decoding chooses after the reply, if `goes_on`. fingerprints: of the
    logits after each part of the reply, if it `checks_bits`.
    """

    def __init__(
        self, target: CachedModel, sampler: Sampler, prompt: Sequence[int], reply: Sequence[int], bound: bool
    ) -> None:
        self.mismatches: list[Mismatch] = []
        self.next_token: int | None = None
        self.checks_bits = False
        self.fingerprints: list[int] = []
        self._target, self._sampler, self._reply, self._bound = target, sampler, reply, bound
        self._prompt, self._sequence = prompt, list(prompt)
        self._counts = TokenCounts(sampler.distribution, prompt)

    def run(self, goes_on: bool) -> Iterator[int]:
        """Yields how many tokens are checked. goes_on: also choose the one after the reply.

        No pass waits for the one before it, as the tokens to feed are known.
        """
        places = len(self._reply) + goes_on
        yield 0
        for start in range(0, places, _STRIDE):
            batch = [self.submit(i) for i in range(start, min(start + _STRIDE, places))]
            mx.eval(batch)
            check_present(self._target.absent)
            for i, (logits, result, bits) in enumerate(batch, start):
                self._look(i, logits, result.item())
                if self.checks_bits and i < len(self._reply):
                    sums: Any = bits.tolist()
                    self.fingerprints.append(fingerprints.combine_checksum(sums[0]))
            yield min(start + len(batch), len(self._reply))

    def submit(self, i: int) -> tuple[mx.array, mx.array, mx.array]:
        """Returns, lazy, logits (1, vocabulary) after the first i tokens, the choice (1,) or log p (1,) of the token,
        and the checksums (1, 2) of the logits."""
        empty = mx.zeros(0, mx.int32)
        logits, _ = self._target.continue_from(self._sequence, empty)
        self._target.rewind(len(self._sequence))  # of fillers, in exact-verify
        bits = fingerprints.row_checksums(logits) if self.checks_bits else empty
        if self._sampler.grammar is not None:
            logits = mx.where(self._sampler.grammar.rows(), logits, -math.inf)
        choices, logprobs = self._sampler.choose(logits, self._counts.rows(), len(self._sequence))
        if i == len(self._reply):
            return logits, choices, bits
        token = self._reply[i]
        self._sequence.append(token)
        self._counts = self._counts.extended([token])
        if self._sampler.grammar is not None:
            self._sampler.grammar.advance([token])
        return logits, choices if self._bound else logprobs[:, token], bits

    def _look(self, i: int, logits: mx.array, result: Any) -> None:
        """Compares one position. result: the choice, or the log p."""
        if i == len(self._reply):
            self.next_token = int(result)
            return
        token = self._reply[i]
        if (result == token) if self._bound else math.isfinite(result):
            return
        before, plain = [*self._prompt, *self._reply[:i]], int(result) if self._bound else None
        mismatch = mismatch_at(self._sampler, logits, before, i, plain, token)
        self.mismatches.append(mismatch if len(self.mismatches) < MEASURED else mismatch._replace(logits=None))


def _differences(
    target: CachedModel,
    sampler: Sampler,
    mismatches: Sequence[Mismatch],
    prompt: Sequence[int],
    rounds: Sequence[Round],
    between: Callable[[], None],
) -> list[Difference]:
    """Returns what each mismatch is: the first MEASURED by passes of their own, later ones by what those showed."""
    sequence = [*prompt, *(token for round_ in rounds for token in round_.tokens)]
    measured = []
    for one in mismatches[:MEASURED]:
        before = sequence[: len(prompt) + one.position]
        measured.append(measure_noise(target, sampler, one, before, rounds, between))
    return [*measured, *(assume_noise(one, measured) for one in mismatches[MEASURED:])]


def _read(target: CachedModel, prompt: Sequence[int], between: Callable[[], None]) -> Iterator[PromptProgress]:
    """Clears the caches and feeds all but the last token of the prompt, in chunks as a session does."""
    began_s = time.monotonic()
    clear_caches(target)
    target.read_as(len(prompt))
    yield PromptProgress(0, len(prompt), 0, 0.0)
    for done in target.prefill(prompt[:-1], cancelled=between):
        yield PromptProgress(done, len(prompt), 0, time.monotonic() - began_s)


def _plain_logits(
    target: CachedModel, sampler: Sampler, prompt: Sequence[int], reply: Sequence[int], between: Callable[[], None]
) -> mx.array:
    """Returns logits (1, vocabulary) after prompt and reply, as plain decoding computes them."""
    feed_afresh(target, prompt)
    passes = _PlainPasses(target, sampler, prompt, reply, bound=True)
    for i in range(len(reply) + 1):
        between()
        logits = passes.submit(i)[0]
        mx.eval(logits)
    check_present(target.absent)
    return logits
