"""Proposes the draft of each round: asks the policy how much, and the drafter it names for the tokens."""

from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx

from engine.drafters import Draft, DraftContext, Drafter, empty_draft
from engine.drafters.drafter_group import DrafterGroup
from engine.events import Round
from engine.policy import Policy
from engine.settings import LONGEST_DRAFT


class Proposer:
    """A drafter and the policy that decides when it drafts, and how much. Without a drafter every draft is empty."""

    def __init__(self, drafter: Drafter | None, policy: Policy) -> None:
        self._drafter, self._policy = drafter, policy
        self._members: Sequence[Drafter] = ()
        self._is_forced = False
        if drafter is not None:
            self._members = drafter.members if isinstance(drafter, DrafterGroup) else (drafter,)

    def propose(self, context: DraftContext, room: int) -> Draft:
        """Returns the draft of this round, which says why it has this length. room: most tokens that it may have; a
        tree of n nodes is no deeper than n. What a grammar forces goes first, as a point mass: it is verified as all
        drafts are, and the policy learns nothing from it."""
        plan, self._is_forced = self._policy.plan(self._hints(context)), False
        length = min(plan.length, room)
        if plan.length and not length:
            return empty_draft("no room for a draft here")
        grammar = context.sampler.grammar
        forced = grammar.forced()[: min(room, LONGEST_DRAFT)] if grammar is not None and length else []
        self._is_forced = bool(forced)
        if forced:
            return Draft(mx.array(forced, mx.int32), reason="the grammar allows nothing else")
        drafter = self._drafter if plan.drafter is None else self._members[plan.drafter]
        if drafter is None or not length:
            return empty_draft(plan.reason)
        draft = drafter.propose(context, length)
        return replace(draft, reason=plan.reason if draft.tokens.size else "nothing to propose")

    def next_is_plain(self, context: DraftContext) -> bool:
        """Whether the round after this one is sure to be plain, whatever comes of this one."""
        return self._policy.next_is_plain(self._hints(context))

    def observe(self, round_: Round) -> None:
        """Lets the policy learn from a round."""
        if self._is_forced:
            self._policy.skip(round_)
        else:
            self._policy.observe(round_)

    def rewind(self, length: int) -> None:
        """Has the drafter forget everything after the first `length` tokens."""
        if self._drafter is not None:
            self._drafter.rewind(length)

    def _hints(self, context: DraftContext) -> tuple[float | None, ...]:
        """Returns for each drafter the class of its next draft, 0 where there is none."""
        return tuple(member.draft_class(context) for member in self._members)
