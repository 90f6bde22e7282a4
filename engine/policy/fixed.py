"""The policy that always drafts the same number of tokens."""

from collections.abc import Sequence

from engine.events import Round
from engine.policy import Plan

PLAIN_DECODING = "plain decoding"  # the reason where drafting is turned off


class FixedLength:
    """Always the same draft length; 0 is plain decoding. reason: why this one, if not because the user chose it."""

    def __init__(self, length: int, reason: str = "") -> None:
        self.length = length
        self._plan = Plan(length, reason or (f"fixed at {length}" if length else PLAIN_DECODING))

    def begin(self, tokens: int) -> None:
        pass

    def plan(self, hints: Sequence[float | None] = ()) -> Plan:
        return self._plan

    def observe(self, round_: Round) -> None:
        pass

    def skip(self, round_: Round) -> None:
        pass

    def next_is_plain(self, hints: Sequence[float | None] = ()) -> bool:
        return self.length == 0 or (bool(hints) and all(hint == 0 for hint in hints))
