"""From logits to the distribution p, and the tokens drawn from it.

The order is that of vLLM: the mask of a grammar (in `engine.verify_pass.verify`), logit bias and penalties,
temperature, min-p, top-k, top-p, then renormalisation. The same function serves one plain step, every row of a verify
pass, and the drafter's own distribution q, which knows no grammar.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import mlx.core as mx

from engine import top_k_top_p
from engine.acceptance import gather
from engine.grammar import ReplyGrammar
from engine.noise import Noise, Stream, position_range
from engine.settings import SamplingSettings
from engine.tree.draft_tree import DraftTree


class Distribution:
    """The distribution p, or a drafter's q, as a function of logits and the tokens before.

    vocabulary: width of the target's logits.
    """

    def __init__(self, sampling: SamplingSettings, vocabulary: int) -> None:
        self.sampling = sampling
        self.vocabulary = vocabulary
        self._bias: mx.array | None = None
        if sampling.logit_bias:
            ids = [i for i in sampling.logit_bias if i < vocabulary]
            values = mx.array([sampling.logit_bias[i] for i in ids], mx.float32)
            self._bias = mx.zeros(vocabulary).at[mx.array(ids, mx.int32)].add(values)

    def adjust(self, logits: mx.array, counts: mx.array | None = None, ids: mx.array | None = None) -> mx.array:
        """Returns logits after bias and penalties, before temperature; float32, in the same shape.

        logits: (rows, vocabulary), or (rows, width) of the tokens `ids` (width,) alone. counts: (rows, vocabulary),
        how often each token occurs before the row; needed when `sampling.counts_context`, else ValueError.
        """
        s = self.sampling
        logits = logits.astype(mx.float32)
        if s.counts_context:
            if counts is None:
                raise ValueError("penalties need the counts of the context")
            counts = counts if ids is None else counts[:, ids]
            seen = counts > 0
            scaled = mx.where(logits > 0, logits / s.repetition_penalty, logits * s.repetition_penalty)
            logits = mx.where(seen, scaled, logits)
            logits = logits - s.presence_penalty * seen - s.frequency_penalty * counts
        if self._bias is None:
            return logits
        return logits + (self._bias if ids is None else self._bias[ids])

    def logprobs(self, adjusted: mx.array) -> mx.array:
        """Returns log p, (rows, vocabulary), -inf where p is zero. At temperature 0 it is the plain log-softmax."""
        s = self.sampling
        if s.greedy:
            return _log_softmax(adjusted)
        logprobs = _log_softmax(adjusted / s.temperature)
        if s.min_p > 0:
            logprobs = _without(logprobs, logprobs < mx.max(logprobs, -1, keepdims=True) + math.log(s.min_p))
        ranked = None
        if 0 < s.top_k < adjusted.shape[-1]:
            ranked = mx.take_along_axis(logprobs, top_k_top_p.largest(logprobs, s.top_k), -1)
            outside = logprobs < ranked[:, -1:]
            total = mx.logsumexp(mx.where(outside, -math.inf, logprobs), -1, keepdims=True)
            logprobs, ranked = mx.where(outside, -math.inf, logprobs - total), ranked - total
        if s.top_p < 1:
            logprobs = _without(logprobs, top_k_top_p.outside_nucleus(logprobs, s.top_p, ranked))
        return logprobs


def _log_softmax(x: mx.array) -> mx.array:
    return x - mx.logsumexp(x, -1, keepdims=True)


def _without(logprobs: mx.array, outside: mx.array) -> mx.array:
    """Drops the tokens that are `outside` and renormalises."""
    return _log_softmax(mx.where(outside, -math.inf, logprobs))


class TokenCounts:
    """How often each token occurs in the context, kept on the device for the penalties.

    Holds nothing, and costs nothing, when the sampling settings have no penalties. Immutable: `extended` gives the
    next one.
    """

    def __init__(self, distribution: Distribution, tokens: Sequence[int]) -> None:
        self.counts: mx.array | None = None
        if distribution.sampling.counts_context:
            self.counts = mx.zeros(distribution.vocabulary).at[mx.array(list(tokens), mx.int32)].add(1.0)

    def extended(self, tokens: mx.array | Sequence[int]) -> TokenCounts:
        """Returns the counts with n more tokens, (n,), which may be lazy."""
        if self.counts is None:
            return self
        added = tokens if isinstance(tokens, mx.array) else mx.array(list(tokens), mx.int32)
        if added.size == 0:
            return self
        longer = copy(self)
        longer.counts = self.counts.at[added.astype(mx.int32)].add(1.0)
        return longer

    def rows(self, draft: mx.array | None = None, tree: DraftTree | None = None) -> mx.array | None:
        """Returns the counts before each row of a verify pass, (k + 1, vocabulary): row i has seen `draft[:i]` too, or
        in a tree the tokens on the path to its node. None without penalties.

        draft: (k,) token ids, which may be lazy; None for the one row of a plain step.
        """
        if self.counts is None:
            return None
        base = self.counts[None]
        if draft is None or draft.size == 0:
            return base
        one_hot = (draft[:, None] == mx.arange(base.shape[-1])[None]).astype(mx.float32)
        seen = mx.cumsum(one_hot, 0) if tree is None else tree.reach.astype(mx.float32) @ one_hot
        return mx.concatenate([base, base + seen])


class DraftRows(NamedTuple):
    """What a drafter may let follow each of its rows, best first.

    tokens: (rows, breadth) int32 ids of the target. q: (rows, breadth) their probabilities. ranked: (rows, breadth) the
    largest log-probabilities, descending: what a child of that rank is worth before it is known. logprobs: (rows,
    width) log q over the columns of the drafter's logits.
    """

    tokens: mx.array
    q: mx.array
    ranked: mx.array
    logprobs: mx.array


class Sampler:
    """Chooses the tokens of one reply, for target and drafters alike: distribution, noise and acceptance rule.

    grammar: that the reply follows, where it stands; None without one. Drafters need not know it.
    """

    def __init__(self, sampling: SamplingSettings, vocabulary: int, grammar: ReplyGrammar | None = None) -> None:
        self.grammar = grammar
        self.sampling = sampling
        self.distribution = Distribution(sampling, vocabulary)
        self.vocabulary = vocabulary
        self.noise = Noise(sampling.seed or 0)

    @property
    def accepts_by_match(self) -> bool:
        """Whether a draft is kept just while it equals the target's own choice: when greedy or coupled."""
        return self.sampling.greedy or self.sampling.acceptance == "coupled"

    def choose(
        self, logits: mx.array, counts: mx.array | None, position: int, tree: DraftTree | None = None
    ) -> tuple[mx.array, mx.array]:
        """Returns the target's own token in each row of a verify pass, (rows,) int32, and log p, (rows, vocabulary).

        logits, counts: (rows, vocabulary). Row i is for the absolute position `position + i`; in a tree, for that of
        its depth.
        """
        scores, logprobs = self.score(logits, counts, position, tree)
        return mx.argmax(scores, -1).astype(mx.int32), logprobs

    def score(
        self, logits: mx.array, counts: mx.array | None, position: int, tree: DraftTree | None = None
    ) -> tuple[mx.array, mx.array]:
        """Returns what the target's own token in each row is the largest of, and log p, both (rows, vocabulary): the
        adjusted logits if greedy, else log p with Gumbel noise. Arguments as in `choose`."""
        adjusted = self.distribution.adjust(logits, counts)
        logprobs = self.distribution.logprobs(adjusted)
        if self.sampling.greedy:
            return adjusted, logprobs
        return logprobs + self._row_noise(position, logits.shape, tree), logprobs

    def _row_noise(self, position: int, rows: tuple[int, ...], tree: DraftTree | None) -> mx.array:
        """Noise of the target's choices: rows at one depth share it, as they stand at one position."""
        if tree is None:
            positions = position if rows[0] == 1 else position_range(position, rows[0])
            return self.noise.gumbel(Stream.CHOICE, positions, rows[1])
        return self.noise.gumbel(Stream.CHOICE, position_range(position, tree.depth + 1), rows[1])[tree.row_depths]

    def draw(
        self, logits: mx.array, counts: TokenCounts, position: int, ids: mx.array | None = None, place: int = 0
    ) -> DraftRows:
        """Draws a drafter's next token from one row (1, vocabulary): with the target's noise where choices are coupled,
        with independent noise under rejection. The result has breadth 1, and no `ranked` of its own.

        position: absolute, of the round's first token; place: from there. ids (width,): the tokens that the columns of
        narrower logits (1, width) stand for.

        Independent noise belongs to this round alone, as no two rounds begin at one position: the length of a draft may
        depend on what was drawn after a refused token, and a policy remembers lengths.
        """
        logprobs = self.distribution.logprobs(self.distribution.adjust(logits, counts.rows(), ids))
        noise: mx.array | float = 0.0
        if not self.sampling.greedy:
            own = position + place if self.accepts_by_match else position
            noise = self.draft_noise(own, ids, 0 if self.accepts_by_match else 1 + place)
        return draft_row(mx.argmax(logprobs + noise, -1), logprobs, ids)

    def draft_noise(self, positions: mx.array | int, ids: mx.array | None, salt: int = 0) -> mx.array:
        """Returns the noise of a drafter's draws, (n, width of its logits)."""
        stream = Stream.CHOICE if self.accepts_by_match else Stream.DRAFT
        if ids is None:
            return self.noise.gumbel(stream, positions, self.vocabulary, salt)
        if stream is Stream.DRAFT:  # not shared with the target, so only the drafter's columns need any
            return self.noise.gumbel(stream, positions, ids.size, salt)
        return self.noise.gumbel(stream, positions, self.vocabulary, salt)[:, ids]

    def children(
        self,
        logits: mx.array,
        counts: mx.array | None,
        positions: mx.array,
        breadth: int,
        ids: mx.array | None = None,
        salts: Sequence[int] | None = None,
    ) -> DraftRows:
        """Returns the `breadth` best tokens to follow each row (rows, width) of a drafter, for a tree.

        counts: (rows, vocabulary) as in `Distribution.adjust`, or (1, vocabulary) for all rows. positions: (rows,) of
        the children, or (1,) for all. Where choices are coupled, they are the best under the noise of the target's own
        choice at that position; else the likeliest, or, given `salts` (one a row, each used once for these positions),
        a draw without replacement: the largest under independent Gumbel noise are one (Kool 2019, arXiv 1903.06059).
        """
        logprobs = self.distribution.logprobs(self.distribution.adjust(logits, counts, ids))
        keys = logprobs
        if self.accepts_by_match and not self.sampling.greedy:
            keys = logprobs + self.draft_noise(positions, ids)
        elif salts is not None and not self.sampling.greedy:
            own = [positions if positions.size == 1 else positions[i : i + 1] for i in range(len(salts))]
            rows = [self.draft_noise(place, ids, salt) for place, salt in zip(own, salts, strict=True)]
            keys = logprobs + mx.concatenate(rows)
        columns = top_k_top_p.largest(keys, breadth)
        q = mx.exp(mx.take_along_axis(logprobs, columns, -1))
        noisy = keys is not logprobs
        ranked = mx.take_along_axis(logprobs, top_k_top_p.largest(logprobs, breadth), -1) if noisy else mx.log(q)
        return DraftRows((columns if ids is None else ids[columns]).astype(mx.int32), q, ranked, logprobs)

    def widen(self, logprobs: mx.array, ids: mx.array | None) -> mx.array:
        """Returns log-probabilities of the tokens `ids` (rows, width) over the target's whole vocabulary."""
        if ids is None:
            return logprobs
        return mx.full((logprobs.shape[0], self.vocabulary), -math.inf).at[:, ids].maximum(logprobs)


def draft_row(column: mx.array, logprobs: mx.array, ids: mx.array | None) -> DraftRows:
    """Returns the drafted token in `column` (1,) of a row of log q (1, width), as rows of breadth 1 without their
    second axis: tokens and q are (1,)."""
    q = mx.exp(gather(logprobs, column))
    return DraftRows((column if ids is None else ids[column]).astype(mx.int32), q, q, logprobs)
