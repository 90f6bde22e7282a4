"""The other machines that share a target with this one: started, joined into MLX's ring, told what to do, and watched.

Each runs `redline cluster --follow` (`app.inference.cluster_rank`) at the other end of a pipe, through ssh or, for
"localhost", without it: one JSON message a line there, one a line back. The ring itself carries numbers only.

A collective of MLX waits for ever once a machine is gone, and nothing but the end of the process gets out of it. So a
thread listens for every machine: each says something every second. Once one is silent or has ended, whoever announces
a pass gets a MachineLostError; whoever is within a pass then, the process, ends with the same words after GRACE_S.
"""

import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from queue import Queue
from typing import Any

import mlx.core as mx

from app.command_line import AGAIN, FAILURE, notify
from app.inference.host_file import PORT, Host
from app.inference.machine import memory
from app.inference.options import Options
from engine.errors import BackendError, MachineLostError, ModelError, RedlineError
from engine.target.cached_model import CachedModel
from engine.target.model_layout import embed, is_pipelined, layers_of
from engine.target.sharded_target import PIPELINE_SUMS, SUMS, SUMS_A_LAYER, Leader, Message, trip_s
from models.package_versions import version_of
from models.size_text import memory_words

FEW_SUMS, WIDE = 20, 8  # sums of a measurement while a model is loaded, and rows of the wider of its two
SILENCE_S = 5.0
GRACE_S = 2.0
START_S = 60.0  # for a machine to say anything at all: ssh, and the import of MLX
FOLLOW = ("cluster", "--follow")
_SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--")

Ring = Sequence[Sequence[str]]  # of each rank its addresses, "ip:port"


