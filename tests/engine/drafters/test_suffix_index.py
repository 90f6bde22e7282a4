"""Hash chains over n-grams: they find what a search of the text finds, and keep nothing of tokens taken back."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.drafters import suffix_index
from engine.drafters.suffix_index import BYTES_A_TOKEN, END, LONGEST_MATCH, MAX_MATCHES, SuffixIndex

TOKENS = st.lists(st.integers(0, 3), max_size=60)


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
@given(TOKENS, TOKENS, st.integers(1, 5))
def test_matches_are_those_of_a_search(tokens: list[int], tail: list[int], shortest: int) -> None:
    index, places = index_of(tokens, shortest), matches_by_search(tokens, tail, shortest)
    assert len(places) <= MAX_MATCHES or places[0] == matches_in(index, tail)[0]
    assert len(places) > MAX_MATCHES or matches_in(index, tail) == places


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.lists(st.tuples(TOKENS, st.integers(0, 40)), min_size=1, max_size=8), st.booleans())
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
    times = {"search": list[float](), "update": list[float]()}
    for place in rng.integers(100, tokens.size - 100, 200):
        began = time.perf_counter()
        index.continuations(index.matches(tokens[place - LONGEST_MATCH : place]).ends, 8)
        times["search"].append(time.perf_counter() - began)
        began = time.perf_counter()
        index.extend([1, 2, 3])
        index.truncate(index.length - 3)
        times["update"].append(time.perf_counter() - began)
    assert all(np.median(seconds) < 0.5e-3 for seconds in times.values())
