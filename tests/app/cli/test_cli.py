"""The command line: exit codes, one line an error, plain and JSON output. Toy models, one run of the real one."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.main import COMMANDS, main
from app.cli.terminal.token_style import Look
from app.safe_text import safe
from tests.toys.folders import make_stranger


def failure(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and the one line on standard error."""
    code = main(["chat", *words])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("redline: ") and err.count("\n") == 1, err
    return code, err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--temperature", "-1"], "temperature is -1.0"),
        (["--temperature", "nan"], "temperature is nan"),
        (["--temperature", "hot"], "invalid float value: 'hot'"),
        (["--temperature", "0", "--temperature", "1"], "--temperature is given 2 times"),
        (["--top-p", "0"], "top-p is 0.0"),
        (["--top-k", "-3"], "top-k is -3"),
        (["--min-p", "1"], "min-p is 1.0"),
        (["--repetition-penalty", "0"], "repetition-penalty is 0.0"),
        (["--seed", "-1"], "seed is -1"),
        (["--max-tokens", "0"], "max-tokens is 0"),
        (["--draft-length", "99"], "draft-length is 99"),
        (["--draft-length", "many"], "draft-length is 'many'"),
        (["--context", "1"], "context is 1"),
        (["--stop", ""], "stop is empty"),
        (["--acceptance", "always"], "invalid choice: 'always'"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt", " \n"], "the prompt is empty"),
        (["--drafter", "lookup", "--drafter", "none"], "--drafter is given 2 times"),
    ],
)
def test_nonsense_is_a_usage_error(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    prompt = [] if "--prompt" in words else ["--prompt", "hi"]
    code, err = failure(capsys, *prompt, *words)
    assert code == 2
    assert said in err


def test_a_command_must_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)
    assert main(["sing"]) == 2
    assert "invalid choice: 'sing'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["caht"], "chat"),
        (["fitt"], "fit"),
        (["models", "serach"], "search"),
        (["chat", "--prompt", "a", "--acceptance", "couple"], "coupled"),
        (["chat", "--prompt", "a", "--tempreture", "1"], "--temperature"),
        (["chat", "--prompt", "a", "--max-token=3", "--draftlength=2"], "--draft-length"),
        (["models", "pull", "a/b", "--reviison", "x"], "--revision"),
        (["chat", "--prompt", "a", "--target", "TOY", "--drafter", "eagel3"], "eagle3"),
        (["chat", "--theme", "drak"], "dark"),
    ],
)
def test_what_was_probably_meant_is_said(
    capsys: pytest.CaptureFixture[str], toy_folder: Path, words: list[str], meant: str
) -> None:
    assert main([str(toy_folder) if word == "TOY" else word for word in words]) == 2
    assert f"; did you mean {meant}?" in capsys.readouterr().err


