"""`redline race`: texts side by side as they were timed, numbers that follow, a race kept and replayed."""

import io
import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from app.cli import race_view
from app.cli.terminal.keyboard import LEFT
from app.cli.terminal.token_style import PLAIN, Look
from app.command_line import INTERRUPTED
from app.protocol import AnyAnswer, PairCompared
from app.race.race_document import RaceDocumentBuilder, open_race, race_json
from app.race.race_replay import Replay
from engine import acceptance
from tests.app.command import Redline, run_on_terminal
from tests.app.race.sample_races import race as made_race
from tests.app.race.sample_races import run, simple, steady
from tests.engine.audit.test_rounding import keep_all

LOOK = Look(True, "truecolor", "dark")


@pytest.fixture
def race(redline: Redline, toy_folder: Path) -> Redline:
    """Runs `redline race` of the toy target with these words."""
    return partial(redline, "race", "--target", toy_folder, "--prompt", "why is the sky blue?")


def rendered(document: Any, look: Look = PLAIN, **console: Any) -> str:
    out = io.StringIO()
    race_view.show(Console(file=out, width=90, highlight=False, **console), look, document)
    return out.getvalue()


def test_a_race_says_what_it_found(race: Redline, toy_drafter_folder: Path) -> None:
    done = race("--drafter", toy_drafter_folder, "--draft-length", "3", "--max-tokens", "16")
    assert done.code == 0 and done.out.startswith("--- Plain decoding, ")
    assert "--- Drafter, " in done.out
    assert "medians of 3 runs each, AB BA AB; measured one after the other, then replayed side by side" in done.out
    assert "receipt: texts identical over 16 tokens in all 3 pairs of runs" in done.out
    assert "\x1b" not in done.out and done.err == ""


@pytest.mark.usefixtures("not_installed")
def test_redline_that_is_not_installed_races(race: Redline) -> None:
    done = race("--max-tokens", "6", "--runs", "1", "--json")
    assert json.loads(done.out)["environment"]["redline"] == "unknown"


def test_a_race_that_was_saved_is_replayed_with_no_model_and_says_how_it_was_sampled(
    race: Redline, redline: Redline, tmp_path: Path
) -> None:
    path = tmp_path / "race.json"
    shaped = ["--top-p", "0.9", "--presence-penalty", "0.5", "--frequency-penalty", "0.25"]
    done = race(*shaped, "--max-tokens", "8", "--runs", "1", "--draft-length", "2", "--save", path)
    assert done.code == 0
    sampling = open_race(path).sampling
    assert (sampling.top_p, sampling.presence_penalty, sampling.frequency_penalty) == (0.9, 0.5, 0.25)
    assert "greedy, top-p 0.9, presence-penalty 0.5, frequency-penalty 0.25" in " ".join(done.out.split())
    words = ["race", "--replay", path, "--target", "nowhere"]
    assert redline(*words).out == done.out
    assert redline(*words, "--json").json == json.loads(path.read_text())


