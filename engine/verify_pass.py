"""One round on the device: from the verify pass to the acceptance as one graph, waited for once.

`submit` builds a round and hands it to the device, `PendingRound.wait` waits for it. In between the device works, so a
plain step can be submitted on the still unknown token of the one before (`submit_after`; `engine.round_queue` does).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import mlx.core as mx

from engine import acceptance, together
from engine.acceptance import Acceptance
from engine.audit import fingerprints
from engine.drafters import Draft, DraftContext, check_probabilities, empty_draft
from engine.events import Round, Rule
from engine.noise import Stream, position_range
from engine.refusal import evidence, explained, rule_of
from engine.sampling import Sampler, TokenCounts
from engine.target.cached_model import CachedModel

_NONE_ACCEPTED, _NO_PROBABILITIES = mx.array(0, mx.int32), mx.array([], mx.float32)


def verify(
    sampler: Sampler,
    logits: mx.array,
    counts: TokenCounts,
    draft: Draft,
    position: int,
    allowed: mx.array | None = None,
) -> Acceptance:
    """Returns what the target keeps of a draft of n tokens, with p and q.

    logits: (n + 1, vocabulary) of the verify pass. counts: before the draft. position: absolute, of its first token.
    allowed: (n + 1, vocabulary) bool, what the grammar allows in each row; None without one.
    """
    if allowed is not None:
        logits = mx.where(allowed, logits, -math.inf)
    if draft.tokens.size == 0:
        token, logp = sampler.choose(logits, counts.rows(), position)
        return Acceptance(_NONE_ACCEPTED, token, p=mx.exp(acceptance.gather(logp, token)), q=_NO_PROBABILITIES)
    tokens, tree, rows = draft.tokens, draft.tree, counts.rows(draft.tokens, draft.tree)
    rule, scores, rest = rule_of(sampler, draft), None, None
    if rule in ("point mass", "rejection", "drawn tree"):
        logp = sampler.distribution.logprobs(sampler.distribution.adjust(logits, rows))
        accepted, rest = _reject(sampler, logp, draft, position)
    else:  # a fixed tree as well, of point masses: see `acceptance.match_tree`
        scores, logp = sampler.score(logits, rows, position, tree)
        choices = mx.argmax(scores, -1).astype(mx.int32)
        accepted = acceptance.match(choices, tokens) if not tree else acceptance.match_tree(choices, tokens, tree)
    accepted = accepted._replace(evidence=evidence(rule, accepted, draft, logp, scores, rest))
    if accepted.path is not None:
        logp = logp[mx.concatenate([mx.zeros(1, mx.int32), accepted.path + 1])]
    q = draft.q
    if q is None:
        q = mx.ones(tokens.size) if draft.logq is None else mx.exp(acceptance.gather(draft.logq, tokens))
    return accepted._replace(p=mx.exp(acceptance.gather(logp, accepted.tokens)), q=q)


def _reject(sampler: Sampler, logp: mx.array, draft: Draft, position: int) -> tuple[Acceptance, mx.array | None]:
    """Rejection sampling with the noise of this place. Returns the acceptance with its draws, and the distribution of
    the correction where it is known as a whole."""
    tokens, logq, noise, vocabulary = draft.tokens, draft.logq, sampler.noise, logp.shape[-1]
    if draft.tree is not None and logq is not None:
        uniforms = noise.uniforms(Stream.ACCEPT, position, tokens.size)
        gumbels = noise.gumbel(Stream.CHOICE, position_range(position, draft.tree.depth + 1), vocabulary)
        accepted = acceptance.reject_tree(logp, tokens, logq, draft.tree, uniforms, gumbels)
        return accepted._replace(draws=uniforms), None
    uniforms = noise.uniform(Stream.ACCEPT, position_range(position, tokens.size))
    n = acceptance.rejection_length(logp, tokens, logq, uniforms)
    gumbel = noise.gumbel(Stream.CHOICE, (position + n)[None], vocabulary)[0]
    token, rest = acceptance.rejection_token(logp, tokens, logq, n, gumbel)
    return acceptance.with_token_at(tokens, n, token)._replace(draws=uniforms), rest


class _Values(NamedTuple):
    """A round as plain values. tokens, p: those accepted, then the target's own, then void places up to the depth.
    path, parents: of a tree, else empty. why: what `engine.refusal.evidence` gathered, then the draws."""

    accepted: int
    tokens: tuple[int, ...]
    p: tuple[float, ...]
    drafted: tuple[int, ...] = ()
    path: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    q: tuple[float, ...] = ()
    why: tuple[float, ...] = ()


def _pack(accepted: Acceptance, draft: Draft) -> tuple[mx.array, mx.array]:
    """Returns a drafted round as two arrays, which are read at once: the numbers int32, the probabilities float32."""
    assert accepted.p is not None and accepted.q is not None
    numbers = [accepted.accepted[None], accepted.tokens, draft.tokens.astype(mx.int32)]
    if draft.tree is not None and accepted.path is not None:
        numbers += [accepted.path, draft.tree.parents]
    why = [part for part in (accepted.evidence, accepted.draws) if part is not None]
    return mx.concatenate(numbers), mx.concatenate([accepted.p, accepted.q, *why])


def _unpack(numbers: Sequence[int], probs: Sequence[float], depth: int, length: int) -> _Values:
    """Returns what `_pack` put together. depth, length: of the draft."""
    ints, floats = iter(numbers), iter(probs)
    return _Values(
        accepted=next(ints),
        tokens=tuple(islice(ints, depth + 1)),
        drafted=tuple(islice(ints, length)),
        path=tuple(islice(ints, depth)),
        parents=tuple(ints),
        p=tuple(islice(floats, depth + 1)),
        q=tuple(islice(floats, length)),
        why=tuple(floats),
    )


@dataclass(frozen=True)
class PendingRound:
    """A round on the device.

    numbers, probs: as `_pack` has them; of a plain step the token (1,) and its p (1,) alone. checksums: (depth + 1, 2)
    of the rows of logits in exact-verify, else (0, 2). rule: that decides on the draft. depth: of the draft; a chain is
    as deep as it is long. width: rows of the pass. counts: before the draft. draft_waits: how often the draft was
    waited for before this.
    """

    numbers: mx.array
    probs: mx.array
    checksums: mx.array
    draft: Draft
    rule: Rule
    depth: int
    width: int
    counts: TokenCounts
    draft_waits: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether nothing was drafted."""
        return self.draft.tokens.size == 0

    @property
    def first_token(self) -> mx.array:
        """The token of a plain step, (1,), still lazy."""
        return self.numbers

    def wait(self, index: int, began_s: float) -> Round:
        """Waits for the device, which nothing else of a round does but a grammar and the timing of drafts, and returns
        the round as plain values.

        Raises ModelError if the drafter's probabilities are not numbers.
        """
        together.before_waiting()
        mx.eval(self.numbers, self.probs, self.checksums)
        now_s = time.monotonic()
        numbers: Any = self.numbers.tolist()
        probs: Any = self.probs.tolist()
        checksums: Any = self.checksums.tolist()
        if self.is_plain:
            values = _Values(accepted=0, tokens=tuple(numbers), p=tuple(probs))
        else:
            values = _unpack(numbers, probs, self.depth, self.draft.tokens.size)
            check_probabilities(values.q)
        times_s, accepted = self.draft.times_s, values.accepted
        made = Round(
            index=index,
            tokens=values.tokens[: accepted + 1],
            drafted=values.drafted,
            accepted=accepted,
            p=values.p[: accepted + 1],
            q=values.q,
            width=self.width,
            time_s=now_s - began_s,
            reason=self.draft.reason,
            parents=values.parents or None,
            path=values.path[:accepted],
            draft_s=times_s[1] - times_s[0] if times_s else None,
            verify_s=now_s - times_s[1] if times_s else None,
            waits=1 + (times_s is not None) + self.draft_waits,
            fingerprints=tuple(fingerprints.combine_checksum(pair) for pair in checksums[: accepted + 1]),
            rule=self.rule,
        )
        return explained(made, values.why) if values.why else made


