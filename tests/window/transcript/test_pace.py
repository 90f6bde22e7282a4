"""Tokens appear over their round, in order, none lost, never far behind."""

from __future__ import annotations

import random

from app.window.transcript.pace import LONGEST_LAG_S, Pace


def test_a_round_is_spread_over_its_duration() -> None:
    pace = Pace()
    pace.add(4, 0.1, now_s=10.0)
    assert [pace.take(10.0 + t) for t in (0.0, 0.03, 0.055, 0.08)] == [1, 1, 1, 1]


def test_the_next_round_follows_the_last_without_a_gap_or_a_jump() -> None:
    pace = Pace()
    pace.add(2, 0.1, now_s=0.0)
    pace.add(2, 0.1, now_s=0.01)
    assert [pace.take(t) for t in (0.0, 0.051, 0.101, 0.151)] == [1, 1, 1, 1]


def test_nothing_is_lost_whatever_comes_when() -> None:
    chance, pace, now_s, added, taken = random.Random(1), Pace(), 0.0, 0, 0
    for _ in range(2000):
        now_s += chance.expovariate(100)
        if chance.random() < 0.5:
            count = chance.randint(0, 9)
            pace.add(count, chance.uniform(-1, 3), now_s)
            added += count
        taken += pace.take(now_s)
    assert taken + len(pace) == added
    assert taken + pace.take(now_s + LONGEST_LAG_S) == added


def test_what_is_shown_is_never_further_behind_than_the_longest_lag() -> None:
    pace, taken, frame_s = Pace(), 0, 0.016
    frames_behind = int(LONGEST_LAG_S / frame_s) + 1
    for frame in range(400):  # 2,000 tokens a second, in rounds that claim to take long
        pace.add(32, 0.5, frame * frame_s)
        taken += pace.take(frame * frame_s)
        assert taken >= 32 * (frame + 1 - frames_behind)
    assert pace.take(frame * frame_s + LONGEST_LAG_S) == 32 * 400 - taken


def test_reduced_motion_shows_at_once() -> None:
    pace = Pace(still=True)
    pace.add(5, 1.0, now_s=3.0)
    assert pace.take(3.0) == 5
