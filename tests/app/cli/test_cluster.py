"""Machines that share a target, here processes on this one: the text, what is refused, and what a death does."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app import protocol
from app.inference import cluster, host_file
from app.inference.cluster_rank import ClusterRank
from app.inference.host_file import Host, find_hosts, read_hosts
from engine.errors import BackendError, MachineLostError, ModelError, UsageError
from models.parallel import split
from tests.app.command import Redline
from tests.engine.target.sharded_ranks import whole
from tests.engine.target.test_sharded_target import Group
from tests.toys.folders import as_architecture
from tests.waiting import HANG_S, until

HERE = {"ssh": "localhost", "ips": ["127.0.0.1"]}
LAYERS = {"num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention"] * 2}
SAMPLED = ("--temperature", "0.8", "--seed", "1", "--acceptance", "coupled", "--drafter", "lookup")

# No machine is taken for silent, however slow this one is, before a line on standard input says so.
PATIENT = """
import os, sys, threading
from app.inference import cluster
lines = sys.stdin
def hear():
    if lines.readline():
        cluster.SILENCE_S = 0.5
cluster.START_S, cluster.SILENCE_S = 600.0, 300.0
"""
COMMAND = f"""{PATIENT}
from app.cli.main import main
threading.Thread(target=hear, daemon=True).start()
sys.stdin = open(os.devnull)  # the command would read what is piped to it
sys.exit(main(sys.argv[1:]))
"""
HOST = f"""{PATIENT}
from app.host.__main__ import main
sys.exit(main())
"""


@pytest.fixture(scope="session")
def hosts_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hosts") / "hosts.json"
    path.write_text(json.dumps({"hosts": [HERE, HERE]}))
    return path


def command(*words: object) -> list[str]:
    return [sys.executable, "-c", COMMAND, *map(str, words)]


def chat(folder: Path, cache: Path, *more: object) -> list[str]:
    prompt = ("--prompt", "the sky is blue", "--json", "--max-tokens", 150, "--cache-dir", cache)
    return command("chat", "--target", folder, *prompt, *SAMPLED, *more)


def finish(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def ids_in(lines: str | bytes) -> list[int]:
    events = [json.loads(line) for line in lines.splitlines()]
    return [token for event in events if event["event"] == "Round" for token in event["tokens"]]


def reply_of(words: list[str]) -> list[int]:
    done = finish(words)
    assert done.returncode == 0, done.stderr
    return ids_in(done.stdout)


@pytest.fixture(scope="session")
def whole_reply(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    return reply_of(chat(toy_folder, tmp_path_factory.mktemp("cache")))


def followers(process: subprocess.Popen[Any]) -> list[int]:
    """The processes that this one has started to follow it."""
    listed = finish(["pgrep", "-P", str(process.pid), "-f", "cluster --follow"])
    return [int(pid) for pid in listed.stdout.split()]


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waits for does not."""
    state = finish(["ps", "-o", "stat=", "-p", str(pid)]).stdout
    return bool(state.strip()) and not state.startswith("Z")


