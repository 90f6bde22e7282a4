"""`/verify` in the conversation at the keyboard: the last reply held against plain decoding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.inference import loaded_pair
from app.inference.conversation import Conversation, open_conversation
from app.inference.options import Options
from tests.app.test_chat import Desk
from tests.app.test_interactive import talk

SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "coupled": {"temperatures": (0.9,), "rule": "coupled", "seed": 5},
    "exact": {"exact": True},
}


def opened(toy_folder: Path, toy_drafter_folder: Path, **options: Any) -> Conversation:
    made = Options(**{"max_tokens": 12, "draft_lengths": (3,), **options}, target=str(toy_folder))
    return open_conversation(replace(made, drafters=(str(toy_drafter_folder),)), "", lambda text: None)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_reply_is_what_plain_decoding_says_and_the_talk_goes_on(
    sampling: str, toy_folder: Path, toy_drafter_folder: Path
) -> None:
    conversation = opened(toy_folder, toy_drafter_folder, **SAMPLINGS[sampling])
    bits = ", to the last bit" if sampling == "exact" else ""
    assert f"receipt: identical over 12 tokens{bits}\n" in talk(conversation, "hello", "/verify", "and now?", "/verify")
    calm = opened(toy_folder, toy_drafter_folder, **SAMPLINGS[sampling])
    talk(calm, "hello", "and now?")
    assert conversation.messages == calm.messages


def test_rejection_promises_no_more_than_the_distribution(toy_folder: Path, toy_drafter_folder: Path) -> None:
    conversation = opened(toy_folder, toy_drafter_folder, temperatures=(0.9,), rule="rejection", seed=5)
    assert "receipt: 12 tokens, all possible for the target\n" in talk(conversation, "hello", "/verify")


def test_a_forged_reply_is_told_with_its_places(toy_folder: Path, toy_drafter_folder: Path) -> None:
    conversation = opened(toy_folder, toy_drafter_folder)
    talk(conversation, "hello")
    assert conversation.answer is not None
    first = conversation.answer.rounds[0]
    conversation.answer.rounds[0] = replace(first, tokens=((first.tokens[0] + 1) % 64, *first.tokens[1:]))
    said = talk(conversation, "/verify")
    assert "receipt: " in said and "failure" in said
    assert "differs at token 0 (plain " in said


def test_there_must_be_a_reply() -> None:
    assert "there is no reply to verify yet" in Desk().type("/verify")


def test_a_check_that_ctrl_c_stops_loses_nothing(
    toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = opened(toy_folder, toy_drafter_folder)
    talk(conversation, "hello")
    check = loaded_pair.check_reply  # type: ignore[attr-defined]

    def interrupted(*given: Any) -> Any:
        steps = check(*given)
        yield next(steps)
        raise KeyboardInterrupt

    monkeypatch.setattr(loaded_pair, "check_reply", interrupted)
    assert "stopped\n" in talk(conversation, "/verify")
    monkeypatch.undo()
    assert "receipt: identical over 12 tokens\n" in talk(conversation, "/verify")
    calm = opened(toy_folder, toy_drafter_folder)
    talk(calm, "hello", "and now?")
    talk(conversation, "and now?")
    assert conversation.messages == calm.messages
