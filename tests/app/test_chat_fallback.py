"""A drafter that fails in the terminal: the reply continues to the same text, and says so on a line of its own."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.interactive_chat import converse
from app.cli.main import main
from app.cli.terminal.reply_view import Terminal
from app.cli.terminal.token_style import Look
from app.inference.conversation import open_conversation
from app.inference.options import Options
from engine.drafters.draft_model import DraftModel

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


def one_reply(toy_folder: Path, drafter: Path | str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, str]:
    words = ["chat", "--prompt", "hello", "--target", str(toy_folder), "--drafter", str(drafter), "--draft-length", "3"]
    assert main([*words, "--max-tokens", "24", *more]) == 0
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_the_reply_is_plain_decodings_and_the_reason_is_shown(
    toy_folder: Path, toy_drafter_folder: Path, failing: None, capsys: pytest.CaptureFixture[str]
) -> None:
    text, notes = one_reply(toy_folder, toy_drafter_folder, capsys)
    assert text == one_reply(toy_folder, "none", capsys)[0] != ""
    assert notes.count(LINE) == 1


def test_the_events_go_on_and_the_reason_stands_beside_them(
    toy_folder: Path, toy_drafter_folder: Path, failing: None, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, notes = one_reply(toy_folder, toy_drafter_folder, capsys, "--json")
    events = [json.loads(line) for line in lines.splitlines()]
    rounds = [event for event in events if event["event"] == "Round"]
    assert [event["index"] for event in rounds] == list(range(len(rounds)))
    assert rounds[0]["drafted"] and not rounds[-1]["drafted"]
    assert events[-1]["tokens"] == sum(len(event["tokens"]) for event in rounds) == 24
    assert notes.count(f"redline: {LINE}\n") == 1


def test_on_a_terminal_the_reason_has_a_line_of_its_own_and_the_next_reply_drafts_again(
    toy_folder: Path, toy_drafter_folder: Path, failing: None
) -> None:
    options = Options(str(toy_folder), (str(toy_drafter_folder),), draft_lengths=(3,), max_tokens=24)
    conversation = open_conversation(options, "", lambda text: None)
    out, waiting = io.StringIO(), iter(["hello", "/quit"])
    look = Look(escapes=True)
    assert converse(conversation, Terminal(out, io.StringIO(), look, lambda: 200), lambda: next(waiting)) == 0
    assert any(LINE in line and "draft kept" not in line for line in out.getvalue().splitlines())
    assert conversation.pair.has_drafter
