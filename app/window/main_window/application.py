"""The application around the window: files that the system opens, signals that end it, and one instance per folder.

A lock in the data folder says which window is first; it goes with its process, however that ends. A second start asks
the first, through a local socket, to come to the front, and ends.
"""

import hashlib
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from filelock import BaseFileLock, FileLock, Timeout
from PySide6.QtCore import QEvent, QObject, QSocketNotifier, Qt, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from PySide6.QtWidgets import QApplication, QWidget

from app.log_file import LOG, traceback_of
from app.window.common.timer import Timer

NEVER_PAINTED_MS = 2000
_RAISED = b"raised\n"  # the answer to a later start
_STEP_MS = 100


class Application(QApplication):
    """The Qt application, named, with what the system asks of it."""

    file_opened = Signal(str)  # a path, as when an export is double-clicked on macOS

    def __init__(self, arguments: list[str]) -> None:
        if sys.platform == "darwin":
            QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontShowIconsInMenus)
        QApplication.setApplicationName("Redline")
        QApplication.setOrganizationName("Redline")
        QApplication.setApplicationDisplayName("Redline")
        QApplication.setDesktopFileName("redline")
        super().__init__(arguments)
        self._sockets: tuple[socket.socket, socket.socket] | None = None

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QFileOpenEvent):
            if event.file():
                self.file_opened.emit(event.file())
            return True
        return bool(super().event(event))

    def quit_on_signals(self) -> None:
        """Has Ctrl-C in the terminal and SIGTERM quit in order, with everything saved."""
        ours, theirs = self._sockets = socket.socketpair()
        for end in self._sockets:
            end.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.quit())
        notifier = QSocketNotifier(ours.fileno(), QSocketNotifier.Type.Read, self)
        notifier.activated.connect(lambda *_: ours.recv(64))  # Python runs its handlers once it is called


class FirstPaint(QObject):
    """Calls a function once, when `window` has been painted; or after a while where it never is, as when minimised."""

    def __init__(self, window: QWidget, callback: Callable[[], None]) -> None:
        super().__init__(window)
        # A timer of its own: Timer.singleShot with a context object loses exceptions in PySide 6.9.
        self._timer = Timer(self, singleShot=True)
        self._timer.timeout.connect(callback)
        self._timer.start(NEVER_PAINTED_MS)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            if self._timer.isActive():
                self._timer.start(0)  # once all of it is painted
        return False


def report_uncaught(report: Callable[[str], None]) -> None:
    """Prints and logs uncaught exceptions, and gives `report` the first of each kind as text; the window stays open."""
    reported: set[str] = set()

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        traceback.print_exception(kind, error, trace)
        LOG.error("An exception was not caught:\n%s", traceback_of(error))
        text = f"{kind.__name__}: {error}"
        if issubclass(kind, Exception) and text not in reported:
            reported.add(text)
            report(f"Something went wrong ({text}). Your last action may not have worked.")

    sys.excepthook = hook


# --- one instance -----------------------------------------------------------------------------


def claim_instance(folder: Path) -> BaseFileLock | None:
    """Returns the lock of a data folder, to be held as long as the window is open; None where another window holds it.
    In a folder that cannot be written to, every start gets a lock."""
    lock = FileLock(folder / "window.lock", timeout=0, thread_local=False)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        return None
    except OSError:
        return lock
    return lock


def raise_first_instance(folder: Path, timeout_s: float = 5.0) -> bool:
    """Asks the first window of a data folder to come to the front; returns whether it answered."""
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        local = QLocalSocket()
        local.connectToServer(server_name(folder))
        if local.waitForConnected(_STEP_MS):
            while time.monotonic() < until_s and local.state() == QLocalSocket.LocalSocketState.ConnectedState:
                local.waitForReadyRead(_STEP_MS)
                if local.bytesAvailable() >= len(_RAISED):
                    return local.readAll().data() == _RAISED
        time.sleep(_STEP_MS / 1000)  # it may be between its lock and its socket
    return False


def server_name(folder: Path) -> str:
    """Returns the name of the socket: one per user and folder, and short, as some systems allow 100 bytes in all."""
    key = f"{os.getuid()}\0{folder.resolve()}"
    return f"redline-{hashlib.sha256(key.encode(errors='surrogateescape')).hexdigest()[:16]}"


class InstanceServer(QObject):
    """Answers later starts. raise_requested(): one of them asks this window to come to the front.

    A connection is the request; what comes through it is not read.
    """

    raise_requested = Signal()

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._accept)
        if not self._server.listen(server_name(folder)):
            QLocalServer.removeServer(server_name(folder))  # left behind by a window that was killed
            self._server.listen(server_name(folder))

    def close(self) -> None:
        """Stops listening."""
        self._server.close()

    def _accept(self) -> None:
        while self._server.hasPendingConnections():
            local = self._server.nextPendingConnection()
            local.disconnected.connect(local.deleteLater)
            local.write(_RAISED)
            local.disconnectFromServer()
            self.raise_requested.emit()
