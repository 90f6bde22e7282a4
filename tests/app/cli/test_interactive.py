"""Toy models at the keyboard: a line that is not finished changes nothing, /verify, and drafters that fail."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from app.cli.interactive_chat import converse
from app.cli.terminal.reply_view import Terminal
from app.cli.terminal.token_style import Look
from app.inference import pair_loader, verification
from app.inference.conversation import Conversation, open_conversation
from app.inference.options import Options
from app.inference.reply_runner import ReplyRunner
from engine.cache.model_cache import ModelCache
from engine.drafters.draft_model import DraftModel
from engine.events import Finished
from engine.settings import SamplingSettings
from tests.app.cli.recorded_chat import RecordedChat, talk
from tests.app.command import Redline
from tests.toys.folders import roomy_copy

SHORT, LONGER = SamplingSettings(max_tokens=4), SamplingSettings(max_tokens=24)


def open_toy(target: Path, drafter: Path | str, sampling: SamplingSettings = SHORT) -> Conversation:
    options = Options(str(target), (str(drafter),), sampling=replace(sampling, draft_length=3))
    return open_conversation(options, "", lambda text: None)


@pytest.mark.parametrize("drafter", ["lookup", "folder"])
def test_a_stopped_change_of_drafter_changes_nothing(
    drafter: str, toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (str(toy_drafter_folder), "lookup") if drafter == "lookup" else ("lookup", str(toy_drafter_folder))
    conversation = open_conversation(Options(str(toy_folder), (first,), sampling=SHORT), "", lambda text: None)
    options, drafter_before, pair = conversation.options, conversation.pair.drafter.drafter, conversation.pair
    with monkeypatch.context() as patched:
        patched.setattr(pair_loader, "open_drafter", first_call_interrupts(pair_loader.open_drafter))
        assert "stopped\n" in talk(conversation, f"/drafter {second}", "hello")
    assert (conversation.options, conversation.pair.drafter.spec) == (options, first)
    assert conversation.pair.drafter.drafter is drafter_before
    assert conversation.pair is pair is not None
    assert [message["role"] for message in conversation.messages] == ["user", "assistant"]


def test_the_footer_says_what_drafting_saved_in_the_reply_and_in_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = RecordedChat()
    monkeypatch.setattr(ReplyRunner, "plain_s", 0.4)
    first, second, forgotten = (
        line for line in chat.type("one", "two", "/clear", "three").splitlines() if "tok/s" in line
    )
    assert first.startswith("about 10.0 times as fast as without drafting (1.8 s sooner) · 6 tokens, cut at")
    assert "(1.8 s sooner), about 4 s saved in this chat · 6 tokens" in second
    assert "saved" not in forgotten


def test_ctrl_c_is_heard_before_a_long_prompt_is_read(toy_folder: Path, tmp_path: Path) -> None:
    target = roomy_copy(toy_folder, tmp_path / "target")
    conversation = open_conversation(Options(str(target), ("lookup",), sampling=SHORT), "", lambda text: None)
    *_, last = conversation.ask("hello " * 200, lambda: True)
    assert isinstance(last, Finished) and last.reason == "cancelled"
    assert conversation.messages == []
    assert list(conversation.ask("hello " * 200, lambda: False))
    assert len(conversation.messages) == 2


def first_call_interrupts(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, save that Ctrl-C comes when it is done for the first time."""
    waiting = [True]

    def interrupted(*args: Any) -> Any:
        result = call(*args)
        if waiting and waiting.pop():
            raise KeyboardInterrupt
        return result

    return interrupted