@contextmanager
def replying(folder: Path, cache: Path, hosts: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command whose reply is shared, and the process of rank 1. `communicate` would not return what a buffer has read
    ahead of a line, so there is none."""
    words, pipe = chat(folder, cache, "--hosts", hosts), subprocess.PIPE
    process = subprocess.Popen(words, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        until(lambda: followers(process) or process.poll() is not None)
        (rank,) = followers(process)
        yield process, rank
    finally:
        process.kill()
        process.wait()


def read_rounds(process: subprocess.Popen[bytes], rounds: int) -> bytes:
    """What the command writes until so many rounds are told."""
    assert process.stdout is not None
    seen = b""
    while seen.count(b'"Round"') < rounds:
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        seen += line
    return seen


def check_end(process: subprocess.Popen[bytes], seen: bytes, whole: list[int], line: bytes = b"") -> None:
    """The command ends and says what happened, and every line that it has written is of the reply."""
    rest, errors = process.communicate(line, timeout=HANG_S)
    ids, said = ids_in(seen + rest), errors.decode()
    assert ids == whole[: len(ids)]
    if len(ids) < len(whole):
        assert process.returncode == 1
        assert "a part of this model" in said or ("cannot be reached" in said and not ids)  # before it said anything
        assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [0, 1, 40])
def test_a_rank_that_dies_ends_the_reply_and_nothing_is_lost(
    rounds: int, toy_folder: Path, whole_reply: list[int], hosts_file: Path, tmp_path: Path
) -> None:
    """0: while the model is still being loaded."""
    with replying(toy_folder, tmp_path, hosts_file) as (process, rank):
        seen = read_rounds(process, rounds)
        os.kill(rank, signal.SIGKILL)
        check_end(process, seen, whole_reply)


@pytest.mark.slow
def test_a_rank_that_falls_silent_ends_the_reply(
    toy_folder: Path, whole_reply: list[int], hosts_file: Path, tmp_path: Path
) -> None:
    with replying(toy_folder, tmp_path, hosts_file) as (process, rank):
        seen = read_rounds(process, 1)
        os.kill(rank, signal.SIGSTOP)
        check_end(process, seen, whole_reply, b"now\n")
        until(lambda: not is_running(rank))


@pytest.mark.slow
def test_ranks_end_with_rank_0(toy_folder: Path, hosts_file: Path, tmp_path: Path) -> None:
    with replying(toy_folder, tmp_path, hosts_file) as (process, rank):
        read_rounds(process, 1)
        process.kill()
        until(lambda: not is_running(rank))


@pytest.mark.slow
def test_the_host_loads_a_shared_target_and_another_one(toy_folder: Path, hosts_file: Path) -> None:
    shared = protocol.Pair(target=str(toy_folder), drafter="lookup", hosts=str(hosts_file))
    ask = {"messages": [{"role": "user", "content": "the sky"}], "sampling": {"max_tokens": 20, "seed": 1}}
    lines = [
        protocol.encode_line(protocol.Load(id=9, pair=protocol.Pair(hosts=str(hosts_file)))),  # 9 heads, 2 machines
        protocol.encode_line(protocol.Load(id=1, pair=shared)),
        json.dumps({"type": "Reply", "id": 2, **ask}).encode() + b"\n",
        protocol.encode_line(protocol.Load(id=3, pair=protocol.Pair(target=str(toy_folder), drafter="none"))),
        json.dumps({"type": "Reply", "id": 4, **ask}).encode() + b"\n",
        protocol.encode_line(protocol.Load(id=5, pair=shared)),
        json.dumps({"type": "Reply", "id": 6, **ask}).encode() + b"\n",
    ]
    done = subprocess.run(
        [sys.executable, "-c", HOST, "--finish"], input=b"".join(lines), capture_output=True, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    (failed,) = [answer for answer in answers if answer["type"] == "Failed"]
    assert failed["id"] == 9 and "n_heads 9, which 2 machines do not divide" in failed["message"]
    texts = [
        [token for a in answers if a["type"] == "Told" and a["id"] == number for token in a["round"]["tokens"]]
        for number in (2, 4, 6)
    ]
    assert texts[0] == texts[1] == texts[2] and len(texts[0]) == 20
    loaded = next(answer for answer in answers if answer["type"] == "Loaded")
    assert " here, " in loaded["note"] and " on localhost, for a context of " in loaded["note"]
    machines = loaded["machines"]
    assert machines["names"] == ["localhost", "localhost"] and " on localhost" in machines["memory"]
    assert machines["pass_s"] > 0


@pytest.mark.slow
def test_machines_that_compute_different_layers_write_the_same(
    toy_folder: Path, hosts_file: Path, tmp_path: Path
) -> None:
    """mlx-lm cannot split the layers of Qwen3-Next."""
    folder = as_architecture(toy_folder, tmp_path / "target", "qwen3_next", **LAYERS)
    alone = reply_of(chat(folder, tmp_path))
    shared = chat(folder, tmp_path, "--hosts", hosts_file)
    assert reply_of(shared) == alone and len(alone) > 1
    with replying(folder, tmp_path, hosts_file) as (process, rank):
        seen = read_rounds(process, 1)
        os.kill(rank, signal.SIGKILL)
        check_end(process, seen, alone)
    checked = finish(command("cluster", "--hosts", hosts_file, "--target", folder))
    told = ("joined, same versions", "a sum over all of them, 8 x 4,096 numbers: ", "for a context of")
    assert all(text in checked.stdout for text in told), checked.stderr
    assert "same weights on all, which compute different layers" in checked.stdout
    refused = finish(["medusa" if word == "lookup" else word for word in shared])
    assert refused.returncode == 1
    assert "layers are on several machines: choose lookup or a draft model" in refused.stderr


@pytest.mark.slow
def test_a_forecast_over_machines_expects_what_one_machine_would(
    toy_folder: Path, toy_drafter_folder: Path, hosts_file: Path, tmp_path: Path
) -> None:
    expected = []
    for place, more in enumerate(([], ["--hosts", hosts_file])):
        file, cache = tmp_path / f"{place}.json", tmp_path / f"cache {place}"
        short = ("--limit", 2, "--max-tokens", 24, "--json", file, "--cache-dir", cache)
        done = finish(command("predict", toy_folder, toy_drafter_folder, *short, *more))
        assert done.returncode == 0, done.stderr
        (forecast,) = json.loads(file.read_text())["forecasts"]
        expected.append([length["tau"] for length in forecast["lengths"]])
    assert expected[0] == expected[1] and expected[0][0] > 1


# --- the file -----------------------------------------------------------------------------------


def test_this_machine_has_the_address_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"localhost": "127.0.0.1", "studio": "10.0.0.2"}
    monkeypatch.setattr("socket.gethostbyname", known.__getitem__)
    monkeypatch.setattr(host_file, "own_address", {"10.0.0.2": "10.0.0.1"}.__getitem__)
    assert find_hosts(["localhost", "me@studio"]) == (Host("localhost", "10.0.0.1"), Host("me@studio", "10.0.0.2"))
    assert find_hosts(["localhost", "localhost"]) == (Host("localhost", "127.0.0.1"),) * 2


def test_the_command_writes_the_file(redline: Redline, tmp_path: Path) -> None:
    path = tmp_path / "hosts.json"
    assert redline("cluster", "localhost", "127.0.0.1", "--write", path).code == 0
    assert read_hosts(path) == (Host("localhost", "127.0.0.1"), Host("127.0.0.1", "127.0.0.1"))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "not a list of machines"),
        ("[]", "names 0 machines"),
        (json.dumps([HERE]), "names 1 machines"),
        (json.dumps([HERE, {"ssh": "studio", "ips": []}]), "not a list of machines"),
        (json.dumps([HERE, {"ssh": "studio", "ips": ["10.0.0.2"]}]), "of localhost that others cannot reach"),
        (json.dumps([HERE, {"ssh": "studio", "ips": ["studio"]}]), "not a list of machines"),
        (json.dumps([HERE, {"ssh": "studio", "ips": ["fd00::2"]}]), "not a list of machines"),
        (json.dumps([HERE, {"ssh": "-oProxyCommand=x", "ips": ["10.0.0.2"]}]), "not a valid machine name"),
    ],
)
def test_a_file_that_names_no_machines_is_refused(content: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=why):
        read_hosts(path)
    with pytest.raises(UsageError, match="not a list of machines"):
        read_hosts(tmp_path / "nowhere.json")


def test_a_port_and_a_command_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "hosts.json"
    here = {"ssh": "localhost", "ips": ["10.0.0.1"]}
    entry = {"ssh": "me@studio", "ips": ["10.0.0.2:5000"], "command": ["bin/redline"], "rdma": [None]}
    path.write_text(json.dumps({"backend": "ring", "hosts": [here, entry]}))
    assert read_hosts(path)[1] == Host("me@studio", "10.0.0.2:5000", ("bin/redline",))


# --- what ranks say -----------------------------------------------------------------------------------


def test_lines_of_two_threads_do_not_mix_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, writes = os.pipe()
    monkeypatch.setattr(os, "dup", lambda _: writes)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    rank = ClusterRank()

    def say(number: int) -> None:
        for _ in range(10):
            rank._say({"error": str(number) * 300_000})

    threads = [threading.Thread(target=say, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    with os.fdopen(reads, "rb") as answers:
        lines = [answers.readline() for _ in range(20)]
        for thread in threads:
            thread.join()
    os.close(writes)
    said = [json.loads(line)["error"] for line in lines]
    assert {(len(one), len(set(one))) for one in said} == {(300_000, 1)}


# --- what rank 0 makes of the others -----------------------------------------------------------------


class _Silent(cluster.Cluster):
    """Machines that are never started."""

    def __init__(self, *hosts: Host) -> None:
        self.hosts, self._followers, self._loaded = hosts, [], []


STUDIO = Host("studio", "10.0.0.2")


def test_other_versions_are_refused() -> None:
    theirs = cluster.versions() | {"mlx": "0.1"}
    with pytest.raises(BackendError, match=r"studio has mlx 0\.1 and this machine .*: install the same version"):
        _Silent(Host("localhost", "127.0.0.1"), STUDIO)._compare([theirs])


def test_other_weights_are_refused() -> None:
    machines = _Silent(Host("localhost", "127.0.0.1"), STUDIO)
    machines._loaded = [{"digest": "theirs"}]
    target: Any = None
    with pytest.raises(ModelError, match="studio has different weights under this name"):
        machines.lead(target, "ours")


def test_a_machine_that_cannot_be_reached_is_no_lost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_SSH", ("false",))
    with pytest.raises(BackendError, match="studio cannot be reached, or `redline` does not start there") as caught:
        cluster.Cluster((Host("localhost", "127.0.0.1"), STUDIO))
    assert not isinstance(caught.value, MachineLostError)


class _Joined(_Silent):
    """Machines that were joined, of which one is gone."""

    def __init__(self, lost: str = "") -> None:
        super().__init__(Host("localhost", "127.0.0.1"), STUDIO)
        self.lost, self.used = lost, True


@pytest.mark.parametrize(("name", "sums"), [("qwen3_next/pipeline", 3), ("llama", 8)])
def test_layers_on_different_machines_wait_for_the_network_once(name: str, sums: int) -> None:
    """Twice for each of the 3 layers that are split; once for the token ids, and once to see that all are there."""
    machines, two = _Silent(Host("localhost", "127.0.0.1"), STUDIO), cast(Any, Group(2))
    machines.trip_s = lambda rows, width, sums: 1.0  # type: ignore[method-assign]
    target: Any = SimpleNamespace(model=split(lambda: whole(name), two))
    assert machines._network_s(target) == (sums, 0)


def test_a_process_that_has_joined_machines_can_join_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = _Joined()
    monkeypatch.setattr(cluster, "_cluster", [joined])
    assert cluster.connect(joined.hosts) is joined
    with pytest.raises(MachineLostError, match="joined to other machines"):
        cluster.connect((STUDIO, STUDIO))
    joined.lost = "studio has ended"
    with pytest.raises(MachineLostError, match="studio has ended"):
        cluster.connect(joined.hosts)
    with pytest.raises(MachineLostError, match="studio has ended"):
        cluster.check()


def test_a_lost_machine_is_none_of_the_business_of_a_model_on_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    joined, left = _Joined("studio has ended"), list[str]()
    joined._joining, joined._restore_terminal = True, lambda: None
    monkeypatch.setattr(cluster, "_leave", left.append)
    monkeypatch.setattr(cluster, "_cluster", [joined])
    monkeypatch.setattr(cluster, "GRACE_S", 0.01)
    assert cluster.connect(()) is None
    cluster.check()
    joined._give_up()
    assert left == []
    joined.used = True
    joined._give_up()
    assert left == ["studio has ended"]
