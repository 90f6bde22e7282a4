"""Exact-verify from the command line and through the host's plain values."""

from pathlib import Path

import pytest

from app.inference.learnt_rounds import LearntRounds
from app.inference.options import Options, check_settings
from app.inference.pair_loader import NamedDrafter
from app.protocol import SamplingSettings
from engine.audit.identical_width import IdenticalWidth
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import UsageError
from engine.policy.adaptive import Adaptive
from models.loader import load


def test_trees_and_exact_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="several tokens at one position"):
        Options(tree=True, sampling=SamplingSettings(exact=True))


def test_sampling_settings_carry_it_to_the_engine_and_trees_refuse_it() -> None:
    assert Options(sampling=SamplingSettings(exact=True)).sampling.exact
    assert not Options().sampling.exact
    with pytest.raises(UsageError, match="--exact"):
        check_settings(SamplingSettings(exact=True), trees=True)


def test_a_draft_takes_no_wider_pass_there(toy_folder: Path) -> None:
    """What is known before any round: every pass has the same width."""
    learnt = LearntRounds(load(toy_folder), NamedDrafter("lookup", PromptLookup()))
    free, exact = (learnt.times_of(exact=exact) for exact in (False, True))
    assert exact.price(0, 2) == pytest.approx(1) and free.price(0, 2) > 1.1


def test_where_wide_passes_are_identical_drafts_are_as_long_and_cost_what_they_do_without(
    toy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt = LearntRounds(load(toy_folder), NamedDrafter("lookup", PromptLookup()))
    for width, longest, times in ((1, 3, learnt.times_of(exact=True)), (5, 4, learnt.times_of())):
        monkeypatch.setattr("app.inference.learnt_rounds.identical_width", lambda model, n=width: IdenticalWidth(n))
        policy = learnt.policy(SamplingSettings(exact=True), 10)
        assert isinstance(policy, Adaptive) and policy._times.learnt is times.learnt
        assert policy._candidates[0].lengths == list(range(1, longest + 1))
