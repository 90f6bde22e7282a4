"""A head with a reach: what it sees depends on the text alone, and no more of a prompt is read than that. After an edit
the target reads nothing again for it, unless the reply must repeat."""

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters import head_drafter
from engine.drafters.eagle3 import Eagle3, Eagle3Head, _within
from engine.drafters.head_drafter import SINK
from engine.events import PromptProgress
from engine.kept_conversations import common_prefix
from engine.settings import SamplingSettings
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from tests.engine.conversations import LONG, SHORT, answer, events_of, same, session
from tests.engine.conversations import read as read_reply
from tests.engine.drafters.eagles import network_of
from tests.engine.replies import attach
from tests.toys.heads import random_eagle3

REACH, SPARE = 24, 8
TEXT = LONG[:200]


@pytest.fixture(autouse=True)
def short_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.drafters.eagle3.REACH", 2 * REACH)  # of a head of one layer; here they have two
    monkeypatch.setattr(head_drafter, "SPARE", SPARE)


def head(**changes: object) -> Eagle3Head:
    return random_eagle3(windows=(None, None), **changes)


def read(d: Eagle3, ends: Sequence[int], prompt: int = 0) -> mx.array:
    """What the drafter says after it has read TEXT up to each of `ends`, (1, columns). prompt: the tokens of which it
    was told that they come."""
    target = d.target.model
    attach(d, target)
    for end in ends:
        target.feed(TEXT[target.length : end - 1])
        d.sync(TEXT[:end], following=max(0, prompt - end))
    return d.logits(d._catch_up(TEXT[: ends[-1]], ends[-1] - 1)[-1:])


def new(**changes: object) -> Eagle3:
    return Eagle3(head(**changes), CachedModel(network_of("qwen3")))


