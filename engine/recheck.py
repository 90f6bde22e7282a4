"""A reply held against plain decoding: afterwards by its tokens alone, or beside a plain reply to the same prompt."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine import fingerprint
from engine.choice import Chooser
from engine.events import PromptProgress, Round
from engine.grid import Grid
from engine.receipt import Difference, Receipt, first_difference
from engine.rounding import Met, judge, judge_by, meet, refill, start_over
from engine.sampling import Context
from engine.target import CachedModel
from engine.text import ReplyText, TokenStream

MEASURED = 32  # differences whose noise is measured, each with a prefill of its own; those behind go by them
_STRIDE = 8  # passes in a row before anyone looks


@dataclass(frozen=True)
class Ends:
    """What ends a reply. stream: makes a detokenizer, to find `stops`. whole: this reply ended by itself; one of
    `longest` tokens may have ended for that."""

    stream: Callable[[], TokenStream]
    eos: frozenset[int] = frozenset()
    stops: tuple[str, ...] = ()
    whole: bool = False
    longest: int = 0

    def first(self, reply: Sequence[int]) -> int | None:
        """After how many tokens of `reply` it should have ended; None where it goes on."""
        text = ReplyText(self.stream(), self.stops) if self.stops else None
        for i, token in enumerate(reply):
            if text is not None:
                text.push(Round(i, (token,), (), 0, (1.0,), (), 1, 0.0))
            if token in self.eos or (text is not None and text.stopped):
                return i + 1
        return None


def check(
    target: CachedModel,
    chooser: Chooser,
    prompt: Sequence[int],
    rounds: Sequence[Round],
    ends: Ends,
    between: Callable[[], None] = lambda: None,
) -> Generator[PromptProgress | int, None, Receipt]:
    """Decode `prompt` plainly again, one row a pass in fresh caches, and hold the reply of `rounds` against it.

    The reply's own tokens are fed, so that a difference does not hide those behind it: at each position what plain
    decoding says behind the reply so far is compared with what the reply says. Where choices are bound to the seed
    (greedy, coupled, or nothing was ever drafted) they must be equal; under rejection sampling each token must have a
    chance. A reply must end where plain decoding would have ended, and if it is `ends.whole`, not before. Rounds of
    exact-verify have fingerprints; they are held against those of the plain passes, on whose grid the target must lie.

    Yields how far the prompt is, then how many tokens are checked; returns the receipt. between: called between passes
    of a measurement; may raise to break off. The target is left empty, however this ends.
    """
    reply = [token for round_ in rounds for token in round_.tokens]
    end = ends.first(reply)
    kept = reply if end is None else reply[:end]
    goes_on = ends.whole and end is None and len(reply) < ends.longest
    bound = chooser.matches or not any(round_.drafted for round_ in rounds)
    sweep = _Sweep(target, chooser, prompt, kept, bound)
    marks = [mark for round_ in rounds for mark in round_.fingerprints][: len(kept)]
    sweep.looks_at_bits = bool(kept) and len(marks) == len(kept)
    try:
        yield from _read(target, prompt)
        yield from sweep.run(goes_on)
        differences = _judged(target, chooser, sweep.met, prompt, rounds, between)
    finally:
        start_over(target)
    if len(kept) < len(reply):
        differences.append(Difference(len(kept), None, reply[len(kept)], None, None, near_tie=False))
    elif goes_on:
        differences.append(Difference(len(reply), sweep.behind, None, None, None, near_tie=False))
    same_bits = sweep.fingerprints == marks if sweep.looks_at_bits else None
    return Receipt(len(reply), tuple(differences), "tokens" if bound else "law", same_bits)


def compare(
    target: CachedModel,
    chooser: Chooser,
    prompt: Sequence[int],
    plain: Sequence[int],
    other: Sequence[Round],
    exact: bool = False,
) -> Receipt | None:
    """Hold the rounds of a reply against the tokens of plain decoding, both to the same prompt and settings. Tells the
    first difference alone: behind it the two stand behind different texts.

    Drafted ids below 0 stand for tokens that are not known. exact: both are of exact-verify, so the passes that judge
    lie on its grid, where no rounding excuses anything. None where no such promise is made: rejection sampling above
    temperature 0 keeps the law, not the tokens. When the replies differ, `target` is run and left empty, on no grid.
    """
    if not chooser.matches:
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
    target.lay(Grid.of(len(prompt)) if exact else None)
    narrow = _plain_logits(target, prompt, plain[:position])
    met = meet(chooser, narrow, before, position, plain[position], tokens[position])
    difference = judge(target, chooser, met, before, other)
    start_over(target)
    target.lay(None)
    return Receipt(checked, (difference,))


class _Sweep:
    """A pass of plain decoding for each token of a reply, whatever it says there.

    bound: choices must be equal; else each token must be possible. met: the differences, in order, the logits of the
    first MEASURED with them. behind: what plain decoding says behind the reply, if it was asked. fingerprints: of the
    logits behind each part of the reply, if it `looks_at_bits`.
    """

    def __init__(
        self, target: CachedModel, chooser: Chooser, prompt: Sequence[int], reply: Sequence[int], bound: bool
    ) -> None:
        self.met: list[Met] = []
        self.behind: int | None = None
        self.looks_at_bits = False
        self.fingerprints: list[int] = []
        self._target, self._chooser, self._reply, self._bound = target, chooser, reply, bound
        self._prompt, self._sequence = prompt, list(prompt)
        self._context = Context(chooser.law, prompt)

    def run(self, goes_on: bool) -> Iterator[int]:
        """Yields how many tokens are checked. goes_on: ask for the one behind the reply too.

        No pass waits for what the one before it said, as the reply says what is fed.
        """
        places = len(self._reply) + goes_on
        yield 0
        for start in range(0, places, _STRIDE):
            passes = [self._pass(i) for i in range(start, min(start + _STRIDE, places))]
            mx.eval(passes)
            for i, (logits, said, bits) in enumerate(passes, start):
                self._look(i, logits, said.item())
                if self.looks_at_bits and i < len(self._reply):
                    sums: Any = bits.tolist()
                    self.fingerprints.append(fingerprint.number(sums[0]))
            yield min(start + len(passes), len(self._reply))

    def _pass(self, i: int) -> tuple[mx.array, mx.array, mx.array]:
        """Lazy: logits (1, vocabulary) behind the first i tokens, the choice (1,) or log p (1,) of the token, and the
        sums (1, 2) over the bits of the logits."""
        nothing = mx.zeros(0, mx.int32)
        logits, _ = self._target.continue_from(self._sequence, nothing)
        self._target.rewind(len(self._sequence))  # of fillers, where the target lies on a grid
        choice = self._chooser.choose(logits, self._context, nothing, len(self._sequence))
        bits = fingerprint.sums(logits) if self.looks_at_bits else nothing
        if i == len(self._reply):
            return logits, choice.tokens, bits
        token = self._reply[i]
        self._sequence.append(token)
        self._context = self._context.extended(mx.array([token], mx.int32))
        return logits, choice.tokens if self._bound else choice.logprobs[:, token], bits

    def _look(self, i: int, logits: mx.array, said: Any) -> None:
        """said: the choice, or the log p."""
        if i == len(self._reply):
            self.behind = int(said)
            return
        token = self._reply[i]
        if (said == token) if self._bound else math.isfinite(said):
            return
        before, plain = [*self._prompt, *self._reply[:i]], int(said) if self._bound else None
        met = meet(self._chooser, logits, before, i, plain, token)
        self.met.append(met if len(self.met) < MEASURED else met._replace(logits=None))


def _judged(
    target: CachedModel,
    chooser: Chooser,
    met: Sequence[Met],
    prompt: Sequence[int],
    rounds: Sequence[Round],
    between: Callable[[], None],
) -> list[Difference]:
    """What each of those met is: the first MEASURED by passes of their own, those behind by what they showed."""
    sequence = [*prompt, *(token for round_ in rounds for token in round_.tokens)]
    measured = []
    for one in met[:MEASURED]:
        before = sequence[: len(prompt) + one.position]
        measured.append(judge(target, chooser, one, before, rounds, between))
    return [*measured, *(judge_by(one, measured) for one in met[MEASURED:])]


def _read(target: CachedModel, prompt: Sequence[int]) -> Iterator[PromptProgress]:
    """Start over and feed all but the last token of the prompt, in chunks as a session does."""
    began_s = time.monotonic()
    start_over(target)
    yield PromptProgress(0, len(prompt), 0, 0.0)
    for done in target.prefill(prompt[:-1]):
        yield PromptProgress(done, len(prompt), 0, time.monotonic() - began_s)


def _plain_logits(target: CachedModel, prompt: Sequence[int], reply: Sequence[int]) -> mx.array:
    """(1, vocabulary) behind prompt and reply, as plain decoding computes them: a pass for each token."""
    refill(target, prompt)
    tokens, nothing = list(prompt), mx.zeros(0, mx.int32)
    logits, _ = target.continue_from(tokens, nothing)
    for token in reply:
        mx.eval(logits)
        target.rewind(len(tokens))  # of fillers, where the target lies on a grid
        tokens.append(token)
        logits, _ = target.continue_from(tokens, nothing)
    mx.eval(logits)
    return logits
