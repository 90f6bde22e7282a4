"""The application around the window: its names, files that the system asks it to open, and how it is told to end."""

from __future__ import annotations

import signal
import socket
import sys
import traceback
from collections.abc import Callable
from types import TracebackType

from PySide6.QtCore import QEvent, QObject, QSocketNotifier, Qt, QTimer, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication, QWidget

NEVER_PAINTED_MS = 2000


class Application(QApplication):
    """file_opened(str): the system wants this file shown, as macOS does for a double click on an export."""

    file_opened = Signal(str)

    def __init__(self, arguments: list[str]) -> None:
        if sys.platform == "darwin":
            QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontShowIconsInMenus)
        for put in (QApplication.setApplicationName, QApplication.setOrganizationName):
            put("Redline")
        QApplication.setApplicationDisplayName("Redline")
        QApplication.setDesktopFileName("redline")
        super().__init__(arguments)
        self._ends: tuple[socket.socket, socket.socket] | None = None

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QFileOpenEvent):
            if event.file():
                self.file_opened.emit(event.file())
            return True
        return bool(super().event(event))

    def end_on_signals(self) -> None:
        """Ctrl-C in the terminal and SIGTERM end it as Quit does, with everything written."""
        ours, theirs = self._ends = socket.socketpair()
        for end in self._ends:
            end.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.quit())
        notifier = QSocketNotifier(ours.fileno(), QSocketNotifier.Type.Read, self)
        notifier.activated.connect(lambda *_: ours.recv(64))  # Python runs its handlers once it is called


class FirstPaint(QObject):
    """Calls `then` once, when `window` is on screen; or after a while where it never gets there, minimised say."""

    def __init__(self, window: QWidget, then: Callable[[], None]) -> None:
        super().__init__(window)
        # A timer of its own: QTimer.singleShot with a context object loses exceptions in PySide 6.9.
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(then)
        self._timer.start(NEVER_PAINTED_MS)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            if self._timer.isActive():
                self._timer.start(0)  # once all of it is painted
        return False


def tell_of_bugs(tell: Callable[[str], None]) -> None:
    """An exception that nobody caught goes to standard error, and its last line to the user, the first time; the window
    stays."""
    told: set[str] = set()

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        traceback.print_exception(kind, error, trace)
        said = f"{kind.__name__}: {error}"
        if issubclass(kind, Exception) and said not in told:
            told.add(said)
            tell(f"Something went wrong in the window ({said}). What you did last may not have worked.")

    sys.excepthook = hook
