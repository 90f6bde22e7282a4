"""`redline serve`: the local API for other programs, in the process of the engine."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app import protocol
from app.api.access import AccessRules
from app.api.agents import AGENTS, agent_lines, agent_warning
from app.api.api_thread import ApiThread
from app.api.key_file import ADDRESS, KEY_FILE, PORT, read_or_make_key
from app.api.loopback_server import open_socket
from app.cli.decoding_options import add_context
from app.command_line import INTERRUPTED, add_command, notify
from app.host.engine_loop import EngineLoop, open_model_worker
from app.inference.host_file import read_hosts
from app.inference.options import AUTO, read_draft_length
from app.protocol.watchdog import STUCK
from app.store import store_path
from app.task_queue import MOST_PLACES, PLACES, Task
from engine.errors import ModelError, UsageError
from engine.settings import ACCEPTANCE_RULES, SamplingSettings
from models.paths import BUILTIN

if TYPE_CHECKING:
    from app.command_line import Commands
    from app.host.engine_loop import WorkerFactory

RESTARTING = f"{STUCK}: it is being restarted; try again"
FLUSH_S, ROUNDS_TO_FLUSH = 0.05, 40  # in which programs are told before that

_EXAMPLES = """examples:
  redline serve                         the built-in model on port 8080
  redline serve ~/models/Qwen3-8B-4bit  another model
  curl http://127.0.0.1:8080/v1/models -H "Authorization: Bearer KEY"
