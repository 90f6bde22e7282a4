"""The command line: exit codes, one line an error, plain and JSON output. Toy models, one run of the real one."""

import argparse
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli import chat
from app.cli.main import COMMANDS
from app.cli.terminal.token_style import Look
from app.safe_text import safe
from engine.events import Event, Round
from engine.session import Session
from tests.app.command import Redline, run_on_terminal
from tests.toys.folders import make_stranger


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--temperature", "nan"], "temperature is nan"),
        (["--temperature", "hot"], "invalid float value: 'hot'"),
        (["--temperature", "0", "--temperature", "1"], "--temperature is given 2 times"),
        (["--draft-length", "99"], "draft-length is 99"),
        (["--context", "1"], "context is 1"),
        (["--stop", ""], "stop is empty"),
        (["--acceptance", "always"], "invalid choice: 'always'"),
        (["--prompt", " \n"], "the prompt is empty"),
        (["--drafter", "lookup", "--drafter", "none"], "--drafter is given 2 times"),
    ],
)
def test_nonsense_is_a_usage_error(redline: Redline, words: list[str], said: str) -> None:
    done = redline("chat", *([] if "--prompt" in words else ["--prompt", "hi"]), *words)
    assert done.code == 2 and said in done.only_line


def test_a_command_must_be_known(redline: Redline) -> None:
    assert all(name in redline("--help").out for name in COMMANDS)
    assert redline("--version").out.startswith("redline 0.")
    for words in (["sing"], ["chat", "--zzz"], ["models", "nonsense"]):
        done = redline(*words)
        assert done.code == 2 and "did you mean" not in done.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["caht"], "chat"),
        (["chat", "--prompt", "a", "--acceptance", "couple"], "coupled"),
        (["chat", "--prompt", "a", "--tempreture", "1"], "--temperature"),
        (["chat", "--prompt", "a", "--max-token=3", "--draftlength=2"], "--draft-length"),
        (["models", "pull", "a/b", "--reviison", "x"], "--revision"),
        (["chat", "--prompt", "a", "--target", "TOY", "--drafter", "eagel3"], "eagle3"),
        (["chat", "--theme", "drak"], "dark"),
    ],
)
def test_what_was_probably_meant_is_said(redline: Redline, toy_folder: Path, words: list[str], meant: str) -> None:
    done = redline(*(str(toy_folder) if word == "TOY" else word for word in words))
    assert done.code == 2 and f"; did you mean {meant}?" in done.err


@pytest.mark.parametrize(
    ("command", "name", "code", "said"),
    [
        ("import", "x" * 300, 2, "too long for the name of a file"),
        ("pairs", "x" * 300, 1, "not an existing folder or a valid model name"),
        ("import", "a\0b", 2, "NUL"),
    ],
)
def test_a_name_that_no_file_can_have_is_an_error_in_one_line(
    redline: Redline, command: str, name: str, code: int, said: str
) -> None:
    done = redline("models", command, name)
    assert done.code == code and said in done.only_line


