"""Prompt lookup: what followed last time, and an index that never tells of tokens taken back."""

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafters import DraftContext
from engine.drafters.prompt_lookup import PromptLookup
from engine.sampling import Sampler, TokenCounts
from engine.settings import SamplingSettings

CHOOSER = Sampler(SamplingSettings(), 100)


def standing(tokens: list[int]) -> DraftContext:
    return DraftContext(tokens, TokenCounts(CHOOSER.distribution, tokens), CHOOSER)


def propose(drafter: PromptLookup, tokens: list[int], length: int) -> list[int]:
    draft = drafter.propose(standing(tokens), length)
    assert draft.logq is None
    assert draft.tokens.dtype == mx.int32
    found: list[int] = draft.tokens.tolist()
    return found


def oracle(tokens: list[int], length: int, longest: int, shortest: int) -> list[int]:
    """By searching the text itself: the longest suffix that stands earlier, at its latest such place."""
    for size in range(min(longest, len(tokens)), shortest - 1, -1):
        suffix = tokens[-size:]
        places = [i for i in range(len(tokens) - size) if tokens[i : i + size] == suffix]
        if places:
            text = list(tokens)
            for source in range(places[-1] + size, places[-1] + size + length):
                text.append(text[source])
            return text[len(tokens) :]
    return []


def test_it_continues_what_followed_last_time() -> None:
    assert propose(PromptLookup(), [1, 2, 3, 4, 5, 9, 1, 2], 3) == [3, 4, 5]


def test_the_longest_suffix_wins_over_a_later_shorter_one() -> None:
    tokens = [1, 2, 3, 70, 0, 2, 3, 80, 0, 1, 2, 3]
    assert propose(PromptLookup(), tokens, 1) == [70]
    assert propose(PromptLookup(longest=2), tokens, 1) == [80]


def test_the_latest_occurrence_wins() -> None:
    assert propose(PromptLookup(), [1, 2, 70, 1, 2, 80, 1, 2], 1) == [80]


def test_a_suffix_shorter_than_the_shortest_is_no_reason_to_draft() -> None:
    assert propose(PromptLookup(), [5, 1, 6, 1], 4) == []
    assert propose(PromptLookup(shortest=1), [5, 1, 6, 1], 4) == [6, 1, 6, 1]


@pytest.mark.parametrize("period", [[7], [7, 8], [7, 8, 9], [1, 2, 3, 4, 5, 6]])
def test_a_repeating_pattern_is_followed_as_far_as_asked(period: list[int]) -> None:
    tokens = period * 4
    assert propose(PromptLookup(), tokens, 8) == (period * 8)[:8]


@pytest.mark.parametrize("tokens", [[], [1], [1, 2], [1, 2, 3]])
def test_nothing_is_drafted_where_nothing_repeats(tokens: list[int]) -> None:
    assert propose(PromptLookup(), tokens, 5) == []


def test_it_finds_what_the_prompt_said() -> None:
    drafter = PromptLookup()
    drafter.sync([4, 5, 6, 7])
    assert propose(drafter, [4, 5, 6, 7, 30, 4, 5], 2) == [6, 7]


TOKENS = st.lists(st.integers(0, 3), max_size=40)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(TOKENS, st.integers(0, 9), st.integers(1, 5), st.integers(1, 3))
def test_it_proposes_what_a_search_of_the_text_finds(
    tokens: list[int], length: int, longest: int, shortest: int
) -> None:
    found = propose(PromptLookup(longest, shortest), tokens, length)
    assert found == oracle(tokens, length, longest, shortest)
    assert len(found) in (0, length)


STEPS = st.lists(st.tuples(TOKENS, st.integers(0, 25)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(STEPS)
def test_an_index_that_was_rewound_is_one_built_afresh(steps: list[tuple[list[int], int]]) -> None:
    """Any run of more tokens and rewinds; the entries themselves are compared, and what they propose."""
    drafter, tokens = PromptLookup(shortest=1), list[int]()
    for more, back in steps:
        tokens = [*tokens, *more]
        propose(drafter, tokens, 1)
        tokens = tokens[: max(0, len(tokens) - back)]
        drafter.rewind(len(tokens))
        anew = PromptLookup(shortest=1)
        anew.sync(tokens)
        assert drafter._ends == anew._ends
        assert propose(drafter, tokens, 6) == oracle(tokens, 6, 4, 1)


def test_its_hint_is_0_where_nothing_repeats() -> None:
    """At 0 the next step is submitted without asking: so not where it has something to propose."""
    drafter, tokens = PromptLookup(), list(range(20))
    drafter.sync(tokens)
    assert drafter.hint(standing(tokens)) == 0
    tokens += [0, 1]
    assert drafter.hint(standing(tokens)) > 0
    assert propose(drafter, tokens, 1) == [2]
    tokens.append(90)
    assert drafter.hint(standing(tokens)) == 0
    assert propose(drafter, tokens, 4) == []


def test_a_rewind_past_the_end_forgets_nothing() -> None:
    drafter = PromptLookup()
    drafter.sync([1, 2, 3, 1, 2])
    drafter.rewind(99)
    assert propose(drafter, [1, 2, 3, 1, 2], 1) == [3]
