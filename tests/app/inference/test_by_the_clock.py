"""Which replies go by the clock: those that need not be reproducible, above temperature 0 unless told otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.inference import pair_loader
from app.inference.calibration import Calibration
from app.inference.conversation import Conversation, open_conversation
from app.inference.options import Options
from app.protocol import SamplingSettings
from engine.policy.cost_correction import CostCorrection
from tests.app.command import Redline
from tests.app.host.replies import ask, worker_with
from tests.engine.policy.simulation import FLAT


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Gets the seconds of every round that is told to a Drift. Drafting pays, as far as anybody knows."""
    seconds: list[float] = []
    monkeypatch.setattr(Calibration, "after", lambda *_, **__: FLAT)
    monkeypatch.setattr(Calibration, "has", lambda *_, **__: True)
    monkeypatch.setattr(CostCorrection, "observe", lambda self, drafted, measured_s, _: seconds.append(measured_s))
    return seconds


@pytest.fixture
def pair(toy_folder: Path, toy_drafter_folder: Path) -> list[Path]:
    return [toy_folder, toy_drafter_folder]


def conversation(target: Path, drafter: Path, temperature: float = 0.7, fresh: bool = True) -> Conversation:
    sampling = SamplingSettings(max_tokens=8, fresh=fresh)
    options = Options(str(target), (str(drafter),), (temperature,), sampling=sampling)
    return open_conversation(options, "", lambda _: None)


@pytest.mark.parametrize(
    ("given", "temperature", "expected"),
    [
        ([], 0.0, False),
        ([], 0.7, True),
        (["--reproducible"], 0.7, False),
        (["--seed", "3"], 0.7, False),
        (["--draft-length", "4"], 0.7, False),
    ],
)
def test_the_clock_counts_above_temperature_0_unless_told_otherwise(
    redline: Redline, pair: list[Path], timed: list[float], given: list[str], temperature: float, expected: bool
) -> None:
    """A seed is told only where it repeats the text."""
    words = ["chat", "--prompt", "hello", "--target", pair[0], "--drafter", pair[1], "--max-tokens", "8"]
    done = redline(*words, "--temperature", temperature, *given)
    assert done.code == 0 and bool(timed) == expected
    assert ("seed" in done.complaint) == (temperature > 0 and not expected)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_rounds_of_a_conversation_are_timed_only_there(
    toy_folder: Path, toy_drafter_folder: Path, timed: list[float], temperature: float
) -> None:
    talk = conversation(toy_folder, toy_drafter_folder, temperature)
    list(talk.ask("hello", lambda: False))
    assert bool(timed) == (temperature > 0)


def test_costs_that_replies_refute_are_measured_again_once(
    toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []
    monkeypatch.setattr(pair_loader, "measure_costs", lambda *_, **__: (measured.append(1), FLAT)[1])
    talk = conversation(toy_folder, toy_drafter_folder)
    for refuted, times in ((False, 1), (True, 2), (False, 2), (True, 2)):
        correction = talk.pair.correction(0, exact=False, timed=False)
        for i in range(200 if refuted else 0):
            correction.observe(i % 4 > 0, 1.6 if i % 4 else 1.0, 1.0)
        list(talk.ask("hello", lambda: False))
        talk.clear()
        talk.pair.session.forget()
        talk.pair.measure_ahead(lambda: None)
        assert len(measured) == times


@pytest.mark.slow
def test_another_drafter_begins_with_nothing_known(toy_folder: Path, toy_drafter_folder: Path) -> None:
    talk = conversation(toy_folder, toy_drafter_folder)
    before = talk.pair.correction(0, exact=False, timed=False)
    talk.change(replace(talk.options, temperatures=(0.5,)))
    assert talk.pair.correction(0, exact=False, timed=False) is before
    talk.change(replace(talk.options, drafters=("lookup",)))
    assert talk.pair.correction(0, exact=False, timed=False) is not before


@pytest.mark.slow_for("False")
@pytest.mark.parametrize("reproducible", [False, True])
def test_replies_that_share_what_the_clock_said_share_no_noise(
    toy_folder: Path, toy_drafter_folder: Path, reproducible: bool
) -> None:
    talk = conversation(toy_folder, toy_drafter_folder, fresh=not reproducible)
    seeds = []
    for _ in range(3):
        seeds.append(talk.options.seed)
        list(talk.ask("hello", lambda: False))
        talk.clear()
    assert len(set(seeds)) == (1 if reproducible else 3)


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (SamplingSettings(temperature=0.7), True),
        (SamplingSettings(temperature=0.7, seed=3), False),
        (SamplingSettings(temperature=0.7, seed=3, fresh=True), True),
        (SamplingSettings(seed=3, fresh=True), False),
        (SamplingSettings(), False),
    ],
)
def test_rounds_of_the_host_are_timed_only_where_the_seed_is_of_this_reply_alone(
    toy_folder: Path, toy_drafter_folder: Path, timed: list[float], sampling: SamplingSettings, expected: bool
) -> None:
    ask(worker_with(toy_folder, toy_drafter_folder), replace(sampling, max_tokens=8))
    assert bool(timed) == expected