@pytest.mark.slow
def test_any_two_sides_may_race(race: Redline, toy_drafter_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    options = ["--temperature", "1", "--seed", "4", "--max-tokens", "12", "--runs", "2", "--save", path]
    done = race("--side", "lookup:2:coupled", "--side", f"{toy_drafter_folder}:4:coupled", *options)
    assert done.code == 0 and "Prompt lookup" in done.out
    document = open_race(path)
    assert [one.side.draft_length for one in document.sides] == [2, 4]
    assert [one.name for one in document.sides] == ["lookup", "drafter"]
    assert (document.sampling.temperature, document.sampling.seed) == (1.0, 4)
    assert all(receipt.promised and receipt.divergence is None for receipt in document.receipts)


def test_rejection_at_a_temperature_claims_nothing(race: Redline) -> None:
    more = ["--seed", "1", "--runs", "1", "--max-tokens", "8", "--draft-length", "2"]
    found = race("--temperature", "1", *more, "--json").json
    assert found["results"]["identical"] == [None]
    assert [one["side"]["acceptance"] for one in found["sides"]] == ["rejection", "rejection"]


@pytest.mark.parametrize("more", [[], ["--exact"]])
def test_a_wrong_acceptance_fails(
    more: list[str], race: Redline, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "match", keep_all)
    drafting = ["--drafter", toy_drafter_folder, "--draft-length", "4", "--max-tokens", "40", "--runs", "1"]
    done = race(*drafting, *more)
    assert done.code == 1 and "a failure" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--drafter", "none"], "would race plain decoding against itself"),
        (["--runs", "0"], "runs is 0"),
        (["--prompt", " "], "the prompt is empty"),
        (["--side", "lookup", "--drafter", "lookup"], "leave --drafter, --draft-length and --tree out"),
        (["--side", "none", "--side", "lookup", "--side", "lookup"], "name 3 sides: a race is between 2"),
        (["--model", "m"], "--model is given 1 times: give it once for each --against"),
        (["--against", "ftp://x"], "is not the address of a server"),
        (["--side", "lookup:99"], "draft-length is 99"),
        (["--replay", "race.json"], "leave --prompt, --side and --against out"),
        (["--animation", "race.mp4"], "an animation ends in .gif, .png, .webp"),
        (["--save", "nowhere/race.json"], "give --save a file in a folder of yours"),
        (["--png", "."], "give --png a file in a folder of yours"),
        (["--repetition-penalty", "200"], "repetition-penalty is 200.0"),
    ],
)
def test_nonsense_is_refused(arguments: list[str], message: str, race: Redline) -> None:
    done = race(*arguments)
    assert done.code == 2 and message in done.err


def test_nothing_to_race_is_refused(redline: Redline) -> None:
    done = redline("race")
    assert done.code == 2 and "give --prompt, or --replay" in done.err


