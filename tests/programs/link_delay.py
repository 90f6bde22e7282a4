"""What a slower link between two machines costs plain decoding, and what drafting gains by it.

    python -m tests.programs.link_delay [MS ...]

Two ranks on this machine, with MS milliseconds more each way between them.
The target is a toy whose layers compute next to nothing, so that nearly all of a pass is the link; its drafter is a
noisy copy of it on rank 0. Prints, for each delay: a sum over both ranks, the pass times that draft length auto goes
by, plain and drafted tokens a second, and the speed-up that the pass times allow for the acceptance that was met.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from app.inference import cluster, pair_loader
from app.inference.host_file import Host
from app.inference.loaded_pair import LoadedPair, open_target
from app.inference.options import Options
from engine.events import Round
from engine.policy import Policy
from engine.policy.fixed import FixedLength
from engine.settings import SamplingSettings
from tests.toys.folders import make_folder

DELAYS_MS = (0.0, 0.1, 0.5, 2.0)
TOKENS, LENGTH, RUNS = 32, 4, 6


class DelayedLink:
    """A TCP proxy to `port` on this machine: what comes in at its own port goes out `delay_s` later, both ways."""

    def __init__(self, port: int, delay_s: float) -> None:
        self._to, self._delay_s = port, delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = self._reach()
            for source, sink in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                waiting: deque[tuple[float, bytes]] = deque()
                arrived = threading.Semaphore(0)
                threading.Thread(target=self._read, args=(source, waiting, arrived), daemon=True).start()
                threading.Thread(target=self._write, args=(sink, waiting, arrived), daemon=True).start()

    def _reach(self) -> socket.socket:
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self._to))
            except ConnectionRefusedError:
                time.sleep(0.05)

    def _read(self, source: socket.socket, waiting: deque[tuple[float, bytes]], arrived: threading.Semaphore) -> None:
        with suppress(ConnectionError):
            while data := source.recv(1 << 16):
                waiting.append((time.monotonic() + self._delay_s, data))
                arrived.release()

    def _write(self, sink: socket.socket, waiting: deque[tuple[float, bytes]], arrived: threading.Semaphore) -> None:
        while True:
            arrived.acquire()
            due_s, data = waiting.popleft()
            time.sleep(max(0.0, due_s - time.monotonic()))
            sink.sendall(data)


def proxies(ports: list[int], delay_ms: float) -> subprocess.Popen[str]:
    """A process with a delayed link to each of the ports; it prints their own ports first."""
    command = [sys.executable, "-m", "tests.programs.link_delay", "proxies", str(delay_ms), *map(str, ports)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def quickest(pair: LoadedPair, policy: Policy) -> tuple[float, list[Round]]:
    """The seconds of a reply's quick rounds (one in ten is quicker), as other work on this machine only adds to them,
    and its rounds."""
    settings = SamplingSettings(max_tokens=TOKENS)
    drafter = pair_loader.wanted(pair.drafter.drafter, policy)
    events = list(pair.session.continue_tokens(list(range(5, 37)), settings, drafter, policy))
    rounds = [event for event in events if isinstance(event, Round)]
    took_s = sorted(after.time_s - before.time_s for before, after in pairwise(rounds))
    return took_s[len(took_s) // 10], rounds


def measure(folder: Path, delay_ms: float) -> None:
    hosts = (Host("localhost", "127.0.0.1"), Host("localhost", "127.0.0.1"))
    own = cluster._free_ports(2)
    links = proxies(own, delay_ms)
    assert links.stdout is not None
    seen = json.loads(links.stdout.readline())
    at = [f"127.0.0.1:{port}" for port in (*own, *seen)]  # each rank listens at its own, and reaches the other's proxy
    joined = cluster.Cluster(hosts, [[[at[0]], [at[3]]], [[at[2]], [at[1]]]])
    cluster._cluster.append(joined)
    options = Options(str(folder / "target"), cache_root=folder / f"cache {delay_ms}", hosts=hosts)
    pair = open_target(options).open_drafter(str(folder / "drafter"), trees=False)
    trip_ms = 1000 * joined.trip_s(1, 64)
    costs = pair.costs(64)
    policies = (FixedLength(0), FixedLength(LENGTH), pair_loader.make_policy(pair.drafter, None, costs))
    runs = [[quickest(pair, policy) for policy in policies] for _ in range(RUNS)]  # alternated
    (plain_s, _), (fixed_s, rounds), (_, auto) = (min(one, key=lambda run: run[0]) for one in zip(*runs, strict=True))
    tau = sum(len(r.tokens) for r in rounds) / len(rounds)
    allowed = tau * costs.plain_s / (costs.pass_s(LENGTH + 1) + costs.draft_s(LENGTH))
    print(
        f"{delay_ms:4} ms: sum {trip_ms:5.2f} ms, network of a pass {1000 * joined.network_s[0]:6.2f} ms by the "
        f"inspector's estimate, pass {1000 * costs.plain_s:6.2f} ms, of {LENGTH + 1} rows "
        f"{1000 * costs.pass_s(LENGTH + 1):6.2f} ms, draft {1000 * costs.draft_s(LENGTH):5.2f} ms; "
        f"plain {1 / plain_s:6.1f}/s, k = {LENGTH} {tau / fixed_s:6.1f}/s: {tau * plain_s / fixed_s:.2f}x, "
        f"{allowed:.2f}x allowed at tau {tau:.2f}; auto drafts {sum(len(r.drafted) for r in auto) / len(auto):.1f}",
        flush=True,
    )
    joined.close()
    links.kill()


def main(words: list[str]) -> None:
    if words[:1] == ["proxies"]:
        with suppress(PermissionError):
            os.nice(-10)  # the ranks keep all cores busy while they wait, and this must not wait for them
        links = [DelayedLink(int(port), float(words[1]) / 1000) for port in words[2:]]
        print(json.dumps([link.port for link in links]), flush=True)
        sys.stdin.read()
    elif words[:1] == ["measure"]:
        measure(Path(words[1]), float(words[2]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            target = make_folder(Path(folder) / "target", seed=3)
            make_folder(Path(folder) / "drafter", like=target, noise=0.03)
            for delay in words or map(str, DELAYS_MS):
                command = [sys.executable, "-m", "tests.programs.link_delay", "measure", folder, delay]
                subprocess.run(command, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
