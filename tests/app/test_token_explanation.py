"""Each token is explained by the rule that decided on it, in words and with numbers that fit together."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from app.protocol import RoundDone
from app.token_explanation import UNRECORDED, explain_emitted, explain_refused
from engine.events import Refusal
from tests.app.window.inspector.sample_rounds import CORRECTED


def corrected(**changes: Any) -> RoundDone:
    """A chain of two: the first token kept, " blue" refused and " red" emitted."""
    return msgspec.structs.replace(CORRECTED, round=replace(CORRECTED.round, **changes))


def test_a_refusal_is_told_in_plain_words_and_with_the_papers_formula() -> None:
    told = explain_emitted(corrected(), 1)
    assert told.words == (
        "The drafter proposed “ blue” with probability 38%. The target gives it only 12%, so it is kept with "
        "probability 0.316; the draw 0.620 was higher. “ red” was drawn from the probability by which the target "
        "exceeds the drafter."
    )
    assert told.formula == (
        "min(1, p(x)/q(x)) = min(1, 0.120/0.380) = 0.316; u = 0.620\n"
        "y ~ max(0, p - q)/Z; p(y) = 0.500, q(y) = 0.100, Z = 0.500: max(0, p(y) - q(y))/Z = 0.800"
    )
    assert told.source == "Leviathan 2023, Chen 2023"
    assert explain_refused(corrected(), 1) == told
    assert "a token before it in the draft was refused" in explain_refused(corrected(), 2).words


def test_an_accepted_token_has_the_draw_that_kept_it() -> None:
    told = explain_emitted(corrected(), 0)
    assert "“ looks” with probability 80%. The target gives it 60%, so it is kept with probability 0.750" in told.words
    assert told.formula == "min(1, p(x)/q(x)) = min(1, 0.600/0.800) = 0.750; u = 0.500"


def test_a_point_mass_is_a_draft_with_q_1() -> None:
    told = explain_emitted(corrected(rule="point mass", refusal=Refusal(0.12)), 1)
    assert "min(1, 0.120/1.000) = 0.120; u = 0.620" in told.formula
    assert "p(y)/(1 - p(x)) = 0.500/0.880 = 0.568" in told.formula


def test_by_match_the_targets_own_choice_is_the_reason() -> None:
    scores = Refusal(0.12, drafted_score=-1.5, emitted_score=0.25)
    coupled = explain_emitted(corrected(rule="coupled", draws=(), refusal=scores), 1)
    assert "with it the target chose “ red”" in coupled.words
    assert "log p(x) + g(x) = -1.500 < log p(y) + g(y) = 0.250" in coupled.formula
    assert "2408.07978" in coupled.source
    greedy = explain_emitted(corrected(rule="greedy", draws=(), refusal=scores), 1)
    assert "likeliest token is “ red”: 50% against 12%" in greedy.words
    assert "log p(y) - log p(x) = 1.427" in greedy.formula


@pytest.mark.parametrize("rule", ["rejection", "point mass", "fixed tree", "drawn tree", "coupled", "greedy"])
@pytest.mark.parametrize("tree", [False, True])
def test_every_token_of_a_round_of_any_rule_is_explained_even_with_parts_missing(rule: Any, tree: bool) -> None:
    shape: dict[str, Any] = {"parents": (-1, 0, -1), "path": (0,)} if tree else {}
    for changes in ({}, {"draws": ()}, {"refusal": None}, {"texts": ()}, {"refusal": Refusal(0.0)}):
        done = corrected(rule=rule, **{**shape, **changes})
        assert all(explain_emitted(done, place).words for place in range(2))
        assert all(explain_refused(done, node).words for node in (1, 2))


def test_a_round_without_its_rule_says_that_it_is_not_known() -> None:
    assert explain_emitted(corrected(rule="", draws=(), refusal=None), 1).text == UNRECORDED