def test_a_race_is_told_though_it_cannot_be_kept_or_drawn(
    race: Redline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("models.durable_files.write_file", full)
    done = race("--max-tokens", "6", "--runs", "1", "--draft-length", "2", "--save", tmp_path / "race.json")
    assert done.code == 1 and "receipt: texts identical over 6 tokens" in done.out
    assert "race.json cannot be written (No space left on device)" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_race_that_is_stopped_says_so(race: Redline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C once the first pair is whole."""
    whole = []
    hear = RaceDocumentBuilder.hear

    def heard(builder: RaceDocumentBuilder, answer: AnyAnswer) -> None:
        hear(builder, answer)
        if isinstance(answer, PairCompared) and not whole:
            whole.append(answer)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RaceDocumentBuilder, "hear", heard)
    done = race("--max-tokens", "6", "--runs", "3", "--draft-length", "2")
    assert done.code == INTERRUPTED and "one run each" in done.out
    assert "stopped before the last of 3 runs" in done.err


def test_exact_verify_promises_every_bit(race: Redline) -> None:
    done = race("--exact", "--max-tokens", "8", "--runs", "1", "--draft-length", "2")
    assert done.code == 0 and "receipt: texts identical, to the last bit, over 8 tokens" in done.out


# --- what is shown ----------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_runs() -> None:
    out = rendered(simple())
    plain = next(line.split() for line in out.splitlines() if line.startswith("Plain decoding "))
    other = next(line.split() for line in out.splitlines() if line.startswith("Prompt lookup "))
    assert plain == ["Plain", "decoding", "12", "10.0", "0.10", "s", "1.20", "s", "12", "1.00"]
    assert other == ["Prompt", "lookup", "12", "24.4", "0.15", "s", "0.60", "s", "4", "3.00"]
    assert "speed-up 2.00\N{MULTIPLICATION SIGN} with the prompt" in out


def test_a_terminal_gets_two_columns_and_both_cues() -> None:
    out = rendered(simple(parts_at=3), LOOK, force_terminal=True, color_system="truecolor")
    assert any(line.count("The sky") == 2 for line in out.splitlines())
    assert "48;2;21;68;56" in out  # accepted
    assert "\x1b[3;7;" in out or "\x1b[7;" in out  # where they differ, reversed


def test_a_near_tie_is_never_called_identical() -> None:
    out = rendered(simple(parts_at=3))
    assert "receipt: texts differ after 3 tokens: a near-tie, gap 1 ULPs, rounding noise 1 ULPs" in out
    assert "identical" not in out
    assert "there Plain decoding says ',', Prompt lookup says ','" in out


@pytest.mark.parametrize("look", [PLAIN, LOOK])
def test_no_text_steers_the_terminal(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.app.race.sample_races.WORDS", ("\x1b[2J", "\x9b", "[bold]", "\u202e"))
    out = rendered(made_race([(steady(0, 1, range(4), 1, 0.1), steady(1, 1, range(4), 2, 0.1))]), look)
    assert "\x1b[2J" not in out
    assert "\x9b" not in out
    assert "\u202e" not in out
    assert "[bold]" in out


def test_a_replay_shows_tokens_when_they_came() -> None:
    """At 0.2 s plain has two tokens and the other its first round of three."""
    out = io.StringIO()
    console = Console(file=out, width=90, height=24, force_terminal=True)
    console.print(race_view.frame(console, Look(True), Replay(simple()), 0.2))
    text = out.getvalue()
    assert "2/12" in text
    assert "3/12" in text
    assert text.count("blue") == 1
    assert "identical so far: 2 tokens" in text
    assert "measured one after the other, then replayed side by side" in text


@pytest.mark.parametrize(("speed", "said"), [(1.0, "side by side\x1b"), (0.5, "side by side, at half its speed")])
def test_a_replay_takes_its_time_and_says_how_much(speed: float, said: str) -> None:
    """Of 1.2 s, with a clock that moves only while it sleeps."""
    slept: list[float] = []
    out = io.StringIO()
    console = Console(file=out, width=130, height=24, force_terminal=True)
    race_view.play(console, Look(True), simple(), speed, lambda: sum(slept), slept.append)
    assert sum(slept) == pytest.approx(1.2 / speed, abs=2 / race_view.FRAMES_PER_S)
    assert said in out.getvalue()


def test_keys_pause_move_and_change_the_pace() -> None:
    """Of 1.2 s: paused for a second, sent back to its beginning, then twice as fast; a key that it does not know."""
    slept: list[float] = []
    presses = {4: [" "], 24: [" "], 26: [LEFT] * 50, 28: ["+", "x"]}
    console = Console(file=io.StringIO(), width=130, height=24, force_terminal=True)
    keys = lambda: presses.get(len(slept), [])  # noqa: E731
    race_view.play(console, Look(True), simple(), 1.0, lambda: sum(slept), slept.append, keys)
    frame_s = 1 / race_view.FRAMES_PER_S
    played_s = 28 * frame_s + (1.2 - 2 * frame_s) / 2
    assert sum(slept) == pytest.approx(played_s, abs=2 * frame_s)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_replay_keeps_to_the_window(width: int) -> None:
    rounds = [(0.1 * (i + 1), [10, 0, 9]) for i in range(60)]
    document = made_race([(run(0, 1, rounds), run(1, 1, rounds, drafts=True))])
    console = Console(file=io.StringIO(), width=width, height=20, force_terminal=True)
    lines = console.render_lines(race_view.frame(console, Look(True), Replay(document), 5.0))
    assert len(lines) < 20
    assert all(sum(segment.cell_length for segment in line) <= width for line in lines)


@pytest.mark.slow
def test_a_terminal_sees_the_replay_and_then_the_result(tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    path.write_bytes(race_json(simple()))
    code, shown = run_on_terminal("race", "--replay", path, COLUMNS="100")
    assert code == 0 and "identical so far" in shown and "receipt: texts identical over 12 tokens" in shown
