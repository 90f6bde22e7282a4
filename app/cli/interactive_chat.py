"""A conversation in the terminal: a line editor with history, and the commands that begin with a slash."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_data_path
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output

from app import macos
from app.cli.terminal.keyboard import ctrl_c, unseen_typing
from app.cli.terminal.reply_view import Terminal, details
from app.command_line import OK, lost_machine
from app.inference.options import read_draft_length
from app.inference.reply_events import ReplyEvent
from app.markdown_blocks import details_block
from app.reply_statistics import chat_in_words, count
from app.safe_text import trusted
from app.spelling_suggestion import did_you_mean
from app.store.records import Statistics
from engine.errors import ContextError, RedlineError, UsageError
from engine.metrics import Metrics
from models.builtin import SHIPPED

if TYPE_CHECKING:  # imports MLX, which takes seconds
    from app.inference.conversation import Conversation

Ask = Callable[[], str]

LISTED = 5  # differences of a receipt that are shown
_LINE = re.compile(r"/([a-z]+)(?:\s+(.*))?", re.DOTALL)
_COMMANDS = {  # what follows a slash, and what it does
    "/help": "list these commands",
    "/clear": "forget the conversation; the system prompt stays",
    "/trim N": "forget all but the last N messages, for a context that is full",
    "/system TEXT": "set the system prompt; without TEXT, remove it",
    "/regenerate": "reply to the last message again",
    "/drafter NAME|FOLDER": "choose the drafter: auto, none, lookup, a name or a folder",
    "/length N|auto": "set how many tokens to draft each round; 0 is plain decoding",
    "/temperature T": "set the temperature; 0 is greedy",
    "/thoughts show|hide": "show thoughts, or only how long they took",
    "/stats": "show the statistics of the last reply",
    "/verify": "decode the last reply again plainly, and say whether it is the same",
    "/save FILE": "write the conversation as Markdown",
    "/quit": "leave, as Ctrl-D does",
}
_ALIASES = {"again": "regenerate", "exit": "quit"}
_NAMES = [usage.split()[0] for usage in _COMMANDS]
_KEYS = "Enter sends, Alt-Enter begins a new line, Ctrl-C stops a reply and keeps its text."


def converse(conversation: Conversation, terminal: Terminal, ask: Ask | None = None) -> int:
    """Replies to each line until the user leaves, and returns the exit code. ask: reads a line."""
    talk = Talk(conversation, terminal)
    if ask is None:
        past = history(user_data_path("redline", appauthor=False))
        screen = sys.stdout if sys.stdout.isatty() else sys.stderr  # even when the replies go to a file
        ask = editor(past, output=create_output(trusted(screen)))
    terminal.speculating = conversation.speculating
    terminal.introduce(f"{conversation.describe()} · /help")
    while not talk.over:
        try:
            line = ask().strip()
        except (EOFError, KeyboardInterrupt):
            break
        try:
            if line:
                with macos.activity("redline chat"):
                    talk.take(line)
        except KeyboardInterrupt:  # the line is not carried out, and the conversation is as it was
            terminal.note("stopped\n")
    return OK


class Talk:
    """Carries out each line. A method that begins with _do_ is a command, called with what follows its name."""

    def __init__(self, conversation: Conversation, terminal: Terminal) -> None:
        self.over = False
        self._conversation, self._terminal = conversation, terminal
        self._last: Metrics | None = None
        self._replies: list[Statistics] = []

    def take(self, line: str) -> None:
        """Runs a command or replies to a message. Shows what goes wrong; the conversation continues."""
        found = _LINE.fullmatch(line)
        try:
            if found is None:
                self._answer(line)
            elif f"/{(name := _ALIASES.get(found[1], found[1]))}" in _NAMES:
                getattr(self, f"_do_{name}")((found[2] or "").strip())
            else:
                meant = did_you_mean(f"/{found[1]}", _NAMES) or ";"
                self._say(f"there is no command /{found[1]}{meant} /help lists them all")
        except RedlineError as error:
            self._say_error(error)
        except RuntimeError as error:
            self._say_error(lost_machine(error))
        if not self.over:
            self._say("")

    def _say_error(self, error: RedlineError) -> None:
        full = isinstance(error, ContextError) and self._conversation.messages
        hint = "; /trim 4 forgets all but the last 4 messages" if full else ""
        self._say(" ".join(str(error).split()) + hint)

    def _answer(self, text: str) -> None:
        reply = partial(self._conversation.ask, text)
        self._play(reply, "the reply was empty, so the question was removed")

    def _play(self, reply: Callable[[Callable[[], bool]], Generator[ReplyEvent]], nothing: str) -> None:
        """Shows a reply. nothing: what to say if it was empty."""
        before = self._conversation.messages
        with ctrl_c() as cancelled, unseen_typing(sys.stdin), closing(reply(cancelled)) as events:
            self._last = self._terminal.play(events, self._conversation.options.seed_line, self._compare)
        if self._conversation.messages is before:  # a reply makes a new list
            self._say(nothing)

    def _compare(self, metrics: Metrics) -> str:
        """Takes the numbers of a reply that ended, and compares it and the chat so far with plain decoding."""
        self._replies.append(Statistics.of(metrics, self._conversation.plain_s))
        return chat_in_words(self._replies)

    def _do_help(self, _: str) -> None:
        width = max(map(len, _COMMANDS))
        self._say("\n".join([*(f"{usage:{width}}  {what}" for usage, what in _COMMANDS.items()), _KEYS]))

    def _do_clear(self, _: str) -> None:
        self._conversation.clear()
        self._replies.clear()
        self._say("conversation forgotten")

    def _do_trim(self, text: str) -> None:
        if not text.isdecimal():
            raise UsageError("say how many of the last messages to keep, such as /trim 4")
        forgotten = self._conversation.trim(int(text))
        self._say(f"forgot {count(forgotten, 'message')}, kept {len(self._conversation.messages)}")

    def _do_system(self, text: str) -> None:
        self._conversation.system = text
        self._say(f"system prompt: {text}" if text else "no system prompt")

    def _do_regenerate(self, _: str) -> None:
        if not self._conversation.messages:
            raise UsageError("there is no message to reply to yet")
        if self._conversation.options.sampling.greedy:
            self._say("at temperature 0 the reply stays the same; /temperature 0.7 lets it vary")
        self._conversation.reseed()
        self._play(self._conversation.regenerate, "the reply was empty, so the old one stays")

    def _do_drafter(self, name: str) -> None:
        if not name:
            raise UsageError(f"give auto, none, lookup, {', '.join(SHIPPED)} or the folder of a drafter")
        self._change(drafters=(name,))

    def _do_length(self, text: str) -> None:
        self._change_sampling(draft_length=read_draft_length(text))

    def _do_temperature(self, text: str) -> None:
        try:
            temperature = float(text)
        except ValueError:
            raise UsageError(f"temperature is {text!r}: give a number, 0 is greedy") from None
        own = self._conversation.options.sampling.from_model
        self._change_sampling(temperature=temperature, from_model=tuple(name for name in own if name != "temperature"))

    def _do_thoughts(self, text: str) -> None:
        if text not in ("show", "hide"):
            raise UsageError("give show or hide")
        self._terminal.thoughts = text == "show"
        self._say("thoughts are shown" if self._terminal.thoughts else "thoughts are hidden")

    def _do_stats(self, _: str) -> None:
        self._say("there is no reply yet" if self._last is None else details(self._last))

    def _do_verify(self, _: str) -> None:
        with ctrl_c() as cancelled, unseen_typing(sys.stdin):
            receipt = self._conversation.verify(cancelled)
        self._say("\n".join([f"receipt: {receipt.summary}", *map(str, receipt.differences[:LISTED])]))

    def _do_save(self, name: str) -> None:
        if not name:
            raise UsageError("give the name of a file")
        path = Path(name).expanduser()
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(markdown(self._conversation))
        except OSError as error:
            raise UsageError(f"{path} cannot be written ({error.strerror}): give another name") from error
        self._say(f"written to {path}")

    def _do_quit(self, _: str) -> None:
        self.over = True

    def _change_sampling(self, **changes: Any) -> None:
        self._change(sampling=replace(self._conversation.options.sampling, **changes))

    def _change(self, **changes: Any) -> None:
        self._conversation.change(replace(self._conversation.options, **changes))
        self._terminal.speculating = self._conversation.speculating
        self._say(self._conversation.describe())

    def _say(self, text: str) -> None:
        self._terminal.note(text)


def markdown(conversation: Conversation) -> str:
    """Returns the conversation as Markdown."""
    head = [("System", conversation.system)] if conversation.system else []
    names = {"user": "You", "assistant": "Model"}
    turns = [*head, *((names[message["role"]], _with_thought(message)) for message in conversation.messages)]
    return "\n\n".join(f"## {name}\n\n{text.strip()}" for name, text in turns) + "\n"


def _with_thought(message: Mapping[str, str]) -> str:
    """Returns a message as Markdown, its thought collapsed above it."""
    thought = message.get("thought", "").strip()
    return f"{details_block('Thought', thought)}\n\n{message['content'].strip()}" if thought else message["content"]


def history(folder: Path) -> History:
    """Returns what was typed before: in a file that only the user can read, or in memory if there can be no file."""
    file = folder / "chat_history"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


def editor(past: History, **streams: Any) -> Ask:
    """Returns a line editor. Enter sends, Alt-Enter begins a new line; pasted lines stay one message."""
    keys = KeyBindings()

    @keys.add("enter")
    @keys.add("c-j")  # Enter, typed while a reply is under way
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def leave(event: KeyPressEvent) -> None:
        """Empties the line, or leaves if it is empty."""
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    session: PromptSession[str] = PromptSession(
        history=past,
        key_bindings=keys,
        multiline=True,
        prompt_continuation="  ",
        completer=WordCompleter(_NAMES, sentence=True),
        complete_while_typing=True,
        reserve_space_for_menu=4,
        **streams,
    )
    return lambda: session.prompt(FormattedText([("bold", "> ")]))
