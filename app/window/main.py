"""Opens the window: what `redline` without a command does. The engine starts once the window is on screen."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.window.display import FirstWords, WindowError, check_display, lacking

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from app.window.application import Application
    from app.window.controller import Controller
    from app.window.shell.window import MainWindow


@dataclass(frozen=True)
class WindowOptions:
    """data_dir: where conversations are kept, None for the user's data folder. replay: a recorded stream of events that
    answers in place of a model. host: the command of the engine's host, the real one's if empty."""

    data_dir: Path | None = None
    replay: Path | None = None
    host: tuple[str, ...] = ()

    @property
    def place(self) -> Path:
        """Of the conversations: a file."""
        from app.store import store_path

        return store_path() if self.data_dir is None else self.data_dir / store_path().name

    @property
    def command(self) -> list[str]:
        """That starts the engine's host; empty for the usual one."""
        if self.host or self.replay is None:
            return list(self.host)
        return [sys.executable, "-m", "app.host", "--replay", str(self.replay)]


def run(options: WindowOptions) -> int:
    """Until the window closes; the exit code. Raises WindowError where no window can be, StoreError without a store."""
    check_display(sys.platform, os.environ)
    if options.replay is not None and not options.replay.is_file():
        raise WindowError(f"there is no file {options.replay} to replay: give one that the host has recorded")
    with _qt():
        from app.window import single
    lock = single.claim(options.place.parent)
    if lock is None:
        if single.ring(options.place.parent):
            return 0
        raise WindowError(
            "Redline is running already, but its window does not answer: end that process, then try again"
        )
    try:
        return show(options)
    finally:
        lock.release()


def show(options: WindowOptions) -> int:
    """The window, whoever else may have one."""
    application = _application()
    from app.store import Store
    from app.window.client import HostClient
    from app.window.controller import Controller, Notice
    from app.window.shell.window import MainWindow

    opened = Store.open(options.place)
    controller = Controller(opened.store, HostClient(options.command))
    window = MainWindow(controller, options.place)
    _connect(application, controller, window, options.place.parent)
    for said in opened.notices:
        controller.notice.emit(Notice("warning", said))
    controller.open_last()
    window.show()
    return int(application.exec())


def _application() -> Application:
    """Raises WindowError where Qt cannot be loaded; where it finds no screen, it says so and ends the process."""
    with _qt():
        from PySide6.QtCore import qInstallMessageHandler

        from app.window.application import Application
    words = FirstWords()
    qInstallMessageHandler(words)
    application = Application(["redline"])
    words.end()
    return application


def _connect(application: Application, controller: Controller, window: MainWindow, folder: Path) -> None:
    """What comes from outside, and the way out."""
    from app.window.application import FirstPaint, tell_of_bugs
    from app.window.controller import Notice
    from app.window.single import Doorbell

    window.parts.panel.shown.connect(window.models.look)
    doorbell = Doorbell(folder, controller)
    doorbell.rung.connect(lambda: come_forward(window))
    application.file_opened.connect(controller.import_file)
    application.aboutToQuit.connect(doorbell.close)
    application.aboutToQuit.connect(controller.close)
    application.end_on_signals()
    tell_of_bugs(lambda said: controller.notice.emit(Notice("error", said, (("Copy Report", controller.copy_report),))))
    FirstPaint(window, lambda: begin(controller))


def begin(controller: Controller) -> None:
    """The window is on screen: the rest may start. What the start has made stays until the end; not to look through it
    again and again spares the window a pause of 20 ms now and then."""
    gc.freeze()
    controller.start()


def come_forward(window: QWidget) -> None:
    """To the front, as far as the system lets a window do that."""
    if window.isMinimized():
        window.showNormal()
    window.show()
    window.raise_()
    window.activateWindow()


@contextmanager
def _qt() -> Iterator[None]:
    """Imports of Qt: one that fails for want of a library says which."""
    try:
        yield
    except ImportError as error:
        explained = lacking(error)
        if explained is None:
            raise
        raise explained from error
