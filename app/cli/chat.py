"""`redline chat`: one reply to --prompt, or a conversation in the terminal."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.cli.decoding_options import add_options, read_options
from app.cli.terminal.keyboard import Status, ctrl_c
from app.cli.terminal.reply_view import Terminal, fallback_line
from app.cli.terminal.safe_text import safe
from app.cli.terminal.token_style import THEMES, Look, choose_look
from app.command_line import INTERRUPTED, OK
from app.inference.options import Options, target_name
from app.inference.reply_events import FellBack, ShownEvent
from engine.errors import UsageError
from engine.events import Finished, to_json

if TYPE_CHECKING:
    from app.inference.conversation import Conversation

_EXAMPLES = """examples:
  redline chat                                          a conversation; /help says what it can do
  redline chat --prompt "Why is the sky blue?"          one reply
  git diff | redline chat --system "Say what changed."  the prompt from a pipe
  redline chat --prompt Hi --json                       the events of a reply, one a line
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "chat",
        description="Chat with a model, or get one reply to --prompt.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("--prompt", metavar="TEXT", help="reply to this prompt and exit; - reads standard input")
    parser.add_argument("--system", default="", metavar="TEXT", help="instructions for the model (the system prompt)")
    parser.add_argument("--json", action="store_true", help="print the reply's events, one JSON object per line")
    parser.add_argument("--theme", choices=THEMES, default="auto", help="background of the terminal (default: auto)")
    add_options(parser)
    parser.add_argument(
        "--reproducible",
        action="store_true",
        help="do not adjust the automatic draft length by measured times, so that the same request drafts the same "
        "tokens; always so with --seed or at temperature 0",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Answer once or many times. Raises RedlineError."""
    options = read_options(args, random_seed=True)
    prompt = _prompt(args)
    if prompt is None and args.json:
        raise UsageError("--json prints the events of one reply: give --prompt TEXT")
    _check_one("drafter", options.drafters)
    _check_one("temperature", options.temperatures)
    _check_one("draft-length", options.draft_lengths)
    look = choose_look(sys.stdout.isatty(), os.environ, args.theme)
    if prompt is None:
        from app.cli.interactive_chat import converse

        with _opened(options, args.system) as conversation:
            return converse(conversation, Terminal(sys.stdout, sys.stderr, look))
    with _opened(options, args.system) as conversation, ctrl_c() as cancelled:
        events = conversation.ask(prompt, cancelled)
        return _print_json(events, options) if args.json else _print_reply(conversation, events, look)


@contextmanager
def _opened(options: Options, system: str) -> Iterator[Conversation]:
    status = Status(sys.stderr)
    status(f"loading {target_name(options)}")
    from app.inference.conversation import open_conversation

    try:
        conversation = open_conversation(options, system, status)
    finally:
        status.clear()
    yield conversation


def _print_reply(conversation: Conversation, events: Iterator[ShownEvent], look: Look) -> int:
    terminal = Terminal(sys.stdout, sys.stderr, look, speculating=conversation.speculating)
    terminal.introduce(conversation.describe())
    metrics = terminal.play(events, conversation.options.seed_line)
    return INTERRUPTED if metrics.reason == "cancelled" else OK


def _print_json(events: Iterator[ShownEvent], options: Options) -> int:
    if options.seed_line:
        print(f"redline: {options.seed_line}", file=sys.stderr)
    code = OK
    for event in events:
        if isinstance(event, FellBack):
            print(f"redline: {safe(fallback_line(event))}", file=sys.stderr)
            continue
        print(json.dumps(to_json(event), ensure_ascii=False), flush=True)
        if isinstance(event, Finished) and event.reason == "cancelled":
            code = INTERRUPTED
    return code


def _prompt(args: argparse.Namespace) -> str | None:
    """The one prompt to answer, or None for a conversation. Raises UsageError for an empty one."""
    piped = args.prompt is None and not sys.stdin.isatty()
    if args.prompt is None and not piped:
        return None
    text = _read_stdin() if piped or args.prompt == "-" else str(args.prompt)
    if not text.strip():
        raise UsageError("the prompt is empty: say something to answer")
    return text


def _read_stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not text ({error.reason}): give UTF-8") from error


def _check_one(name: str, values: tuple[object, ...]) -> None:
    if len(values) > 1:
        raise UsageError(f"--{name} is given {len(values)} times: chat takes one, `redline bench` compares several")
