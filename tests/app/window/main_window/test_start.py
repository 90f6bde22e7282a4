"""The window's process from outside: killed, started twice, ended by a signal, started without a screen."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QFileOpenEvent

from app.log_file import FILE
from app.qt_libraries import PACKAGES, missing_libraries
from app.store import round_encoding
from app.window.main_window import application
from app.window.main_window.application import Application
from app.window.main_window.start import WindowError, WindowOptions, check_display, explain, run
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import whole_path
from tests.app.window.waiting import until

FOREVER: dict[str, Any] = {"rounds": 1_000_000, "pause_s": 0.003}


def environment(**more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return kept | {"QT_QPA_PLATFORM": "offscreen"} | more


@contextmanager
def driven_window(folder: Path, *commands: str, **behaviour: Any) -> Iterator[subprocess.Popen[str]]:
    """Runs a window on this folder in a process that ends with the test."""
    words = [sys.executable, "-m", "tests.attack.driven_window", str(folder), json.dumps(behaviour), *commands]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=environment(), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def next_report(process: subprocess.Popen[str], key: str) -> Any:
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
def test_a_window_that_is_killed_has_saved_its_reply_so_far_and_takes_its_host_with_it(tmp_path: Path) -> None:
    children = Path("/proc/self/task").exists()
    with driven_window(tmp_path, "tell me", **FOREVER) as process:
        next_report(process, "shown")
        until(lambda: len(saved_text(tmp_path)) > 500)
        hosts = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split() if children else []
        process.kill()
        process.wait()
        assert len(hosts) == int(children)
        until(lambda: not any(runs(host) for host in hosts))
    path = whole_path(tmp_path)
    assert path[-2].text == "tell me" and path[-1].state == "cut" and path[-1].note
    assert len(path[-1].text) > 500 and path[-1].text == text_of(len(path[-1].text.split()))


def saved_text(folder: Path) -> str:
    """Returns the text of the last message as far as its rounds are on disk."""
    with closing(sqlite3.connect(folder / "conversations.sqlite")) as connection:
        query = "SELECT data FROM rounds WHERE message = (SELECT max(id) FROM message) ORDER BY number"
        batches = [round_encoding.unpack(data) for (data,) in connection.execute(query)]
    return round_encoding.text_of(done for batch in batches for done in batch)


def runs(process: str) -> bool:
    """Returns whether a process, by its id, has not ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return "zombie" not in Path(f"/proc/{process}/status").read_text()
    return False


# --- started twice, ended -----------------------------------------------------------------------


def test_a_second_start_raises_the_first_window_which_has_imported_nothing_heavy(tmp_path: Path) -> None:
    with driven_window(tmp_path) as first:
        modules = set(next_report(first, "modules"))
        assert next_report(first, "state") == "loading"
        words = [sys.executable, "-m", "app", "--data-dir", str(tmp_path)]
        second = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
        assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
        assert next_report(first, "raised") is True
    assert "PySide6.QtWidgets" in modules
    assert not {"mlx.core", "mlx_lm", "transformers", "numpy", "pyqtgraph", "matplotlib", "rich"} & modules


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_window_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with driven_window(tmp_path, "tell me", **FOREVER) as process:
        next_report(process, "shown")
        process.send_signal(number)
        process.communicate()
        assert process.returncode == 0
    last = whole_path(tmp_path)[-1]
    assert last.state == "stopped" and "quit" in last.note


@pytest.mark.slow
def test_an_exception_in_a_slot_is_reported_and_the_window_stays(tmp_path: Path) -> None:
    with driven_window(tmp_path, "raise: a bug", rounds=2) as process:
        assert "a bug" in next_report(process, "notice")
        assert process.poll() is None
    log = (tmp_path / "logs" / FILE).read_text()
    assert "Redline " in log and f"{os.cpu_count()} cores" in log and "The engine is ready" in log
    assert "in obey" in log and "ValueError" in log and "a bug" not in log.replace("raise ValueError(words)", "")


def test_a_lock_goes_with_its_process_and_an_old_socket_is_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped = SimpleNamespace(monotonic=count().__next__, sleep=lambda _: None)
    monkeypatch.setattr(application, "time", stepped)
    lock = application.claim_instance(tmp_path)
    assert lock is not None and application.claim_instance(tmp_path) is None
    assert not application.raise_first_instance(tmp_path)  # nobody listens yet
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


def test_any_call_raises_the_window_of_its_folder_once(tmp_path: Path) -> None:
    server, raised = application.InstanceServer(tmp_path / "one"), list[bool]()
    server.raise_requested.connect(lambda: raised.append(True))
    os.utime(server._server.fullServerName(), (0, 0))  # it has been there for long
    other = application.InstanceServer(tmp_path / "other")
    for calls in (1, 2):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(server._server.fullServerName())
            caller.setblocking(False)
            with suppress(OSError):
                caller.send(b"\xff" * 100_000)
            until(lambda calls=calls: len(raised) >= calls)
    assert raised == [True, True] and server._server.isListening()
    other.close()
    server.close()


def test_folders_and_users_have_their_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {application.server_name(tmp_path), application.server_name(tmp_path / "other")}
    monkeypatch.setattr("os.getuid", lambda: 4711)
    names.add(application.server_name(tmp_path))
    assert len(names) == 3 and all(len(name) < 30 for name in names)
    assert application.server_name(tmp_path / "a" / "..") == application.server_name(tmp_path)


def test_a_file_that_the_system_opens_is_emitted() -> None:
    opened: list[str] = []

    class Receiver:
        """Stands in for the application, of which there can be only one."""

        class file_opened:
            emit = opened.append

    assert Application.event(Receiver(), QFileOpenEvent(QUrl.fromLocalFile("/tmp/export.json")))  # type: ignore[arg-type]
    assert opened == ["/tmp/export.json"]


# --- no window --------------------------------------------------------------------------------


def failed_start(folder: Path, start: Sequence[str] = ("-m", "app"), **surroundings: str) -> str:
    """Returns the one line with which a start fails."""
    words = [sys.executable, *start, "--data-dir", str(folder)]
    done = subprocess.run(words, env=environment(**surroundings), capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("redline: ")
    return done.stderr


def test_where_the_screen_does_not_respond_one_line_says_what_to_do(tmp_path: Path) -> None:
    line = failed_start(tmp_path, QT_QPA_PLATFORM="", DISPLAY=":4711")
    assert re.search("which (is|are) missing: install|screen :4711 does not respond", line)
    assert "`redline chat` needs no screen" in line


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
    with pytest.raises(WindowError, match="there is no file"):
        run(WindowOptions(tmp_path, replay=tmp_path / "gone.jsonl"))


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
    with pytest.raises(WindowError, match=r"there is no screen.*`redline chat` needs no screen"):
        check_display("linux", {})
