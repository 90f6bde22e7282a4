"""The fold of a race: what is shown at a time follows from the document and the time alone."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.race.race_animation import FRAME_MS, LONGEST_S, moments_of, pace_of
from app.race.race_document import RaceDocument, metrics_of
from app.race.race_replay import Player, Replay
from engine.events import PromptProgress
from engine.metrics import Metrics, total_speedup
from tests.app.race.sample_races import race, races, simple, steady


@settings(max_examples=40, deadline=None)
@given(races(), st.lists(st.floats(0, 60), max_size=12))
def test_what_is_shown_never_goes_back_and_ends_as_the_receipt_says(document: RaceDocument, times: list[float]) -> None:
    replay = Replay(document)
    states = [replay.at(time_s) for time_s in [0.0, *sorted(times), replay.end_s]]
    for before, after in pairwise(states):
        assert after.identical >= before.identical
        assert all(b.tokens >= a.tokens for a, b in zip(before.panes, after.panes, strict=True))
        assert before.differs_at is None or after.differs_at == before.differs_at
    end = states[-1]
    receipt = document.receipts[replay.results.shown - 1]
    assert end.done
    assert end.identical == receipt.tokens
    assert end.differs_at == (None if receipt.divergence is None else receipt.divergence.position)


@settings(max_examples=40, deadline=None)
@given(races(), st.floats(0, 60))
def test_the_numbers_at_a_time_are_those_of_the_rounds_until_then(document: RaceDocument, time_s: float) -> None:
    replay = Replay(document)
    for track, pane in zip(replay.tracks, replay.at(time_s).panes, strict=True):
        rounds = [one.round for one in track.run.rounds if one.round.time_s <= min(time_s, replay.end_s)]
        whole = Metrics.of([PromptProgress(9, 9, 0, 0.0), *rounds])
        assert pane.metrics == replace(whole, reached=[], kept=[], plain_reasons=Counter())
        assert pane.tokens == whole.tokens
        assert pane.done == (len(rounds) == len(track.run.rounds))


@settings(max_examples=40, deadline=None)
@given(races())
def test_the_pair_that_is_replayed_has_the_median_speedup(document: RaceDocument) -> None:
    shown = document.results.shown
    ratios = {
        number: total_speedup(*(metrics_of(document.run(side, number)) for side in (0, 1)))
        for number in range(1, document.pairs + 1)
    }
    known = sorted(ratio for ratio in ratios.values() if ratio is not None)
    if len(known) == document.pairs:
        assert ratios[shown] == known[(len(known) - 1) // 2]


def test_tokens_are_counted_as_identical_only_once_both_have_shown_them() -> None:
    replay = Replay(simple(parts_at=4))
    at = [replay.at(time_s) for time_s in (0.16, 0.35, 0.45, 0.55)]
    assert [state.identical for state in at] == [1, 3, 4, 4]
    assert [state.differs_at for state in at] == [None, None, None, 4]
    assert replay.differs_s == 0.5
    assert replay.at(replay.differs_s).differs_at == 4


def test_a_reply_that_ends_first_parts_from_the_longer_one() -> None:
    replay = Replay(race([(steady(0, 1, [1, 2, 3], 1, 0.1), steady(1, 1, [1, 2], 2, 0.1))]))
    assert [replay.at(t).differs_at for t in (0.1, 0.25, 0.35)] == [None, None, 2]
    assert replay.at(9.0).identical == 2


def test_speedups_are_medians_over_pairs_with_their_spread() -> None:
    pairs = [(steady(0, n, range(12), 1, 0.1), steady(1, n, range(12), 3, 0.1 * n)) for n in (1, 2, 3)]
    found = race(pairs).results
    assert found.total is not None
    assert [round(value, 2) for value in found.total] == [1.5, 1.0, 3.0, 1.5]
    assert found.shown == 2
    assert found.sides[0].tokens_per_s == pytest.approx(10)
    assert (found.sides[1].passes, found.sides[1].mean_acceptance_length) == (4, 3.0)


# --- the clock --------------------------------------------------------------------------------


class Clock:
    """now_s is what it says."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_player_plays_pauses_jumps_and_goes_slower() -> None:
    clock = Clock()
    player = Player(10.0, clock)
    player.play()
    clock.now_s += 2
    assert player.tick() == 2.0
    player.set_speed(0.25)
    clock.now_s += 4
    assert player.tick() == 3.0
    player.pause()
    clock.now_s += 50
    assert player.tick() == 3.0
    player.seek(9.0)
    player.set_speed(2.0)
    player.play()
    clock.now_s += 50
    assert (player.tick(), player.playing) == (10.0, False)


def test_play_at_the_end_begins_anew_and_jumps_stay_within() -> None:
    clock = Clock()
    player = Player(4.0, clock)
    player.seek(99.0)
    assert player.position_s == 4.0
    player.play()
    assert (player.position_s, player.playing) == (0.0, True)
    player.seek(-1.0)
    assert player.position_s == 0.0


@given(st.floats(0.01, 86400))
def test_an_animation_is_short_and_ends_at_the_end(end_s: float) -> None:
    pace, times = pace_of(end_s), moments_of(end_s)
    assert times[0] == 0.0
    assert times[-1] == end_s
    assert times == sorted(times)
    assert len(times) * FRAME_MS <= LONGEST_S * 1000 + 2 * FRAME_MS
    assert all(b - a <= pace * FRAME_MS / 1000 + 1e-6 * end_s for a, b in pairwise(times))
