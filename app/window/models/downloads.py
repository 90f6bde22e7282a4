"""Downloads: one `redline models pull` child at a time. The protocol is `app.protocol.download_events`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from app.protocol.download_events import (
    AnyDownloadEvent,
    Done,
    DownloadProgress,
    Failed,
    Fetched,
    MalformedError,
    Paused,
    Planned,
    Resolving,
    Verifying,
    Waiting,
    read_line,
)
from app.window.models.command_queue import usual_command

FRAME_MS = 100  # between two updates of a download
PAUSE_MS = 3000  # for a child to pause, before it is killed, which does no harm
CANNOT = "The download could not start"
State = Literal["queued", "asking", "running", "paused", "discarding", "failed", "done"]
LIVE: tuple[State, ...] = ("queued", "asking", "running", "discarding")
VANISHED = "The download ended unexpectedly. Nothing is lost."


@dataclass
class DownloadFile:
    """One file: its bytes, and how many of them there are."""

    size_bytes: int
    done_bytes: int
    whole: bool = False


@dataclass
class Download:
    """bytes_per_s, eta_s: None while they are not known. message: what is waited for, or what went wrong; reason: the
    same for programs, one of `models.hub.failures.REASONS`. ready: whether the list of files is known."""

    repo: str
    state: State = "queued"
    done_bytes: int = 0
    total_bytes: int = 0
    bytes_per_s: float | None = None
    eta_s: float | None = None
    files: dict[str, DownloadFile] = field(default_factory=dict)
    message: str = ""
    reason: str = ""

    @property
    def live(self) -> bool:
        """Whether it is under way, or will be by itself."""
        return self.state in LIVE

    @property
    def share(self) -> float:
        """How much is downloaded, 0 to 1."""
        return min(1.0, self.done_bytes / self.total_bytes) if self.total_bytes else 0.0

    def receive(self, event: AnyDownloadEvent) -> None:
        """Takes in an event of the child."""
        if isinstance(event, Resolving):
            self.state, self.message, self.reason = "asking", "Connecting", ""
        elif isinstance(event, Waiting):
            again = f"trying again in {event.wait_s:.0f} s ({event.attempt} of {event.attempts})"
            self._stall(f"{event.why[:1].upper()}{event.why[1:]}; {again}")
        elif isinstance(event, Planned):
            self._plan(event)
        elif isinstance(event, DownloadProgress):
            self._progress(event)
        elif isinstance(event, Verifying):
            self.state, self.message = "running", f"Verifying {event.file}"
        elif isinstance(event, Fetched):
            self.files[event.file] = DownloadFile(event.size_bytes, event.size_bytes, whole=True)
            self.done_bytes = max(self.done_bytes, sum(file.done_bytes for file in self.files.values()))
        else:
            self._end(event)

    def vanish(self, message: str = "") -> None:
        """The child ended without a last event."""
        if self.state in ("asking", "running"):
            self._stall(message or VANISHED)
            self.state, self.reason = "failed", "hub"

    def _plan(self, planned: Planned) -> None:
        self.state, self.message = "running", ""
        self.total_bytes, self.done_bytes = planned.total_bytes, planned.present_bytes
        self.files = {
            file.name: DownloadFile(file.size_bytes, file.present_bytes, file.present_bytes == file.size_bytes)
            for file in planned.files
        }

    def _progress(self, progress: DownloadProgress) -> None:
        self.state, self.message = "running", ""
        self.done_bytes, self.total_bytes = progress.done_bytes, progress.total_bytes
        self.bytes_per_s, self.eta_s = progress.bytes_per_s, progress.eta_s
        self.files[progress.file] = DownloadFile(progress.file_total_bytes, progress.file_bytes)

    def _end(self, event: AnyDownloadEvent) -> None:
        self._stall("")
        if isinstance(event, Done):
            self.state, self.done_bytes, self.total_bytes = "done", event.total_bytes, event.total_bytes
        elif isinstance(event, Paused):
            self.state = "paused"
            self.done_bytes = event.done_bytes or self.done_bytes
            self.total_bytes = event.total_bytes or self.total_bytes
        elif isinstance(event, Failed):
            self.state, self.reason, self.message = "failed", event.reason, event.message

    def _stall(self, message: str) -> None:
        self.message, self.bytes_per_s, self.eta_s = message, None, None


class DownloadQueue(QObject):
    """Downloads one model at a time. downloads: by repository, in their order, without those that are done or deleted.

    changed(): some have made progress. ended(str): this one is done or deleted.
    """

    changed = Signal()
    ended = Signal(str)

    def __init__(self, command: Sequence[str] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.command = list(command) or usual_command()
        self.downloads: dict[str, Download] = {}
        self._process: QProcess | None = None
        self._current, self._discards = "", False
        self._unwanted: set[str] = set()  # to be deleted once their child has ended
        self._frame = QTimer(self, singleShot=True, interval=FRAME_MS)
        self._frame.timeout.connect(self.changed)

    def get(self, repo: str) -> None:
        """Downloads a model, or resumes that, once those before it are done."""
        download = self.downloads.get(repo)
        if download is not None and download.live:
            return
        if download is None:
            self.downloads[repo] = Download(repo)
        else:
            download.state, download.message, download.reason = "queued", "", ""
        self._start_next()
        self.changed.emit()

    def pause(self, repo: str) -> None:
        """Pauses a download; what was downloaded stays."""
        download = self.downloads.get(repo)
        if download is None or not download.live:
            return
        if repo == self._current and self._process is not None:
            self._process.terminate()
        else:
            download.state = "paused"
            self.changed.emit()

    def cancel(self, repo: str) -> None:
        """Deletes what was downloaded, also of a download that another run began."""
        self.downloads.setdefault(repo, Download(repo)).state = "discarding"
        self._unwanted.add(repo)
        if repo == self._current and self._process is not None:
            self._process.terminate()
        else:
            self._start_next()
        self.changed.emit()

    def forget(self, repo: str) -> None:
        """Forgets a download that failed before anything was downloaded."""
        if repo in self.downloads and not self.downloads[repo].live:
            del self.downloads[repo]
            self.changed.emit()

    def close(self) -> None:
        """Pauses the download when the app quits; it can be resumed another time."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        if not process.waitForFinished(PAUSE_MS):
            process.kill()
            process.waitForFinished(PAUSE_MS)

    # --- the child -------------------------------------------------------------------------------

    def _start_next(self) -> None:
        """Starts the next, if none is under way: deletions first."""
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
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._finish)
        process.errorOccurred.connect(self._fail)
        words = ["pull", repo, *(["--discard"] if self._discards else []), "--json"]
        process.start(self.command[0], [*self.command[1:], *words])
        process.closeWriteChannel()

    def _read(self) -> None:
        process, download = self._process, self.downloads.get(self._current)
        if process is None or download is None:
            return
        while process.canReadLine():
            try:
                event = read_line(bytes(process.readLine().data()))
            except MalformedError:  # an event that is new to this window
                continue
            if download.state != "discarding":
                download.receive(event)
        if not self._frame.isActive():
            self._frame.start()

    def _fail(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self._process is not None:
            self._discards = False
            self._over(f"{CANNOT} ({self._process.errorString()}).")

    def _finish(self, _: int, __: QProcess.ExitStatus) -> None:
        if self._process is not None:
            self._read()
            self._over()

    def _over(self, trouble: str = "") -> None:
        """The child has ended: settles its download, and starts the next."""
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
        self._start_next()
        self.changed.emit()