"""


def add_parser(commands: Commands) -> None:
    text = "Serve a model to programs on this machine over the OpenAI and Anthropic protocols, until Ctrl-C."
    parser = add_command(commands, "serve", run, text, _EXAMPLES)
    parser.allow_abbrev = False  # or --host ADDRESS would be taken for --hosts FILE
    add = parser.add_argument
    add("target", nargs="?", default=BUILTIN, metavar="TARGET", help="name or folder of a model (default: built-in)")
    add("--drafter", default=AUTO, metavar="NAME|FOLDER", help="as in `redline chat` (default: auto)")
    add("--tree", action="store_true", help="draft trees if drafter and target support them")
    add("--draft-length", default=AUTO, metavar="N|auto", help="tokens to draft each round (default: auto)")
    rules = "acceptance rule above temperature 0 (default: rejection)"
    add("--acceptance", choices=ACCEPTANCE_RULES, default=ACCEPTANCE_RULES[0], help=rules)
    add_context(parser)
    parallel = f"replies to write at once, if memory allows; the others wait (default: {PLACES}; at most {MOST_PLACES})"
    add("--parallel", type=int, default=PLACES, metavar="N", help=parallel)
    add("--port", type=int, default=PORT, metavar="N", help=f"port on {ADDRESS} (default: {PORT}; 0: any that is free)")
    add("--key-file", type=Path, metavar="FILE", help="file with the key (default: made once in Redline's folder)")
    name = "also accept requests to this name of the machine, such as host.docker.internal; repeatable"
    add("--allow-host", action="append", default=[], metavar="NAME", help=name)
    origin = "also accept requests from this origin, such as app://obsidian.md; repeatable"
    add("--allow-origin", action="append", default=[], metavar="ORIGIN", help=origin)
    add("--listener", type=int, help=argparse.SUPPRESS)  # a socket that this command left to itself
    add("--agent", choices=tuple(AGENTS), help="print the commands that start this agent with the model served here")


def run(args: argparse.Namespace) -> int:
    """Serves until Ctrl-C, or until the engine ends. Raises RedlineError."""
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port is {args.port}: give a number from 0 to 65535")
    if not 1 <= args.parallel <= MOST_PLACES:
        raise UsageError(f"--parallel is {args.parallel}: give a number from 1 to {MOST_PLACES}")
    key = read_or_make_key(args.key_file or store_path().parent / KEY_FILE)
    base = SamplingSettings(draft_length=read_draft_length(args.draft_length), acceptance=args.acceptance)
    base.check(args.tree)
    read_hosts(args.hosts)  # so that a wrong file is reported at once
    hosts = str(args.hosts.resolve()) if args.hosts else ""
    pair = protocol.Pair(target=args.target, drafter=args.drafter, tree=args.tree, context=args.context, hosts=hosts)
    rules = AccessRules(key, args.port, hosts=tuple(args.allow_host), origins=tuple(args.allow_origin))
    listener = open_socket(args.port) if args.listener is None else socket.socket(fileno=args.listener)
    command = _Serve(listener, rules, base, partial(open_model_worker, args.cache_dir))
    command.tasks.places = args.parallel
    if args.listener is None:  # else the user has read it
        command.introduce = partial(_introduce, port=listener.getsockname()[1], key=key, agent=args.agent)
    return command.run(pair)


class _Serve:
    """The engine's loop in this thread, and programs in one of their own. tasks: of the engine. introduce: tells the
    user what is served.

    An engine that is stuck is replaced: this process executes the command again, with the same socket, at which
    programs wait meanwhile.
    """

    def __init__(
        self, listener: socket.socket, rules: AccessRules, base: SamplingSettings, open_worker: WorkerFactory
    ) -> None:
        self._listener = listener
        self._engine = EngineLoop(lambda _: None, open_worker)
        self.tasks = self._engine.tasks
        self._api = ApiThread(self.tasks, lambda: (listener, rules), base=base)
        self._api.client.stuck_message, self._api.client.on_stuck = RESTARTING, self._handle_stuck
        self._refusal = ""  # why the pair cannot be loaded
        self.introduce: Callable[[protocol.Loaded], None] = lambda _: None

    def run(self, pair: protocol.Pair) -> int:
        """Loads a pair and serves it; returns the exit code. Raises ModelError where it cannot be loaded."""
        self._engine.watch_signals()
        self.tasks.put(Task(protocol.Load(id=0, pair=pair), self._handle_load))
        self.tasks.admit_programs(pair)
        self._api.start()
        code = self._engine.run()
        self._api.end()
        self._api.join()
        if self._refusal:
            raise ModelError(self._refusal)
        return INTERRUPTED if self._engine.interrupted else code

    def _handle_load(self, answer: protocol.AnyAnswer) -> None:
        match answer:
            case protocol.Loading():
                notify(answer.message)
            case protocol.Loaded():
                self._api.client.update(answer)
                self.introduce(answer)
            case protocol.Failed() if answer.kind != protocol.CANCELLED:
                self._refusal = answer.message
                self.tasks.close(stop=True)

    async def _handle_stuck(self, loading: bool) -> None:
        if loading:
            notify("loading the models makes no progress")
            return
        notify(f"{STUCK}: restarting it")
        for _ in range(ROUNDS_TO_FLUSH):
            await asyncio.sleep(FLUSH_S)
            if not self._api.client.pending:
                break
        sys.stdout.flush()
        self._listener.set_inheritable(True)
        words = sys.orig_argv[1:]
        if "--listener" not in words:
            words += ["--listener", str(self._listener.fileno())]
        os.execv(sys.executable, [sys.executable, *words])


def _introduce(loaded: protocol.Loaded, *, port: int, key: str, agent: str | None) -> None:
    drafter = f", drafter {loaded.drafter}" if loaded.speculation == "on" else ", plain decoding"
    note = f"\n  note      {loaded.note}" if loaded.note else ""
    print(f"Serving {loaded.target}{drafter}{note}\n  base URL  http://{ADDRESS}:{port}/v1\n  key       {key}")
    print("Ctrl-C stops")
    if agent is not None:
        print(f"\n{agent_lines(agent, loaded, f'http://{ADDRESS}:{port}', key)}")
        if warning := agent_warning(agent, loaded):
            notify(warning)
    sys.stdout.flush()
