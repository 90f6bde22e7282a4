"""Prompt lookup: what followed last time, here and in earlier replies, and nothing of tokens taken back."""

from dataclasses import replace

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from engine.drafters.prompt_lookup import HISTORY_SHORTEST, PromptLookup
from engine.drafters.suffix_index import END, LONGEST_MATCH, SuffixIndex
from engine.settings import SamplingSettings
from tests.engine.conversations import MODELS
from tests.engine.replies import draft_context, reply


def propose(drafter: PromptLookup, tokens: list[int], length: int) -> list[int]:
    draft = drafter.propose(draft_context(tokens, vocabulary=100), length)
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
    for ids in replies:
        index.extend([*ids, END])
    return index


def propose_tree(drafter: PromptLookup, tokens: list[int], length: int) -> dict[tuple[int, ...], int]:
    """The paths of a tree, and the place of each node."""
    draft = drafter.propose(draft_context(tokens, vocabulary=100), length)
    if draft.tree is None:
        return {}
    assert draft.logq is None
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens.tolist(), draft.tree.parents.tolist(), strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    assert len(set(paths)) == len(paths)
    return {path: place for place, path in enumerate(paths)}


@pytest.mark.parametrize(
    ("tokens", "length", "found"),
    [
        ([1, 2, 3, 4, 5, 9, 1, 2], 5, [3, 4, 5, 9]),  # at most twice as long as the match
        ([1, 2, 3, 70, 0, 2, 3, 80, 0, 1, 2, 3], 1, [70]),  # the longest match
        ([1, 2, 70, 1, 2, 80, 1, 2], 1, [80]),  # of equals the latest
        ([1, 2, 70, 1, 2, 70, 1, 2, 80, 1, 2], 1, [70]),  # what followed most of the places
        ([5, 1, 6, 1], 4, []),  # a match of one token is too short
        ([1, 2, 3], 5, []),
        ([], 5, []),
        ([7] * 4, 8, [7] * 6),
        ([7, 8, 9] * 4, 8, [7, 8, 9, 7, 8, 9, 7, 8]),
    ],
)
def test_what_followed_the_best_match_is_copied(tokens: list[int], length: int, found: list[int]) -> None:
    assert propose(PromptLookup(), tokens, length) == found


TOKENS = st.lists(st.integers(0, 3), max_size=24)


@example_settings(deadline=None, max_examples=200, derandomize=True)
@given(TOKENS, TOKENS, st.integers(1, 9), st.integers(1, 3))
def test_it_proposes_what_a_search_of_both_texts_finds(
    tokens: list[int], earlier: list[int], length: int, shortest: int
) -> None:
    drafter = PromptLookup(shortest, history(earlier))
    expected = oracle(tokens, [*earlier, END], length, shortest)
    assert propose(drafter, tokens, length)[: len(expected)] == expected


def test_a_history_may_be_replaced() -> None:
    drafter, tokens = PromptLookup(history=history([1, 2, 3, 70])), [1, 2, 3]
    assert propose(drafter, tokens, 1) == [70]
    drafter.history = history([1, 2, 3, 80])
    assert propose(drafter, tokens, 1) == [80]
    drafter.history = None
    assert not drafter.draft_class(draft_context(tokens, vocabulary=100))
    assert propose(drafter, tokens, 1) == []


def test_a_tree_branches_where_different_tokens_followed() -> None:
    tokens = [1, 2, 3, 70, 71, 1, 2, 3, 80, 81, 1, 2, 3]
    drafter = PromptLookup(trees=True)
    found = propose_tree(drafter, tokens, 8)
    assert set(found) == {path[:n] for path in ((80, 81, 1, 2), (70, 71, 1, 2)) for n in range(1, 5)}
    assert found[(80,)] < found[(70,)]
    assert len(propose_tree(drafter, tokens, 3)) == 3


def test_it_has_a_draft_only_where_something_repeats() -> None:
    """Without one the next step is submitted ahead: so not where it has something to propose."""
    drafter, tokens = PromptLookup(), list(range(20))
    drafter.sync(tokens)
    assert not drafter.draft_class(draft_context(tokens, vocabulary=100))
    tokens += [0, 1]
    assert drafter.draft_class(draft_context(tokens, vocabulary=100)) == 2 / LONGEST_MATCH
    assert propose(drafter, tokens, 1) == [2]
    tokens.append(90)
    assert not drafter.draft_class(draft_context(tokens, vocabulary=100))
    assert propose(drafter, tokens, 4) == []


# --- whole replies --------------------------------------------------------------------------------

SAMPLINGS = {
    "greedy": SamplingSettings(),
    "coupled": SamplingSettings(temperature=0.8, top_p=0.95, repetition_penalty=1.2, seed=4),
}


@pytest.mark.parametrize(
    ("name", "trees", "rule"), [("llama", False, "greedy"), ("qwen3", True, "greedy"), ("mamba2", False, "coupled")]
)
def test_the_text_is_plains_and_a_known_one_takes_few_rounds(name: str, trees: bool, rule: str) -> None:
    plain, _, _ = reply(MODELS[name], sampling=SAMPLINGS[rule], tokens=60)
    other, _, _ = reply(MODELS[name], sampling=replace(SAMPLINGS["coupled"], seed=9), tokens=60)
    drafter = PromptLookup(history=history(other, plain), trees=trees)
    ids, rounds, _ = reply(MODELS[name], drafter, 8, SAMPLINGS[rule], tokens=60)
    assert ids == plain
    assert len(rounds) < len(plain) / 2
