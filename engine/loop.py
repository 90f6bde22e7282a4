"""Speculative decoding (Leviathan 2023, arXiv 2211.17192): propose -> verify -> commit -> emit.

Plain decoding is the same loop with an empty draft. A round is committed, and what was refused is taken back, before
it is emitted, so whoever listens may walk away at any yield and find target and drafter agreeing with the tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from engine.drafters import Drafter
from engine.events import Finished, Reason, Round
from engine.policy import Policy
from engine.proposer import Proposer
from engine.sampling import Sampler
from engine.target.cached_model import CachedModel
from engine.verify_pass import RoundQueue


@dataclass(frozen=True)
class Limits:
    """When a reply ends. max_tokens: of the reply. context: of prompt and reply together. eos: ids that end it,
    committed as its last token. cancelled: called after every round."""

    max_tokens: int
    context: int
    eos: frozenset[int] = frozenset()
    cancelled: Callable[[], bool] = lambda: False

    def room(self, prompt: int, reply: int) -> int:
        """Returns how many tokens may still be committed."""
        return min(self.max_tokens - reply, self.context - prompt - reply)


def decode(
    target: CachedModel,
    drafter: Drafter | None,
    policy: Policy,
    sampler: Sampler,
    tokens: list[int],
    limits: Limits,
    began_s: float,
) -> Iterator[Round | Finished]:
    """Continues `tokens` (the prompt, extended in place), all but the last of which the target has seen.

    Yields a Round for every verify pass, then Finished. A listener may cut `tokens` at a yield (a stop string): it then
    rewinds both caches and stops listening.
    """
    prompt = len(tokens)
    proposer, rounds = Proposer(drafter, policy), RoundQueue(target, sampler, tokens, began_s)
    policy.begin(limits.room(prompt, 0))
    reason = _end_reason(tokens, limits, prompt)
    while reason is None:
        context, room = replace(rounds.context, cancelled=limits.cancelled), limits.room(prompt, len(tokens) - prompt)
        if not rounds.has_step_ahead:
            rounds.verify(proposer.propose(context, min(room - 1, target.draft_room(len(tokens)))))
        plain_follows = room > 1 and rounds.may_run_ahead and proposer.next_is_plain(context)
        round_ = _cut_at_eos(rounds.wait(plain_follows), limits.eos)
        proposer.rewind(rounds.commit(round_))
        proposer.observe(round_)
        reason = _end_reason(tokens, limits, prompt) or ("cancelled" if limits.cancelled() else None)
        yield round_
    yield Finished(reason, len(tokens) - prompt, time.monotonic() - began_s)


def _cut_at_eos(round_: Round, eos: frozenset[int]) -> Round:
    """Drops what a round has after an end-of-sequence token."""
    for i, token in enumerate(round_.tokens):
        if token in eos:
            return round_.cut(i + 1)
    return round_


def _end_reason(tokens: list[int], limits: Limits, prompt: int) -> Reason | None:
    """Returns why the reply ends here, None if it goes on."""
    if len(tokens) > prompt and tokens[-1] in limits.eos:
        return "eos"
    if limits.room(prompt, len(tokens) - prompt) > 0:
        return None
    return "length" if len(tokens) - prompt >= limits.max_tokens else "context"
