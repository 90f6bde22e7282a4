"""Nothing that comes from files, the hub, the protocol or a model steers the terminal."""

import io
import json
import re
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from app.cli.terminal.output import SafeConsole
from app.command_line import Parser, notify, print_json
from app.safe_text import LONGEST_LINE, GuardedStream, guard_streams, safe, safe_json, safe_line, trusted
from tests.app.cli.terminal import hostile_views as views
from tests.hostile_text import HOSTILE, count_raw

ALL = " ".join(text for name, text in HOSTILE.items() if name != "very long")
SOURCE = Path(__file__).parents[4] / "app"


def guarded(monkeypatch: pytest.MonkeyPatch) -> tuple[io.StringIO, io.StringIO]:
    """Puts the guard before both streams; returns what is written to them."""
    out, err = views.Screen(False), views.Screen(False)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    guard_streams()
    return out, err


@pytest.mark.slow_for("*every_argument")
@pytest.mark.parametrize("source", [views.every_error, views.every_argument, views.every_view])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_no_error_argument_or_view_lets_a_control_character_out(source: object, is_terminal: bool) -> None:
    assert callable(source)
    for name, show in source(ALL):
        out, err, escaped = views.shown(show, is_terminal)
        assert count_raw(out, is_terminal) + count_raw(err, is_terminal) == 0, name
        assert not escaped, name


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_an_error_is_one_line_of_bounded_length(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Parser(prog="redline").error(f"there is no {text}")
    argument = capsys.readouterr().err
    notify(f"the model {text} is unknown: choose another")
    said = capsys.readouterr().err
    assert count_raw(said + argument, terminal=False) == 0
    assert said.startswith("redline: the model ") and said.endswith("choose another\n")
    assert len(said) < LONGEST_LINE + 20 and len(said.splitlines()) == 1
    assert argument.startswith("redline: there is no ") and len(argument.splitlines()) == 1


def test_controls_become_visible_and_other_text_stays_as_it_is() -> None:
    hostile = "\x1b]0;t\x07\x9b31m\x08\x7f\u202eevil\u2066x\r\nnext\tz\u2028y\ud800"
    assert safe(hostile) == "\u241b]0;t\u2407\ufffd31m\u2408\u2421\ufffdevil\ufffdx\nnext\tz\ny\ufffd"
    assert safe("naïve 日本語 👩\u200d👧 العربية\n\t") == "naïve 日本語 👩\u200d👧 العربية\n\t"


def test_names_that_look_alike_are_told_apart_and_emoji_stay_whole() -> None:
    assert safe_line("ll\u200bama") != safe_line("llama")
    assert safe_line("a\ufeff\u2060\u00ad\U000e0041b") == "a\ufffd\ufffd\ufffd\ufffdb"
    assert safe("👩\u200d🚀 \u0645\u06cc\u200c\u062e") == "👩\u200d🚀 \u0645\u06cc\u200c\u062e"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_json_is_safe_and_keeps_its_value(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = guarded(monkeypatch)
    value = {"name": f"{text}\u200b\ud800", text: [text]}
    print_json(json.dumps(value, ensure_ascii=False))
    written = out.getvalue()
    assert count_raw(written, terminal=False) == 0
    assert json.loads(written) == value
    assert safe_json('{"a": "é"}') == '{"a": "é"}'


def test_a_console_prints_text_as_it_is_and_safely() -> None:
    screen = views.Screen(True)
    console = SafeConsole(GuardedStream(screen), width=200)
    table = Table("name")
    table.add_row("[/x]:boom:\x1b[8m")
    for shown in (table, Text("\x1b[8m"), "[/x]:boom:\x9b8m", Text("red", "red")):
        console.print(shown)
    assert count_raw(screen.getvalue(), terminal=True) == 0
    assert screen.getvalue().count("[/x]:boom:") == 2
    assert "\x1b[31mred" in screen.getvalue()


def test_the_guard_stands_once_and_lets_its_own_sequences_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = guarded(monkeypatch)
    guard_streams()
    print("a\x1b[2Jb", "c\x07", file=sys.stderr)
    sys.stderr.writelines(["\x9b", "\u202e"])
    trusted(sys.stderr).write("\x1b[1m")
    assert trusted(sys.stderr) is err
    assert err.getvalue() == "a␛[2Jb c␇\n\ufffd\ufffd\x1b[1m"


def test_only_the_terminal_folder_writes_past_the_guard() -> None:
    """Whoever makes a console of its own, or takes a stream behind the guard, must call `safe` itself."""
    past = re.compile(r"(?<![A-Za-z])Console\(|trusted\(|__std(?:out|err)__|std(?:out|err)\.fileno|os\.write\([12]\b")
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if past.search(path.read_text())}
    assert found == {
        "safe_text.py",
        "cli/main.py",  # where the reader of a pipe has gone
        "cli/interactive_chat.py",  # prompt_toolkit, which escapes what it shows
        "cli/terminal/output.py",
        "cli/terminal/progress.py",
        "cli/terminal/reply_view.py",
    }
