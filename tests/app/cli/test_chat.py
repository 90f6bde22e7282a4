"""The interactive conversation: what each line does, with a recorded session in place of a model."""

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
from app.inference.conversation import open_conversation
from app.inference.options import Options
from engine.drafters.draft_model import DraftModel
from engine.errors import ContextError, ModelError
from engine.events import Event, Finished
from engine.settings import SamplingSettings
from tests.app.cli.recorded_chat import RecordedChat, Take, talk, whole
from tests.app.recordings import REPLY, TEXT, round_


def stopped_early() -> Iterator[Event]:
    yield REPLY[0]
    yield Finished("cancelled", 0, 0.1)


def stopped_halfway() -> Iterator[Event]:
    yield REPLY[0]
    yield round_(0, ["half"], 0, 0)
    signal.raise_signal(signal.SIGINT)
    yield round_(1, [" more"], 0, 0)


def broken_off_at_once() -> Iterator[Event]:
    press_twice()
    yield REPLY[0]


def broken_off_halfway() -> Iterator[Event]:
    yield round_(0, ["half"], 0, 0)
    press_twice()


def press_twice() -> None:
    """Ctrl-C twice while a reply is under way."""
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


def fails_with(error: Exception) -> Take:
    def take() -> Iterator[Event]:
        raise error
        yield

    return take


too_long = fails_with(ContextError("the prompt is too long"))
lost = fails_with(RuntimeError("[ring] connection to a peer was lost"))
refused = fails_with(ModelError("the template refuses this"))


@pytest.mark.parametrize("leave", [EOFError, KeyboardInterrupt])
def test_ctrl_c_and_ctrl_d_at_the_prompt_leave(leave: type[BaseException]) -> None:
    chat = RecordedChat()
    chat.type(leave=leave)
    assert chat.session.asked == []


def test_a_mac_stays_awake_for_each_reply_and_not_at_the_prompt(
    activities: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, play = RecordedChat(), Terminal.play
    monkeypatch.setattr(Terminal, "play", lambda *a: (activities.append("reply"), play(*a))[1])
    lines = ["two", "one"]

    def ask() -> str:
        activities.append("prompt")
        if not lines:
            raise EOFError
        return lines.pop()

    assert converse(chat.conversation, Terminal(chat.out, chat.notes, PLAIN), ask) == 0
    assert activities == [*["prompt", "begins", "reply", "ends"] * 2, "prompt"]


def test_each_turn_is_answered_in_the_light_of_those_before() -> None:
    chat = RecordedChat()
    chat.type("/system Be brief.", "one", "two", "/clear", "three", "/quit", "four")
    asked = [[message["content"] for message in messages] for messages in chat.session.asked]
    assert asked == [["Be brief.", "one"], ["Be brief.", "one", TEXT, "two"], ["Be brief.", "three"]]
    assert [message["role"] for message in chat.session.asked[1]] == ["system", "user", "assistant", "user"]
    assert chat.out.getvalue() == f"{TEXT}\n" * 3


def test_a_stopped_reply_stays_and_one_without_a_token_takes_its_question_back() -> None:
    chat = RecordedChat(stopped_halfway, stopped_early)
    notes = chat.type("tell me", "and now?")
    assert "stopped by Ctrl-C" in notes and "was removed" in notes
    assert chat.said == ["tell me", "half"]


def test_regenerate_asks_the_last_question_again_with_another_seed() -> None:
    options = Options(sampling=SamplingSettings(draft_length=4, temperature=0.7, seed=5))
    chat = RecordedChat(options=options)
    assert "there is no message to reply to yet" in chat.type("/regenerate", "one", "two", "/again")
    assert chat.session.asked[1] == chat.session.asked[2]
    assert chat.session.seeds == [5, 5, 6]
    assert chat.said == ["one", TEXT, "two", TEXT]


@pytest.mark.parametrize(
    ("take", "said", "kept"),
    [
        (stopped_early, "the old one stays", TEXT),
        (broken_off_at_once, "stopped\n", TEXT),
        (broken_off_halfway, "stopped\n", "half"),
        (too_long, "the prompt is too long", TEXT),
        (lost, "a machine that computes a part of this model is gone", TEXT),
        (refused, "the template refuses this", TEXT),
    ],
)
def test_regenerate_keeps_the_old_reply_until_there_is_a_new_one(take: Take, said: str, kept: str) -> None:
    chat = RecordedChat(whole, take)
    assert said in chat.type("one", "/regenerate")
    assert chat.said == ["one", kept]


def test_a_second_ctrl_c_during_a_reply_ends_the_reply_and_not_the_conversation() -> None:
    chat = RecordedChat(broken_off_halfway, broken_off_at_once, whole)
    assert chat.type("one", "two", "three").count("stopped\n") == 2
    assert chat.said == ["one", "half", "three", TEXT]


def test_a_full_context_says_how_to_go_on_and_trim_keeps_the_last_turns() -> None:
    chat = RecordedChat(whole, whole, too_long, whole)
    notes = chat.type("one", "two", "three", "/trim 3", "/trim some", "four")
    assert "the prompt is too long; /trim 4 forgets all but the last 4 messages" in notes
    assert "forgot 2 messages, kept 2" in notes and "say how many of the last messages to keep" in notes
    assert chat.said == ["two", TEXT, "four", TEXT]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/nonsense", "there is no command /nonsense; /help lists them all"),
        ("/regenrate", "there is no command /regenrate; did you mean /regenerate? /help lists them all"),
        ("/help", "/regenerate"),
        ("/length 33", "draft-length is 33"),
        ("/length x", "draft-length is 'x'"),
        ("/length 0", "plain decoding"),
        ("/temperature warm", "temperature is 'warm'"),
        ("/temperature 0.5", "temperature 0.5, seed 0, rejection"),
        ("/drafter", "give auto, none, lookup, eagle3, medusa, draft or the folder"),
        ("/save", "give the name of a file"),
        ("/stats", "there is no reply yet"),
        ("/verify", "there is no reply to verify yet"),
    ],
)
def test_a_command_says_what_it_did_or_what_is_wrong(line: str, said: str) -> None:
    chat = RecordedChat()
    assert said in chat.type(line)
    assert chat.session.asked == []


def test_a_path_or_a_pasted_text_is_a_message_not_a_command() -> None:
    chat = RecordedChat()
    chat.type("/usr/bin/env is what?", "/ is the root")
    assert len(chat.session.asked) == 2


def test_save_writes_the_conversation_once(tmp_path: Path) -> None:
    chat, file = RecordedChat(), tmp_path / "talk.md"
    notes = chat.type("one", f"/save {file}", f"/save {file}")
    assert file.read_text() == f"## You\n\none\n\n## Model\n\n{TEXT}\n"
    assert "written to" in notes and "cannot be written (File exists)" in notes


def test_a_refused_drafter_leaves_the_old_one(toy_folder: Path, toy_drafter_folder: Path) -> None:
    options = Options(str(toy_folder), sampling=SamplingSettings(draft_length=2))
    conversation = open_conversation(options, "", lambda text: None)
    assert "/nowhere: no such model folder" in talk(conversation, "/drafter /nowhere", f"/drafter {toy_drafter_folder}")
    assert isinstance(conversation.pair.drafter.drafter, DraftModel)
    talk(conversation, "hello")
    assert conversation.messages[-1]["role"] == "assistant"


# --- the keyboard -----------------------------------------------------------------------------


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
