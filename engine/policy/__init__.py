"""How many tokens to draft now, and with which of several drafters: what every policy decides, and what it learns from.

fixed            always the same draft length
adaptive         draft length `auto`: the most expected tokens for the price, within a budget for what may be lost
step_times       the prices: how long rounds take here, learnt from the rounds of replies
joint_turns      of several replies at once: what all of them plan, and what came of it
expected_length  the expected tokens: how many drafts are accepted, learnt likewise

`app.inference.learnt_rounds` makes the policy of a reply, and keeps what was learnt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.events import Round


@dataclass(frozen=True)
class Plan:
    """What to draft in one round.

    length: at most so many tokens, 0 for a plain step. reason: why, in a few words, for the inspector. drafter: which
    of several, None for the first that has something to propose.
    """

    length: int
    reason: str
    drafter: int | None = None


class Policy(Protocol):
    """Decides the draft length of each round of one reply."""

    def begin(self, tokens: int) -> None:
        """Begins a reply of at most so many tokens."""

    def plan(self, hints: Sequence[float | None] = ()) -> Plan:
        """Returns what to draft in this round. hints: of each drafter, the class of its next draft (see
        `engine.drafters.Drafter.draft_class`), 0 where it is known that it has none."""

    def observe(self, round_: Round) -> None:
        """Learns from a round that was planned here."""

    def skip(self, round_: Round) -> None:
        """Takes note of a round whose draft a grammar forced in place of the one that was planned here."""

    def next_is_plain(self, hints: Sequence[float | None] = ()) -> bool:
        """Returns whether the round after a plain one is sure to be plain too, whatever comes of this one. hints: as
        in `plan`, now, while this round is not known yet."""
