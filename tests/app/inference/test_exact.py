"""Exact-verify from the command line and through the host's plain values."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.inference.learnt_rounds import LearntRounds
from app.inference.options import Options, check_settings
from app.inference.pair_loader import NamedDrafter
from app.protocol import SamplingSettings
from app.reply_statistics import exact_in_words, sampling_in_words
from engine.audit.identical_width import IdenticalWidth
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import UsageError
from engine.policy.adaptive import Adaptive
from models.loader import load
from tests.app.command import Redline


def test_trees_and_exact_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="several tokens at one position"):
        Options(tree=True, sampling=SamplingSettings(exact=True))


def test_sampling_settings_carry_it_to_the_engine_and_trees_refuse_it() -> None:
    assert Options(sampling=SamplingSettings(exact=True)).settings().exact
    assert not Options().settings().exact
    with pytest.raises(UsageError, match="--exact"):
        check_settings(SamplingSettings(exact=True), trees=True)


def test_a_draft_takes_no_wider_pass_there(toy_folder: Path) -> None:
    """What is known before any round: every pass has the same width."""
    learnt = LearntRounds(load(toy_folder), NamedDrafter("lookup", PromptLookup()))
    free, exact = (learnt.times_of(exact=exact) for exact in (False, True))
    assert exact.price(0, 1) == pytest.approx(1) and free.price(0, 1) > 1.1


def test_where_wide_passes_are_identical_drafts_are_as_long_and_cost_what_they_do_without(
    toy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt = LearntRounds(load(toy_folder), NamedDrafter("lookup", PromptLookup()))
    for width, longest, times in ((1, 3, learnt.times_of(exact=True)), (5, 4, learnt.times_of())):
        monkeypatch.setattr("app.inference.learnt_rounds.identical_width", lambda model, n=width: IdenticalWidth(n))
        policy = learnt.policy(SamplingSettings(exact=True), 10)
        assert isinstance(policy, Adaptive) and policy._times.learnt is times.learnt
        assert policy._candidates[0].lengths == list(range(1, longest + 1))


def test_how_a_reply_is_exact_is_said() -> None:
    assert exact_in_words(SamplingSettings()) == ""
    assert exact_in_words(SamplingSettings(exact=True, identical_width=1)) == "exact, in fixed blocks of 4 tokens"
    told = sampling_in_words(SamplingSettings(exact=True, identical_width=5))
    assert told == "temperature 0, exact, bit-identical by construction up to width 5"


@pytest.mark.slow
def test_chat_answers_the_same_with_and_without_a_drafter(toy_folder: Path, redline: Redline) -> None:
    told = []
    for drafter in ("none", "lookup"):
        options = ["--drafter", drafter, "--draft-length", "3", "--max-tokens", "24", "--exact"]
        events = redline("chat", "--target", toy_folder, *options, "--prompt", "why is the sky blue?", "--json").events
        rounds = [event for event in events if event["event"] == "Round"]
        assert rounds and all(one["fingerprints"] for one in rounds)
        told.append([token for one in rounds for token in one["tokens"]])
    assert told[0] == told[1]
