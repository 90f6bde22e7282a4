"""Downloads, one at a time: each is a `redline models pull` child that prints `app.protocol.download_events`.

How one goes on after it was killed is known by `models/hub/file_transfer.py`.
"""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.model_words import joined, pace
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
from app.window.common.child_process import ChildProcess, Ending
from app.window.common.timer import Timer
from models.size_text import size_words

FRAME_MS = 100  # between two updates of a download
PAUSE_MS = 3000  # for a child to pause before it is killed, which does no harm
CANNOT_START = "The download could not start"
VANISHED = "The download ended unexpectedly. Nothing is lost."
State = Literal["queued", "asking", "running", "paused", "discarding", "failed", "done"]
LIVE: tuple[State, ...] = ("queued", "asking", "running", "discarding")
STATES = {
    "queued": "Waiting",
    "asking": "Connecting",
    "paused": "Paused",
    "discarding": "Deleting",
    "failed": "Download failed",
    "done": "Done",
}


def models_command() -> list[str]:
    """Returns the command line of `redline models`."""
    return [sys.executable, "-m", "app", "models"]


@dataclass
class DownloadFile:
    """A file of a download. complete: whether it was verified, too."""

    size_bytes: int
    done_bytes: int
    complete: bool = False


@dataclass
class Download:
    """The state of a download. bytes_per_s, eta_s: None while unknown. message: what is waited for, or what failed.
    reason: why it failed, one of `models.hub.failures.REASONS`."""

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
        """Whether it is running or waiting for its turn."""
        return self.state in LIVE

    @property
    def share(self) -> float:
        """How much is downloaded, 0 to 1."""
        return min(1.0, self.done_bytes / self.total_bytes) if self.total_bytes else 0.0

    def receive(self, event: AnyDownloadEvent) -> None:
        """Takes over what an event of the child says."""
        if isinstance(event, Fetched):
            self.files[event.file] = DownloadFile(event.size_bytes, event.size_bytes, complete=True)
            self.done_bytes = max(self.done_bytes, sum(file.done_bytes for file in self.files.values()))
            return
        match event:
            case Resolving():
                self._set_state("asking", "Connecting")
            case Waiting():
                again = f"trying again in {event.wait_s:.0f} s ({event.attempt} of {event.attempts})"
                self._set_state(self.state, f"{event.why[:1].upper()}{event.why[1:]}; {again}")
            case Planned():
                self._set_state("running")
                self.total_bytes, self.done_bytes = event.total_bytes, event.present_bytes
                self.files = {
                    file.name: DownloadFile(file.size_bytes, file.present_bytes, file.present_bytes == file.size_bytes)
                    for file in event.files
                }
            case DownloadProgress():
                self._set_state("running")
                self.done_bytes, self.total_bytes = event.done_bytes, event.total_bytes
                self.bytes_per_s, self.eta_s = event.bytes_per_s, event.eta_s
                self.files[event.file] = DownloadFile(event.file_total_bytes, event.file_bytes)
            case Verifying():
                self._set_state("running", f"Verifying {event.file}")
            case Done():
                self._set_state("done")
                self.done_bytes = self.total_bytes = event.total_bytes
            case Paused():
                self._set_state("paused")
                self.done_bytes = event.done_bytes or self.done_bytes
                self.total_bytes = event.total_bytes or self.total_bytes
            case Failed():
                self._set_state("failed", event.message, event.reason)

    def end_without_event(self, trouble: str = "", pausing: bool = False) -> None:
        """The child ended; that is a failure unless its last event said how, or it was asked to pause before it could
        say anything. trouble: why it could not start."""
        if pausing and self.state in ("asking", "running"):
            self._set_state("paused")
        elif trouble or self.state in ("asking", "running"):
            self._set_state("failed", trouble or VANISHED, "hub")

    def queue(self) -> None:
        """Waits for its turn, again."""
        self._set_state("queued")

    def _set_state(self, state: State, message: str = "", reason: str = "") -> None:
        self.state, self.message, self.reason = state, message, reason
        self.bytes_per_s = self.eta_s = None


