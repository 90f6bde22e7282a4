"""How many tokens to draft now; 0 is allowed, and says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.events import Round
from engine.policy.confidence_stop import ConfidenceStop


@dataclass(frozen=True)
class Plan:
    """length: most tokens to draft. reason: in a few words, for the inspector. drafter: which of several,
    None for whichever has something. stop: asked at each token whether to go on, where the drafter can say how sure it
    is; None: draft them all."""

    length: int
    reason: str
    drafter: int | None = None
    stop: ConfidenceStop | None = None


class Policy(Protocol):
    def begin(self, tokens: int) -> None:
        """A reply begins, which may have so many tokens."""

    def plan(self, hints: Sequence[float | None] = ()) -> Plan:
        """What to do this round. hints: of each drafter, see `engine.drafters.Drafter.hint`."""

    def observe(self, round_: Round) -> None:
        """What came of it."""

    def next_is_plain(self, quiet: bool = False) -> bool:
        """Whether the round after a plain one is sure to be plain too, whatever comes of this one. quiet: whether
        drafters that hint have nothing to propose now."""


class FixedLength:
    """Always the same draft length; 0 is plain decoding. reason: why this one, if not because it was asked for."""

    def __init__(self, length: int, reason: str = "") -> None:
        self._plan = Plan(length, reason or (f"fixed at {length}" if length else "plain decoding"))
        self._all_hint = True

    def begin(self, tokens: int) -> None:
        pass

    @property
    def length(self) -> int:
        return self._plan.length

    def plan(self, hints: Sequence[float | None] = ()) -> Plan:
        self._all_hint = None not in hints
        return self._plan

    def observe(self, round_: Round) -> None:
        pass

    def next_is_plain(self, quiet: bool = False) -> bool:
        return self._plan.length == 0 or (quiet and self._all_hint)
