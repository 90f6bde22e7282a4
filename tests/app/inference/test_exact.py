"""Exact-verify from the command line and through the host's plain values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.inference import pair_loader
from app.inference.options import Options, check_settings
from app.inference.pair_loader import NamedDrafter, in_blocks, make_policy
from app.protocol import SamplingSettings
from engine.audit.verify_blocks import BLOCK_WIDTH
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import UsageError
from engine.policy.costs import Costs
from tests.app.command import Redline

STEEP = Costs(((1, 1.0), (2, 4.0), (4, 5.0), (5, 8.0)), ((0, 0.0), (1, 0.01)))


def test_trees_and_exact_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="several tokens at one position"):
        Options(tree=True, sampling=SamplingSettings(exact=True))


def test_sampling_settings_carry_it_to_the_engine_and_trees_refuse_it() -> None:
    assert Options(sampling=SamplingSettings(exact=True)).settings().exact
    assert not Options().settings().exact
    with pytest.raises(UsageError, match="--exact"):
        check_settings(SamplingSettings(exact=True), trees=True)


def test_a_draft_costs_no_wider_pass_there() -> None:
    """A machine on which the second row is dear: drafting pays where every pass has it anyway."""
    drafter = NamedDrafter("lookup", PromptLookup())
    assert make_policy(drafter, None, STEEP).plan((1.0,)).length == 0
    assert in_blocks(STEEP).pass_s(1) == in_blocks(STEEP).pass_s(9) == STEEP.pass_s(BLOCK_WIDTH)
    ahead = in_blocks(replace(STEEP, plain=0.9 * STEEP.pass_s(1), eager=0.1))
    assert ahead.plain_s == pytest.approx(ahead.pass_s(1) - 0.1 * STEEP.pass_s(1))
    assert ahead.eager is None
    policy = make_policy(drafter, None, STEEP, exact=True)
    assert any(policy.plan((1.0,)).length for _ in range(6))


def test_costs_of_several_drafters_are_flattened_each() -> None:
    one, other = NamedDrafter("lookup", PromptLookup()), NamedDrafter("draft", PromptLookup())
    both = NamedDrafter("lookup+draft", PromptLookup(), several=(one, other))
    costs = replace(STEEP, members=(STEEP, STEEP))
    policy = make_policy(both, None, costs, exact=True)
    assert not isinstance(policy, pair_loader.FixedLength)  # type: ignore[attr-defined]


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
