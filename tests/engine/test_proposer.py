"""Who learns from a round: the policy that planned it, unless a grammar forced its draft."""

from types import SimpleNamespace
from typing import Any

from engine.policy.fixed import FixedLength
from engine.proposer import Proposer
from tests.engine.policy.simulation import round_of


class Recorder(FixedLength):
    """Notes what it is told of each round."""

    def __init__(self) -> None:
        super().__init__(4)
        self.told: list[str] = []

    def observe(self, round_: object) -> None:
        self.told.append("planned")

    def skip(self, round_: object) -> None:
        self.told.append("forced")


def test_a_round_without_room_is_not_taken_for_the_forced_one_before_it() -> None:
    policy = Recorder()
    grammar = SimpleNamespace(forced=lambda: [5, 6])
    context: Any = SimpleNamespace(sampler=SimpleNamespace(grammar=grammar))
    proposer = Proposer(None, policy)
    for room in (4, 0):
        proposer.propose(context, room)
        proposer.observe(round_of(0, 0))
    assert policy.told == ["forced", "planned"]
