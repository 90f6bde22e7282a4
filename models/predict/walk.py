"""The loop along a known text: the real drafter and the real policy, and a target that recites.

Where choices are greedy or coupled, or drafts are point masses, the rounds are those that the loop would have had in
writing this very text. Under rejection the drafts are drawn from what the drafter would have drawn given that the
reply became this text, so that the rounds have the law that they would have had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import mlx.core as mx

from engine.acceptance import at
from engine.choice import Chooser, Drawn, Rule
from engine.draft import Draft
from engine.drafters import Drafter, Standing
from engine.drafters.draft_model import DraftModel
from engine.drafters.eagle import Eagle
from engine.drafters.several import Several
from engine.events import Round
from engine.features import Features
from engine.loop import Limits, decode
from engine.policy import Policy
from engine.sampling import Context, Sampling, Stream
from models.predict.prices import Prices
from models.predict.reading import Read
from models.predict.recital import Recital, replayed
from models.predict.tally import Tally, of_rounds


def walk(
    read: Read,
    drafters: Sequence[Drafter],
    policy: Policy,
    sampling: Sampling,
    rule: Rule,
    prices: Prices,
    eos: frozenset[int],
) -> Tally:
    """The rounds of one reply under `policy`, priced. eos: ids that end a reply.

    Raises ValueError for what `can_walk` denies.
    """
    if not can_walk(drafters, sampling, rule):
        raise ValueError("what a tree would have drawn given the text is not known")
    text, vocabulary = read.text, read.logits.shape[-1]
    chooser = Chooser(replace(sampling, temperature=0.0), rule, vocabulary)  # what is recited needs no noise
    recital, steered = Recital(text, vocabulary), Steered(sampling, rule, read)
    followers = [Follower(one, steered, prices, member) for member, one in enumerate(drafters)]
    together: Drafter = followers[0] if len(followers) == 1 else Several(followers)
    tokens, limits = list(text.tokens[: text.prompt]), Limits(text.limit, 2**31, eos)
    with replayed(drafters, read):
        together.prefill(tokens)
        told = decode(recital, together, policy, chooser, tokens, limits, time.monotonic())
        rounds = [event for event in told if isinstance(event, Round)]
    ahead = len(rounds) - recital.launched
    return of_rounds(rounds, sum(one.spent_s for one in followers), ahead, prices)


def can_walk(drafters: Sequence[Drafter], sampling: Sampling, rule: Rule) -> bool:
    """Whether these drafts' law given the text is known: not that of trees whose children are drawn."""
    drawn = rule == "rejection" and not sampling.greedy
    return not (drawn and any(isinstance(drafter, Eagle) and drafter.trees for drafter in drafters))


def _unread(drafter: Drafter, tokens: int) -> int:
    """Of so many committed tokens, how many a draft begins with: the last one, and those of rounds without it."""
    if isinstance(drafter, DraftModel):
        return tokens - drafter.model.length
    return tokens - 1 - drafter.pairs if isinstance(drafter, Eagle) else 1


class Follower:
    """A drafter on its way along a text. spent_s: what its drafts would have taken at these prices, as those of
    `member`."""

    def __init__(self, drafter: Drafter, steered: Steered, prices: Prices, member: int) -> None:
        self.name = drafter.name
        self.spent_s = 0.0
        self._drafter, self._steered, self._prices, self._member = drafter, steered, prices, member

    @property
    def features(self) -> Features | None:
        return self._drafter.features

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        self._drafter.prefill(tokens, cancelled)

    def propose(self, standing: Standing, length: int) -> Draft:
        self.spent_s += self._prices.reading_s(self._member, _unread(self._drafter, len(standing.tokens)))
        draft = self._drafter.propose(replace(standing, chooser=self._steered), length)
        unsure = standing.gate is not None and standing.gate.refused is not None
        steps = draft.tokens.size + unsure  # a law that was computed for nothing
        self.spent_s += self._prices.draft_s(self._member, steps)
        if standing.gate is None:
            self.spent_s -= self._prices.spared_s(self._member, steps)
        return draft

    def hints(self, standing: Standing) -> Sequence[float | None]:
        return self._drafter.hints(standing)

    def quiet(self, standing: Standing) -> bool:
        return self._drafter.quiet(standing)

    def rewind(self, length: int) -> None:
        self._drafter.rewind(length)

    def reach(self) -> int:
        return self._drafter.reach()


class Steered(Chooser):
    """Draws for a drafter what it would have drawn, given that the reply became the text.

    Under rejection, where the text has x, the draw is x and is kept with chance min(1, q(x) / p(x)). Else it was
    refused: it follows max(0, q - p) / Z whatever x is, and what is drafted behind it, which nobody keeps, follows q.
    """

    def __init__(self, sampling: Sampling, rule: Rule, read: Read) -> None:
        super().__init__(sampling, rule, read.logits.shape[-1])
        self._read = read
        self._standing = mx.array(True)  # whether all that this draft has so far is the text

    def draft(
        self, logits: mx.array, context: Context, position: int, ids: mx.array | None = None, place: int = 0
    ) -> Drawn:
        if place == 0:
            self._standing = mx.array(True)
        at_reply = position + place - self._read.text.prompt
        if self.matches or at_reply >= len(self._read.text.reply):
            return super().draft(logits, context, position, ids, place)
        counts, said = context.rows(mx.zeros(0, mx.int32)), self._read.text.reply[at_reply]
        logprobs = self.law.logprobs(self.law.shape(logits, counts, ids))
        theirs = self.law.logprobs(self.law.shape(self._read.logits[at_reply : at_reply + 1], counts))
        uniform = self.noise.uniform(Stream.ACCEPT, mx.array([position + place]))
        gumbel = self._draft_noise(mx.array([position]), ids, 1 + place)
        best = self._given(mx.exp(logprobs), mx.exp(theirs), said, ids, uniform, gumbel)
        chances = mx.exp(at(logprobs, best))
        return Drawn((best if ids is None else ids[best]).astype(mx.int32), chances, logprobs)

    def _given(
        self, q: mx.array, p: mx.array, said: int, ids: mx.array | None, uniform: mx.array, gumbel: mx.array
    ) -> mx.array:
        """The column (1,) that is drawn from q (1, width), p (1, vocabulary) being the target's law."""
        there = (mx.arange(self.vocabulary) if ids is None else ids) == said
        kept = self._standing & mx.all(uniform * p[:, said] < mx.sum(mx.where(there, q, 0.0)))
        rest = mx.maximum(q - (p if ids is None else p[:, ids]), 0.0)
        refused = mx.where(self._standing & (mx.sum(rest) > 0), rest, q)
        self._standing = kept
        return mx.where(kept, mx.argmax(there), mx.argmax(mx.log(refused) + gumbel, -1))