@pytest.mark.parametrize("drafter", ["lookup", "folder"])
def test_a_reply_after_a_pass_that_ctrl_c_broke_off_is_the_targets(
    drafter: str, toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = toy_drafter_folder if drafter == "folder" else drafter
    calm, broken = (open_toy(toy_folder, spec, LONGER) for _ in range(2))

    def caches() -> list[ModelCache]:
        """Of the target and of the draft model, which is another one after an interruption."""
        drafter = broken.pair.drafter.drafter
        models = [broken.pair.target.model, *([drafter.model] if isinstance(drafter, DraftModel) else [])]
        return [model.cache for model in models]

    for place in range(len(caches())):  # the layers have their tokens by then, and nobody has counted them
        with monkeypatch.context() as patched:
            patched.setattr(caches()[place], "advance", first_call_interrupts(lambda tokens: None))
            assert "stopped\n" in talk(broken, "hello")
        assert all(entry.offset == cache.length for cache in caches() for entry in cache.entries)
        talk(broken, "/clear")
    talk(calm, "what now?")
    talk(broken, "what now?")
    assert broken.messages == calm.messages


# --- `/verify` in the conversation at the keyboard: the last reply held against plain decoding

EXACT = SamplingSettings(max_tokens=12, exact=True)


def test_a_reply_is_what_plain_decoding_says_and_the_talk_goes_on(toy_folder: Path, toy_drafter_folder: Path) -> None:
    conversation, calm = (open_toy(toy_folder, toy_drafter_folder, EXACT) for _ in range(2))
    said = talk(conversation, "hello", "/verify", "and now?", "/verify")
    assert said.count("receipt: identical over 12 tokens, to the last bit") == 2
    talk(calm, "hello", "and now?")
    assert conversation.messages == calm.messages


def test_a_forged_reply_is_told_with_its_places(toy_folder: Path, toy_drafter_folder: Path) -> None:
    conversation = open_toy(toy_folder, toy_drafter_folder)
    talk(conversation, "hello")
    assert conversation.answer is not None
    first, *others = conversation.answer.rounds
    forged = structs.replace(first, tokens=((first.tokens[0] + 1) % 64, *first.tokens[1:]))
    conversation.answer = structs.replace(conversation.answer, rounds=(forged, *others))
    said = talk(conversation, "/verify")
    assert "receipt: " in said and "failure" in said
    assert "differs at token 0 (plain " in said


def test_a_check_that_ctrl_c_stops_loses_nothing(
    toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation, calm = (open_toy(toy_folder, toy_drafter_folder) for _ in range(2))
    talk(conversation, "hello")
    check = verification.check_reply  # type: ignore[attr-defined]

    def interrupted(*given: Any) -> Any:
        steps = check(*given)
        yield next(steps)
        raise KeyboardInterrupt

    monkeypatch.setattr(verification, "check_reply", interrupted)
    assert "stopped\n" in talk(conversation, "/verify")
    monkeypatch.undo()
    assert "receipt: identical over 4 tokens\n" in talk(conversation, "/verify")
    talk(calm, "hello", "and now?")
    talk(conversation, "and now?")
    assert conversation.messages == calm.messages


# --- A drafter that fails in the terminal: the reply continues to the same text, and says so on a line of its own

LINE = "continuing with plain decoding: the drafter failed (RuntimeError: the device was lost)"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third proposal of a draft model fails."""
    propose: Callable[..., Any] = DraftModel.propose
    calls = iter(range(1, 1000))

    def fails(*arguments: Any) -> Any:
        if next(calls) % 3 == 0:
            raise RuntimeError("the device was lost")
        return propose(*arguments)

    monkeypatch.setattr(DraftModel, "propose", fails)


def test_the_reply_is_plain_decodings_and_the_reason_is_shown_beside_it(
    toy_folder: Path, toy_drafter_folder: Path, failing: None, redline: Redline
) -> None:
    words = ["chat", "--prompt", "hello", "--target", toy_folder, "--draft-length", "3", "--max-tokens", "24"]
    done = redline(*words, "--drafter", toy_drafter_folder)
    assert done.out == redline(*words, "--drafter", "none").out != ""
    assert done.err.count(LINE) == 1
    done = redline(*words, "--drafter", toy_drafter_folder, "--json")
    rounds = [event for event in done.events if event["event"] == "Round"]
    assert [event["index"] for event in rounds] == list(range(len(rounds)))
    assert rounds[0]["drafted"] and not rounds[-1]["drafted"]
    assert done.events[-1]["tokens"] == sum(len(event["tokens"]) for event in rounds) == 24
    assert done.err.count(f"redline: {LINE}\n") == 1


def test_on_a_terminal_the_reason_has_a_line_of_its_own_and_the_next_reply_drafts_again(
    toy_folder: Path, toy_drafter_folder: Path, failing: None
) -> None:
    conversation = open_toy(toy_folder, toy_drafter_folder, LONGER)
    out, waiting = io.StringIO(), iter(["hello", "/quit"])
    look = Look(escapes=True)
    assert converse(conversation, Terminal(out, io.StringIO(), look, lambda: 200), lambda: next(waiting)) == 0
    assert any(LINE in line and "draft refused" not in line for line in out.getvalue().splitlines())
    assert conversation.pair.has_drafter
