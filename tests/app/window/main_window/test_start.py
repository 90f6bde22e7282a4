"""The window's process from outside: killed, started twice, ended by a signal, started without a screen."""

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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent

from app.log_file import FILE
from app.protocol import ReplyDone, RoundDone, encode_line
from app.qt_libraries import PACKAGES, missing_libraries
from app.window.main_window import application
from app.window.main_window.application import Application
from app.window.main_window.start import WindowError, WindowOptions, check_display, explain
from engine.events import Finished
from tests.app.window.chat.fake_host import round_of, text_of
from tests.app.window.chat.scene import Scene, whole_path
from tests.app.window.waiting import for_a_while, until

FOREVER: dict[str, Any] = {"rounds": 1_000_000, "pause_s": 0.003}


def environment(**more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return kept | {"QT_QPA_PLATFORM": "offscreen"} | more


@contextmanager
def driven(folder: Path, *commands: str, **behaviour: Any) -> Iterator[subprocess.Popen[str]]:
    """Runs a window on this folder in a process that ends with the test."""
    module = "tests.app.window.main_window.driven_window"
    words = [sys.executable, "-m", module, str(folder), json.dumps(behaviour), *commands]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=environment(), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str], key: str) -> Any:
    """Returns the value of the next line with `key`."""
    assert process.stdout is not None
    for line in process.stdout:
        report = json.loads(line)
        if key in report:
            return report[key]
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


# --- killed -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_windows_killed_at_random_moments_have_saved_what_was_on_screen_a_second_before(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(5)]
    moments = sorted(random.Random(5).uniform(0.0, 2.5) for _ in folders)
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
    """Returns what a window has reported of its reply; the last line may be incomplete."""
    assert process.stdout is not None
    lines = [json.loads(line) for line in process.stdout.read().splitlines() if line.endswith("}")]
    return [one for one in lines if "shown" in one]


def check_kept(folder: Path, shown: list[dict[str, float]], killed_s: float) -> None:
    path = whole_path(folder)
    assert path[-2].text == "tell me" and path[-1].state == "cut" and path[-1].note
    assert path[-1].text == text_of(len(path[-1].text.split()))
    assert len(path[-1].text) >= max((one["shown"] for one in shown if one["at_s"] <= killed_s - 1), default=0)


# --- started twice, ended -----------------------------------------------------------------------


def test_a_second_start_raises_the_first_window_and_ends(tmp_path: Path) -> None:
    with driven(tmp_path) as first:
        assert heard(first, "state") == "loading"
        words = [sys.executable, "-m", "app", "--data-dir", str(tmp_path)]
        second = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=30, check=False)
        assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
        assert heard(first, "raised") is True


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_ends_the_window_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with driven(tmp_path, "tell me", **FOREVER) as process:
        heard(process, "shown")
        process.send_signal(number)
        assert process.wait(10) == 0
    last = whole_path(tmp_path)[-1]
    assert last.state == "stopped" and "quit" in last.note


@pytest.mark.slow
def test_an_exception_in_a_slot_is_reported_and_the_window_stays(tmp_path: Path) -> None:
    with driven(tmp_path, "raise: a bug", rounds=2) as process:
        assert "a bug" in heard(process, "notice")
        assert process.poll() is None
    log = (tmp_path / "logs" / FILE).read_text()
    assert "Redline " in log and f"{os.cpu_count()} cores" in log and "The engine is ready" in log
    assert "in obey" in log and "ValueError" in log and "a bug" not in log.replace("raise ValueError(words)", "")


def test_a_lock_goes_with_its_process_and_an_old_socket_is_cleared(tmp_path: Path) -> None:
    lock = application.claim_instance(tmp_path)
    assert lock is not None and application.claim_instance(tmp_path) is None
    assert not application.raise_first_instance(tmp_path, timeout_s=0.3)  # nobody listens yet
    left = socket.socket(socket.AF_UNIX)
    server = application.InstanceServer(tmp_path)
    path = server._server.fullServerName()
    server.close()
    left.bind(path)  # as a window that was killed leaves it
    left.close()
    again = application.InstanceServer(tmp_path)
    assert again._server.isListening()
    again.close()
    lock.release()
    taken = application.claim_instance(tmp_path)
    assert taken is not None
    taken.release()


def test_a_window_of_another_folder_does_not_raise_this_one(tmp_path: Path) -> None:
    server, raised = application.InstanceServer(tmp_path / "one"), list[bool]()
    server.raise_requested.connect(lambda: raised.append(True))
    os.utime(server._server.fullServerName(), (0, 0))  # it has been there for long
    other = application.InstanceServer(tmp_path / "other")
    for_a_while(0.05)
    assert not raised
    other.close()
    server.close()


def test_folders_and_users_have_their_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {application.server_name(tmp_path), application.server_name(tmp_path / "other")}
    monkeypatch.setattr("os.getuid", lambda: 4711)
    names.add(application.server_name(tmp_path))
    assert len(names) == 3 and all(len(name) < 30 for name in names)
    assert application.server_name(tmp_path / "a" / "..") == application.server_name(tmp_path)


@pytest.mark.parametrize("message", [b"", b"\xff" * 100_000])
def test_any_data_through_the_socket_is_survived(tmp_path: Path, message: bytes) -> None:
    server, raised = application.InstanceServer(tmp_path), list[bool]()
    server.raise_requested.connect(lambda: raised.append(True))
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(server._server.fullServerName())
        caller.setblocking(False)
        with suppress(OSError):
            caller.send(message)
        until(lambda: raised)
    for_a_while(0.05)
    assert raised == [True] and server._server.isListening()
    server.close()


