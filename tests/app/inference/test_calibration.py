"""Costs on disk: measured once, read back as they were, measured again where anything has changed."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.inference import calibration, pair_loader
from app.inference.calibration import Calibration
from app.inference.loaded_pair import LoadedPair
from app.inference.pair_loader import NamedDrafter
from engine.drafters.prompt_lookup import PromptLookup
from engine.policy.adaptive import Adaptive
from engine.policy.costs import MIN_PLAIN, Costs
from engine.policy.fixed import FixedLength
from engine.session import Session
from engine.settings import SamplingSettings
from models.loader import Loaded, load

COSTS = Costs(((1, 0.1), (2, 0.15)), ((0, 0.0), (1, 0.01)))
BOTH = Costs(COSTS.verify, COSTS.draft, (COSTS, Costs(COSTS.verify, ((0, 0.0), (1, 0.05)))))
ONE = NamedDrafter("lookup", PromptLookup())
LOOKUP = NamedDrafter("lookup+other", PromptLookup(), several=(ONE, NamedDrafter("other", PromptLookup())))


@pytest.fixture(scope="module")
def target(toy_folder: Path) -> Loaded:
    return load(toy_folder)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The contexts that were measured after."""
    asked: list[int] = []

    def measure(target: Loaded, drafter: NamedDrafter, context: int, between: Callable[[], None]) -> Costs:
        asked.append(context)
        return BOTH

    monkeypatch.setattr(pair_loader, "measure_costs", measure)
    return asked


def here(target: Loaded, root: Path, drafter: NamedDrafter = LOOKUP) -> Calibration:
    """As another process would begin with it."""
    return Calibration(target, drafter, 10_000, root)


def test_costs_are_measured_once_and_read_back_as_they_were(
    target: Loaded, measured: list[int], tmp_path: Path
) -> None:
    assert not here(target, tmp_path).knows()
    assert here(target, tmp_path).costs() == BOTH
    assert here(target, tmp_path).knows()
    assert here(target, tmp_path).costs() == BOTH
    assert measured == [64]


def test_costs_at_hand_are_of_the_last_milestone_that_was_measured(
    target: Loaded, measured: list[int], tmp_path: Path
) -> None:
    costs = here(target, tmp_path)
    assert costs.at_hand(3000) is None
    assert costs.missing() == (64, 1024, 4096)
    costs.after(64)
    assert costs.at_hand(3000) == BOTH
    costs.after(4096)
    assert costs.missing() == (1024,)
    assert costs.at_hand(100) == costs.at_hand(2000) == BOTH
    assert measured == [64, 4096]


@pytest.mark.parametrize(
    ("drafter", "widths"),
    [
        (ONE, [*range(1, 10)]),
        (NamedDrafter("trees", PromptLookup(), branches=True), [1, 2, 4, 8, 16, 32]),
        (
            NamedDrafter("tau", PromptLookup(), branches=True, tree_tau={n: 1 + n / 9 for n in range(1, 9)}),
            [1, 2, 4, 8],
        ),
    ],
)
def test_every_width_that_a_draft_may_lead_to_is_measured(
    target: Loaded, drafter: NamedDrafter, widths: list[int]
) -> None:
    """On Metal a pass becomes dearer in steps, behind 4, 8, 16 and 32 rows among them, which trees fill."""
    assert pair_loader.widths_of(drafter) == widths


def test_an_estimate_takes_a_fraction_of_the_passes_and_is_not_kept_on_disk(target: Loaded, tmp_path: Path) -> None:
    passes = {"estimated": 0, "measured": 0}

    def count(what: str) -> Callable[[], None]:
        return lambda: passes.update({what: passes[what] + 1})

    costs = here(target, tmp_path, ONE)
    costs.make_estimate(count("estimated"))
    assert costs.estimate is not None and costs.at_hand() is None and costs.missing()[0] == 64
    assert [width for width, _ in costs.estimate.verify] == [1, 2, 9]
    assert calibration.is_sound(costs.estimate, 1) and costs.estimate.plain_s > 0
    costs.costs(0, count("measured"))
    assert passes["estimated"] * 2 < passes["measured"]  # more of these where times differ
    assert here(target, tmp_path, ONE).estimate is None
    costs.forget()
    assert costs.estimate is None


@pytest.mark.parametrize(
    ("context", "room", "milestones"),
    [
        (0, 8192, (64,)),
        (128, 8192, (64,)),
        (129, 8192, (64, 1024)),
        (2048, 8192, (64, 1024)),
        (2049, 8192, (1024, 4096)),
        (8191, 8192, (1024, 4096)),
        (3000, 4100, (64, 1024)),  # nothing is measured where no conversation can get to
        (900, 1030, (64,)),
        (10, 20, (64,)),
        (8192, 8192, (64,)),  # nor for a prompt that will be refused
    ],
)
def test_milestones_lie_around_a_context_and_within_the_room(
    target: Loaded, context: int, room: int, milestones: tuple[int, ...]
) -> None:
    assert Calibration(target, LOOKUP, room).milestones(context) == milestones


