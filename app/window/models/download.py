"""One download as it stands: a fold over the events of its child. No Qt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app.models.events import (
    Asking,
    Done,
    Event,
    Failed,
    Fetched,
    Paused,
    Planned,
    Progress,
    Verifying,
    Waiting,
)

State = Literal["queued", "asking", "running", "paused", "discarding", "failed", "done"]
LIVE: tuple[State, ...] = ("queued", "asking", "running", "discarding")
VANISHED = "The download ended unexpectedly; what came is kept."


@dataclass
class File:
    """Bytes of one file, in all and so far."""

    size_bytes: int
    done_bytes: int
    whole: bool = False


@dataclass
class Download:
    """bytes_per_s, eta_s: None while they are not known. said: what is waited for, or what went wrong; reason: the
    same for programs, one of `models.hub.failures.REASONS`. ready: whether the hub has said what there is to fetch."""

    repo: str
    state: State = "queued"
    done_bytes: int = 0
    total_bytes: int = 0
    bytes_per_s: float | None = None
    eta_s: float | None = None
    files: dict[str, File] = field(default_factory=dict)
    said: str = ""
    reason: str = ""

    @property
    def live(self) -> bool:
        """Whether it goes on, or will by itself."""
        return self.state in LIVE

    @property
    def share(self) -> float:
        """How much of it is here, 0 to 1."""
        return min(1.0, self.done_bytes / self.total_bytes) if self.total_bytes else 0.0

    def hear(self, event: Event) -> None:
        """What the child says."""
        if isinstance(event, Asking):
            self.state, self.said, self.reason = "asking", "Asking the hub", ""
        elif isinstance(event, Waiting):
            again = f"trying again in {event.wait_s:.0f} s ({event.attempt} of {event.attempts})"
            self._stand_still(f"{event.why[:1].upper()}{event.why[1:]}; {again}")
        elif isinstance(event, Planned):
            self._plan(event)
        elif isinstance(event, Progress):
            self._progress(event)
        elif isinstance(event, Verifying):
            self.state, self.said = "running", f"Verifying {event.file}"
        elif isinstance(event, Fetched):
            self.files[event.file] = File(event.size_bytes, event.size_bytes, whole=True)
            self.done_bytes = max(self.done_bytes, sum(file.done_bytes for file in self.files.values()))
        else:
            self._end(event)

    def vanish(self, said: str = "") -> None:
        """The child is gone without a last word."""
        if self.state in ("asking", "running"):
            self._stand_still(said or VANISHED)
            self.state, self.reason = "failed", "hub"

    def _plan(self, planned: Planned) -> None:
        self.state, self.said = "running", ""
        self.total_bytes, self.done_bytes = planned.total_bytes, planned.present_bytes
        self.files = {
            file.name: File(file.size_bytes, file.present_bytes, file.present_bytes == file.size_bytes)
            for file in planned.files
        }

    def _progress(self, progress: Progress) -> None:
        self.state, self.said = "running", ""
        self.done_bytes, self.total_bytes = progress.done_bytes, progress.total_bytes
        self.bytes_per_s, self.eta_s = progress.bytes_per_s, progress.eta_s
        self.files[progress.file] = File(progress.file_total_bytes, progress.file_bytes)

    def _end(self, event: Event) -> None:
        self._stand_still("")
        if isinstance(event, Done):
            self.state, self.done_bytes, self.total_bytes = "done", event.total_bytes, event.total_bytes
        elif isinstance(event, Paused):
            self.state = "paused"
            self.done_bytes = event.done_bytes or self.done_bytes
            self.total_bytes = event.total_bytes or self.total_bytes
        elif isinstance(event, Failed):
            self.state, self.reason, self.said = "failed", event.reason, event.message

    def _stand_still(self, said: str) -> None:
        self.said, self.bytes_per_s, self.eta_s = said, None, None
