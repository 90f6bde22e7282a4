"""The rounds of a reply on the device: each is one graph, from the verify pass to the acceptance, waited for once.

`RoundQueue.submit` builds a round and hands it to the device, `PendingRound.wait` waits for it. In between the device
works, so a plain step can be submitted on the still unknown token of the one before (`RoundQueue.submit_ahead`).
`RoundQueue.commit` makes its tokens part of the reply, and takes back what was refused.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine import acceptance, backend, together
from engine.acceptance import Acceptance
from engine.audit import fingerprints
from engine.backend.memory import BufferClearance
from engine.drafters import Draft, DraftContext, check_probabilities, empty_draft
from engine.events import Round
from engine.noise import Stream, position_range
from engine.refusal import evidence, explained, rule_of
from engine.sampling import Sampler, TokenCounts
from engine.target.cached_model import CachedModel
from engine.target.sharded_target import check_present

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
    accepted = accepted._replace(rule=rule, evidence=evidence(rule, accepted, draft, logp, scores, rest))
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
    gumbel = noise.gumbel(Stream.CHOICE, (position + n)[None], vocabulary).squeeze(0)
    token, rest = acceptance.rejection_token(logp, tokens, logq, n, gumbel)
    return acceptance.with_token_at(tokens, n, token)._replace(draws=uniforms), rest


@dataclass(frozen=True)
class PendingRound:
    """A round on the device.

    accepted: what the target keeps, lazy. checksums: of the rows of logits in exact-verify, (depth + 1, 2), else
    (0, 2). width: rows of the pass. counts: before the draft. absent: as in `CachedModel`. waits_for_draft: whether the
    draft was waited for before this.
    """

    accepted: Acceptance
    checksums: mx.array
    draft: Draft
    width: int
    counts: TokenCounts
    absent: mx.array | None
    waits_for_draft: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether nothing was drafted."""
        return self.draft.tokens.size == 0

    @property
    def first_token(self) -> mx.array:
        """The token of a plain step, (1,), still lazy."""
        return self.accepted.tokens

    @property
    def arrays(self) -> list[mx.array]:
        """All that is read of the round once it is done. A small model takes as long for an operation as for a layer,
        so nothing is put together for that."""
        found = [self.accepted.tokens, self.accepted.p, self.checksums, self.absent]
        if not self.is_plain:
            accepted, _, path, _, q, why, draws, _ = self.accepted
            found += [accepted, path, q, why, draws, self.draft.tokens]
            found += [self.draft.tree.parents] if self.draft.tree is not None else []
        return [array for array in found if array is not None]

    def wait(self, index: int, began_s: float) -> Round:
        """Waits for the device, which nothing else of a round does but a grammar and the timing of drafts, and returns
        the round as plain values.

        Raises ModelError if the drafter's probabilities are not numbers, MachineLostError if a machine that computes a
        part of the target was gone.
        """
        together.before_waiting()
        mx.eval(*self.arrays)
        check_present(self.absent)
        now_s = time.monotonic()
        done, draft, is_plain = self.accepted, self.draft, self.is_plain
        accepted: Any = 0 if is_plain else done.accepted.item()
        q = () if is_plain else _values(done.q)
        check_probabilities(q)
        times_s = draft.times_s
        made = Round(
            index=index,
            tokens=_values(done.tokens)[: accepted + 1],
            drafted=() if is_plain else _values(draft.tokens),
            accepted=accepted,
            p=_values(done.p)[: accepted + 1],
            q=q,
            width=self.width,
            time_s=now_s - began_s,
            reason=draft.reason,
            parents=_values(draft.tree.parents) if draft.tree is not None else None,
            path=_values(done.path)[:accepted],
            draft_s=times_s[1] - times_s[0] if times_s else None,
            verify_s=now_s - times_s[1] if times_s else None,
            waits=1 + (times_s is not None) + self.waits_for_draft,
            fingerprints=tuple(map(fingerprints.combine_checksum, _values(self.checksums)[: accepted + 1])),
            rule=done.rule,
        )
        return made if is_plain else explained(made, _values(done.evidence), _values(done.draws))


