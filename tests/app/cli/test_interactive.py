"""Ctrl-C, refusals, /verify and failing drafters in a conversation: a line that is not finished changes nothing."""

from __future__ import annotations

import dataclasses
import io
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.cli.interactive_chat import converse
from app.cli.main import main
from app.cli.terminal.reply_view import Terminal
from app.cli.terminal.token_style import PLAIN, Look
from app.inference import loaded_pair, pair_loader
from app.inference.conversation import Conversation, open_conversation
from app.inference.options import Options
from app.inference.pair_loader import NamedDrafter
from engine.drafters.draft_model import DraftModel
from engine.errors import ContextError, ModelError
from engine.events import Event, Finished, PromptProgress
from engine.settings import SamplingSettings
from tests.app.cli.test_chat import Desk
from tests.app.recordings import REPLY, TEXT, round_
from tests.engine.fewer import paired
from tests.toys.folders import roomy_copy

SHORT, LONGER = SamplingSettings(max_tokens=4), SamplingSettings(max_tokens=24)
Take = Callable[[], Iterator[Event]]


class Takes:
    """A reply for each question, one after the other."""

    def __init__(self, *takes: Take) -> None:
        self._takes = iter(takes)

    def __iter__(self) -> Iterator[Event]:
        return next(self._takes)()


def whole() -> Iterator[Event]:
    yield from REPLY


def stopped_early() -> Iterator[Event]:
    yield REPLY[0]
    yield Finished("cancelled", 0, 0.1)


def stopped_at_once() -> Iterator[Event]:
    insist()
    yield REPLY[0]


def stopped_halfway() -> Iterator[Event]:
    yield round_(0, ["half"], 0, 0)
    insist()


def too_long() -> Iterator[Event]:
    raise ContextError("the prompt is too long")
    yield


def lost() -> Iterator[Event]:
    raise RuntimeError("[ring] connection to a peer was lost")
    yield


def refused() -> Iterator[Event]:
    raise ModelError("the template refuses this")
    yield


def insist() -> None:
    """Ctrl-C twice while a reply is under way."""
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


def desk_with(*takes: Take) -> Desk:
    desk = Desk()
    desk.session.events = Takes(*takes)  # type: ignore[assignment]
    return desk


@pytest.mark.parametrize(
    ("take", "said"),
    [
        (stopped_early, "the old one stays"),
        (stopped_at_once, "stopped\n"),
        (too_long, "the prompt is too long"),
        (refused, "the template refuses this"),
    ],
)
def test_regenerate_keeps_the_old_reply_until_there_is_a_new_one(take: Take, said: str) -> None:
    desk = desk_with(whole, take)
    assert said in desk.type("one", "/regenerate")
    assert desk.conversation.messages == [{"role": "user", "content": "one"}, {"role": "assistant", "content": TEXT}]


def test_a_regenerated_reply_replaces_the_old_one_even_when_it_was_stopped() -> None:
    desk = desk_with(whole, stopped_halfway)
    desk.type("one", "/regenerate")
    assert desk.conversation.messages == [{"role": "user", "content": "one"}, {"role": "assistant", "content": "half"}]


def test_a_second_ctrl_c_during_a_reply_ends_the_reply_and_not_the_conversation() -> None:
    desk = desk_with(stopped_halfway, stopped_at_once, whole)
    assert desk.type("one", "two", "three").count("stopped\n") == 2
    said = [message["content"] for message in desk.conversation.messages]
    assert said == ["one", "half", "three", TEXT]


def test_a_full_context_says_how_to_go_on_and_trim_keeps_the_last_turns() -> None:
    desk = desk_with(whole, whole, too_long, whole)
    notes = desk.type("one", "two", "three", "/trim 3", "/trim some", "four")
    assert "the prompt is too long; /trim 4 forgets all but the last 4 messages" in notes
    assert "forgot 2 messages, kept 2" in notes and "say how many of the last messages to keep" in notes
    assert [message["content"] for message in desk.conversation.messages] == ["two", TEXT, "four", TEXT]


def test_a_lost_machine_ends_the_reply_and_not_the_conversation() -> None:
    desk = desk_with(whole, lost)
    assert "a machine that computes a part of this model is gone" in desk.type("one", "two")
    assert [message["content"] for message in desk.conversation.messages] == ["one", TEXT]


def talk(conversation: Conversation, *lines: str) -> str:
    """Say the lines, then leave; returns what was noted."""
    waiting, notes = iter([*lines, "/quit"]), io.StringIO()
    assert converse(conversation, Terminal(io.StringIO(), notes, PLAIN), lambda: next(waiting)) == 0
    return notes.getvalue()


