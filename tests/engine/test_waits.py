"""How often a round waits for the device: once, by an instrumented MLX."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from app.inference.pair_loader import MonitoredDrafter
from engine.drafters import Drafter
from engine.events import Round
from engine.policy import Policy
from engine.policy.fixed import FixedLength
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.drafters.toy_drafters import KINDS, made, target_of
from tests.engine.fewer import paired
from tests.engine.policy.machine_times import MachineTimes
from tests.engine.policy.simulation import known
from tests.engine.replies import reply

CHEAP = MachineTimes(((1, 1.0), (9, 1.05)), ((0, 0.0), (1, 0.01), (8, 0.08)))
SAMPLINGS = {
    "greedy": SamplingSettings(),
    "coupled": SamplingSettings(temperature=0.9, top_p=0.9, seed=3, acceptance="coupled"),
    "rejection": SamplingSettings(temperature=0.9, top_k=20, repetition_penalty=1.1, seed=3),
}


class Instrument:
    """Counts the calls that wait for the device: `mx.eval`, and whatever reads an array that it has not evaluated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits = 0
        self._done: list[mx.array] = []
        evaluate = mx.eval

        def counted(*arrays: Any) -> None:
            self.waits += 1
            evaluate(*arrays)
            self._done = [array for array in arrays if isinstance(array, mx.array)]

        monkeypatch.setattr(mx, "eval", counted)
        monkeypatch.setattr(mx, "synchronize", self._read(mx.synchronize))
        for name in ("item", "tolist", "__int__", "__float__", "__bool__", "__array__"):
            if hasattr(mx.array, name):
                monkeypatch.setattr(mx.array, name, self._read(getattr(mx.array, name)))

    def _read(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.waits += not any(arguments and arguments[0] is array for array in self._done)
            return read(*arguments)

        return counted


class Watched(FixedLength):
    """Notes how often the device has been waited for up to each round, and decides as another policy does."""

    def __init__(self, policy: Policy, instrument: Instrument) -> None:
        super().__init__(0)
        self.policy, self.instrument = policy, instrument
        self.counts: list[int] = []

    def begin(self, tokens: int) -> None:
        self.policy.begin(tokens)
        self.counts.append(self.instrument.waits)

    def plan(self, hints: Any = ()) -> Any:
        return self.policy.plan(hints)

    def next_is_plain(self, hints: Sequence[float | None] = ()) -> bool:
        return self.policy.next_is_plain(hints)

    def observe(self, round_: Round) -> None:
        self.counts.append(self.instrument.waits)
        self.policy.observe(round_)


def auto(drafter: Any) -> Policy:
    return known(**{one.name: CHEAP for one in getattr(drafter, "members", (drafter,))})


def waits_of(
    target: CachedModel, drafter: Drafter, decisions: Policy, sampling: SamplingSettings, instrument: Instrument
) -> tuple[list[int], list[Round]]:
    """How often the device was waited for in each round of a reply, and the rounds."""
    policy = Watched(decisions, instrument)
    _, rounds, _ = reply(target, drafter, policy, sampling, sampling.acceptance, tokens=20)
    waits = [int(n) for n in np.diff(policy.counts)]
    assert waits == [round_.waits for round_ in rounds]
    return waits, rounds


@pytest.fixture
def instrument(monkeypatch: pytest.MonkeyPatch) -> Instrument:
    return Instrument(monkeypatch)


@pytest.mark.parametrize(("kind", "rule"), paired(KINDS, [*SAMPLINGS, "auto"]))
def test_a_round_waits_for_the_device_once(kind: str, rule: str, instrument: Instrument) -> None:
    """And once more where a draft is the text of another tokenizer's tokens."""
    target = target_of(kind)
    drafter = made(kind, target)
    decisions, sampling = (auto(drafter), "greedy") if rule == "auto" else (FixedLength(4), rule)
    waits, rounds = waits_of(target, drafter, decisions, SAMPLINGS[sampling], instrument)
    assert kind == "SLEM" or any(round_.drafted for round_ in rounds)
    assert waits == [1 + (round_.draft_s is not None) for round_ in rounds]
    assert (max(waits) == 2) == (kind == "SLEM")


@pytest.mark.parametrize(("kind", "length"), [("draft model", 0), ("EAGLE-3, trees", 12)])
def test_it_waits_once_whatever_its_length(kind: str, length: int, instrument: Instrument) -> None:
    """Under rejection at temperature 0, where a plain step is submitted before the one before it has been told."""
    sampling, target = SamplingSettings(repetition_penalty=1.1, acceptance="rejection"), target_of(kind)
    waits, rounds = waits_of(target, made(kind, target), FixedLength(length), sampling, instrument)
    assert max(len(round_.drafted) for round_ in rounds) == length
    assert waits == [1] * len(rounds)


def test_a_timed_proposal_is_waited_for_too(instrument: Instrument) -> None:
    target = target_of("draft model")
    drafter = MonitoredDrafter(made("draft model", target))
    drafter.timed = True
    waits, _ = waits_of(target, drafter, FixedLength(3), SAMPLINGS["greedy"], instrument)
    assert waits[0] == 2
