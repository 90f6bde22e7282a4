"""The process of the window from outside: killed, started twice, told to end, started where no window can be."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication

from app.protocol import Ended, Told, to_line
from app.store import Store
from app.window import single
from app.window.application import Application
from app.window.display import WindowError, check_display, explained, lacking
from app.window.main import WindowOptions
from engine.events import Finished
from tests.window.control.fake_host import round_of, text_of
from tests.window.control.scene import Scene
from tests.window.control.waiting import until

FOREVER: dict[str, Any] = {"rounds": 1_000_000, "pause_s": 0.003}


def environment(**more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return kept | {"QT_QPA_PLATFORM": "offscreen"} | more


@contextmanager
def driven(folder: Path, *commands: str, **manner: Any) -> Iterator[subprocess.Popen[str]]:
    """A window on this folder, in a process that does not outlive the test."""
    words = [sys.executable, "-m", "tests.window.control.driven", str(folder), json.dumps(manner), *commands]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=environment(), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str], key: str) -> Any:
    """The next line that tells of `key`."""
    assert process.stdout is not None
    for line in process.stdout:
        said = json.loads(line)
        if key in said:
            return said[key]
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


# --- killed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_windows_killed_at_five_random_moments_have_kept_what_was_on_screen_a_second_before(
    tmp_path: Path, seed: int
) -> None:
    folders = [tmp_path / str(number) for number in range(5)]
    moments = sorted(random.Random(seed).uniform(0.0, 2.5) for _ in folders)
    with ExitStack() as windows:
        processes = [windows.enter_context(driven(folder, "tell me", **FOREVER)) for folder in folders]
        for process in processes:
            heard(process, "shown")
        began_s = time.monotonic()
        for folder, process, moment in zip(folders, processes, moments, strict=True):
            time.sleep(max(0.0, began_s + moment - time.monotonic()))
            killed_s = time.monotonic()
            process.kill()
            check_kept(folder, shown_by(process), killed_s)


def shown_by(process: subprocess.Popen[str]) -> list[dict[str, float]]:
    """All that a window has told of its reply, the last line perhaps but half."""
    assert process.stdout is not None
    said = [json.loads(line) for line in process.stdout.read().splitlines() if line.endswith("}")]
    return [one for one in said if "shown" in one]


def check_kept(folder: Path, shown: list[dict[str, float]], killed_s: float) -> None:
    store = Store.open(folder / "conversations.sqlite").store
    path = store.path(store.conversations()[0].id)
    store.close()
    assert path[-2].text == "tell me" and path[-1].state == "cut" and path[-1].note
    assert path[-1].text == text_of(len(path[-1].text.split()))
    assert len(path[-1].text) >= max((one["shown"] for one in shown if one["at_s"] <= killed_s - 1), default=0)


# --- started twice, told to end ---------------------------------------------------------------


def test_a_second_start_raises_the_first_window_and_ends(tmp_path: Path) -> None:
    with driven(tmp_path) as first:
        assert heard(first, "state") == "loading"
        words = [sys.executable, "-m", "app", "--data-dir", str(tmp_path)]
        second = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=30, check=False)
        assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
        assert heard(first, "raised") is True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_window_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with driven(tmp_path, "tell me", **FOREVER) as process:
        heard(process, "shown")
        process.send_signal(number)
        assert process.wait(10) == 0
    store = Store.open(tmp_path / "conversations.sqlite").store
    last = store.path(store.conversations()[0].id)[-1]
    store.close()
    assert last.state == "stopped" and "quit" in last.note


def test_a_bug_in_a_slot_is_told_and_the_window_stays(tmp_path: Path) -> None:
    with driven(tmp_path, "raise: a bug", rounds=2) as process:
        assert "a bug" in heard(process, "notice")
        assert process.poll() is None
    assert process.stderr is not None


def test_a_lock_goes_with_its_process_and_a_socket_left_behind_is_cleared(app: QApplication, tmp_path: Path) -> None:
    lock = single.claim(tmp_path)
    assert lock is not None and single.claim(tmp_path) is None
    assert not single.ring(tmp_path, patience_s=0.3)  # nobody listens yet
    left = socket.socket(socket.AF_UNIX)
    doorbell = single.Doorbell(tmp_path)
    path = doorbell.address
    doorbell.close()
    left.bind(path)  # as a window that was killed leaves it
    left.close()
    again = single.Doorbell(tmp_path)
    assert again.listens
    again.close()
    lock.release()
    taken = single.claim(tmp_path)
    assert taken is not None
    taken.release()


def test_folders_and_users_have_their_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {single.name_of(tmp_path), single.name_of(tmp_path / "other")}
    monkeypatch.setattr("os.getuid", lambda: 4711)
    names.add(single.name_of(tmp_path))
    assert len(names) == 3 and all(len(name) < 30 for name in names)
    assert single.name_of(tmp_path / "a" / "..") == single.name_of(tmp_path)


@pytest.mark.parametrize("message", [b"raise\n", b"\xff" * 99, b"x" * 100_000])
def test_whatever_comes_through_the_socket_is_borne(app: QApplication, tmp_path: Path, message: bytes) -> None:
    doorbell = single.Doorbell(tmp_path)
    rung: list[bool] = []
    doorbell.rung.connect(lambda: rung.append(True))
    with socket.socket(socket.AF_UNIX) as fleeting:
        fleeting.connect(doorbell.address)
        until(lambda: doorbell._callers)
    until(lambda: not doorbell._callers)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(doorbell.address)
        caller.setblocking(False)
        sent = 0
        gone: list[bool] = []

        def over() -> bool:
            nonlocal sent
            try:
                sent += caller.send(message[sent:]) if sent < len(message) else 0
                gone.append(caller.recv(16) in (b"", b"heard\n"))
            except BlockingIOError:
                return False
            except OSError:
                gone.append(True)
            return bool(gone)

        until(over)
    assert rung == [True] * (message == b"raise\n")
    doorbell.close()


def test_a_file_that_the_system_opens_is_told(app: QApplication) -> None:
    told: list[str] = []

    class Listening:
        """As much of the application as the event needs: there can be only one."""

        class file_opened:
            emit = told.append

    assert Application.event(Listening(), QFileOpenEvent(QUrl.fromLocalFile("/tmp/export.json")))  # type: ignore[arg-type]
    assert told == ["/tmp/export.json"]


# --- no window --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("surroundings", "said"),
    [
        ({"QT_QPA_PLATFORM": ""}, "there is no screen"),
        ({"QT_QPA_PLATFORM": "nonsense"}, "Qt finds no way to a screen"),
        (
            {"QT_QPA_PLATFORM": "", "DISPLAY": ":4711"},
            "libxcb-cursor.so.0, which is missing|screen :4711 does not answer",
        ),
    ],
)
def test_without_a_screen_one_line_says_what_to_do(tmp_path: Path, surroundings: dict[str, str], said: str) -> None:
    words = [sys.executable, "-m", "app", "--data-dir", str(tmp_path)]
    done = subprocess.run(
        words, env=environment(**surroundings), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("redline: ") and re.search(said, done.stderr)
    assert "`redline chat` needs no screen" in done.stderr


def test_a_missing_library_is_named_with_what_brings_it(tmp_path: Path) -> None:
    code = (
        "import sys\nclass Lacking:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'PySide6.QtGui':\n"
        "            raise ImportError('libEGL.so.1: cannot open shared object file: No such file', name=name)\n"
        "sys.meta_path.insert(0, Lacking())\nfrom app.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", code, "--data-dir", str(tmp_path)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "needs libEGL.so.1" in done.stderr and "apt install libegl1" in done.stderr


def test_what_qt_says_becomes_advice() -> None:
    assert "libxcb-cursor0" in explained(["From 6.5.0, xcb-cursor0 or libxcb-cursor0 is needed", "Could not load"])
    assert "screen :7" in explained(["could not connect to display :7", "no Qt platform plugin"])
    assert "Qt ended the window (odd)" in explained(["odd"])
    unknown = lacking(ImportError("libfoo.so.2: cannot open shared object file", name="PySide6.QtWidgets"))
    assert unknown is not None and "libfoo.so.2" in str(unknown)
    assert "install Redline again" in str(lacking(ImportError("DLL load failed", name="PySide6.QtGui")))
    assert lacking(ImportError("no module", name="app.oops")) is None
    check_display("darwin", {})
    check_display("linux", {"WAYLAND_DISPLAY": "wayland-0"})
    with pytest.raises(WindowError):
        check_display("linux", {})


def test_the_window_imports_no_mlx_and_nothing_heavy_before_it_is_shown(tmp_path: Path) -> None:
    with driven(tmp_path) as process:
        modules = heard(process, "modules")
    assert "PySide6.QtWidgets" in modules
    assert not {"mlx.core", "mlx_lm", "transformers", "numpy", "pyqtgraph", "matplotlib", "rich"} & set(modules)


def test_a_recording_that_is_not_there_is_said(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "app", "--data-dir", str(tmp_path), "--replay", str(tmp_path / "gone.jsonl")]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "there is no file" in done.stderr


def test_a_recording_answers_in_the_place_of_a_model(app: QApplication, tmp_path: Path) -> None:
    recording = tmp_path / "recording.jsonl"
    told = [
        Told(id=2, round=round_of(index, index * 3, index / 1000), drafted_texts=("a", "b", "c")) for index in range(9)
    ]
    ended = Ended(id=2, finished=Finished("eos", 27, 0.1), seed=3)
    recording.write_bytes(b"".join(to_line(answer) for answer in (*told, ended)))
    with Scene(tmp_path, words=WindowOptions(replay=recording).command) as scene:
        assert scene.ask().text == text_of(27)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for the host in /proc")
def test_the_host_ends_with_a_window_that_is_killed(tmp_path: Path) -> None:
    with driven(tmp_path, "tell me", **FOREVER) as process:
        heard(process, "shown")
        hosts = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        assert len(hosts) == 1
        state = Path(f"/proc/{hosts[0]}/status")
        until(lambda: not state.exists() or "zombie" in state.read_text())
