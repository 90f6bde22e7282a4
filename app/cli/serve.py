"""`redline serve`: the local API for other programs, with the engine in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app import protocol
from app.api.access import AccessRules
from app.api.agents import AGENTS, agent_lines, agent_warning
from app.api.key_file import ADDRESS, KEY_FILE, PORT, read_or_make_key
from app.api.loopback_server import open_socket, serve_engine
from app.api.own_host import HOST_COMMAND, OwnHost
from app.api.reply_stream import Engine
from app.cli.decoding_options import add_hosts
from app.command_line import OK, add_command, notify
from app.inference.host_file import read_hosts
from app.inference.options import AUTO, read_draft_length
from app.store import store_path
from engine.errors import BackendError, UsageError
from engine.settings import ACCEPTANCE_RULES, SamplingSettings
from models.paths import BUILTIN

if TYPE_CHECKING:
    from app.command_line import Commands

_EXAMPLES = """examples:
  redline serve                         the built-in model on port 8080
  redline serve ~/models/Qwen3-8B-4bit  another model
  curl http://127.0.0.1:8080/v1/models -H "Authorization: Bearer KEY"
"""


def add_parser(commands: Commands) -> None:
    """Adds the command."""
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
    add("--context", type=int, metavar="N", help="maximum tokens of prompt and reply (default: all that fit in memory)")
    add_hosts(parser)
    add("--cache-dir", type=Path, metavar="DIR", help="folder of imported models and caches (default: the user's)")
    add("--port", type=int, default=PORT, metavar="N", help=f"port on {ADDRESS} (default: {PORT}; 0: any that is free)")
    add("--key-file", type=Path, metavar="FILE", help="file with the key (default: made once in Redline's folder)")
    name = "also accept requests to this name of the machine, such as host.docker.internal; repeatable"
    add("--allow-host", action="append", default=[], metavar="NAME", help=name)
    origin = "also accept requests from this origin, such as app://obsidian.md; repeatable"
    add("--allow-origin", action="append", default=[], metavar="ORIGIN", help=origin)
    add("--agent", choices=tuple(AGENTS), help="print the commands that start this agent with the model served here")


def run(args: argparse.Namespace) -> int:
    """Serves until Ctrl-C, or until the engine ends. Raises RedlineError."""
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port is {args.port}: give a number from 0 to 65535")
    key = read_or_make_key(args.key_file or store_path().parent / KEY_FILE)
    rules = AccessRules(key, args.port, hosts=tuple(args.allow_host), origins=tuple(args.allow_origin))
    base = SamplingSettings(draft_length=read_draft_length(args.draft_length), acceptance=args.acceptance)
    base.check(args.tree)
    read_hosts(args.hosts)  # so that a wrong file is reported at once
    hosts = str(args.hosts.resolve()) if args.hosts else ""
    pair = protocol.Pair(target=args.target, drafter=args.drafter, tree=args.tree, context=args.context, hosts=hosts)
    root = ["--cache-dir", str(args.cache_dir)] if args.cache_dir else []
    return asyncio.run(serve(pair, base, rules, *HOST_COMMAND, *root, agent=args.agent))


async def serve(
    pair: protocol.Pair, base: SamplingSettings, rules: AccessRules, *command: str, agent: str | None = None
) -> int:
    """Starts a host, loads the pair and serves it. rules: port 0 stands for any that is free. command: that starts the
    host, the real one if not given. agent: the agent whose commands are printed, if any."""
    with open_socket(rules.port) as listener:
        async with OwnHost(pair, command) as host:
            loaded = await host.load()
            listener.listen()  # before the address is printed, so that nobody who reads it is refused
            _introduce(loaded, listener.getsockname()[1], rules.key, agent)
            await serve_engine(Engine(host.client, base), listener, rules)
            if host.client.ended.is_set():
                raise host.failure or BackendError("the engine has ended: start `redline serve` again")
            return OK


def _introduce(loaded: protocol.Loaded, port: int, key: str, agent: str | None) -> None:
    drafter = f", drafter {loaded.drafter}" if loaded.speculation == "on" else ", plain decoding"
    note = f"\n  note      {loaded.note}" if loaded.note else ""
    print(f"Serving {loaded.target}{drafter}{note}\n  base URL  http://{ADDRESS}:{port}/v1\n  key       {key}")
    print("Ctrl-C stops")
    if agent is not None:
        print(f"\n{agent_lines(agent, loaded, f'http://{ADDRESS}:{port}', key)}")
        if warning := agent_warning(agent, loaded):
            notify(warning)
    sys.stdout.flush()