def test_costs_lie_on_the_line_between_milestones(target: Loaded) -> None:
    """After 64 tokens per pass over two rows takes 1.25 of one, after 1,024 twice as long; a flat one stays flat, and
    one that was quicker after more is no quicker."""
    draw = Calibration(target, LOOKUP, 20_000).draw
    near = Costs(((1, 1.0), (2, 1.25), (5, 3.0)), ((0, 0.0), (1, 0.1)), plain=0.9, eager=1.3)
    far = Costs(((1, 1.5), (2, 3.0), (5, 2.0)), ((0, 0.0), (1, 0.1)), plain=1.4, eager=3.05)
    found = [draw(context, {64: near, 1024: far}.__getitem__) for context in (100, 544, 1024, 1984)]
    assert found[0] == near
    assert [costs.pass_s(1) for costs in found[1:]] == pytest.approx([1.25, 1.5, 2.0])
    assert [costs.pass_s(2) for costs in found[1:]] == pytest.approx([2.125, 3.0, 4.75])
    assert [costs.pass_s(5) for costs in found[1:]] == pytest.approx([3.0, 3.0, 3.0])
    assert [costs.plain_s for costs in found[1:]] == pytest.approx([1.15, 1.4, 1.9])
    assert [costs.eager for costs in found[1:]] == pytest.approx([2.175, 3.05, 4.8])
    assert {costs.draft_s(1) for costs in found} == {0.1}
    both = [Costs(one.verify, one.draft, (one, far)) for one in (near, far)]
    several = draw(544, dict(zip((64, 1024), both, strict=True)).__getitem__)
    assert len(several.members) == 2 and several.members[0] == found[1] and several.eager is None


def test_costs_far_beyond_what_was_measured_stay_what_they_are_there(target: Loaded) -> None:
    near, far = (Costs(((1, one),), plain=1.0) for one in (1.0, 2.0))
    draw = Calibration(target, LOOKUP, 200_000).draw
    ways = [draw(context, {1024: near, 4096: far}.__getitem__) for context in (4096, 8192, 16_384, 150_000)]
    assert ways[1] == ways[2] == ways[3]
    assert ways[1].pass_s(1) > ways[0].pass_s(1)
    assert all(MIN_PLAIN * costs.pass_s(1) <= costs.plain_s <= costs.pass_s(1) for costs in ways)


def test_other_drafters_weights_and_machines_are_measured_apart(
    target: Loaded, measured: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "head"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"1")
    head = NamedDrafter("both", PromptLookup(), several=(ONE, NamedDrafter("head", PromptLookup(), folder=folder)))
    for drafter in (LOOKUP, head):
        here(target, tmp_path, drafter).costs()
    os.utime(folder / "model.safetensors", (1, 1))
    here(target, tmp_path, head).costs()
    monkeypatch.setattr(calibration, "processor", lambda: "another")
    here(target, tmp_path, head).costs()
    assert len(measured) == 4


def without_a_member(kept: bytes) -> bytes:
    document = json.loads(kept)
    document["members"].pop()
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "damage",
    [
        lambda kept: b"",
        lambda kept: b"[]",
        lambda kept: b"\xff\xfe",
        lambda kept: b'{"verify":[[1,1.0]]}',
        lambda kept: kept.replace(b"0.1", b"0.0"),
        without_a_member,
    ],
)
def test_a_file_that_is_no_good_is_measured_again_and_replaced(
    target: Loaded, measured: list[int], tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    here(target, tmp_path).costs()
    (path,) = (tmp_path / "costs").glob("*.json")
    path.write_bytes(damage(path.read_bytes()))
    assert not here(target, tmp_path).knows()
    assert here(target, tmp_path).costs() == BOTH
    assert here(target, tmp_path).knows()
    assert len(measured) == 2


def test_a_folder_that_cannot_be_written_costs_a_measurement_only(
    target: Loaded, measured: list[int], tmp_path: Path
) -> None:
    (tmp_path / "costs").write_text("a file in the way")
    assert here(target, tmp_path).costs() == here(target, tmp_path).costs() == BOTH
    assert len(measured) == 2
    once = here(target, tmp_path)
    assert once.costs() == once.costs() == once.costs(20) == BOTH
    assert len(measured) == 3


def test_old_files_are_cleared_away(
    target: Loaded, measured: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MOST", 3)
    for i in range(6):
        monkeypatch.setattr(calibration, "processor", lambda i=i: f"machine {i}")
        here(target, tmp_path).costs()
    assert len(list((tmp_path / "costs").iterdir())) == 3


def test_a_policy_goes_by_what_passes_cost_after_its_prompt(
    target: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drafted token that is free after 64 tokens costs as much as it can bring after 1,024."""
    near, far = (Costs(((1, 1.0), (2, two)), ((0, 0.0), (1, 0.0)), plain=1.0) for two in (1.0, 2.0))
    monkeypatch.setattr(pair_loader, "measure_costs", lambda *args: near if args[2] == 64 else far)
    monkeypatch.setattr(calibration, "cache_dir", lambda root: tmp_path)
    pair = LoadedPair(target, Session(target.model, target.tokenizer, 8192), ONE)
    pair.costs(544)
    policies = [pair.policy(SamplingSettings(), context) for context in (20, 544)]
    candidates = [policy._candidates[0] for policy in policies if isinstance(policy, Adaptive)]
    assert [candidate.prices[1] for candidate in candidates] == pytest.approx([1.0, 1.5])
    assert isinstance(pair.policy(SamplingSettings(), 1024), FixedLength)
    assert isinstance(pair.policy(SamplingSettings(draft_length=3), 1024), FixedLength)
