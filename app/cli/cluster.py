"""`redline cluster`: the machines that share a target: writes their file, checks them, measures the link."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from app.command_line import OK, add_command, notify
from app.inference.host_file import Host, find_hosts, read_hosts, write_hosts
from app.inference.options import Options
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.command_line import Commands

WIDTH = 4096  # of the states that are summed; a wide model's are twice as wide
ROWS = (1, 8)
_EXAMPLES = """examples:
  redline cluster localhost studio.local --write hosts.json    find two machines by name
  redline cluster --hosts hosts.json                           check them, and measure the link
  redline cluster --hosts hosts.json --target FOLDER           and whether the model fits, and is the same on all
  redline chat --hosts hosts.json --target FOLDER              chat with it
Each machine needs Redline, the model in the same place, and ssh without a password. What the machines send to each
other while they compute is not encrypted: join them by a cable or a network that you trust.
"""


def add_parser(commands: Commands) -> None:
    text = "Find, check and measure the machines that share a model too large for any one of them."
    parser = add_command(commands, "cluster", run, text, _EXAMPLES)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="machines by their names for ssh, this one first, as localhost")
    add("--write", type=Path, metavar="FILE", help="write a file for --hosts")
    add("--hosts", type=Path, metavar="FILE", help="check the machines in this file")
    add("--target", metavar="FOLDER", help="also load this model on all of them")
    add("--context", type=int, metavar="N", help="maximum tokens of prompt and reply (default: all that fit in memory)")
    add("--follow", action="store_true", help=argparse.SUPPRESS)  # what rank 0 runs on the others


def run(args: argparse.Namespace) -> int:
    """Writes the file, checks the machines, or is one of them. Raises RedlineError."""
    if args.follow:
        from app.inference.cluster_rank import ClusterRank  # which loads MLX

        return ClusterRank().run()
    if bool(args.names) == bool(args.hosts):
        raise UsageError("name the machines or give --hosts FILE, not both")
    if args.names:
        if args.write is None or len(args.names) < 2:
            raise UsageError("name at least two machines, this one first, and give --write FILE")
        hosts = find_hosts(args.names)
        write_hosts(args.write, hosts)
        notify(f"wrote {args.write}: {_listed(hosts)}; `redline cluster --hosts {args.write}` checks them")
        return OK
    return _check(read_hosts(args.hosts), args.target, args.context)


def _check(hosts: tuple[Host, ...], target: str | None, context: int | None) -> int:
    from app.inference import cluster
    from app.inference.memory_check import check_memory
    from app.inference.pair_loader import open_target
    from engine.target.model_layout import is_pipelined

    joined = cluster.connect(hosts)
    assert joined is not None
    print(f"{_listed(hosts)}: joined, same versions")
    for rows in ROWS:
        print(f"a sum over all of them, {rows} x {WIDTH:,} numbers: {1000 * joined.trip_s(rows, WIDTH):.2f} ms")
    if target is not None:
        options = Options(target=target, drafters=("none",), context=context, hosts=hosts)
        loaded = open_target(options)
        verdict = check_memory(loaded.folder, options)
        how = ", which compute different layers" if is_pipelined(loaded.network) else ""
        print(f"{loaded.name}: same weights on all{how}")
        context = min(verdict.context, joined.context)
        print(f"fits: {joined.memory_text(verdict.needed)}, for a context of {context:,} tokens")
    joined.close()
    return OK


def _listed(hosts: tuple[Host, ...]) -> str:
    return ", ".join(f"{host.ssh} ({host.ip})" for host in hosts)
