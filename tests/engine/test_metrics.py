"""The numbers shown, against the definitions worked by hand on a made-up reply."""

import pytest

from engine.events import Finished, PromptProgress, Round
from engine.metrics import Metrics

# time_s, tokens, drafted, accepted. Tokens 1.. are the reply; 90.. were refused.
HAND: list[tuple[float, list[int], list[int], int]] = [
    (2.0, [1], [], 0),  # plain: one bonus
    (2.5, [2, 3, 4, 5], [2, 3, 4], 3),  # accepted whole, and the bonus
    (3.0, [6, 7], [6, 90, 91], 1),  # refused at the second place
    (3.5, [8], [90, 91], 0),  # refused at once
    (4.0, [9, 10], [9, 10, 11, 12], 2),  # 10 was eos: cut before the draft ended
]


def stream() -> list[PromptProgress | Round | Finished]:
    rounds = [
        Round(i, tuple(tokens), tuple(drafted), accepted, (1.0,) * len(tokens), (1.0,) * len(drafted), 1, time_s)
        for i, (time_s, tokens, drafted, accepted) in enumerate(HAND)
    ]
    return [PromptProgress(4, 20, 4, 0.1), PromptProgress(19, 20, 4, 1.0), *rounds, Finished("eos", 10, 4.1)]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics.of(stream())


def test_numbers_are_those_of_the_stream(metrics: Metrics) -> None:
    """The mean acceptance length counts the target's own token; times run from the request and the first token."""
    assert (metrics.prompt_tokens, metrics.reused_tokens) == (20, 4)
    assert (metrics.tokens, metrics.rounds, metrics.mean_acceptance_length) == (10, 5, 10 / 5)
    assert (metrics.drafted, metrics.accepted, metrics.acceptance_rate) == (12, 6, 6 / 12)
    assert (metrics.ttft_s, metrics.decode_s, metrics.tokens_per_s) == (2.0, 2.0, (10 - 1) / 2.0)
    assert metrics.reason == "eos"


def test_speed_after_the_first_pass_leaves_all_its_tokens_out() -> None:
    """A reply whose first round told four tokens decoded the other six in the time between."""
    first, second = (
        Round(0, (1, 2, 3, 4), (1, 2, 3), 3, (1.0,) * 4, (1.0,) * 3, 4, 1.0),
        Round(1, (5, 6, 7, 8, 9, 10), (5, 6, 7, 8, 9), 5, (1.0,) * 6, (1.0,) * 5, 6, 3.0),
    )
    metrics = Metrics.of([first, second])
    assert metrics.pass_speed == 6 / 2.0
    assert metrics.tokens_per_s == 9 / 2.0


def test_acceptance_by_position_is_of_the_rounds_that_got_there(metrics: Metrics) -> None:
    """First places: kept, kept, refused, kept (2, 6, 90, 9). Second: 3 and 10 kept, 90 refused. Third: 4
    alone was judged. Fourth: 12 was never judged."""
    assert metrics.acceptance_by_position == [3 / 4, 2 / 3, 1.0, 0.0]


def test_origins_tell_bonus_from_correction() -> None:
    assert [event.origins for event in stream() if isinstance(event, Round)] == [
        ("bonus",),
        ("accepted", "accepted", "accepted", "bonus"),
        ("accepted", "corrected"),
        ("corrected",),
        ("accepted", "accepted"),  # cut by eos: no token is the target's own
    ]


def test_a_fold_can_be_read_at_any_time() -> None:
    metrics = Metrics()
    seen = []
    for event in stream():
        metrics.add(event)
        seen.append((metrics.tokens, metrics.tokens_per_s))
    assert [tokens for tokens, _ in seen] == [0, 0, 1, 5, 7, 8, 10, 10]
    assert [speed for _, speed in seen] == [None, None, None, 8.0, 6.0, 7 / 1.5, 4.5, 4.5]


def test_rates_that_mean_nothing_yet_are_none() -> None:
    nothing = Metrics.of([PromptProgress(0, 5, 0, 0.0), Finished("cancelled", 0, 0.1)])
    assert nothing.acceptance_rate is None
    assert nothing.mean_acceptance_length is None
    assert nothing.tokens_per_s is None
    assert nothing.ttft_s is None
    assert nothing.acceptance_by_position == []
    plain = Metrics.of([Round(0, (1,), (), 0, (1.0,), (), 1, 0.5), Finished("length", 1, 0.5)])
    assert plain.acceptance_rate is None
    assert (plain.ttft_s, plain.tokens_per_s, plain.mean_acceptance_length) == (0.5, None, 1.0)
