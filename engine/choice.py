"""How a reply chooses its tokens: law, noise and acceptance rule of one request, in one object."""

from __future__ import annotations

from typing import Literal, NamedTuple

import mlx.core as mx

from engine import acceptance
from engine.acceptance import Verdict
from engine.sampling import Context, Law, Noise, Sampling, Stream

Rule = Literal["rejection", "coupled"]
RULES: tuple[Rule, ...] = ("rejection", "coupled")


class Choice(NamedTuple):
    """tokens: (rows,) int32, drawn from the law. logprobs: (rows, vocabulary), log of that law
    (at temperature 0 the log-softmax of the shaped logits, of which the token is the argmax)."""

    tokens: mx.array
    logprobs: mx.array


class Ruling(NamedTuple):
    """A verdict with its probabilities: p (k + 1,) of each committed token, q (k,) of each drafted one."""

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

    def choose(self, logits: mx.array, context: Context, draft: mx.array, position: int, stream: Stream) -> Choice:
        """Draw one token from each row.

        logits: (rows, vocabulary), row i following `context` and `draft[:i]`, for absolute
        position `position + i`. draft: (rows - 1,).
        """
        shaped = self.law.shape(logits, context.rows(draft))
        logprobs = self.law.logprobs(shaped)
        if self.sampling.greedy:
            return Choice(mx.argmax(shaped, -1).astype(mx.int32), logprobs)
        noise = self.noise.gumbel(stream, _positions(position, logits.shape[0]), logits.shape[-1])
        return Choice(mx.argmax(logprobs + noise, -1).astype(mx.int32), logprobs)

    def draft(self, logits: mx.array, context: Context, position: int) -> Choice:
        """A drafter's own draw for one row (1, vocabulary): with the target's noise where choices are
        coupled, with independent noise under rejection."""
        stream = Stream.CHOICE if self.matches else Stream.DRAFT
        return self.choose(logits, context, mx.zeros(0, mx.int32), position, stream)

    def rule_on(
        self, logits: mx.array, context: Context, draft: mx.array, logq: mx.array | None, position: int
    ) -> Ruling:
        """What the target keeps of `draft` (k,), from the logits (k + 1, vocabulary) of the verify pass."""
        k = draft.size
        if self.matches or k == 0:
            choices, logp = self.choose(logits, context, draft, position, Stream.CHOICE)
            verdict = acceptance.match(choices, draft)
        else:
            logp = self.law.logprobs(self.law.shape(logits, context.rows(draft)))
            verdict = self._reject(logp, draft, logq, position)
        p = mx.exp(acceptance.at(logp, verdict.tokens))
        q = mx.ones(k) if logq is None else mx.exp(acceptance.at(logq, draft))
        return Ruling(verdict, p, q)

    def _reject(self, logp: mx.array, draft: mx.array, logq: mx.array | None, position: int) -> Verdict:
        uniforms = self.noise.uniform(Stream.ACCEPT, _positions(position, draft.size))
        n = acceptance.rejection_length(logp, draft, logq, uniforms)
        gumbel = self.noise.gumbel(Stream.CHOICE, (position + n)[None], logp.shape[-1])[0]
        token = acceptance.rejection_token(logp, draft, logq, n, gumbel)
        return acceptance.with_last(draft, n, token)


def _positions(first: int, count: int) -> mx.array:
    return mx.arange(first, first + count)
