"""How many tokens to draft now: what every policy decides, and what it learns from."""

from __future__ import annotations

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

    def next_is_plain(self, has_nothing: bool = False) -> bool:
        """Returns whether the round after a plain one is sure to be plain too, whatever comes of this one. has_nothing:
        whether all drafters that give hints have nothing to propose now."""
