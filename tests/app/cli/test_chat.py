"""The interactive conversation: what each line does, with a recorded session in place of a model."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from app.cli.interactive_chat import converse, editor, history
from app.cli.terminal.keyboard import ctrl_c
from app.cli.terminal.reply_view import Terminal
from app.cli.terminal.token_style import PLAIN
from app.inference.conversation import Conversation
from app.inference.options import Options
from engine.errors import ContextError
from engine.events import Event, Finished
from engine.settings import SamplingSettings
from tests.app.recordings import REPLY, TEXT, RecordedSession, recorded_pair, round_


class Desk:
    """A conversation with a recorded session, lines to say and what was shown."""

    def __init__(self, events: tuple[Event, ...] = REPLY, options: Options | None = None) -> None:
        self.session = RecordedSession(events)
        self.conversation = Conversation(
            options or Options(draft_lengths=(4,)),
            recorded_pair(self.session),
        )
        self.out, self.notes = io.StringIO(), io.StringIO()

    def type(self, *lines: str, leave: type[BaseException] = EOFError) -> str:
        """Say the lines, then leave; returns what was noted."""
        waiting = iter(lines)

        def ask() -> str:
            line = next(waiting, None)
            if line is None:
                raise leave
            return line

        assert converse(self.conversation, Terminal(self.out, self.notes, PLAIN), ask) == 0
        return self.notes.getvalue()

    @property
    def roles(self) -> list[str]:
        return [message["role"] for message in self.conversation.messages]


@pytest.mark.parametrize("leave", [EOFError, KeyboardInterrupt])
def test_ctrl_c_and_ctrl_d_at_the_prompt_leave(leave: type[BaseException]) -> None:
    desk = Desk()
    desk.type(leave=leave)
    assert desk.session.asked == []


def test_a_mac_stays_awake_for_each_reply_and_not_at_the_prompt(
    activities: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    play = Terminal.play
    monkeypatch.setattr(Terminal, "play", lambda *a: (activities.append("reply"), play(*a))[1])
    lines = iter(["one", "two"])

    def ask() -> str:
        activities.append("prompt")
        line = next(lines, None)
        if line is None:
            raise EOFError
        return line

    assert converse(desk.conversation, Terminal(desk.out, desk.notes, PLAIN), ask) == 0
    assert activities == [*["prompt", "begins", "reply", "ends"] * 2, "prompt"]


def test_each_turn_is_answered_in_the_light_of_those_before() -> None:
    desk = Desk()
    desk.type("/system Be brief.", "one", "two", "/quit", "three")
    reply = {"role": "assistant", "content": TEXT}
    system, one, two = ({"role": role, "content": text} for role, text in _turns())
    assert desk.session.asked == [[system, one], [system, one, reply, two]]
    assert desk.out.getvalue() == f"{TEXT}\n" * 2


def _turns() -> list[tuple[str, str]]:
    return [("system", "Be brief."), ("user", "one"), ("user", "two")]


def test_a_stopped_reply_stays_in_the_conversation() -> None:
    def events() -> Iterator[Event]:
        yield REPLY[0]
        yield round_(0, ["half"], 0, 0)
        os.kill(os.getpid(), signal.SIGINT)
        yield round_(1, [" more"], 0, 0)

    desk = Desk()
    desk.session.events = events()  # type: ignore[assignment]
    notes = desk.type("tell me")
    assert desk.conversation.messages[-1] == {"role": "assistant", "content": "half"}
    assert "stopped by Ctrl-C" in notes


def test_a_reply_stopped_before_its_first_token_takes_the_question_back() -> None:
    desk = Desk((REPLY[0], Finished("cancelled", 0, 0.1)))
    assert "was removed" in desk.type("tell me")
    assert desk.conversation.messages == []


def test_what_goes_wrong_is_said_and_the_conversation_goes_on() -> None:
    def events() -> Iterator[Event]:
        raise ContextError("the prompt has 9 tokens, but the context holds only 8: shorten it")
        yield

    desk = Desk()
    desk.session.events = events()  # type: ignore[assignment]
    notes = desk.type("too long", "/stats")
    assert "the context holds only 8: shorten it\n" in notes
    assert "there is no reply yet" in notes
    assert desk.conversation.messages == []


def test_regenerate_asks_the_last_question_again_with_another_seed() -> None:
    desk = Desk(options=Options(draft_lengths=(4,), temperatures=(0.7,), sampling=SamplingSettings(seed=5)))
    desk.type("/regenerate", "one", "two", "/again")
    assert desk.session.asked[1] == desk.session.asked[2]
    assert desk.session.seeds == [5, 5, 6]
    assert desk.roles == ["user", "assistant"] * 2
    assert "there is no message to reply to yet" in desk.notes.getvalue()


def test_clear_forgets_the_turns_but_not_the_system_prompt() -> None:
    desk = Desk()
    desk.type("/system Be brief.", "one", "/clear", "two")
    assert [message["content"] for message in desk.session.asked[-1]] == ["Be brief.", "two"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/nonsense", "there is no command /nonsense; /help lists them all"),
        ("/regenrate", "there is no command /regenrate; did you mean /regenerate? /help lists them all"),
        ("/help", "/regenerate"),
        ("/length 33", "draft-length is 33"),
        ("/length x", "draft-length is 'x'"),
        ("/length 0", "plain decoding"),
        ("/temperature -1", "temperature is -1.0"),
        ("/temperature warm", "temperature is 'warm'"),
        ("/temperature 0.5", "temperature 0.5, seed 0, rejection"),
        ("/drafter", "give auto, none, lookup, eagle3, medusa, draft or the folder"),
        ("/save", "give the name of a file"),
    ],
)
def test_a_command_says_what_it_did_or_what_is_wrong(line: str, said: str) -> None:
    desk = Desk()
    assert said in desk.type(line)
    assert desk.session.asked == []


def test_a_path_or_a_pasted_text_is_a_message_not_a_command() -> None:
    desk = Desk()
    desk.type("/usr/bin/env is what?", "/ is the root")
    assert len(desk.session.asked) == 2


def test_save_writes_the_conversation_once(tmp_path: Path) -> None:
    desk, file = Desk(), tmp_path / "talk.md"
    notes = desk.type("one", f"/save {file}", f"/save {file}")
    assert file.read_text() == f"## You\n\none\n\n## Model\n\n{TEXT}\n"
    assert "written to" in notes and "cannot be written (File exists)" in notes


def test_a_refused_drafter_leaves_the_old_one(toy_folder: Path, toy_drafter_folder: Path) -> None:
    from app.inference.conversation import open_conversation

    conversation = open_conversation(Options(str(toy_folder), draft_lengths=(2,)), "", lambda text: None)
    notes = io.StringIO()
    lines = iter(["/drafter /nowhere", f"/drafter {toy_drafter_folder}", "hello", "/quit"])
    out = io.StringIO()
    converse(conversation, Terminal(out, notes, PLAIN), lambda: next(lines))
    assert "/nowhere: no such model folder" in notes.getvalue()
    assert conversation.pair.drafter.loaded is not None
    assert conversation.messages[-1]["role"] == "assistant"


def test_the_first_ctrl_c_asks_and_the_second_insists() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), ctrl_c() as cancelled:
        assert not cancelled()
        signal.raise_signal(signal.SIGINT)
        assert cancelled()
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


PASTE = "\x1b[200~first\nsecond\x1b[201~"


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("hello\r", "hello"),
        ("typed ahead\n", "typed ahead"),
        (f"{PASTE}\r", "first\nsecond"),
        ("one\x1b\rtwo\r", "one\ntwo"),
        ("oops\x03again\r", "again"),
        ("\x1b[A\r", "before"),
    ],
)
def test_the_editor(keys: str, line: str) -> None:
    assert edit(keys) == line


@pytest.mark.parametrize(("keys", "error"), [("\x03", KeyboardInterrupt), ("\x04", EOFError)])
def test_the_editor_can_be_left(keys: str, error: type[BaseException]) -> None:
    with pytest.raises(error):
        edit(keys)


def edit(keys: str) -> str:
    with create_pipe_input() as pipe:
        pipe.send_text(keys)
        ask: Callable[[], str] = editor(InMemoryHistory(["before"]), input=pipe, output=DummyOutput())
        return ask()


def test_history_is_kept_for_the_user_alone(tmp_path: Path) -> None:
    history(tmp_path / "data").append_string("secret")
    file = tmp_path / "data" / "chat_history"
    assert file.stat().st_mode & 0o077 == 0
    assert list(history(tmp_path / "data").load_history_strings()) == ["secret"]
    (tmp_path / "file").touch()
    assert isinstance(history(tmp_path / "file" / "data"), InMemoryHistory)
