"""Downloads: one child at a time, `redline models pull`, the others wait. The protocol is in `app.models.events`."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from app.models.events import MalformedError, read_line
from app.window.models.asking import usual_command
from app.window.models.download import Download

FRAME_MS = 100  # between two looks at a download that goes on
PAUSE_MS = 3000  # for a child to pause, before it is killed, which does no harm
CANNOT = "The download could not be started"


class Pulls(QObject):
    """downloads: by repository, in the order in which they were asked for; one that is here or thrown away is none.

    changed(): some of them are elsewhere than they were. ended(str): this one is here now, or thrown away.
    """

    changed = Signal()
    ended = Signal(str)

    def __init__(self, command: Sequence[str] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.command = list(command) or usual_command()
        self.downloads: dict[str, Download] = {}
        self._process: QProcess | None = None
        self._current, self._discards = "", False
        self._unwanted: set[str] = set()  # to be thrown away once their child has ended
        self._frame = QTimer(self, singleShot=True, interval=FRAME_MS)
        self._frame.timeout.connect(self.changed)

    def get(self, repo: str) -> None:
        """Download it, or go on with that, once those before it are done."""
        download = self.downloads.get(repo)
        if download is not None and download.live:
            return
        if download is None:
            self.downloads[repo] = Download(repo)
        else:
            download.state, download.said, download.reason = "queued", "", ""
        self._go_on()
        self.changed.emit()

    def pause(self, repo: str) -> None:
        """Whatever came stays."""
        download = self.downloads.get(repo)
        if download is None or not download.live:
            return
        if repo == self._current and self._process is not None:
            self._process.terminate()
        else:
            download.state = "paused"
            self.changed.emit()

    def cancel(self, repo: str) -> None:
        """Throw away what came; a download that was never begun here too."""
        self.downloads.setdefault(repo, Download(repo)).state = "discarding"
        self._unwanted.add(repo)
        if repo == self._current and self._process is not None:
            self._process.terminate()
        else:
            self._go_on()
        self.changed.emit()

    def forget(self, repo: str) -> None:
        """One that failed before anything came needs no throwing away."""
        if repo in self.downloads and not self.downloads[repo].live:
            del self.downloads[repo]
            self.changed.emit()

    def close(self) -> None:
        """The app quits: what goes on is paused, and can be gone on with another time."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        if not process.waitForFinished(PAUSE_MS):
            process.kill()
            process.waitForFinished(PAUSE_MS)

    # --- the child -------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Start the next, if none is under way: what is thrown away first."""
        if self._process is not None:
            return
        waiting = [*self._unwanted, *(one.repo for one in self.downloads.values() if one.state == "queued")]
        if not waiting:
            return
        repo = self._current = waiting[0]
        self._discards = repo in self._unwanted
        if not self._discards:
            self.downloads[repo].state = "asking"
        process = self._process = QProcess(self)
        process.readyReadStandardOutput.connect(self._hear)
        process.finished.connect(self._finish)
        process.errorOccurred.connect(self._fail)
        words = ["pull", repo, *(["--discard"] if self._discards else []), "--json"]
        process.start(self.command[0], [*self.command[1:], *words])
        process.closeWriteChannel()

    def _hear(self) -> None:
        process, download = self._process, self.downloads.get(self._current)
        if process is None or download is None:
            return
        while process.canReadLine():
            try:
                event = read_line(bytes(process.readLine().data()))
            except MalformedError:  # an event that is new to this window
                continue
            if download.state != "discarding":
                download.hear(event)
        if not self._frame.isActive():
            self._frame.start()

    def _fail(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self._process is not None:
            self._discards = False
            self._over(f"{CANNOT} ({self._process.errorString()}).")

    def _finish(self, _: int, __: QProcess.ExitStatus) -> None:
        if self._process is not None:
            self._hear()
            self._over()

    def _over(self, trouble: str = "") -> None:
        """The child is gone: what became of its download, and the next one's turn."""
        process, repo, discarded = self._process, self._current, self._discards
        self._process, self._current = None, ""
        if process is not None:
            process.deleteLater()
        download = self.downloads.get(repo)
        if download is not None:
            download.vanish(trouble)
        if discarded:
            self._unwanted.discard(repo)
        if discarded or (download is not None and download.state == "done"):
            self.downloads.pop(repo, None)
            self.ended.emit(repo)
        self._frame.stop()
        self._go_on()
        self.changed.emit()
