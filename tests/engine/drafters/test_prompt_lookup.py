"""Prompt lookup: what followed last time, here and in earlier replies, and nothing of tokens taken back."""

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafters import DraftContext
from engine.drafters.prompt_lookup import HISTORY_SHORTEST, PromptLookup
from engine.drafters.suffix_index import END, SuffixIndex
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


def oracle(tokens: list[int], earlier: list[int], length: int, shortest: int) -> list[int]:
    """By searching both texts: at each step the token with the most weight behind the places that fit so far."""
    texts = [(text, place) for text in (tokens, earlier) for place in range(1, len(text))]
    places = [(text, place, common(text[:place], tokens)) for text, place in texts]
    places = [one for one in places if one[2] >= (shortest if one[0] is tokens else HISTORY_SHORTEST)]
    longest = max((same for _, _, same in places), default=0)
    chain: list[int] = []
    share = 1.0
    while len(chain) < min(length, 2 * longest):
        weights: dict[int, float] = {}
        for text, place, same in places:
            following = [text[place + i % (len(text) - place)] for i in range(len(chain) + 1)]
            if following[:-1] == chain:
                weights[following[-1]] = weights.get(following[-1], 0.0) + 2.0**same
        best = max(weights.values())
        share *= best / sum(weights.values())
        token = next(token for token in weights if weights[token] == best)
        if share < 0.1 or token == END or list(weights.values()).count(best) > 1:
            return chain  # equals are another test's
        chain.append(token)
    return chain


def common(text: list[int], tokens: list[int]) -> int:
    """How many tokens both end with, at most 32."""
    same = 0
    while same < min(len(text), len(tokens), 32) and text[-1 - same] == tokens[-1 - same]:
        same += 1
    return same


def history(*replies: list[int]) -> SuffixIndex:
    index = SuffixIndex(HISTORY_SHORTEST)
    for reply in replies:
        index.extend([*reply, END])
    return index


def propose_tree(drafter: PromptLookup, tokens: list[int], length: int) -> dict[tuple[int, ...], int]:
    """The paths of a tree, and the place of each node."""
    draft = drafter.propose(standing(tokens), length)
    if draft.tree is None:
        return {}
    assert draft.logq is None
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens.tolist(), draft.tree.parents.tolist(), strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    assert len(set(paths)) == len(paths)
    return {path: place for place, path in enumerate(paths)}


def test_it_continues_what_followed_last_time() -> None:
    assert propose(PromptLookup(), [1, 2, 3, 4, 5, 9, 1, 2, 3], 3) == [4, 5, 9]


def test_a_draft_is_at_most_twice_as_long_as_its_match() -> None:
    assert propose(PromptLookup(), [1, 2, 3, 4, 5, 9, 1, 2], 5) == [3, 4, 5, 9]


def test_the_longest_suffix_wins_over_a_later_shorter_one() -> None:
    tokens = [1, 2, 3, 70, 0, 2, 3, 80, 0, 1, 2, 3]
    assert propose(PromptLookup(), tokens, 1) == [70]


def test_the_latest_occurrence_wins() -> None:
    assert propose(PromptLookup(), [1, 2, 70, 1, 2, 80, 1, 2], 1) == [80]


def test_a_suffix_shorter_than_the_shortest_is_no_reason_to_draft() -> None:
    assert propose(PromptLookup(), [5, 1, 6, 1], 4) == []
    assert propose(PromptLookup(shortest=1), [5, 1, 6, 1], 4) == [6, 1]


@pytest.mark.parametrize("period", [[7], [7, 8], [7, 8, 9], [1, 2, 3, 4, 5, 6]])
def test_a_repeating_pattern_is_followed_as_far_as_asked(period: list[int]) -> None:
    tokens = period * 4
    assert propose(PromptLookup(), tokens, 8) == (period * 8)[: min(8, 6 * len(period))]


@pytest.mark.parametrize("tokens", [[], [1], [1, 2], [1, 2, 3]])
def test_nothing_is_drafted_where_nothing_repeats(tokens: list[int]) -> None:
    assert propose(PromptLookup(), tokens, 5) == []


def test_it_finds_what_the_prompt_said() -> None:
    drafter = PromptLookup()
    drafter.sync([4, 5, 6, 7])
    assert propose(drafter, [4, 5, 6, 7, 30, 4, 5], 2) == [6, 7]


TOKENS = st.lists(st.integers(0, 3), max_size=24)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(TOKENS, TOKENS, st.integers(1, 9), st.integers(1, 3))
def test_it_proposes_what_a_search_of_both_texts_finds(
    tokens: list[int], earlier: list[int], length: int, shortest: int
) -> None:
    drafter = PromptLookup(shortest, history(earlier))
    expected = oracle(tokens, [*earlier, END], length, shortest)
    assert propose(drafter, tokens, length)[: len(expected)] == expected


def test_what_followed_most_of_the_places_wins() -> None:
    tokens = [1, 2, 70, 1, 2, 70, 1, 2, 80, 1, 2]
    assert propose(PromptLookup(), tokens, 1) == [70]


def test_earlier_replies_are_copied_where_the_text_has_nothing() -> None:
    earlier = history([5, 6, 7, 8, 9], [1, 2, 3, 4])
    assert propose(PromptLookup(history=earlier), [40, 5, 6, 7], 8) == [8, 9]
    assert propose(PromptLookup(), [40, 5, 6, 7], 8) == []
    assert propose(PromptLookup(history=earlier), [40, 6, 7], 8) == []  # too little of an earlier reply


def test_the_longer_match_wins_wherever_it_is() -> None:
    earlier = history([1, 2, 3, 4, 70])
    assert propose(PromptLookup(history=earlier), [3, 4, 80, 1, 2, 3, 4], 1) == [70]
    assert propose(PromptLookup(history=earlier), [2, 3, 4, 80, 9, 2, 3, 4], 1) == [80]  # as long, but in this text


def test_a_history_may_be_replaced() -> None:
    drafter, tokens = PromptLookup(history=history([1, 2, 3, 70])), [1, 2, 3]
    assert propose(drafter, tokens, 1) == [70]
    drafter.history = history([1, 2, 3, 80])
    assert propose(drafter, tokens, 1) == [80]
    drafter.history = None
    assert drafter.hint(standing(tokens)) == 0
    assert propose(drafter, tokens, 1) == []


def test_a_tree_branches_where_different_tokens_followed() -> None:
    tokens = [1, 2, 3, 70, 71, 1, 2, 3, 80, 81, 1, 2, 3]
    drafter = PromptLookup(trees=True)
    found = propose_tree(drafter, tokens, 8)
    assert set(found) == {path[:n] for path in ((80, 81, 1, 2), (70, 71, 1, 2)) for n in range(1, 5)}
    assert found[(80,)] < found[(70,)]
    assert len(propose_tree(drafter, tokens, 3)) == 3


STEPS = st.lists(st.tuples(TOKENS, st.integers(0, 25)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(STEPS)
def test_an_index_that_was_rewound_is_one_built_afresh(steps: list[tuple[list[int], int]]) -> None:
    """Any run of more tokens and rewinds; the entries themselves are compared, and what they propose."""
    drafter, tokens = PromptLookup(shortest=1), list[int]()
    for more, back in steps:
        tokens = [*tokens, *more]
        propose(drafter, tokens, 1)
        tokens = tokens[: max(0, len(tokens) - back)]
        drafter.rewind(len(tokens))
        assert propose(drafter, tokens, 6) == propose(PromptLookup(shortest=1), tokens, 6)


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
