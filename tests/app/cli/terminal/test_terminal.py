"""How a reply looks, from recorded events without a model; and keys that are read one by one."""

import io
import os
import pty
import re
import select
import termios
from dataclasses import replace

import pytest

from app.cli.terminal.keyboard import LEFT, RIGHT, key_presses
from app.cli.terminal.reply_view import Terminal, Wrapper, details, legend_line, statistics
from app.cli.terminal.token_style import PLAIN, Look, Theme, choose_look
from engine.events import Event, Finished, Origin, PromptProgress
from engine.metrics import Metrics
from engine.reply_channels import Channel
from tests.app.recordings import REPLY, TEXT, round_
from tests.waiting import until

DARK = "\x1b[38;2;245;245;245;48;2;"
LIGHT = "\x1b[38;2;29;29;31;48;2;"
ESCAPE = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]")
XTERM = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def play(look: Look, events: tuple[Event, ...] = REPLY, width: int = 80) -> tuple[str, str]:
    """What goes to standard output and to standard error."""
    out, notes = io.StringIO(), io.StringIO()
    terminal = Terminal(out, notes, look, width=lambda: width)
    terminal.introduce("toy")
    terminal.play(events)
    return out.getvalue(), notes.getvalue()


def thinking_reply() -> tuple[Event, ...]:
    first = replace(round_(0, ("", "\nhm", " so"), 0, 0), time_s=1.0, channels=("markup", "thought", "thought"))
    channels: tuple[Channel, ...] = ("thought", "markup", "answer", "answer")
    second = replace(round_(1, ("\n", "", "\n\n", "Blue"), 0, 0), time_s=4.0, channels=channels)
    return first, second, Finished("eos", 7, 4.0)


def test_a_thought_is_dimmed_and_its_time_follows_it() -> None:
    shown, _ = play(Look(True, "truecolor", "dark"), thinking_reply())
    assert "\x1b[2mhm" in shown and "\x1b[2mBlue" not in shown
    lines = ESCAPE.sub("", shown).splitlines()
    start = next(i for i, line in enumerate(lines) if "hm so" in line)
    assert lines[start : start + 4] == ["hm so", "Thought for 3 s, 3 tokens", "", "Blue"]


def test_a_pipe_gets_the_answer_alone_unless_thoughts_are_wanted() -> None:
    for thoughts, expected in ((False, "Blue\n"), (True, "hm so\nBlue\n")):
        out, notes = io.StringIO(), io.StringIO()
        Terminal(out, notes, PLAIN, thoughts=thoughts).play(thinking_reply())
        assert out.getvalue() == expected
        assert notes.getvalue().startswith("Thought for 3 s, 3 tokens\n")
    out, notes = io.StringIO(), io.StringIO()
    Terminal(out, notes, PLAIN, thoughts=False).play((*thinking_reply()[:1], Finished("thought", 3, 1.0)))
    assert out.getvalue() == "" and "cut off while thinking, at --max-thought-tokens" in notes.getvalue()


def test_a_hidden_thought_counts_its_tokens_and_leaves_one_line() -> None:
    out = io.StringIO()
    Terminal(out, io.StringIO(), Look(True, "none"), lambda: 80, thoughts=False).play(thinking_reply())
    shown = ESCAPE.sub("", out.getvalue())
    assert "thinking: 2 tokens\rThought for 3 s, 3 tokens" in shown and "hm" not in shown


@pytest.mark.parametrize(
    ("theme", "origin", "expected"),
    [
        ("dark", "accepted", DARK + "21;68;56m"),
        ("dark", "corrected", DARK + "85;49;21m\x1b[4m"),
        ("dark", "bonus", DARK + "47;75;91m\x1b[4:4m"),
        ("light", "accepted", LIGHT + "178;226;213m"),
        ("light", "corrected", LIGHT + "242;207;178m\x1b[4m"),
        ("light", "bonus", LIGHT + "204;232;248m\x1b[4:4m"),
    ],
)
def test_each_kind_has_the_designs_tint_and_its_second_cue(theme: Theme, origin: Origin, expected: str) -> None:
    assert Look(True, "truecolor", theme).start(origin) == expected
    assert (
        Look(True, "none", theme).start(origin)
        == {"accepted": "", "corrected": "\x1b[4m", "bonus": "\x1b[4:4m"}[origin]
    )
    indexed = {Look(True, "256", theme).start(kind)[:23] for kind in ("accepted", "corrected", "bonus")}
    assert len(indexed) == 3 and all(start.startswith("\x1b[38;5;") for start in indexed)


@pytest.mark.parametrize(
    ("environment", "theme", "expected"),
    [
        (XTERM, "auto", Look(True, "truecolor", "dark", True)),
        (XTERM, "light", Look(True, "truecolor", "light", True)),
        (XTERM | {"COLORFGBG": "0;15"}, "auto", Look(True, "truecolor", "light", True)),
        (XTERM | {"COLORFGBG": "15;default;0"}, "auto", Look(True, "truecolor", "dark", True)),
        (XTERM | {"COLORFGBG": "0;15"}, "dark", Look(True, "truecolor", "dark", True)),
        (XTERM | {"NO_COLOR": "1"}, "auto", Look(True, "none", "dark", True)),
        (XTERM | {"NO_COLOR": ""}, "auto", Look(True, "truecolor", "dark", True)),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, "auto", Look(True, "256", "dark", False)),
        ({"TERM": "linux"}, "auto", Look(True, "none", "dark", False)),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, "auto", PLAIN),
        ({}, "auto", PLAIN),
    ],
)
def test_the_look_suits_the_terminal(environment: dict[str, str], theme: str, expected: Look) -> None:
    assert choose_look(True, environment, theme) == expected
    assert choose_look(False, environment, theme) == PLAIN


