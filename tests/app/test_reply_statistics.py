"""What drafting saved, in words."""

import pytest

from app.reply_statistics import drafting_in_words, in_words, saved_in_words, speed_in_words
from app.store.records import Statistics
from engine.events import Round
from engine.metrics import Metrics


def numbers(tokens_per_s: float | None, plain_s: float | None, tokens: int = 101, drafted: int = 10) -> Statistics:
    return Statistics(
        prompt_tokens=9,
        tokens=tokens,
        rounds=50,
        drafted=drafted,
        accepted=5,
        ttft_s=0.1,
        tokens_per_s=tokens_per_s,
        acceptance_rate=0.5,
        mean_acceptance_length=2.0,
        acceptance_by_position=(0.5,),
        plain_s=plain_s,
    )


@pytest.mark.parametrize(
    ("tokens_per_s", "plain_s", "words"),
    [
        (20.0, 0.1, "about 2.0 times as fast as without drafting (5.0 s sooner)"),
        (2.0, 1.0, "about 2.0 times as fast as without drafting (50 s sooner)"),
        (10.0, 0.08, "about 0.8 times as fast as without drafting (2.0 s later)"),
        (10.0, 0.102, "about as fast as without drafting"),
        (10.0, None, ""),
        (None, 0.1, ""),
    ],
)
def test_the_speed_is_compared_with_plain_decoding_where_that_was_measured(
    tokens_per_s: float | None, plain_s: float | None, words: str
) -> None:
    assert speed_in_words(numbers(tokens_per_s, plain_s)) == words


def test_a_reply_without_drafts_is_not_compared() -> None:
    assert speed_in_words(numbers(20.0, 0.1, drafted=0)) == "" and numbers(20.0, 0.1, drafted=0).saved_s is None


def test_a_chat_adds_up_what_was_saved_and_lost_and_names_no_loss() -> None:
    saved, lost, unknown = numbers(20.0, 0.1), numbers(10.0, 0.08), numbers(20.0, None)
    assert saved_in_words([saved, lost, unknown]) == "About 3 s saved in this chat"
    assert saved_in_words([lost]) == "" == saved_in_words([])


def rounds_with(*reasons: str, drafted: int = 0) -> Metrics:
    """The metrics of rounds without a draft, for these reasons, and of so many with one."""
    plain = [Round(0, (1,), (), 0, (1.0,), (), 1, 0.1, reason) for reason in reasons]
    return Metrics.of([*plain, *[Round(0, (1,), (2,), 0, (1.0,), (1.0,), 2, 0.1, "fixed at 1")] * drafted])


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        (rounds_with("slow", "slow", "no room"), "nothing was drafted: slow"),
        (rounds_with("slow", "no room", "slow", drafted=3), "3 of 6 rounds without a draft: slow"),
        (rounds_with("slow", drafted=2), ""),
        (rounds_with(drafted=2), ""),
        (rounds_with(), ""),
    ],
)
def test_why_nothing_or_little_was_drafted_is_kept_with_a_reply(metrics: Metrics, words: str) -> None:
    assert drafting_in_words(metrics) == drafting_in_words(Statistics.of(metrics)) == words
    assert in_words(metrics).endswith(words)


def test_who_turned_drafting_off_is_not_told_so_in_the_line_of_numbers() -> None:
    metrics = rounds_with("plain decoding")
    assert drafting_in_words(metrics) == "nothing was drafted: plain decoding" and "drafted" not in in_words(metrics)
