"""How a reply chooses its tokens: law, noise and acceptance rule of one request, in one object."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import mlx.core as mx

from engine import acceptance
from engine.acceptance import Verdict
from engine.draft import Draft
from engine.sampling import Context, Law, Noise, Sampling, Stream
from engine.tree import Tree

Rule = Literal["rejection", "coupled"]
Shape = Tree | None  # of a draft; None is a chain
RULES: tuple[Rule, ...] = ("rejection", "coupled")


class Choice(NamedTuple):
    """tokens: (rows,) int32, drawn from the law. logprobs: (rows, vocabulary), log of that law
    (at temperature 0 the log-softmax of the shaped logits, of which the token is the argmax)."""

    tokens: mx.array
    logprobs: mx.array


class Drawn(NamedTuple):
    """One token that a drafter drew. tokens, chances: (1,) the id of the target and its probability q. logprobs:
    (1, width) log of the law."""

    tokens: mx.array
    chances: mx.array
    logprobs: mx.array


class Children(NamedTuple):
    """What a drafter may let follow each of its rows, the best first.

    tokens: (rows, breadth) int32 ids of the target. chances: (rows, breadth) their probabilities q. ranked: (rows,
    breadth) log of the law's largest probabilities, falling: what a child of that rank is worth before it is known.
    logprobs: (rows, width) log of the law.
    """

    tokens: mx.array
    chances: mx.array
    ranked: mx.array
    logprobs: mx.array


class Ruling(NamedTuple):
    """A verdict with its probabilities: p of each committed token, q (n,) of each drafted one."""

    verdict: Verdict
    p: mx.array
    q: mx.array


class Chooser:
    """Draws tokens for target and drafters alike, and rules on drafts.

    vocabulary: width of the target's logits.
    """

    def __init__(self, sampling: Sampling, rule: Rule, vocabulary: int) -> None:
        self.sampling = sampling
        self.law = Law(sampling, vocabulary)
        self.vocabulary = vocabulary
        self.noise = Noise(sampling.seed)
        self.rule: Rule = rule

    @property
    def matches(self) -> bool:
        """Whether a draft is kept just while it equals the target's own choice."""
        return self.sampling.greedy or self.rule == "coupled"

    def choose(self, logits: mx.array, context: Context, draft: mx.array, position: int, shape: Shape = None) -> Choice:
        """The target's own token in each row of a verify pass.

        logits: (rows, vocabulary), row i following `context` and `draft[:i]`, for absolute
        position `position + i`; in a tree, following the way to its node, at its depth. draft: (rows - 1,).
        """
        shaped = self.law.shape(logits, context.rows(draft, shape))
        logprobs = self.law.logprobs(shaped)
        if self.sampling.greedy:
            return Choice(mx.argmax(shaped, -1).astype(mx.int32), logprobs)
        noise = self._row_noise(position, logits.shape, shape)
        return Choice(mx.argmax(logprobs + noise, -1).astype(mx.int32), logprobs)

    def _row_noise(self, position: int, rows: tuple[int, ...], shape: Shape) -> mx.array:
        """Noise of the target's choices: rows at one depth share it, as they stand at one position."""
        if shape is None:
            return self.noise.gumbel(Stream.CHOICE, _positions(position, rows[0]), rows[1])
        return self.noise.gumbel(Stream.CHOICE, _positions(position, shape.depth + 1), rows[1])[shape.row_depths]

    def draft(
        self, logits: mx.array, context: Context, position: int, ids: mx.array | None = None, place: int = 0
    ) -> Drawn:
        """A drafter's own draw for one row (1, vocabulary): with the target's noise where choices are coupled, with
        independent noise under rejection.

        position: absolute, of the round's first token; place: behind it. ids (width,): the tokens that the columns of
        narrower logits (1, width) stand for; then so do logprobs'.

        Independent noise is of this round alone, as no two rounds begin at one position: how long a draft was may
        tell of what was drawn behind a refused token, and a policy remembers lengths.
        """
        shaped = self.law.shape(logits, context.rows(mx.zeros(0, mx.int32)), ids)
        logprobs = self.law.logprobs(shaped)
        noise: mx.array | float = 0.0
        if not self.sampling.greedy:
            own = [position + place] if self.matches else [position]
            noise = self._draft_noise(mx.array(own), ids, 0 if self.matches else 1 + place)
        best = mx.argmax(logprobs + noise, -1)
        chances = mx.exp(acceptance.at(logprobs, best))
        return Drawn((best if ids is None else ids[best]).astype(mx.int32), chances, logprobs)

    def _draft_noise(self, positions: mx.array, ids: mx.array | None, salt: int = 0) -> mx.array:
        stream = Stream.CHOICE if self.matches else Stream.DRAFT
        if ids is None:
            return self.noise.gumbel(stream, positions, self.vocabulary, salt)
        if stream is Stream.DRAFT:  # nobody shares it
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
    ) -> Children:
        """The `breadth` best tokens to follow each row (rows, width) of a drafter, for a tree.

        counts: (rows, vocabulary) as in `Law.shape`, or (1, vocabulary) for all. positions: (rows,) of the children,
        or (1,) for all.
        Where choices are coupled, the best under the noise of the target's own choice at that position. Else the
        likeliest; or, given `salts` (one a row, each used once for these positions), a draw without
        replacement: the largest under independent Gumbel noise are one (Kool 2019).
        """
        logprobs = self.law.logprobs(self.law.shape(logits, counts, ids))
        keys = logprobs
        if self.matches and not self.sampling.greedy:
            keys = logprobs + self._draft_noise(positions, ids)
        elif salts is not None and not self.sampling.greedy:
            own = [positions if positions.size == 1 else positions[i : i + 1] for i in range(len(salts))]
            rows = [self._draft_noise(place, ids, salt) for place, salt in zip(own, salts, strict=True)]
            keys = logprobs + mx.concatenate(rows)
        places = _largest(keys, breadth)
        chances = mx.exp(mx.take_along_axis(logprobs, places, -1))
        ranked = (
            mx.take_along_axis(logprobs, _largest(logprobs, breadth), -1) if keys is not logprobs else mx.log(chances)
        )
        return Children((places if ids is None else ids[places]).astype(mx.int32), chances, ranked, logprobs)

    def spread(self, logprobs: mx.array, ids: mx.array | None) -> mx.array:
        """Log-probabilities of the tokens `ids` (rows, width) as a law over the whole vocabulary."""
        if ids is None:
            return logprobs
        return mx.full((logprobs.shape[0], self.vocabulary), -math.inf).at[:, ids].maximum(logprobs)

    def rule_on(self, logits: mx.array, context: Context, draft: Draft, position: int) -> Ruling:
        """What the target keeps of a draft of n tokens, from the logits (n + 1, vocabulary) of the verify pass."""
        tokens, shape = draft.tokens, draft.shape
        if self.matches or tokens.size == 0 or (shape is not None and draft.logq is None):
            choices, logp = self.choose(logits, context, tokens, position, shape)
            if shape is None:
                verdict = acceptance.match(choices, tokens)
            else:
                verdict = acceptance.match_tree(choices, tokens, shape)
        else:
            logp = self.law.logprobs(self.law.shape(logits, context.rows(tokens, shape)))
            verdict = self._reject(logp, draft, position)
        rows = logp if verdict.path is None else logp[mx.concatenate([mx.zeros(1, mx.int32), verdict.path + 1])]
        p = mx.exp(acceptance.at(rows, verdict.tokens))
        if draft.q is not None:
            return Ruling(verdict, p, draft.q)
        q = mx.ones(tokens.size) if draft.logq is None else mx.exp(acceptance.at(draft.logq, tokens))
        return Ruling(verdict, p, q)

    def _reject(self, logp: mx.array, draft: Draft, position: int) -> Verdict:
        tokens, logq, vocabulary = draft.tokens, draft.logq, logp.shape[-1]
        if draft.shape is not None and logq is not None:
            uniforms = self.noise.uniforms(Stream.ACCEPT, position, tokens.size)
            depths = _positions(position, draft.shape.depth + 1)
            gumbels = self.noise.gumbel(Stream.CHOICE, depths, vocabulary)
            return acceptance.reject_tree(logp, tokens, logq, draft.shape, uniforms, gumbels)
        uniforms = self.noise.uniform(Stream.ACCEPT, _positions(position, tokens.size))
        n = acceptance.rejection_length(logp, tokens, logq, uniforms)
        gumbel = self.noise.gumbel(Stream.CHOICE, (position + n)[None], vocabulary)[0]
        return acceptance.with_last(tokens, n, acceptance.rejection_token(logp, tokens, logq, n, gumbel))


def _positions(first: int, count: int) -> mx.array:
    return mx.arange(first, first + count)


def _largest(keys: mx.array, count: int) -> mx.array:
    """Columns of the `count` largest of each row, falling: (rows, count)."""
    best = mx.argpartition(-keys, count - 1, -1)[:, :count]
    order = mx.argsort(-mx.take_along_axis(keys, best, -1), -1)
    return mx.take_along_axis(best, order, -1)
