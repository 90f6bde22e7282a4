"""Opens the window: what `redline` without a command does. The engine starts once the window is on screen.

Imports no Qt before it is known that there is a screen.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.command_line import notify
from app.log_file import LOG, logs_dir, open_log
from app.qt_libraries import install_advice, missing_libraries
from engine.errors import RedlineError
from models.package_versions import version_of
from models.size_text import memory_words

if TYPE_CHECKING:
    from app.window.chat import Controller
    from app.window.main_window.application import Application
    from app.window.main_window.main_window import MainWindow

_INSTEAD = "`redline chat` needs no screen"


class WindowError(RedlineError):
    """No window can be opened here."""


@dataclass(frozen=True)
class WindowOptions:
    """How to open the window.

    data_dir: where conversations are kept, None for the user's data folder. replay: a recorded stream of events that
    answers in place of a model. host: the command that starts the host, the real one if empty.
    """

    data_dir: Path | None = None
    replay: Path | None = None
    host: tuple[str, ...] = ()

    @property
    def store_file(self) -> Path:
        """The file that holds the conversations."""
        from app.store import store_path

        return store_path() if self.data_dir is None else self.data_dir / store_path().name

    @property
    def logs_dir(self) -> Path:
        """The folder of the log."""
        return logs_dir() if self.data_dir is None else self.data_dir / "logs"

    @property
    def host_command(self) -> list[str]:
        """The command that starts the host; empty for the real one."""
        if self.host or self.replay is None:
            return list(self.host)
        return [sys.executable, "-m", "app.host", "--replay", str(self.replay)]


def run(options: WindowOptions) -> int:
    """Shows the window until it closes and returns the exit code. Raises WindowError where no window can be opened and
    StoreError without a store."""
    check_display(sys.platform, os.environ)
    if options.replay is not None and not options.replay.is_file():
        raise WindowError(f"there is no file {options.replay}: give a recording made by the host")
    folder = options.store_file.parent
    with _qt_errors():
        from app.window.main_window.application import claim_instance, raise_first_instance
    lock = claim_instance(folder)
    if lock is None:
        if raise_first_instance(folder):
            return 0
        raise WindowError("Redline is already running but is not responding: quit it and try again")
    try:
        return show(options)
    finally:
        lock.release()


def show(options: WindowOptions) -> int:
    """Shows the window, without a look at other instances."""
    application = _make_application()
    log_file = open_log(options.logs_dir)
    qt = f"Qt {version_of('PySide6-Essentials')}, platform plugin {application.platformName()}"
    LOG.info("Redline %s starts: %s", version_of("redline"), qt)
    from app.reply_history import FOLDER, ReplyHistory
    from app.store import Store
    from app.window.chat import Controller, Notice
    from app.window.chat.host_process import HostProcess
    from app.window.main_window.main_window import MainWindow

    opened = Store.open(options.store_file)
    history = ReplyHistory(options.store_file.parent / FOLDER)
    controller = Controller(opened.store, HostProcess(options.host_command), history=history)
    controller.host.log_file = log_file
    window = MainWindow(controller, options.store_file)
    _connect(application, controller, window, options.store_file.parent)
    for text in opened.notices:
        controller.notice.emit(Notice("warning", text))
    controller.open_last()
    window.show()
    code = int(application.exec())
    LOG.info("Redline quit")
    return code


def _make_application() -> Application:
    """Raises WindowError where Qt cannot be loaded; where Qt finds no screen, says so and ends the process."""
    with _qt_errors():
        from PySide6.QtCore import QtMsgType, qInstallMessageHandler

        from app.window.main_window.application import Application
    said: list[str] = []

    def keep(kind: QtMsgType, _: object, message: str) -> None:
        said.append(message)
        if kind == QtMsgType.QtFatalMsg:
            notify(explain(said, missing_libraries()))
            os._exit(1)

    qInstallMessageHandler(keep)
    application = Application(["redline"])
    qInstallMessageHandler(None)
    for message in said:
        print(message, file=sys.stderr)
    return application


def _connect(application: Application, controller: Controller, window: MainWindow, folder: Path) -> None:
    """Connects the window with the system around it, and with quitting."""
    from app.window.chat import Notice
    from app.window.main_window.application import FirstPaint, InstanceServer, report_uncaught
    from app.window.main_window.garbage_collection import GarbageCollection
    from app.window.main_window.secondary_windows import come_forward

    window.parts.panel.shown.connect(window.models.find_names)
    controller.host.pair_loaded.connect(window.models.offer_pair)
    server = InstanceServer(folder, controller)
    application.file_opened.connect(controller.import_file)
    for signal in (server.raise_requested, application.file_opened):
        signal.connect(lambda *_: come_forward(window))
    application.aboutToQuit.connect(server.close)
    application.aboutToQuit.connect(controller.close)
    application.quit_on_signals()
    GarbageCollection(application)
    copy = ("Copy Report", controller.host.copy_error_report)
    report_uncaught(lambda text: controller.notice.emit(Notice("error", text, (copy,))))
    FirstPaint(window, lambda: begin(controller))


def begin(controller: Controller) -> None:
    """Starts the engine, once the window is on screen."""
    from app.window.main_window.garbage_collection import leave_old_objects_out

    leave_old_objects_out()
    controller.start()
    LOG.info(machine_text())


def machine_text() -> str:
    """Returns what the machine is, for the log. It names neither the machine nor the user."""
    import platform

    from app.inference.machine import memory, processor

    total, free = memory()
    system = f"{platform.platform(terse=True)}, Python {platform.python_version()}"
    return f"{system} on {processor()}, {os.cpu_count()} cores, {memory_words(free)} of {memory_words(total)} free"


@contextmanager
def _qt_errors() -> Iterator[None]:
    """Turns a failed import of Qt into a WindowError that says what is missing. Any other failed import is a bug."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("PySide6", "shiboken6"):
            raise
        raise WindowError(explain([str(error)])) from error


# --- why no window can be opened here ---------------------------------------------------------


def check_display(platform: str, environment: Mapping[str, str]) -> None:
    """Raises WindowError where there is no screen to open a window on."""
    if not platform.startswith("linux") or environment.get("QT_QPA_PLATFORM"):
        return
    if not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        raise WindowError(
            "there is no screen to open a window on (neither DISPLAY nor WAYLAND_DISPLAY is set): start Redline from a "
            f"desktop session or over `ssh -X`; {_INSTEAD}"
        )


def explain(messages: list[str], lacking: Sequence[str] = ()) -> str:
    """Returns one line on why Qt cannot open a window, from what it said: what is missing, and what to do. lacking:
    libraries that are known to be missing."""
    said = " ".join(" ".join(messages).split())
    library = re.search(r"(\S+\.so[.\d]*): cannot open shared object", said)
    missing = [library[1]] if library else ["libxcb-cursor.so.0"] if "xcb-cursor" in said else []
    if lacking and (missing or "even though it was found" in said):
        missing = list(lacking)
    screen = re.search(r"could not connect to display ?(\S*)", said)
    if missing:
        needs = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        are = "is" if len(missing) == 1 else "are"
        why = f"the window needs {needs}, which {are} missing: {install_advice(missing)}"
    elif screen:
        why = f"the screen {screen[1] or 'named by DISPLAY'} does not respond: check DISPLAY"
    elif "platform plugin" in said:
        why = f"Qt finds no screen ({messages[0]}): check QT_QPA_PLATFORM and DISPLAY"
    else:
        why = f"Qt cannot open a window ({said}): reinstall Redline"
    return f"{why}; {_INSTEAD}"