def _values(array: mx.array | None) -> tuple[Any, ...]:
    """Returns an array that has been waited for as plain values."""
    return () if array is None else tuple(array.tolist())  # type: ignore[arg-type]


class RoundQueue:
    """The rounds of one reply on the device: the one waited for next, and at most one plain step submitted ahead of it.

    Invariant: between two rounds the target's cache holds all of `tokens` but the last, or all of them if a step has
    been submitted ahead. cancelled: as in `DraftContext`.
    """

    def __init__(
        self,
        target: CachedModel,
        sampler: Sampler,
        tokens: list[int],
        began_s: float,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._target, self._sampler, self._tokens, self._began_s = target, sampler, tokens, began_s
        self._cancelled = cancelled
        self._counts = TokenCounts(sampler.distribution, tokens)
        self._rounds = 0
        self._clearance = BufferClearance()
        self._pending: deque[PendingRound] = deque()  # in the order of their submission

    @property
    def context(self) -> DraftContext:
        """Where the reply stands."""
        return DraftContext(self._tokens, self._counts, self._sampler, self._cancelled)

    @property
    def has_pending(self) -> bool:
        """Whether the next round has been submitted."""
        return bool(self._pending)

    @property
    def may_run_ahead(self) -> bool:
        """Whether a plain step may be submitted before the pending round is waited for: after a plain one, and where
        that would not delay the first token, because the backend queues what is submitted. Not with a grammar, whose
        mask needs the token before, nor where the token before changes how positions are rotated."""
        if self._sampler.grammar is not None or not self._target.rotation.tokens_left(len(self._tokens)):
            return False
        return self._pending[-1].is_plain and (self._rounds > 0 or backend.queues())

    def submit(self, draft: Draft) -> None:
        """Submits the round of `draft`."""
        logits, width = self._target.continue_from(self._tokens, draft.tokens, draft.tree)
        allowed = _allowed(self._sampler, logits, draft)
        accepted = verify(self._sampler, logits, self._counts, draft, len(self._tokens), allowed)
        waits = allowed is not None and draft.tokens.size > 0
        checksums, absent = self._target.checksums(logits), self._target.absent
        self._push(PendingRound(accepted, checksums, draft, width, self._counts, absent, waits))

    def submit_ahead(self) -> None:
        """Submits a plain step on the token of the pending round, which is plain too and not known yet."""
        pending = self._pending[-1]
        counts, draft = pending.counts.extended(pending.first_token), empty_draft(pending.draft.reason)
        logits, width = self._target.continue_after(self._tokens, pending.first_token)
        accepted = verify(self._sampler, logits, counts, draft, len(self._tokens) + 1)
        self._push(PendingRound(accepted, self._target.checksums(logits), draft, width, counts, self._target.absent))

    def _push(self, pending: PendingRound) -> None:
        mx.async_eval(*pending.arrays)
        self._pending.append(pending)

    def wait(self) -> Round:
        """Waits for the next round."""
        pending = self._pending.popleft()
        self._counts = pending.counts
        return pending.wait(self._rounds, self._began_s)

    def commit(self, round_: Round) -> int:
        """Makes the tokens of `round_` part of the reply and takes back what was refused. Returns how many tokens are
        certain: all but the last, which has been through no cache yet, unless a step has been submitted ahead."""
        if round_.parents is not None:
            self._target.keep_path(round_.path)
        self._counts = self._counts.extended(round_.tokens)
        self._tokens.extend(round_.tokens)
        if self._sampler.grammar is not None:
            self._sampler.grammar.advance(round_.tokens)
        self._rounds += 1
        certain = len(self._tokens) if self.has_pending else len(self._tokens) - 1
        self._target.rewind(certain)
        self._clearance.count(len(round_.tokens))
        return certain


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