def status(download: Download) -> str:
    """Returns the state of a download on one line."""
    if download.state != "running":
        done = f"{download.share:.0%}" if download.state == "paused" and download.done_bytes else ""
        return joined((STATES[download.state], done))
    if download.message:
        return download.message
    done = f"{size_words(download.done_bytes)} of {size_words(download.total_bytes)}"
    return joined((done, *pace(download.bytes_per_s, download.eta_s)))


class DownloadQueue(QObject):
    """Downloads one model at a time. downloads: by repository, in their order; completed and deleted ones are dropped.

    changed(): a download made progress. ended(str): the download of this repository is complete or deleted.
    """

    changed = Signal()
    ended = Signal(str)

    def __init__(self, command: Sequence[str] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.command = list(command) or models_command()
        self.downloads: dict[str, Download] = {}
        self._process: ChildProcess | None = None
        self._current, self._discarding, self._pausing = "", False, False
        self._frame = Timer(self, singleShot=True, interval=FRAME_MS)
        self._frame.timeout.connect(self.changed)

    def get(self, repo: str) -> None:
        """Downloads a model, or resumes its download, once those before it have ended."""
        if repo in self.downloads and self.downloads[repo].live:
            return
        self.downloads.setdefault(repo, Download(repo)).queue()
        self._start_next()
        self.changed.emit()

    def pause(self, repo: str) -> None:
        """Pauses a download, and keeps what was downloaded."""
        download = self.downloads.get(repo)
        if download is None or not download.live:
            return
        if repo == self._current and self._process is not None:
            self._pausing = True
            self._process.terminate()
        else:
            download.state = "paused"
            self.changed.emit()

    def cancel(self, repo: str) -> None:
        """Ends a download and deletes what was downloaded, even if an earlier run of the app did."""
        self.downloads.setdefault(repo, Download(repo)).state = "discarding"
        if repo == self._current and self._process is not None:
            self._process.terminate()
        else:
            self._start_next()
        self.changed.emit()

    def forget(self, repo: str) -> None:
        """Dismisses a download that failed before anything was downloaded."""
        if repo in self.downloads and not self.downloads[repo].live:
            del self.downloads[repo]
            self.changed.emit()

    def close(self) -> None:
        """Pauses the running download when the app quits; it can be resumed another time."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        if not process.waitForFinished(PAUSE_MS):
            process.kill()
            process.waitForFinished(PAUSE_MS)

    # --- the child -------------------------------------------------------------------------------

    def _start_next(self) -> None:
        """Starts the next child, deletions first, unless one is running."""
        if self._process is not None:
            return
        downloads = sorted(self.downloads.values(), key=lambda one: one.state != "discarding")
        download = next((one for one in downloads if one.state in ("discarding", "queued")), None)
        if download is None:
            return
        self._current, self._discarding, self._pausing = download.repo, download.state == "discarding", False
        if not self._discarding:
            download.state = "asking"
        process = self._process = ChildProcess(self, keeps_output=False)
        process.line.connect(self._receive)
        process.ended.connect(self._settle)
        process.begin([*self.command, "pull", download.repo, *(["--discard"] if self._discarding else []), "--json"])

    def _receive(self, line: bytes) -> None:
        download = self.downloads.get(self._current)
        if self._process is None or download is None:
            return
        with contextlib.suppress(MalformedError):  # an event of a newer command
            event = read_line(line)
            if download.state != "discarding":
                download.receive(event)
        if not self._frame.isActive():
            self._frame.start()

    def _settle(self, ending: Ending) -> None:
        """Settles the download whose child has ended, and starts the next."""
        if self._process is None:  # the queue is closed
            return
        download = self.downloads.get(self._current)
        self._process, self._current = None, ""
        trouble = f"{CANNOT_START} ({ending.not_started})." if ending.not_started else ""
        if download is not None:
            download.end_without_event(trouble, self._pausing)
            if not trouble and (self._discarding or download.state == "done"):
                del self.downloads[download.repo]
                self.ended.emit(download.repo)
        self._frame.stop()
        self._start_next()
        self.changed.emit()
