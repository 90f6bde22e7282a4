"""What drafting saved, in words."""

from __future__ import annotations

import pytest

from app.reply_statistics import saved_in_words, speed_in_words
from app.store.records import Statistics


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