def test_nothing_is_meant_by_what_looks_like_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sing"]) == main(["chat", "--zzz"]) == 2
    assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "name", "said"),
    [
        ("import", "x" * 300, "too long for the name of a file"),
        ("pairs", "x" * 300, "too long"),
        ("import", "a\0b", "NUL"),
    ],
)
def test_a_name_that_no_file_can_have_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], command: str, name: str, said: str
) -> None:
    assert main(["models", command, name]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_a_machine_that_mlx_has_lost_is_one_line_and_a_bug_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(error: Exception) -> Callable[[list[str]], int]:
        def run(words: list[str]) -> int:
            raise error

        return run

    monkeypatch.setattr("app.cli.main._run", failing(RuntimeError("[ring] connection to a peer was lost")))
    assert main(["chat"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr("app.cli.main._run", failing(RecursionError("too deep")))
    with pytest.raises(RecursionError):
        main(["chat"])


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("redline 0.")


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
        (["--prompt", "x" * 2000], 1, "context holds only 512"),
        (["--prompt", "\udcff"], 2, "not Unicode text"),
    ],
)
def test_what_the_models_cannot_do_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], toy_folder: Path, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    usual = ["--target", str(toy_folder), "--prompt", "hi", "--draft-length", "2", "--max-tokens", "4"]
    if "OTHER" in words:
        words = ["--drafter", str(make_stranger(tmp_path / "other"))]
    found, err = failure(capsys, *usual, *words)
    assert found == code and said in err


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json"])
@pytest.mark.parametrize("damage", ["cut", "noise", "removed", "of another shape"])
def test_a_damaged_folder_is_a_failure_that_says_so(
    capsys: pytest.CaptureFixture[str], toy_folder: Path, tmp_path: Path, file: str, damage: str
) -> None:
    folder = shutil.copytree(toy_folder, tmp_path / "model")
    before = (folder / file).read_bytes()
    if damage == "removed":
        (folder / file).unlink()
    elif damage == "of another shape":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 64}))
    else:
        (folder / file).write_bytes(before[: len(before) // 2] if damage == "cut" else b"\xff" * len(before))
    code, err = failure(capsys, "--target", str(folder), "--prompt", "hi")
    assert code == 1
    assert str(folder) in err


def test_piped_output_is_the_text_and_json_replays_to_it(
    capsys: pytest.CaptureFixture[str], toy_folder: Path, toy_drafter_folder: Path
) -> None:
    words = ["--target", str(toy_folder), "--drafter", str(toy_drafter_folder), "--prompt", "the sky"]
    words += ["--draft-length", "3", "--max-tokens", "60", "--temperature", "0.9", "--seed", "4"]
    assert main(["chat", *words, "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(["chat", *words]) == 0
    plain = capsys.readouterr()

    kinds = [event["event"] for event in events]
    assert set(kinds[:-1]) == {"PromptProgress", "Round"} and kinds[-1] == "Finished"
    assert {origin for event in events for origin in event.get("origins", ())} == {"accepted", "corrected", "bonus"}
    text = "".join("".join(event.get("texts", [])) + event.get("text", "") for event in events)
    assert plain.out.removesuffix("\n") == safe(text).removesuffix("\n")
    assert "drafted tokens accepted" in plain.err and plain.err.endswith("seed 4\n")


def test_a_stop_string_inside_a_round_ends_the_reply_before_it(
    capsys: pytest.CaptureFixture[str], toy_folder: Path
) -> None:
    words = ["chat", "--target", str(toy_folder), "--drafter", "none", "--prompt", "the sky", "--max-tokens", "60"]
    main(words)
    whole = capsys.readouterr().out
    stop = whole[10:12]
    words[words.index("none")] = str(toy_folder)  # its own drafter: every draft is right, so rounds are long
    assert main([*words, "--draft-length", "8", "--stop", stop]) == 0
    told = capsys.readouterr()
    assert told.out == whole[: whole.index(stop)] + "\n"
    assert "ended at a stop string" in told.err


def test_a_prompt_may_come_through_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, toy_folder: Path
) -> None:
    told = []
    for words in (["--prompt", "the sky"], ["--prompt", "-"], []):
        monkeypatch.setattr(sys, "stdin", io.StringIO("the sky"))
        assert main(["chat", "--target", str(toy_folder), "--max-tokens", "8", "--draft-length", "0", *words]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] == told[2]
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["chat"]) == 2


@pytest.mark.slow
def test_help_and_usage_errors_are_quick() -> None:
    """They load neither mlx-lm nor transformers, which takes seconds."""
    code = "import sys; from app.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    for words in (["--help"], ["chat", "--help"], ["chat", "--prompt", ""], ["doctor", "--help"]):
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        assert time.perf_counter() - began < 5  # 0.1 to 0.2 s on an idle machine
        assert not {"mlx_lm", "transformers"} & set(done.stderr.split())


@pytest.mark.real_model
def test_a_closed_pipe_is_quiet(toy_folder: Path) -> None:
    line = f"{sys.executable} -m app chat --target {toy_folder} --prompt hi --json | head -n 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.real_model
def test_ctrl_c_ends_a_reply_in_order(toy_folder: Path) -> None:
    words = ["chat", "--target", str(toy_folder), "--prompt", "hi", "--draft-length", "2", "--max-tokens", "400"]
    with subprocess.Popen([sys.executable, "-m", "app", *words, "--json"], stdout=subprocess.PIPE, text=True) as chat:
        assert chat.stdout is not None
        while '"Round"' not in chat.stdout.readline():
            pass
        chat.send_signal(signal.SIGINT)
        rest = chat.stdout.read()
    assert json.loads(rest.splitlines()[-1])["reason"] == "cancelled"
    assert chat.returncode == 130


@pytest.mark.real_model
@pytest.mark.parametrize("environment", [{"COLORTERM": "truecolor"}, {"NO_COLOR": "1"}])
def test_a_terminal_gets_tints_and_cues(toy_folder: Path, environment: dict[str, str]) -> None:
    words = ["chat", "--target", str(toy_folder), "--drafter", str(toy_folder), "--prompt", "hi", "--draft-length", "3"]
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "app", *words, "--max-tokens", "9", "--theme", "light"]
    surroundings = os.environ | {"TERM": "xterm-256color", "NO_COLOR": "", "COLUMNS": "200"} | environment
    subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, check=True, env=surroundings)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    os.close(theirs)
    look = Look(True, "none" if "NO_COLOR" in environment else "truecolor", "light")
    assert look.start("accepted") in shown and look.start("bonus") in shown
    assert "accepted (100%)" in shown
    assert ("48;2" in shown) == ("COLORTERM" in environment)


@pytest.mark.real_model
def test_the_built_in_model_answers() -> None:
    words = ["chat", "--prompt", "What is the capital of France?", "--max-tokens", "24"]
    done = subprocess.run([sys.executable, "-m", "app", *words], capture_output=True, text=True, check=True)
    assert "Paris" in done.stdout
    assert "tok/s" in done.stderr and "first token after" in done.stderr
