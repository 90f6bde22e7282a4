"""A monitored drafter: whatever its members raise is known to be theirs, and it stands for their weights."""

from inspect import isfunction, signature
from typing import Any

import pytest

from app.inference.pair_loader import MonitoredDrafter
from engine.drafters import Draft, DraftContext, Drafter, empty_draft

MADE_ONCE = {"for_another_reply", "snapshot_key"}  # of the drafter itself, by the pair
OF_SUBCLASSES = {"is_ready"}
METHODS = [
    name
    for name, value in vars(Drafter).items()
    if isfunction(value) and not name.startswith("_") and name not in MADE_ONCE | OF_SUBCLASSES
]


class Silent(Drafter):
    """A drafter of its own weights, which proposes nothing."""

    def propose(self, context: DraftContext, length: int) -> Draft:
        return empty_draft()


def test_drafters_of_the_same_weights_are_known_as_such() -> None:
    drafter = Silent()
    assert MonitoredDrafter(drafter).snapshot_key == MonitoredDrafter(drafter).snapshot_key
    assert MonitoredDrafter(drafter).snapshot_key != MonitoredDrafter(Silent()).snapshot_key


@pytest.mark.parametrize("method", METHODS)
def test_what_any_method_raises_is_noted(method: str) -> None:
    drafter = Silent()

    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    broken.__name__ = method
    setattr(drafter, method, broken)
    monitored = MonitoredDrafter(drafter)
    (member,) = monitored.members
    called = getattr(member, method)
    assert not monitored.failed
    with pytest.raises(RuntimeError, match="broken"):
        called(*[None for one in signature(getattr(Silent, method)).parameters if one != "self"])
    assert monitored.failed
