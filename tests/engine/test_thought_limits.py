"""Thought and answer have limits of their own, and a limit ends the same reply however it is drafted."""

from dataclasses import replace
from typing import Any

import pytest

from engine.events import Finished, Round
from engine.policy.fixed import FixedLength
from engine.reply_channels import ReplyFormat
from engine.session import Session
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.conversations import chat_reply
from tests.engine.fakes import ByteTokenizer, nearby
from tests.engine.replies import draft_model, ids_of
from tests.toys.architectures import build

OPENS, CLOSES = range(8), range(8, 20)  # many tags, so that a random model writes some of each
FORMAT = ReplyFormat(opens=frozenset(OPENS), closes=frozenset(CLOSES))
COUPLED = SamplingSettings(temperature=1.0, acceptance="coupled", seed=5, max_tokens=9, max_thought_tokens=12)


@pytest.fixture(scope="module")
def network() -> Any:
    return build("llama")


def reply_of(
    network: Any, settings: SamplingSettings, length: int = 0, before: tuple[int, ...] = ()
) -> tuple[list[Round], Finished]:
    session = Session(CachedModel(network), ByteTokenizer(format_=FORMAT), 400)
    drafter = draft_model(nearby(network, 0.2), 64) if length else None
    *events, last = chat_reply(
        session, [{"role": "user", "content": "hello"}], settings, drafter, FixedLength(length), continuation_ids=before
    )
    assert isinstance(last, Finished)
    return [one for one in events if isinstance(one, Round)], last


def counts(rounds: list[Round]) -> tuple[int, int]:
    """Returns how many tokens are of the thought, its tags included, and how many of the answer."""
    channels = [channel for one in rounds for channel in one.channels]
    return len(channels) - channels.count("answer"), channels.count("answer")


@pytest.mark.slow_for("limits1-*")
@pytest.mark.parametrize(
    ("limits", "seed", "reason"), [((6, 40), 6, "length"), ((40, 5), 6, "thought"), ((1, 1), 2, "thought")]
)
def test_each_limit_is_met_exactly_and_the_coupled_text_is_that_of_plain_decoding(
    network: Any, limits: tuple[int, int], seed: int, reason: str
) -> None:
    settings = replace(COUPLED, seed=seed, max_tokens=limits[0], max_thought_tokens=limits[1])
    plain, last = reply_of(network, settings)
    thought, answer = counts(plain)
    assert last.reason == reason
    assert (answer if reason == "length" else thought) == limits[reason == "thought"]
    for length in (2, 7):
        other, end = reply_of(network, settings, length)
        assert (ids_of(other), end.reason, end.tokens) == (ids_of(plain), last.reason, last.tokens)
        assert [c for one in other for c in one.channels] == [c for one in plain for c in one.channels]


def test_a_reply_that_its_thought_ended_goes_on_to_the_same_text(network: Any) -> None:
    settings = replace(COUPLED, seed=6, max_tokens=30, max_thought_tokens=4)
    first, last = reply_of(network, settings, 3)
    assert last.reason == "thought"
    rest, _ = reply_of(network, settings, 3, tuple(ids_of(first)))
    whole, _ = reply_of(network, replace(settings, max_thought_tokens=8))
    joined = ids_of(first) + ids_of(rest)
    assert joined[: last.tokens + 4] == ids_of(whole)[: last.tokens + 4]


def test_without_a_limit_of_its_own_the_thought_counts_to_the_reply(network: Any) -> None:
    rounds, last = reply_of(network, replace(COUPLED, max_thought_tokens=None), 3)
    assert (len(ids_of(rounds)), last.reason) == (9, "length")


def test_in_the_answer_no_round_drafts_more_tokens_than_the_answer_may_still_have(network: Any) -> None:
    rounds, _ = reply_of(network, replace(COUPLED, seed=6, max_tokens=6, max_thought_tokens=40), 7)
    left, thinks, checked = 6, False, 0
    for one in rounds:
        if not thinks:
            assert len(one.drafted) < left
            checked += 1
        left -= one.channels.count("answer")
        thinks = one.channels[-1] != "answer"
    assert checked >= 2