def test_a_file_that_the_system_opens_is_emitted() -> None:
    told: list[str] = []

    class Listening:
        """Stands in for the application, of which there can be only one."""

        class file_opened:
            emit = told.append

    assert Application.event(Listening(), QFileOpenEvent(QUrl.fromLocalFile("/tmp/export.json")))  # type: ignore[arg-type]
    assert told == ["/tmp/export.json"]


# --- no window --------------------------------------------------------------------------------


def failed_start(folder: Path, *arguments: str, start: Sequence[str] = ("-m", "app"), **surroundings: str) -> str:
    """Returns the one line with which a start fails."""
    words = [sys.executable, *start, "--data-dir", str(folder), *arguments]
    done = subprocess.run(
        words, env=environment(**surroundings), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("redline: ")
    return done.stderr


@pytest.mark.slow_for("surroundings1-*")
@pytest.mark.parametrize(
    ("surroundings", "message"),
    [
        ({"QT_QPA_PLATFORM": ""}, "there is no screen"),
        ({"QT_QPA_PLATFORM": "nonsense"}, "Qt finds no screen"),
        (
            {"QT_QPA_PLATFORM": "", "DISPLAY": ":4711"},
            "which (is|are) missing: install|screen :4711 does not respond",
        ),
    ],
)
def test_without_a_screen_one_line_says_what_to_do(tmp_path: Path, surroundings: dict[str, str], message: str) -> None:
    line = failed_start(tmp_path, **surroundings)
    assert re.search(message, line) and "`redline chat` needs no screen" in line


def test_a_missing_library_is_named_with_what_brings_it(tmp_path: Path) -> None:
    code = (
        "import sys\nclass Lacking:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'PySide6.QtGui':\n"
        "            raise ImportError('libEGL.so.1: cannot open shared object file: No such file', name=name)\n"
        "sys.meta_path.insert(0, Lacking())\nfrom app.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    line = failed_start(tmp_path, start=("-c", code))
    assert "needs libEGL.so.1" in line and "apt install libegl1" in line


def test_a_missing_recording_is_reported(tmp_path: Path) -> None:
    assert "there is no file" in failed_start(tmp_path, "--replay", str(tmp_path / "gone.jsonl"))


def test_messages_of_qt_become_advice() -> None:
    assert "libxcb-cursor0" in explain(["From 6.5.0, xcb-cursor0 or libxcb-cursor0 is needed", "Could not load"])
    found = ['Could not load the Qt platform plugin "xcb" in "" even though it was found.']
    assert (
        "needs libX11.so.6, libxcb-icccm.so.4 and libxcb-keysyms.so.1, which are missing: install them with `sudo apt "
        "install libx11-6 libxcb-icccm4 libxcb-keysyms1` or `sudo dnf install libX11 xcb-util-wm xcb-util-keysyms`"
    ) in explain(found, ["libX11.so.6", "libxcb-icccm.so.4", "libxcb-keysyms.so.1"])
    assert "libxcb-icccm4`" in explain(["xcb-cursor0 or libxcb-cursor0 is needed", *found], ["libxcb-icccm.so.4"])
    assert "Qt finds no screen" in explain(['no Qt platform plugin "x"'], ["libxcb-icccm.so.4"])
    assert "screen :7" in explain(["could not connect to display :7", "no Qt platform plugin"])
    assert "(odd): reinstall Redline" in explain(["odd"])
    assert "needs libfoo.so.2" in explain(["libfoo.so.2: cannot open shared object file"])
    check_display("darwin", {})
    check_display("linux", {"WAYLAND_DISPLAY": "wayland-0"})


@pytest.mark.skipif(sys.platform != "linux", reason="the plugin for X11 is in Qt's wheels for Linux")
def test_every_library_of_the_plugin_for_x11_has_a_package() -> None:
    import PySide6

    qt = Path(PySide6.__file__).parent / "Qt"
    content = (qt / "plugins/platforms/libqxcb.so").read_bytes() + (qt / "lib/libQt6XcbQpa.so.6").read_bytes()
    needed = {name.decode() for name in re.findall(rb"lib(?:xcb|X11|xkb)[\w-]*\.so\.\d+", content)}
    assert len(needed) > 15 and needed <= PACKAGES.keys()
    assert set(missing_libraries()) <= PACKAGES.keys()
    with pytest.raises(WindowError):
        check_display("linux", {})


def test_the_window_imports_no_mlx_and_nothing_heavy_before_it_is_shown(tmp_path: Path) -> None:
    with driven(tmp_path) as process:
        modules = heard(process, "modules")
    assert "PySide6.QtWidgets" in modules
    assert not {"mlx.core", "mlx_lm", "transformers", "numpy", "pyqtgraph", "matplotlib", "rich"} & set(modules)


def test_a_recording_answers_in_place_of_a_model(tmp_path: Path) -> None:
    recording = tmp_path / "recording.jsonl"
    told = [
        RoundDone(id=2, round=round_of(index, index * 3, index / 1000), drafted_texts=("a", "b", "c"))
        for index in range(9)
    ]
    ended = ReplyDone(id=2, finished=Finished("eos", 27, 0.1), seed=3)
    recording.write_bytes(b"".join(encode_line(answer) for answer in (*told, ended)))
    with Scene(tmp_path, words=WindowOptions(replay=recording).host_command) as scene:
        assert scene.ask().text == text_of(27)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for the host in /proc")
def test_the_host_ends_with_a_window_that_is_killed(tmp_path: Path) -> None:
    with driven(tmp_path, "tell me", **FOREVER) as process:
        heard(process, "shown")
        hosts = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        assert len(hosts) == 1
        state = Path(f"/proc/{hosts[0]}/status")
        until(lambda: not state.exists() or "zombie" in state.read_text())
