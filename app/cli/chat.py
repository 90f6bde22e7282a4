"""`redline chat`: one reply to --prompt, or a conversation in the terminal."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from app import macos
from app.cli.decoding_options import add_grammar, add_options, add_thinking, check_single, read_options
from app.cli.terminal.keyboard import ctrl_c
from app.cli.terminal.progress import Status
from app.cli.terminal.reply_view import Terminal, fallback_line
from app.cli.terminal.token_style import Look, add_theme, output_look
from app.command_line import INTERRUPTED, OK, add_command, notify, print_json
from app.inference.options import Options, target_name
from app.inference.reply_events import FellBack, ReplyEvent
from app.reply_history import FOLDER
from app.reply_statistics import speed_in_words
from app.store import store_path
from app.store.records import Statistics
from engine.errors import UsageError
from engine.events import Finished, to_json

if TYPE_CHECKING:
    from app.command_line import Commands
    from app.inference.conversation import Conversation
    from engine.metrics import Metrics

_EXAMPLES = """examples:
  redline chat                                          a conversation; /help says what it can do
  redline chat --prompt "Why is the sky blue?"          one reply
  git diff | redline chat --system "Say what changed."  the prompt from a pipe
  redline chat --prompt Hi --json                       the events of a reply, one per line
"""
_REPRODUCIBLE = (
    "let the same request give the same text at any temperature: with rejection sampling, the automatic draft length "
    "then ignores the clock, and nothing is learned or drafted from earlier replies; implied by --seed"
)
_NO_HISTORY = "do not draft from the replies of the app's conversations; the text is the same either way"


def add_parser(commands: Commands) -> None:
    parser = add_command(commands, "chat", run, "Chat with a model, or get one reply to --prompt.", _EXAMPLES)
    parser.add_argument("--prompt", metavar="TEXT", help="reply to this prompt and exit; - reads standard input")
    parser.add_argument("--system", default="", metavar="TEXT", help="instructions for the model (the system prompt)")
    parser.add_argument("--json", action="store_true", help="print the reply's events, one JSON object per line")
    parser.add_argument("--reproducible", action="store_true", help=_REPRODUCIBLE)
    parser.add_argument("--no-history", action="store_true", help=_NO_HISTORY)
    add_theme(parser)
    add_options(parser, instead="the model's own, else 0")
    add_thinking(parser)
    add_grammar(parser)


def run(args: argparse.Namespace) -> int:
    """Replies once, or to everything that the user types. Raises RedlineError."""
    options = read_options(args, random_seed=True, model_defaults=True)
    if options.sampling.fresh and not args.no_history:
        options = replace(options, history=store_path().parent / FOLDER)
    prompt = _prompt(args)
    if prompt is None and args.json:
        raise UsageError("--json prints the events of one reply: give --prompt TEXT")
    check_single(args, "chat takes only one; use `redline bench` to compare several")
    look = output_look(args.theme)
    conversation = _open(options, args.system)
    if prompt is None:
        from app.cli.interactive_chat import converse

        return converse(conversation, Terminal(sys.stdout, sys.stderr, look, thoughts=_shows_thoughts(args, look)))
    with macos.activity("redline chat"), ctrl_c() as cancelled:
        events = conversation.ask(prompt, cancelled)
        if args.json:
            return _print_json(events, conversation.options)
        terminal = Terminal(sys.stdout, sys.stderr, look, None, conversation.speculating, _shows_thoughts(args, look))
        return _print_reply(conversation, events, terminal)


def _open(options: Options, system: str) -> Conversation:
    with Status(sys.stderr) as status:
        status(f"loading {target_name(options)}")
        from app.inference.conversation import open_conversation  # which loads MLX

        return open_conversation(options, system, status)


def _shows_thoughts(args: argparse.Namespace, look: Look) -> bool:
    """Whether thoughts are shown: in a terminal unless the user says otherwise, as a pipe gets the answer alone."""
    return bool(args.thoughts == "show" if args.thoughts else look.escapes)


def _print_reply(conversation: Conversation, events: Iterator[ReplyEvent], terminal: Terminal) -> int:
    terminal.introduce(conversation.describe())

    def compared(metrics: Metrics) -> str:
        return speed_in_words(Statistics.of(metrics, conversation.plain_s))

    metrics = terminal.play(events, conversation.options.seed_line, compared)
    return INTERRUPTED if metrics.reason == "cancelled" else OK


def _print_json(events: Iterator[ReplyEvent], options: Options) -> int:
    if options.seed_line:
        notify(options.seed_line)
    code = OK
    for event in events:
        if isinstance(event, FellBack):
            notify(fallback_line(event))
            continue
        print_json(json.dumps(to_json(event), ensure_ascii=False))
        if isinstance(event, Finished) and event.reason == "cancelled":
            code = INTERRUPTED
    return code


def _is_piped(stream: TextIO) -> bool:
    """Whether a stream is a pipe or a file, both of which end; a terminal and /dev/null are neither."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):  # it is closed, or not a file
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _prompt(args: argparse.Namespace) -> str | None:
    """Returns the one prompt to reply to, after any text that is piped in, or None for a conversation. Raises
    UsageError for an empty one."""
    text: str | None = args.prompt
    if text is None and sys.stdin.isatty():
        return None
    is_given = text not in (None, "-")
    if not is_given or _is_piped(sys.stdin):
        try:
            piped = sys.stdin.read()
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input is not text ({error.reason}): give UTF-8") from error
        if not is_given:
            text = piped
        elif piped.strip():
            text = f"{piped.rstrip()}\n\n{text}"
    if not text or not text.strip():
        raise UsageError("the prompt is empty: enter some text")
    return text