def submit(target: CachedModel, context: DraftContext, draft: Draft) -> PendingRound:
    """Verifies `draft` where the reply stands: builds the whole round and hands it to the device."""
    logits, width = target.continue_from(context.tokens, draft.tokens, draft.tree)
    allowed = _allowed(context.sampler, logits, draft)
    accepted = verify(context.sampler, logits, context.counts, draft, len(context.tokens), allowed)
    return _submit(target, context, logits, width, accepted, draft)


def _allowed(sampler: Sampler, logits: mx.array, draft: Draft) -> mx.array | None:
    """Returns what the grammar allows in each row of a pass, None without one.

    The masks are made on the processor, which must know the drafted tokens: a round with a grammar waits once more, for
    the draft alone. The pass has been submitted by then, and the device works on it while the masks are made.
    """
    if sampler.grammar is None:
        return None
    known = [draft.tokens] if draft.tree is None else [draft.tokens, draft.tree.parents]
    mx.async_eval(known)
    mx.async_eval(logits)
    if draft.tokens.size == 0:
        return sampler.grammar.rows()
    mx.eval(*known)
    values: list[Any] = [array.tolist() for array in known]
    return sampler.grammar.rows(*values)


def submit_after(target: CachedModel, context: DraftContext, pending: PendingRound) -> PendingRound:
    """Submits a plain step on the token of a plain `pending` round, which was submitted where the reply stands."""
    counts, draft = pending.counts.extended(pending.first_token), empty_draft(pending.draft.reason)
    logits, width = target.continue_after(context.tokens, pending.first_token)
    accepted = verify(context.sampler, logits, counts, draft, len(context.tokens) + 1)
    return _submit(target, replace(context, counts=counts), logits, width, accepted, draft)


def _submit(
    target: CachedModel, context: DraftContext, logits: mx.array, width: int, accepted: Acceptance, draft: Draft
) -> PendingRound:
    assert accepted.p is not None
    plain = draft.tokens.size == 0  # a small model takes as long for an operation as for a layer, so no concatenation
    numbers, probs = (accepted.tokens, accepted.p) if plain else _pack(accepted, draft)
    pending = PendingRound(
        numbers=numbers,
        probs=probs,
        checksums=target.checksums(logits),
        draft=draft,
        rule=rule_of(context.sampler, draft),
        depth=draft.tokens.size if draft.tree is None else draft.tree.depth,
        width=width,
        counts=context.counts,
        draft_waits=int(not plain and context.sampler.grammar is not None),
    )
    mx.async_eval(pending.numbers, pending.probs, pending.checksums)
    return pending