def test_a_reply_on_a_terminal_shows_where_each_token_came_from() -> None:
    look = Look(True, "truecolor")
    out, notes = play(look)
    accepted, corrected, bonus = (look.start(kind) for kind in ("accepted", "corrected", "bonus"))
    reply = (
        f"The{accepted} sky\x1b[0m{accepted} is\x1b[0m{corrected} blue\x1b[0m"
        f"{accepted} today\x1b[0m{bonus}.\x1b[0m!\n\n"
    )
    assert reply in out
    assert legend_line(look) in out
    assert out.index("toy") < out.index(legend_line(look)) < out.index(reply) < out.index("first token after")
    assert notes == ""


def test_elsewhere_standard_output_gets_the_text_and_nothing_else() -> None:
    out, notes = play(PLAIN)
    assert out == TEXT + "\n"
    assert notes.count("\n") == 1 and "\x1b" not in notes


def test_the_statistics_are_those_of_metrics() -> None:
    line = statistics(Metrics.of(REPLY))
    assert line == (
        "6 tokens, cut at --max-tokens · 25.0 tok/s · first token after 0.50 s · "
        "3 of 4 drafted tokens accepted (75%) · 2.00 tokens per pass"
    )
    undrafted = (replace(round_(0, ["a"], 0, 0), reason="not worthwhile here"), Finished("cancelled", 1, 1.0))
    assert statistics(Metrics.of(undrafted)) == (
        "1 token, stopped by Ctrl-C · first token after 0.50 s · nothing was drafted: not worthwhile here"
    )
    assert statistics(Metrics.of([Finished("cancelled", 0, 1.0)])) == "0 tokens, stopped by Ctrl-C"
    assert "by draft position       100% 100% 0%" in details(Metrics.of(REPLY))


def test_no_background_is_open_at_the_end_of_a_line() -> None:
    look = Look(True, "truecolor")
    events = (round_(0, ["one\n", "\n\ntwo ", "three" * 9 + "\n"], 3, 3), Finished("eos", 3, 1.0))
    out, _ = play(look, events, width=24)
    for line in out.split("\n"):
        opened = False
        for sequence in ESCAPE.findall(line):
            opened = sequence not in ("\x1b[0m", "\x1b[K") and not sequence.endswith("D")
        assert not opened, repr(line)


def test_words_move_to_the_next_line_whole_and_the_last_column_stays_empty() -> None:
    wrapper = Wrapper(lambda: 21)
    out = "".join(
        wrapper.write(piece) for piece in ["The quick brown", " fo", "xes jum", "p over", " 12345678901234567890123"]
    )
    screen = replay_on_screen(out)
    assert screen == ["The quick brown ", "foxes jump over ", "12345678901234567890", "123"]
    assert max(map(len, screen)) <= 20


def test_a_moved_word_keeps_its_styles() -> None:
    wrapper = Wrapper(lambda: 17)
    wrapper.write("0123456789 abc", "\x1b[4m")
    assert wrapper.write("def", "\x1b[7m") == "\x1b[3D\x1b[K\n\x1b[4mabc\x1b[0m\x1b[7mdef\x1b[0m"


def test_wide_characters_and_tabs_take_their_room() -> None:
    wrapper = Wrapper(lambda: 17)
    assert wrapper.write("日本語日本語日本語") == "日本語日本語日本\n語"
    assert Wrapper(lambda: 80).write("a\tb\n\tc") == "a   b\n    c"


def replay_on_screen(out: str) -> list[str]:
    """The lines of a screen after `out`: knows cursor-left and erase-to-end."""
    lines, column = [""], 0
    for part in re.split(r"(\x1b\[\d*[DKm]|\n)", out):
        if part == "\n":
            lines.append("")
            column = 0
        elif part.endswith("D") and part.startswith("\x1b"):
            column -= int(part[2:-1])
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif not part.startswith("\x1b"):
            lines[-1] = lines[-1][:column] + part
            column = len(lines[-1])
    return lines


def test_a_long_prompt_shows_how_far_it_is_and_leaves_no_trace() -> None:
    progress = tuple(PromptProgress(done, 2001, 0, 0.1) for done in (0, 512, 1024, 1536, 2000))
    out, _ = play(Look(True, "truecolor"), (*progress, *REPLY[2:]))
    assert "reading the prompt: 51% of 2001 tokens" in out
    assert "100%" not in out
    assert out.index("\r\x1b[KThe") > out.index("77%")
    assert "reading" not in "".join(play(PLAIN, (*progress, *REPLY[2:])))


def test_a_reply_that_breaks_off_leaves_the_cursor_on_a_line_of_its_own() -> None:
    def events() -> object:
        yield round_(0, ["half"], 0, 0)
        raise KeyboardInterrupt

    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        Terminal(out, io.StringIO(), PLAIN).play(events())  # type: ignore[arg-type]
    assert out.getvalue() == "half\n"


# --- Keys one by one, from a terminal that is put back as it was


def test_keys_come_without_enter_and_the_terminal_is_put_back() -> None:
    ours, theirs = pty.openpty()
    with open(theirs, closefd=False) as stream:
        before = termios.tcgetattr(stream)
        with key_presses(stream) as pressed:
            assert pressed() == []
            os.write(ours, f" {RIGHT}+{LEFT}".encode())
            until(lambda: select.select([stream], [], [], 0)[0])  # the kernel hands them on in its own time
            assert pressed() == [" ", RIGHT, "+", LEFT]
            assert pressed() == []
        assert termios.tcgetattr(stream) == before
    for end in (ours, theirs):
        os.close(end)
    with key_presses(io.StringIO(" ")) as pressed:
        assert pressed() == []