class Follower:
    """The process of another rank."""

    def __init__(self, host: Host) -> None:
        self.host, self.answers = host, Queue[Message]()
        self.heard_s = time.monotonic() + START_S - SILENCE_S
        here = (sys.executable, "-m", "app", *FOLLOW)
        there = (*_SSH, host.ssh, shlex.join((*host.command, *FOLLOW)))
        try:
            self.process = subprocess.Popen(
                here if host.is_here else there,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for rank 0
            )
        except OSError as error:
            raise BackendError(f"{host.ssh} cannot be reached ({error.strerror}): install ssh") from error

    def write(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def listen(self, lost: Callable[[str], None]) -> None:
        """Collects the answers until the process has ended. lost: called then, with the reason."""
        assert self.process.stdout is not None
        name, command = self.host.ssh, shlex.join(self.host.command)
        why = f"{name} cannot be reached, or `{command}` does not start there: check that `ssh {name}` works"
        with suppress(ValueError):  # a line that is not JSON, or a closed stream
            for line in self.process.stdout:
                self.heard_s = time.monotonic()
                why = _has_ended(self.host)
                if message := json.loads(line):
                    self.answers.put(message)
        lost(why)


class Cluster:
    """The machines of `hosts`, this one first.

    memory: what the target takes on each of the others, for the user. context: the longest that they have memory for.
    network_s: an estimate of the seconds that a pass of the target over one token waits for the network, and what each
    further one adds. lost: why they cannot be used any more, "" if they can. used: whether this process needs them.
    Raises BackendError for a machine that cannot be started or has other versions.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts, self.lost, self.used = tuple(hosts), "", True
        self.memory, self.context, self.network_s = "", 0, (0.0, 0.0)
        self._thread, self._joining, self._restore_terminal = threading.get_ident(), False, _terminal_restorer()
        self._followers: list[Follower] = []
        try:
            for host in hosts[1:]:
                self._followers.append(Follower(host))
            for follower in self._followers:  # all are known by now, as each is told of a loss
                threading.Thread(target=follower.listen, args=(self._lose,), daemon=True).start()
            threading.Thread(target=self._watch, daemon=True).start()
            self._compare(self._answers("hello"))
            self.group = self._join(_ring(hosts))
        except BaseException:
            self.close()
            raise

    def tell(self, message: Message) -> None:
        """Sends a message to every other rank. Raises MachineLostError once one is gone."""
        if self.lost:
            raise MachineLostError(self.lost)
        for follower in self._followers:
            try:
                follower.write(message)
            except OSError as error:
                self._lose(_has_ended(follower.host))
                raise MachineLostError(self.lost) from error

    @contextmanager
    def loading(self, options: Options) -> Iterator[None]:
        """Has every other rank load its part of a target while this one does, and waits until they have."""
        root = str(options.cache_root) if options.cache_root and all(host.is_here for host in self.hosts) else None
        values = {"target": options.target, "kv_bits": options.kv_bits, "context": options.context}
        self.tell({"load": {**values, "cache_root": root}})
        try:
            yield
        except RedlineError:
            with suppress(RedlineError):
                self._answers("loaded")  # so that the next answers are those to the next question
            raise
        self._loaded = self._answers("loaded")
        found = zip(self.hosts[1:], self._loaded, strict=True)
        self.memory = ", ".join(f"{loaded['memory']} on {host.ssh}" for host, loaded in found)
        self.context = min(loaded["context"] for loaded in self._loaded)

    def lead(self, target: CachedModel, digest: str) -> None:
        """Has the other ranks follow every pass of `target`. Raises ModelError where one has loaded other weights."""
        for host, loaded in zip(self.hosts[1:], self._loaded, strict=True):
            if loaded["digest"] != digest:
                raise ModelError(f"{host.ssh} has different weights under this name: copy the model's folder there")
        Leader(target, self.group, self.tell, ", ".join(host.ssh for host in self.hosts))
        self.network_s = self._network_s(target)

    def trip_s(self, rows: int, width: int, sums: int = SUMS) -> float:
        """Returns the seconds that a sum over all machines takes, of (rows, width) float16, by so many of them."""
        self.tell({"link": [rows, width, sums]})
        return trip_s(self.group, rows, width, sums)

    def _network_s(self, target: CachedModel) -> tuple[float, float]:
        """Measures `network_s`: (0, 0) for a network whose layers or embedding cannot be found."""
        try:
            layers, width = layers_of(target.model), embed(target.model)(mx.zeros(1, mx.int32)).shape[-1]
        except RedlineError:
            return 0.0, 0.0
        # The token ids before the layers, and the ranks counted behind them.
        sums = 2 + (PIPELINE_SUMS if is_pipelined(target.model) else SUMS_A_LAYER * len(layers))
        narrow, wide = (sums * self.trip_s(rows, width, FEW_SUMS) for rows in (1, WIDE))
        return narrow, max(0.0, wide - narrow) / (WIDE - 1)

    def memory_text(self, needed: int) -> str:
        """Returns what the target takes of each machine's memory, for the user. needed: bytes on this one."""
        return f"{share_text(needed)} here, {self.memory}"

    def close(self) -> None:
        """Ends the other processes."""
        self.used, self.lost = False, self.lost or "the other machines were dismissed: start Redline again"
        for follower in self._followers:
            with suppress(OSError):
                follower.process.stdin.close()  # type: ignore[union-attr]
            with suppress(subprocess.TimeoutExpired):
                follower.process.wait(GRACE_S)
            follower.process.kill()

    def _join(self, ring: Ring) -> mx.distributed.Group:
        for rank, follower in enumerate(self._followers, 1):
            follower.write({"rank": rank, "ring": ring, "hosts": [vars(host) for host in self.hosts]})
        self._joining = True
        group = join(0, ring)
        self._joining = False
        self._answers("joined")
        return group

    def _answers(self, name: str) -> list[Any]:
        """Returns what each of the others says under `name`. Raises ModelError for what one refuses, BackendError or,
        once they are joined, MachineLostError where one is gone."""
        answers = []
        for follower in self._followers:
            answer = follower.answers.get()
            if "lost" in answer:
                raise (MachineLostError if _groups else BackendError)(answer["lost"])
            if "error" in answer:
                raise ModelError(f"{follower.host.ssh}: {answer['error']}")
            answers.append(answer[name])
        return answers

    def _compare(self, hellos: Sequence[dict[str, str]]) -> None:
        for host, theirs in zip(self.hosts[1:], hellos, strict=True):
            for package, own in versions().items():
                if theirs[package] != own:
                    raise BackendError(
                        f"{host.ssh} has {package} {theirs[package]} and this machine {own}: "
                        "install the same version of Redline on both"
                    )

    # --- in other threads ---------------------------------------------------------------------------

    def _lose(self, reason: str) -> None:
        if self.lost:
            return
        self.lost = reason
        for follower in self._followers:
            follower.answers.put({"lost": reason})
        threading.Thread(target=self._give_up, daemon=True).start()

    def _watch(self) -> None:
        while not self.lost:
            time.sleep(SILENCE_S / 10)
            for follower in self._followers:
                if time.monotonic() - follower.heard_s > SILENCE_S:
                    self._lose(
                        f"{follower.host.ssh}, which computes a part of this model, has been silent for "
                        f"{SILENCE_S:.0f} seconds{AGAIN}"
                    )
                    follower.process.kill()

    def _give_up(self) -> None:
        """Ends the process once the thread that works has been in a pass for GRACE_S: it cannot get out. One that
        begins a pass now is told, and one that needs these machines no more goes on."""
        seen = 0
        while seen < 2:
            time.sleep(GRACE_S / 2)
            if not self.used:
                return
            stuck = self._joining or _is_in_engine(self._thread)
            seen = seen + 1 if stuck else 0
        self._restore_terminal()
        _leave(self.lost)


# --- one cluster for a process ---

_cluster: list[Cluster] = []


def connect(hosts: Sequence[Host]) -> Cluster | None:
    """Returns the machines that share targets with this process, None for no hosts; they are started the first time.
    Raises BackendError where they cannot be, and MachineLostError once one is gone, or for others than those that were
    joined, as MLX joins a process once."""
    for joined in _cluster:
        joined.used = bool(hosts)
    if not hosts:
        return None
    if not _cluster and not _groups:
        _cluster.append(Cluster(hosts))
    if not _cluster or _cluster[0].hosts != tuple(hosts):
        raise MachineLostError(f"this process was joined to other machines{AGAIN}")
    check()
    return _cluster[0]


def check() -> None:
    """Raises MachineLostError once a machine is gone that this process needs."""
    for joined in _cluster:
        if joined.used and joined.lost:
            raise MachineLostError(joined.lost)


_groups: list[mx.distributed.Group] = []


def join(rank: int, ring: Ring) -> mx.distributed.Group:
    """Makes this process a rank of MLX's ring; waits until all have joined. Raises BackendError where MLX cannot."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(ring, file)
        file.flush()
        os.environ |= {"MLX_RANK": str(rank), "MLX_HOSTFILE": file.name}
        try:
            group = mx.distributed.init(strict=True, backend="ring")
        except RuntimeError as error:
            raise BackendError(f"the machines cannot be joined ({error}): check the addresses in the file") from error
    _groups.append(group)
    return group


def group_of(hosts: Sequence[Host]) -> mx.distributed.Group | None:
    """Returns the group that shares targets, None for no hosts. Raises as `connect`, which it calls where this process
    has joined none."""
    if hosts and not _groups:
        connect(hosts)
    return _groups[0] if hosts else None


def _has_ended(host: Host) -> str:
    return f"{host.ssh}, which computes a part of this model, has ended{AGAIN}"


def share_text(needed: int) -> str:
    """Returns how much of this machine's memory so many bytes are, for the user."""
    total, _ = memory()
    (number, unit), most = memory_words(needed).split(" "), memory_words(total)
    return f"{number} of {most}" if most.endswith(f" {unit}") else f"{number} {unit} of {most}"


def versions() -> dict[str, str]:
    """Returns what must be the same on all machines."""
    return {package: version_of(package) for package in ("redline", "mlx", "mlx-lm")}


def _ring(hosts: Sequence[Host]) -> Ring:
    """Returns the address of each rank: that of the file, with a port where it has none. On this machine alone
    it is any that is free."""
    ports: Sequence[int] = range(PORT, PORT + len(hosts))
    if all(host.is_here for host in hosts):
        with ExitStack() as stack:
            free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in hosts]
            ports = [one.getsockname()[1] for one in free]
    return [[host.ip if ":" in host.ip else f"{host.ip}:{port}"] for host, port in zip(hosts, ports, strict=True)]


def _is_in_engine(thread: int) -> bool:
    frames = traceback.walk_stack(sys._current_frames().get(thread))
    return any(str(frame.f_globals.get("__name__")).startswith("engine.") for frame, _ in frames)


def _leave(reason: str) -> None:
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    notify(reason)
    os._exit(FAILURE)


def _terminal_restorer() -> Callable[[], None]:
    """Returns what sets the terminal as it is now, before a reply changes that; does nothing without one."""
    if not sys.stdin.isatty():
        return lambda: None
    import termios

    return partial(termios.tcsetattr, sys.stdin.fileno(), termios.TCSANOW, termios.tcgetattr(sys.stdin.fileno()))
