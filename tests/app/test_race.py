"""The race: alternated runs, texts side by side as they were timed, numbers that follow, an honest receipt."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from rich.console import Console

from app import contest, race_view
from app.cli import main
from app.contest import Contest, Side
from app.measure import Reply
from app.style import PLAIN, Look
from engine import acceptance
from engine.acceptance import Verdict
from engine.events import Finished, PromptProgress, Round
from engine.receipt import Difference, Receipt

LOOK = Look(True, "truecolor", "dark")


def race(toy_folder: Path, *arguments: str) -> int:
    return main(["race", "--target", str(toy_folder), "--prompt", "why is the sky blue?", *arguments])


def reply(texts: Sequence[Sequence[str]], drafted: int, step_s: float) -> Reply:
    """A reply of rounds that say `texts`, one every `step_s` seconds."""
    rounds = [
        Round(i, tuple(range(len(t))), (0,) * drafted, len(t) - 1, (), (), drafted + 1, (i + 1) * step_s, "", tuple(t))
        for i, t in enumerate(texts)
    ]
    return Reply.of([1], [PromptProgress(1, 1, 0, 0.0), *rounds, Finished("eos", 0, 9.0)])


SAME = Receipt(4)
SPOKEN = (("The sky", " is", " blue"), ("!",))


def staged(receipt: Receipt | None = SAME, other: Sequence[Sequence[str]] = SPOKEN) -> Contest:
    plain = Side("plain", (reply([["The sky"], [" is"], [" blue"], ["!"]], 0, 0.1),))
    return Contest(plain, Side("with lookup", (reply(other, 3, 0.15),)), receipt, {})


def shown(found: Contest, look: Look = PLAIN, **console: Any) -> str:
    out = io.StringIO()
    race_view.show(Console(file=out, width=90, highlight=False, **console), look, found)
    return out.getvalue()


def test_a_race_says_what_it_found(
    toy_folder: Path, toy_drafter_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert race(toy_folder, "--drafter", str(toy_drafter_folder), "--draft-length", "3", "--max-tokens", "16") == 0
    out, err = capsys.readouterr()
    assert out.startswith("--- plain, ")
    assert "--- with drafter, " in out
    assert "medians of 3 runs each, alternated" in out
    assert "receipt: identical over 16 tokens" in out
    assert "\x1b" not in out
    assert err == ""


def test_the_document_follows_from_the_tokens(toy_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    law = ["--temperature", "1", "--acceptance", "coupled", "--seed", "4"]
    assert race(toy_folder, "--json", "--runs", "2", "--max-tokens", "12", "--draft-length", "2", *law) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(run["drafter"], run["run"]) for run in found["runs"]] == [
        *[("none", 0), ("none", 1)],
        *[("lookup", 0), ("lookup", 1)],
    ]
    assert len({tuple(run["token_ids"]) for run in found["runs"]}) == 1
    assert all(run["tokens"] == len(run["token_ids"]) for run in found["runs"])
    assert (found["matches_plain"], found["first_difference"]) == (True, None)
    assert (found["acceptance_rule"], found["temperature"], found["seed"]) == ("coupled", 1.0, 4)
    assert found["speedup"] > 0


def test_rejection_at_a_temperature_claims_nothing(toy_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert race(toy_folder, "--temperature", "1", "--runs", "1", "--max-tokens", "6", "--draft-length", "2") == 0
    out = capsys.readouterr().out
    assert "receipt: none" in out
    assert "identical" not in out


def test_a_wrong_acceptance_fails(
    toy_folder: Path, toy_drafter_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep_all(choices: mx.array, draft: mx.array) -> Verdict:
        tokens = mx.concatenate([draft.astype(mx.int32), choices[-1:].astype(mx.int32)])
        return Verdict(mx.array(draft.size, mx.int32), tokens)

    monkeypatch.setattr(acceptance, "match", keep_all)
    drafting = ["--drafter", str(toy_drafter_folder), "--draft-length", "4", "--max-tokens", "40", "--runs", "1"]
    assert race(toy_folder, *drafting) == 1
    assert "a failure" in capsys.readouterr().out


def test_runs_alternate(toy_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    order: list[str] = []
    original = contest.measure_reply

    def noting(session: Any, prompt: Any, settings: Any, drafter: Any, policy: Any) -> Reply:
        order.append("s" if drafter else "p")
        return original(session, prompt, settings, drafter, policy)

    monkeypatch.setattr(contest, "measure_reply", noting)
    assert race(toy_folder, "--max-tokens", "4", "--draft-length", "2", "--runs", "3") == 0
    assert "".join(sorted(order[:2])) == "ps"
    assert "".join(order[2:]) == "pssp" + "ps"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--drafter", "none"], "would race plain decoding against itself"),
        (["--runs", "0"], "runs is 0"),
        (["--drafter", "lookup", "--drafter", "lookup"], "--drafter is given 2 times"),
        (["--temperature", "0", "--temperature", "1"], "--temperature is given 2 times"),
        (["--prompt", " "], "the prompt is empty"),
    ],
)
def test_nonsense_is_refused(
    arguments: list[str], message: str, toy_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert race(toy_folder, *arguments) == 2
    assert message in capsys.readouterr().err


# --- what is shown ----------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_runs() -> None:
    out = shown(staged())
    plain = next(line.split() for line in out.splitlines() if line.startswith("plain "))
    other = next(line.split() for line in out.splitlines() if line.startswith("with lookup "))
    assert plain == ["plain", "4", "10.0", "0.10", "s", "0.40", "s", "4", "1.00"]
    assert other == ["with", "lookup", "4", "20.0", "0.15", "s", "0.30", "s", "2", "2.00"]
    assert "speed-up 0.67x decoding, 1.33x with the prompt (one run each)" in out


def test_a_terminal_gets_two_columns_and_both_cues() -> None:
    out = shown(staged(other=[["The sky", " is", " red"], ["!"]]), LOOK, force_terminal=True, color_system="truecolor")
    assert any("The sky is blue!" in line and "The sky" in line.split("blue!")[1] for line in out.splitlines())
    assert "48;2;21;68;56" in out  # accepted
    assert "\x1b[4;38;2" in out  # corrected, underlined


def test_a_near_tie_is_never_called_identical() -> None:
    out = shown(staged(Receipt(3, Difference(3, 8, 9, 1.0, 2.5, near_tie=True))))
    assert "receipt: differs at token 3 (plain 8, other 9): a near-tie, gap 1 ULPs, rounding noise 2.5 ULPs" in out
    assert "identical" not in out


@pytest.mark.parametrize("look", [PLAIN, LOOK])
def test_no_text_steers_the_terminal(look: Look) -> None:
    out = shown(staged(other=[["\x1b[2J", "\x9b", "[bold]"], ["\u202e"]]), look)
    assert "\x1b[2J" not in out
    assert "\x9b" not in out
    assert "\u202e" not in out
    assert "[bold]" in out


def test_a_replay_shows_tokens_when_they_came() -> None:
    """At 0.2 s plain has two tokens and the other its first round of three."""
    out = io.StringIO()
    console = Console(file=out, width=90, height=24, force_terminal=True)
    console.print(race_view._frame(console, Look(True), staged(), 0.2))
    heading, _, texts, *_ = out.getvalue().splitlines()
    assert "0.2 s  2 tokens" in heading
    assert "0.2 s  3 tokens" in heading
    assert "The sky is " in texts
    assert texts.count("blue") == 1
    assert "a replay of two runs" in out.getvalue()


def test_a_long_replay_keeps_to_the_window() -> None:
    found = staged(other=[[f"line {i}\n" for i in range(99)]])
    console = Console(file=io.StringIO(), width=60, height=20, force_terminal=True)
    lines = console.render_lines(race_view._frame(console, Look(True), found, 5.0))
    assert len(lines) < 20
    assert "line 98" in "".join(segment.text for line in lines for segment in line)


def test_the_middle_run_is_shown() -> None:
    side = Side("plain", tuple(reply([["a"]], 0, s) for s in (0.3, 0.1, 0.2)))
    assert side.middle.metrics.last_s == side.total_s == 0.2


def test_a_terminal_sees_the_replay_and_then_the_result(toy_folder: Path) -> None:
    """The whole command, on a terminal of its own."""
    ours, theirs = pty.openpty()
    words = ["race", "--target", str(toy_folder), "--prompt", "hi", "--runs", "1", "--max-tokens", "12"]
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    command = [sys.executable, "-m", "app", *words, "--draft-length", "2"]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                seen += os.read(ours, 65536)
            except OSError:  # Linux's word for the end of a terminal
                break
        assert process.wait(60) == 0
    os.close(ours)
    text = seen.decode(errors="replace")
    assert "speed-up" in text
    assert "receipt: identical" in text