def test_a_machine_that_mlx_has_lost_is_one_line_and_a_bug_a_traceback(
    redline: Redline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(error: Exception) -> Callable[[list[str]], int]:
        def run(words: list[str]) -> int:
            raise error

        return run

    monkeypatch.setattr("app.cli.main._run", failing(RuntimeError("[ring] connection to a peer was lost")))
    done = redline("chat")
    assert done.code == 1 and done.only_line
    monkeypatch.setattr("app.cli.main._run", failing(RecursionError("too deep")))
    with pytest.raises(RecursionError):
        redline("chat")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        *(
            (["--drafter", name], 2, f"unknown drafter {name!r}: give auto, none, lookup")
            for name in ("magic", "", "a\0b")
        ),
        (["--drafter", "OTHER"], 1, "different tokenizer (only "),
        (["--target", ""], 2, "target is empty"),
        *((["--target", name], 1, "") for name in ("x" * 300, "a\0b")),
        (["--target", "/nowhere/gone"], 1, "no such model folder"),
        (["--context", "513"], 2, "at most 512 tokens"),
        (["--prompt", "x" * 2000], 1, "> 512 maximum"),
        (["--prompt", "\udcff"], 2, "not Unicode text"),
    ],
)
def test_what_the_models_cannot_do_is_told_in_one_line(
    redline: Redline, toy_folder: Path, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    usual = ["--target", str(toy_folder), "--prompt", "hi", "--draft-length", "2", "--max-tokens", "4"]
    if "OTHER" in words:
        words = ["--drafter", str(make_stranger(tmp_path / "other"))]
    done = redline("chat", *usual, *words)
    assert done.code == code and said in done.only_line


def test_piped_output_is_the_text_and_json_replays_to_it(
    redline: Redline, toy_folder: Path, toy_drafter_folder: Path
) -> None:
    words = ["chat", "--target", toy_folder, "--drafter", toy_drafter_folder, "--prompt", "the sky"]
    words += ["--draft-length", "3", "--max-tokens", "60", "--temperature", "0.9", "--seed", "4"]
    events = redline(*words, "--json").events
    plain = redline(*words)

    kinds = [event["event"] for event in events]
    assert set(kinds[:-1]) == {"PromptProgress", "Round"} and kinds[-1] == "Finished"
    assert {origin for event in events for origin in event.get("origins", ())} == {"accepted", "corrected", "bonus"}
    text = "".join("".join(event.get("texts", [])) + event.get("text", "") for event in events)
    assert plain.out.removesuffix("\n") == safe(text).removesuffix("\n")
    assert "drafted tokens accepted" in plain.err and plain.err.endswith("seed 4\n")


def test_a_prompt_may_come_through_a_pipe(redline: Redline, monkeypatch: pytest.MonkeyPatch, toy_folder: Path) -> None:
    replies = set()
    for words in (["--prompt", "the sky"], ["--prompt", "-"], []):
        monkeypatch.setattr(sys, "stdin", io.StringIO("the sky"))
        done = redline("chat", "--target", toy_folder, "--max-tokens", "8", "--draft-length", "0", *words)
        replies.add((done.code, done.out))
    assert [code for code, _ in replies] == [0]
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert redline("chat").code == 2


def test_what_is_piped_stands_before_the_prompt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "word").write_text("The word is heron.\n")
    args = argparse.Namespace(prompt="What is it?")
    with (tmp_path / "word").open() as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        assert chat._prompt(args) == "The word is heron.\n\nWhat is it?"
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert chat._prompt(args) == "What is it?"


def test_ctrl_c_ends_a_reply_in_order(redline: Redline, toy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    continue_tokens = Session.continue_tokens

    def interrupted(*given: Any, **named: Any) -> Iterator[Event]:
        for event in continue_tokens(*given, **named):
            yield event
            if isinstance(event, Round) and event.index == 0:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Session, "continue_tokens", interrupted)
    done = redline("chat", "--target", toy_folder, "--prompt", "hi", "--draft-length", "2", "--json")
    assert done.code == 130 and done.events[-1]["reason"] == "cancelled"


@pytest.mark.slow
def test_help_and_usage_errors_load_no_models() -> None:
    """Neither mlx-lm nor transformers, which takes seconds."""
    code = "import sys; from app.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    for words in (["--help"], ["chat", "--help"], ["chat", "--prompt", ""], ["doctor", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        assert not {"mlx_lm", "transformers"} & set(done.stderr.split())


@pytest.mark.real_model
def test_a_closed_pipe_is_quiet(toy_folder: Path) -> None:
    line = f"{sys.executable} -m app chat --target {toy_folder} --prompt hi --json | head -n 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.real_model
@pytest.mark.parametrize("environment", [{"COLORTERM": "truecolor"}, {"NO_COLOR": "1"}])
def test_a_terminal_gets_tints_and_cues(toy_folder: Path, environment: dict[str, str]) -> None:
    words = ["chat", "--target", toy_folder, "--drafter", toy_folder, "--prompt", "hi", "--draft-length", "3"]
    words += ["--max-tokens", "9", "--theme", "light"]
    code, shown = run_on_terminal(*words, **({"NO_COLOR": ""} | environment))
    assert code == 0 and "accepted (100%)" in shown
    look = Look(True, "none" if "NO_COLOR" in environment else "truecolor", "light")
    assert look.start("accepted") in shown and look.start("bonus") in shown
    assert ("48;2" in shown) == ("COLORTERM" in environment)


@pytest.mark.real_model
def test_the_built_in_model_answers(redline: Redline) -> None:
    done = redline("chat", "--prompt", "What is the capital of France?", "--max-tokens", "24", "--draft-length", "3")
    assert "Paris" in done.out
    assert "tok/s" in done.err and "first token after" in done.err
