"""One window for a data folder: a second start raises the first window, and ends.

A lock in the data folder says who is first; it goes with its process, however that ends. A local socket carries the
message; one that a killed window has left behind is cleared by the next first.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout
from PySide6.QtCore import QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

LONGEST_MESSAGE_BYTES = 64
_RING, _HEARD = b"raise\n", b"heard\n"
_STEP_MS = 100


def name_of(folder: Path) -> str:
    """Of the socket: the user's own, this folder's own, and short, for some systems allow 100 bytes with the path."""
    told = f"{os.getuid()}\0{folder.resolve()}"
    return f"redline-{hashlib.sha256(told.encode(errors='surrogateescape')).hexdigest()[:16]}"


def claim(folder: Path) -> BaseFileLock | None:
    """The lock, to be held as long as the window lives; None where another window holds it. A folder that cannot be
    written to is claimed by nobody: then every start is the first."""
    lock = FileLock(folder / "window.lock", timeout=0, thread_local=False)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        return None
    except OSError:
        return lock
    return lock


def ring(folder: Path, patience_s: float = 5.0) -> bool:
    """Have the first window raised; whether it heard."""
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s:
        socket = QLocalSocket()
        socket.connectToServer(name_of(folder))
        if socket.waitForConnected(_STEP_MS):
            socket.write(_RING)
            while time.monotonic() < until_s and socket.state() == QLocalSocket.LocalSocketState.ConnectedState:
                socket.waitForReadyRead(_STEP_MS)
                if socket.bytesAvailable() >= len(_HEARD):
                    return socket.readAll().data() == _HEARD
        time.sleep(_STEP_MS / 1000)  # it may be between its lock and its socket
    return False


class Doorbell(QObject):
    """The first window's end. rung(): another start came. Needs an application."""

    rung = Signal()

    def __init__(self, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._come)
        self._callers: dict[QLocalSocket, bytes] = {}  # what each has said
        if not self._server.listen(name_of(folder)):
            QLocalServer.removeServer(name_of(folder))
            self._server.listen(name_of(folder))

    @property
    def listens(self) -> bool:
        """Whether another start will be heard."""
        return self._server.isListening()

    @property
    def address(self) -> str:
        """Of the socket in the file system."""
        return self._server.fullServerName()

    def close(self) -> None:
        """No longer."""
        self._server.close()

    def _come(self) -> None:
        while self._server.hasPendingConnections():
            socket = self._server.nextPendingConnection()
            self._callers[socket] = b""
            socket.readyRead.connect(self._hear)
            socket.disconnected.connect(self._hear)
            socket.disconnected.connect(socket.deleteLater)
        self._hear()

    def _hear(self) -> None:
        for socket in list(self._callers):
            if socket not in self._callers:  # hearing one can end another
                continue
            said = self._callers[socket] + bytes(socket.readAll().data())
            if said == _RING:
                del self._callers[socket]
                socket.write(_HEARD)
                socket.disconnectFromServer()
                self.rung.emit()
            elif len(said) > LONGEST_MESSAGE_BYTES or socket.state() != QLocalSocket.LocalSocketState.ConnectedState:
                del self._callers[socket]
                socket.abort()
            else:
                self._callers[socket] = said