@pytest.mark.slow_for("measure_costs-*")
@pytest.mark.parametrize(("step", "drafter"), paired(["open_drafter", "measure_costs"], ["lookup", "folder"]))
def test_a_stopped_change_of_drafter_changes_nothing(
    step: str, drafter: str, toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (str(toy_drafter_folder), "lookup") if drafter == "lookup" else ("lookup", str(toy_drafter_folder))
    conversation = open_conversation(Options(str(toy_folder), (first,), sampling=SHORT), "", lambda text: None)
    options, loaded, costs = conversation.options, conversation.pair.drafter.loaded, conversation.pair
    with monkeypatch.context() as patched:
        call: Callable[..., Any] = pair_loader.open_drafter if step == "open_drafter" else lambda *_: None
        patched.setattr(pair_loader, step, first_call_interrupts(call))
        assert "stopped\n" in talk(conversation, f"/drafter {second}", "hello")
    assert (conversation.options, conversation.pair.drafter.spec) == (options, first)
    assert conversation.pair.drafter.loaded is loaded
    assert conversation.pair is costs is not None
    assert [message["role"] for message in conversation.messages] == ["user", "assistant"]


def test_costs_are_measured_once_and_for_no_long_prompt(toy_folder: Path, tmp_path: Path) -> None:
    notes: list[str] = []
    target = roomy_copy(toy_folder, tmp_path / "target")
    conversation = open_conversation(Options(str(target), ("lookup",), sampling=SHORT), "", notes.append)
    for text in ("hello", "hello " * 200, "hello again"):
        list(conversation.ask(text, lambda: False))
    here = "timing these models on this machine"
    assert [*filter(None, notes)] == [f"{here} (only needed once)"]
    assert notes[-1] == ""  # the line is cleared before the reply begins
    told = len(notes)
    conversation.change(dataclasses.replace(conversation.options, draft_lengths=(2,)))
    list(conversation.ask("hello " * 200, lambda: False))
    assert [*filter(None, notes[told:])] == []


def test_a_conversation_is_not_read_again_after_another_system_prompt_and_back(
    toy_folder: Path, tmp_path: Path
) -> None:
    target = roomy_copy(toy_folder, tmp_path / "target")
    options = Options(str(target), ("lookup",), draft_lengths=(2,), sampling=SHORT)
    conversation = open_conversation(options, "", lambda text: None)
    reused = []
    for system in ("", "Answer in French. " * 10, ""):
        conversation.system = system
        events = conversation.ask("hello " * 60, lambda: False)
        progress = [event for event in events if isinstance(event, PromptProgress)]
        reused.append((progress[-1].reused, progress[-1].total))
    assert reused[1][0] < 20 and reused[2][0] > reused[0][1] - 20


def test_the_footer_says_what_drafting_saved_in_the_reply_and_in_the_chat() -> None:
    desk = Desk()
    desk.conversation.pair.calibration.at_hand = lambda context: SimpleNamespace(plain_s=0.4)  # type: ignore
    desk.conversation.pair.drafter = NamedDrafter("lookup", SimpleNamespace(timed=False))  # type: ignore
    first, second, forgotten = (
        line for line in desk.type("one", "two", "/clear", "three").splitlines() if "tok/s" in line
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


@pytest.mark.slow_for("/length*")
@pytest.mark.parametrize(("line", "drafter"), paired(["hello", "/length auto"], ["lookup", "folder"]))
def test_a_reply_after_a_pass_that_ctrl_c_broke_off_is_the_targets(
    line: str, drafter: str, toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened() -> Conversation:
        spec = str(toy_drafter_folder) if drafter == "folder" else drafter
        options = Options(str(toy_folder), (spec,), draft_lengths=(3,), sampling=LONGER)
        return open_conversation(options, "", lambda text: None)

    calm, broken = opened(), opened()
    assert broken.pair.target is not None
    caches = [loaded.model.cache for loaded in (broken.pair.target, broken.pair.drafter.loaded) if loaded]
    for cache in caches:  # the layers have their tokens by then, and nobody has counted them
        with monkeypatch.context() as patched:
            patched.setattr(cache, "advance", first_call_interrupts(lambda tokens: None))
            assert "stopped\n" in talk(broken, line)
        assert {entry.offset for entry in cache.entries} == {cache.length}
        talk(broken, "/clear")
    talk(calm, "what now?")
    talk(broken, "what now?")
    assert broken.messages == calm.messages


# --- `/verify` in the conversation at the keyboard: the last reply held against plain decoding

SAMPLINGS = {
    "greedy": SamplingSettings(max_tokens=12),
    "coupled": SamplingSettings(max_tokens=12, temperature=0.9, acceptance="coupled", seed=5),
    "exact": SamplingSettings(max_tokens=12, exact=True),
}


def opened(
    toy_folder: Path, toy_drafter_folder: Path, sampling: SamplingSettings = SAMPLINGS["greedy"]
) -> Conversation:
    options = Options(str(toy_folder), (str(toy_drafter_folder),), (sampling.temperature,), (3,), sampling=sampling)
    return open_conversation(options, "", lambda text: None)


@pytest.mark.parametrize(
    "sampling", [pytest.param(name, marks=() if name == "exact" else pytest.mark.slow) for name in SAMPLINGS]
)
def test_a_reply_is_what_plain_decoding_says_and_the_talk_goes_on(
    sampling: str, toy_folder: Path, toy_drafter_folder: Path
) -> None:
    conversation = opened(toy_folder, toy_drafter_folder, SAMPLINGS[sampling])
    bits = ", to the last bit" if sampling == "exact" else ""
    assert f"receipt: identical over 12 tokens{bits}\n" in talk(conversation, "hello", "/verify", "and now?", "/verify")
    calm = opened(toy_folder, toy_drafter_folder, SAMPLINGS[sampling])
    talk(calm, "hello", "and now?")
    assert conversation.messages == calm.messages


def test_rejection_promises_no_more_than_the_distribution(toy_folder: Path, toy_drafter_folder: Path) -> None:
    conversation = opened(toy_folder, toy_drafter_folder, replace(SAMPLINGS["coupled"], acceptance="rejection"))
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
    options = Options(str(toy_folder), (str(toy_drafter_folder),), draft_lengths=(3,), sampling=LONGER)
    conversation = open_conversation(options, "", lambda text: None)
    out, waiting = io.StringIO(), iter(["hello", "/quit"])
    look = Look(escapes=True)
    assert converse(conversation, Terminal(out, io.StringIO(), look, lambda: 200), lambda: next(waiting)) == 0
    assert any(LINE in line and "draft refused" not in line for line in out.getvalue().splitlines())
    assert conversation.pair.has_drafter
