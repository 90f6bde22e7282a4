"""Prompt lookup: what followed last time, here and in earlier replies, and nothing of tokens taken back."""

import time
from collections.abc import Callable
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafters import suffix_index
from engine.drafters.prompt_lookup import HISTORY_SHORTEST, PromptLookup
from engine.drafters.suffix_index import BYTES_A_TOKEN, END, LONGEST_MATCH, MAX_MATCHES, SuffixIndex
from engine.settings import SamplingSettings
from tests.engine.conversations import MODELS
from tests.engine.replies import draft_context, reply
from tests.machine_speed import assert_quick


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


@settings(deadline=None, max_examples=200, derandomize=True)
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


# --- the index ---

TEXTS = st.lists(st.integers(0, 3), max_size=60)


def index_of(tokens: list[int], shortest: int = 2) -> SuffixIndex:
    index = SuffixIndex(shortest)
    index.extend(tokens)
    return index


def matches_in(index: SuffixIndex, tail: list[int]) -> list[tuple[int, int]]:
    ends, lengths = index.matches(tail)
    return list(zip(ends.tolist(), lengths.tolist(), strict=True))


def matches_by_search(tokens: list[int], tail: list[int], shortest: int) -> list[tuple[int, int]]:
    """By comparing every place of the text with the tail, token by token."""
    places: list[tuple[int, int]] = []
    for end in range(1, len(tokens)):
        same = 0
        while same < min(end, len(tail), LONGEST_MATCH) and tokens[end - 1 - same] == tail[-1 - same]:
            same += 1
        if same >= shortest:
            places.append((end, same))
    return sorted(places, key=lambda place: (-place[1], -place[0]))


@settings(deadline=None, max_examples=120, derandomize=True)
@given(TEXTS, TEXTS, st.integers(1, 5))
def test_matches_are_those_of_a_search(tokens: list[int], tail: list[int], shortest: int) -> None:
    index, places = index_of(tokens, shortest), matches_by_search(tokens, tail, shortest)
    assert len(places) <= MAX_MATCHES or places[0] == matches_in(index, tail)[0]
    assert len(places) > MAX_MATCHES or matches_in(index, tail) == places


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.lists(st.tuples(TEXTS, st.integers(0, 40)), min_size=1, max_size=8), st.booleans())
def test_an_index_that_was_taken_back_is_one_built_anew(steps: list[tuple[list[int], int]], small: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suffix_index, "_MIN_SIZE", 4 if small else 1024)  # small ones grow on the way
        index, tokens = SuffixIndex(2), list[int]()
        for more, back in steps:
            index.extend(more)
            tokens = [*tokens, *more]
            tokens = tokens[: max(0, len(tokens) - back)]
            index.truncate(len(tokens))
            assert index.tokens.tolist() == tokens
            for tail in (tokens, [0, 1], [2, 2, 2, 2]):
                assert matches_in(index, tail) == matches_in(index_of(tokens), tail)


def test_ngrams_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SuffixIndex, "_buckets", lambda self, tokens, size, ends: np.zeros(ends.size, np.int64))
    tokens, tail = [1, 2, 3, 1, 4, 3, 2, 3, 5], [2, 3]
    assert matches_in(index_of(tokens), tail) == matches_by_search(tokens, tail, 2) == [(8, 2), (3, 2)]


def test_a_continuation_ends_with_its_text() -> None:
    index = index_of([1, 2, 3, 4, END, 7, 8, 9, END])
    ends, _ = index.matches([5, 2, 3])
    assert index.continuations(ends, 4).tolist() == [[4, END, END, END]]
    ends, _ = index.matches([7, 8])
    assert index.continuations(ends, 3).tolist() == [[9, END, END]]


@pytest.mark.timing
def test_a_million_tokens_are_searched_in_well_under_a_millisecond() -> None:
    rng = np.random.default_rng(0)
    tokens = (rng.zipf(1.2, 1_000_000) % 49_152).astype(np.int32)
    index = SuffixIndex(3)
    index.extend(tokens)
    rooms = (index._tokens, *index._heads, *index._links)
    assert sum(room.nbytes for room in rooms) <= 2 * BYTES_A_TOKEN * tokens.size
    places = rng.integers(100, tokens.size - 100, 200)

    def search(place: int) -> None:
        index.continuations(index.matches(tokens[place - LONGEST_MATCH : place]).ends, 8)

    def update(place: int) -> None:
        index.extend([1, 2, 3])
        index.truncate(index.length - 3)

    def median_s(do: Callable[[int], None]) -> float:
        times = list[float]()
        for place in places:
            began_s = time.perf_counter()
            do(place)
            times.append(time.perf_counter() - began_s)
        return float(np.median(times))

    assert_quick(lambda: median_s(search), 0.5e-3)
    assert_quick(lambda: median_s(update), 0.5e-3)
