"""Which replies go by the clock and by what earlier ones have taught, and which teach later ones."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.inference.conversation import Conversation, open_conversation
from app.inference.learnt_rounds import LearntRounds
from app.inference.measured_reply import warm_up
from app.inference.options import Options
from app.inference.pair_loader import NamedDrafter
from app.protocol import SamplingSettings
from engine.drafters import Draft, DraftContext, Drafter, Traits, empty_draft
from engine.drafters.prompt_lookup import PromptLookup
from engine.events import Round
from engine.policy.adaptive import SHORT_REPLY, Adaptive
from engine.policy.fixed import FixedLength
from engine.policy.step_times import DrafterTimes
from models.loader import Loaded, load
from tests.app.command import Redline


@pytest.fixture(scope="module")
def target(toy_folder: Path) -> Loaded:
    return load(toy_folder)


@pytest.fixture
def learnt(target: Loaded) -> LearntRounds:
    return LearntRounds(target, NamedDrafter("lookup", PromptLookup()))


def conversation(target: Path, drafter: Path, fresh: bool = True) -> Conversation:
    sampling = SamplingSettings(temperature=0.7, max_tokens=8, seed=0, fresh=fresh)
    options = Options(str(target), (str(drafter),), sampling=sampling)
    return open_conversation(options, "", lambda _: None)


class Priced(Drafter):
    def __init__(self, traits: Traits) -> None:
        self.traits = traits

    def propose(self, context: DraftContext, length: int) -> Draft:
        return empty_draft()


@pytest.mark.parametrize(
    ("traits", "passes"),
    [
        (Traits(), {1: 1, 3: 3}),
        (Traits(one_pass=True), {1: 1, 3: 1}),
        (Traits(branches=True), {1: 1, 7: 6, 31: 6}),
        (Traits(branches=True, one_pass=True), {1: 1, 7: 1, 31: 1}),
    ],
    ids=["chains", "blocks", "trees", "trees of one pass"],
)
def test_an_unknown_draft_costs_as_many_passes_as_it_takes(target: Loaded, traits: Traits, passes: Any) -> None:
    def prices(step_price: float) -> Any:
        return (
            LearntRounds(target, NamedDrafter("head", Priced(traits), step_price=step_price))
            .times_of()
            .drafters[0]
            .prices
        )

    free, dear = prices(0.0), prices(0.5)
    assert {length: (dear[length] - free[length]) / 0.5 for length in passes} == pytest.approx(passes)


@pytest.mark.parametrize("exact", [False, True])
def test_what_a_drafter_takes_by_itself_is_known_whatever_the_passes_cost(target: Loaded, exact: bool) -> None:
    """In blocks of one width a pass of two rows costs as much as one of one."""
    learnt = LearntRounds(target, NamedDrafter("head", Priced(Traits()), step_price=0.2))
    assert learnt.times_of(exact).drafting(0, 1) == pytest.approx(0.2)


GREEDY, WARM = SamplingSettings(), SamplingSettings(temperature=0.7)


@pytest.mark.parametrize(
    ("settings", "frozen", "learns", "keeps"),
    [
        (GREEDY, False, True, True),
        (replace(WARM, seed=3, fresh=True), False, True, True),
        (replace(WARM, seed=3, acceptance="coupled"), False, True, False),
        (replace(WARM, seed=3), False, False, False),
        (WARM, False, False, False),
        (GREEDY, True, True, False),
        (replace(WARM, seed=3), True, False, False),
    ],
    ids=["greedy", "fresh", "coupled", "seed", "reproducible", "race", "race with a seed"],
)
def test_a_reply_teaches_later_ones_only_what_no_noise_that_may_be_drawn_again_has_decided(
    learnt: LearntRounds, settings: SamplingSettings, frozen: bool, learns: bool, keeps: bool
) -> None:
    """Draft lengths that depend on noise that is drawn again would change the distribution of rejection sampling."""
    policy = learnt.policy(settings, 10, frozen=frozen)
    assert isinstance(policy, Adaptive)
    assert policy._times.learns == learns
    assert (policy._times.learnt is learnt.times_of().learnt) == keeps
    assert (policy._candidates[0].counts is learnt.counts[0]) == keeps


def test_a_warm_up_teaches_as_its_noise_is_its_own(learnt: LearntRounds) -> None:
    settings = replace(WARM, seed=3)
    policy = learnt.policy(warm_up(settings), 10)
    assert isinstance(policy, Adaptive) and policy._times.learnt is learnt.times_of().learnt
    assert warm_up(settings).seed != settings.seed


def test_a_warm_up_is_long_enough_to_teach_what_a_plain_step_takes() -> None:
    tokens = {most: warm_up(replace(GREEDY, max_tokens=most)).max_tokens for most in (8, 64, 1000)}
    assert tokens[8] <= 16 and SHORT_REPLY < tokens[64] == tokens[1000]


def test_a_reply_of_which_no_round_is_timed_teaches_nothing(learnt: LearntRounds) -> None:
    learnt.policy(GREEDY, 10)
    assert not DrafterTimes(learnt.times_of()).learnt


DAMAGES: dict[str, Callable[[Any], object]] = {
    "a variance below 0": lambda saved: saved["times"]["free"]["1"]["0"][1][0].__setitem__(0, -1.0),
    "a covariance of nothing": lambda saved: saved["times"]["free"]["1"]["0"][1][0].__setitem__(1, 9.0),
    "a variance without measure": lambda saved: saved["times"]["free"]["1"]["0"][1][3].__setitem__(3, 1e308),
    "rows of other lengths": lambda saved: saved["times"]["free"]["1"]["0"][1][0].pop(),
    "no means": lambda saved: saved["times"]["free"]["1"]["0"][0].clear(),
    "more accepted than reached": lambda saved: saved["counts"][0].update(reached=[1.0], accepted=[2.0]),
    "places that were not reached": lambda saved: saved["counts"][0].update(reached=[], accepted=[40.0]),
    "another format": lambda saved: saved.update(format=0),
}


@pytest.mark.parametrize("damage", [None, *DAMAGES])
def test_a_file_that_holds_no_times_and_counts_is_ignored_as_a_whole(
    target: Loaded, tmp_path: Path, damage: str | None
) -> None:
    learnt = LearntRounds(target, NamedDrafter("lookup", PromptLookup()), tmp_path)
    for exact in (True, False):
        times = learnt.times_of(exact)
        times.begin(10)
        times.observe_draft(0, 1, 0.05)
    learnt.counts[0].add(Round(0, (1, 2), (1, 3), 1, (1.0, 1.0), (), 3, 0.0))
    learnt.save()
    (file,) = (tmp_path / "rounds").iterdir()
    saved = json.loads(file.read_bytes())
    if damage is not None:
        DAMAGES[damage](saved)
    file.write_text(json.dumps(saved))
    again = LearntRounds(target, learnt.drafter, tmp_path)
    assert again.times.keys() == ({"exact", "free"} if damage is None else set())
    assert again.counts[0].reached == ([1.0, 1.0] if damage is None else [])


def test_a_race_begins_with_what_was_known_and_a_given_seed_with_nothing(learnt: LearntRounds) -> None:
    times = learnt.times_of()
    times.begin(10)
    for _ in range(20):
        times.observe_plain(0.01)
        times.observe_draft(0, 1, 0.05)
    seeded = replace(WARM, seed=3)
    prices = [learnt.policy(seeded, 10, frozen=frozen) for frozen in (False, True)]
    assert isinstance(prices[1], FixedLength) or prices[1]._times.price(0, 1) > 4  # type: ignore[attr-defined]
    assert isinstance(prices[0], Adaptive) and prices[0]._times.price(0, 1) < 2


def test_a_drafter_that_was_judged_on_a_busy_machine_is_tried_again_in_the_end(learnt: LearntRounds) -> None:
    times = learnt.times_of()
    times.begin(10)
    for _ in range(30):
        times.observe_plain(0.01)
        for length in range(1, 9):
            times.observe_draft(0, length, 0.12)
    policies = [learnt.policy(GREEDY, 10) for _ in range(60)]
    assert isinstance(policies[0], FixedLength) and isinstance(policies[-1], Adaptive)


def test_what_several_replies_at_once_teach_is_kept_apart_and_read_again(learnt: LearntRounds) -> None:
    pair = learnt.times_of().for_reply().for_replies(3)
    pair.begin(10)
    for _ in range(20):
        pair.observe_plain(0.03)
    learnt.save()
    again = LearntRounds(learnt.target, learnt.drafter, learnt.root).times_of()
    assert again.learnt == {} and again.of_several[4].learnt[0].mean[0] == pytest.approx(math.log(0.03), abs=0.1)


@pytest.mark.parametrize("reproducible", [False, True])
def test_replies_that_teach_each_other_share_no_noise(
    toy_folder: Path, toy_drafter_folder: Path, reproducible: bool
) -> None:
    talk = conversation(toy_folder, toy_drafter_folder, fresh=not reproducible)
    seeds = []
    for _ in range(3):
        seeds.append(talk.options.sampling.seed)
        list(talk.ask("hello", lambda: False))
        talk.clear()
    assert len(set(seeds)) == (1 if reproducible else 3)


@pytest.mark.parametrize(
    ("given", "temperature", "told"),
    [([], 0.0, False), ([], 0.7, False), (["--reproducible"], 0.7, True), (["--seed", "3"], 0.7, True)],
)
def test_a_seed_is_told_only_where_it_repeats_the_text(
    redline: Redline, toy_folder: Path, toy_drafter_folder: Path, given: list[str], temperature: float, told: bool
) -> None:
    words = ["chat", "--prompt", "hello", "--target", toy_folder, "--drafter", toy_drafter_folder, "--max-tokens", "8"]
    done = redline(*words, "--temperature", temperature, *given)
    assert done.code == 0 and ("seed" in done.complaint) == told