WAYS = {
    "whole": ([200], 0),
    "as a prompt of three chunks": ([80, 160, 200], 200),
    "as a prompt whose first chunk is tiny": ([3, 6, 200], 200),
    "as a conversation": ([*range(20, 200, 20), 200], 0),
    "as a prompt and a conversation after it": ([90, 150, 160, 190, 200], 150),
    "token by token": ([*range(2, 201)], 0),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_head_sees_does_not_depend_on_how_it_was_read(way: str) -> None:
    ends, prompt = WAYS[way]
    d = new()
    assert np.allclose(read(d, ends, prompt), in_full(new(), REACH), atol=1e-4)
    assert not np.allclose(in_full(new(), REACH), in_full(new(), 10_000), atol=1e-2), "or the reach has no effect"


def in_full(d: Eagle3, reach: int) -> mx.array:
    """What it says where nothing is left out: every row sees the first entries and those of its part of the reach."""
    d.reach = reach
    target = d.target.model
    attach(d, target)
    target.feed(TEXT[:-1])
    return d.logits(d._catch_up(TEXT, len(TEXT) - 1)[-1:])


def test_no_more_of_a_prompt_is_read_than_is_seen() -> None:
    d = new()
    read(d, [80, 160, 200], prompt=200)
    assert d.known == 199 and d.entries <= SINK + REACH + SPARE + 1


def test_states_of_what_is_left_out_are_let_go_while_the_prompt_is_read() -> None:
    d = new()
    target = d.target.model
    attach(d, target)
    for end in range(20, 161, 20):
        target.feed(TEXT[target.length : end - 1])
        d.sync(TEXT[:end], following=200 - end)
        assert d.target.recorded[0] >= end - 21


def test_a_text_that_is_not_longer_than_that_is_read_whole() -> None:
    d = new()
    read(d, [20, REACH + SPARE], prompt=REACH + SPARE)
    assert d.known == d.entries == REACH + SPARE - 1


@pytest.mark.parametrize("place", [1, 3, 5, 40, 120, 165, 170, 175, 190, 198])
def test_where_a_reply_must_repeat_the_target_reads_again_what_the_head_sees(place: int) -> None:
    """As a session does it: the drafter is rewound and says what it needs, and the target reads from there."""
    d = new()
    target = d.target.model
    read(d, [80, 160, 200], prompt=200)
    d.rewind(place, repeats=True)
    kept = min(place, target.length)
    target.rewind(kept)
    begin = d.reusable(kept)
    assert kept - begin <= REACH + 2
    target.rewind(begin)
    assert np.allclose(read(d, [200]), in_full(new(), REACH), atol=1e-4)


TURNS = (LONG * 3)[: 2 * PREFILL_CHUNK + 70]
EDITS = {
    "goes on": [*TURNS, *LONG[:30]],
    "other last tokens": [*TURNS[:-5], 7, 8],
    "another question": [*TURNS[:-100], 7, 8],
    "begins alike": [*TURNS[:300], *LONG[::-1]],
    "hardly begins alike": [*TURNS[:2], 9],
    "the same": TURNS,
}


def test_by_rejection_with_a_seed_edited_prompts_are_drafted_as_from_nothing() -> None:
    """Its text shows every draft, and the same request must have the same text."""
    settings = SamplingSettings(temperature=1.0, seed=3, max_tokens=12, acceptance="rejection")
    asked = session("qwen3")
    d = Eagle3(head(), asked.target)
    answer(asked, TURNS, settings, d)
    for prompt in EDITS.values():
        anew = session("qwen3")
        same(answer(asked, prompt, settings, d), answer(anew, prompt, settings, Eagle3(head(), anew.target)))


@pytest.mark.parametrize("edit", EDITS)
def test_otherwise_the_target_reads_nothing_again_for_the_head(edit: str) -> None:
    asked = session("qwen3")
    d = Eagle3(head(), asked.target)
    answer(asked, TURNS, SHORT, d)
    common = common_prefix(TURNS, EDITS[edit])
    events = list(events_of(asked, EDITS[edit], SHORT, d))
    assert next(event.reused for event in events if isinstance(event, PromptProgress)) >= common - 2
    assert read_reply(events).ids == answer(session("qwen3"), EDITS[edit], SHORT).ids


def test_a_prompt_that_was_cancelled_is_read_on_from_there() -> None:
    asked, d, reused = session("qwen3"), Eagle3(head(), CachedModel(network_of("qwen3"))), []
    text = (LONG * 4)[: 4 * PREFILL_CHUNK - 20]
    for _ in range(3):
        seen: list[object] = []
        for event in events_of(asked, text, SHORT, d, cancelled=lambda seen=seen: len(seen) > 1):
            seen.append(event)
        reused.append(next(event.reused for event in seen if isinstance(event, PromptProgress)))
    assert reused[0] < reused[1] < reused[2]


def test_a_snapshot_knows_what_was_left_out() -> None:
    d, other = new(), new()
    read(d, [80, 160, 200], prompt=200)
    d.rewind(196)
    other.target.model.feed(TEXT[:150])
    other.restore(d.snapshot())
    assert (other.known, other.entries) == (195, d.entries) and d.entries < 40
    assert np.allclose(read(other, [200]), in_full(new(), REACH), atol=1e-4)


def test_a_tree_sees_what_a_chain_sees() -> None:
    d = new()
    read(d, [80, 160, 200], prompt=200)
    known, state = d.entries, mx.ones((1, 32))
    alone = d.steps(state, mx.array([5]))
    d._trim(d.known - 1)
    everything = mx.ones((1, known + 1), mx.bool_)
    assert np.allclose(d.steps(state, mx.array([5]), known, everything), alone, atol=1e-5)


def test_rows_see_the_first_pairs_and_the_last_of_their_window() -> None:
    rows = _within(3, 2, first=6, rows=2, position=6, mask=None)
    assert rows.tolist() == [[1, 1, 0, 0, 1, 1, 1, 0], [1, 1, 0, 0, 0, 1, 1, 1]]
    assert _within(3, 0, 6, 2, 6, None).tolist() == [[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1, 1, 1]]
    nodes = mx.array([[1] * 6 + [1, 0], [1] * 6 + [0, 1]], mx.bool_)
    assert _within(3, 1, 6, 2, 7, nodes).tolist() == [[1, 0, 0, 0, 0, 1, 1, 0], [1, 0, 0, 0, 0, 1, 0, 1]]
