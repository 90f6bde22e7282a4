"""Speculative decoding (Leviathan 2023, arXiv 2211.17192): propose -> verify -> commit -> emit.

Plain decoding is the same loop with an empty draft. A round is committed, and what was refused is taken back, before
it is emitted, so whoever listens may walk away at any yield and find target and drafter agreeing with the tokens.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine import together
from engine.drafters import Drafter
from engine.events import Finished, Reason, Round
from engine.policy import Policy
from engine.proposer import Proposer
from engine.reply_channels import Parser, ReplyBudget
from engine.sampling import Sampler
from engine.target.cached_model import CachedModel
from engine.verify_pass import RoundQueue


@dataclass(frozen=True)
class Limits:
    """When a reply ends. max_tokens, max_thought_tokens: as in `SamplingSettings`. context: of prompt and reply
    together. eos: ids that end it, committed as its last token. cancelled: called after every round, and by a drafter
    that catches up. parser: tells thought and answer apart, and stands at the end of the prompt; None where they are
    not counted apart."""

    max_tokens: int
    context: int
    eos: frozenset[int] = frozenset()
    cancelled: Callable[[], bool] = lambda: False
    max_thought_tokens: int | None = None
    parser: Parser | None = None

    def budget(self) -> ReplyBudget:
        """Returns what counts the tokens of one reply."""
        parser = self.parser.fork() if self.parser is not None else None
        return ReplyBudget(self.max_tokens, self.max_thought_tokens, parser)


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

    began_s: `time.monotonic` when the reply began. Yields the rounds, then Finished. A listener may cut `tokens` at a
    yield (a stop string): it then rewinds both caches and stops listening.
    """
    prompt, budget = len(tokens), limits.budget()
    proposer = Proposer(drafter, policy)
    rounds = RoundQueue(target, sampler, tokens, began_s, limits.cancelled)
    policy.begin(_room(tokens, limits, budget))
    reason = _end_reason(tokens, prompt, limits, budget)
    while reason is None:
        room = _room(tokens, limits, budget)
        if not rounds.has_pending:
            if not target.catch_up(tokens, limits.cancelled):
                reason = "cancelled"
                break
            most = min(room - 1, target.draft_room(len(tokens)))  # a round has a token of the target's own as well
            draft = proposer.propose(rounds.context, most)
            rounds.submit(draft)
        if room > 1 and rounds.may_run_ahead and proposer.next_is_plain(rounds.context):
            rounds.submit_ahead()
        round_ = _cut(rounds.wait(), limits.eos, budget)
        certain = rounds.commit(round_)
        proposer.rewind(certain)
        proposer.observe(round_)
        reason = _end_reason(tokens, prompt, limits, budget) or ("cancelled" if limits.cancelled() else None)
        yield round_
        if reason is None:
            together.between_rounds()
    yield Finished(reason, len(tokens) - prompt, time.monotonic() - began_s)


def _room(tokens: list[int], limits: Limits, budget: ReplyBudget) -> int:
    """Returns how many tokens may still be committed at most."""
    return min(budget.left, limits.context - len(tokens))


def _cut(round_: Round, eos: frozenset[int], budget: ReplyBudget) -> Round:
    """Counts the tokens of a round, and drops what it has after one that ends the reply: where a limit is reached may
    depend on the tokens themselves, since thought and answer have limits of their own."""
    for count, token in enumerate(round_.tokens, 1):
        budget.push(token)
        if token in eos or budget.end is not None:
            return round_.cut(count)
    return round_


def _end_reason(tokens: list[int], prompt: int, limits: Limits, budget: ReplyBudget) -> Reason | None:
    """Returns why the reply ends here, None if it goes on."""
    if len(tokens) > prompt and tokens[-1] in limits.eos:
        return "eos"
    if budget.end is not None:
        return budget.end
    return None if len(tokens) < limits.context else "context"
