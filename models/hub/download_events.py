"""The events of a download: frozen records of plain values.

    Resolving  Waiting*  Planned  (DownloadProgress | Verifying | Waiting | Fetched)*  Done | Paused | Failed

Bytes are those of the files on disk. A resumed download starts with the bytes that were already there.
"""

import msgspec


class DownloadEvent(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """The base of all events; in JSON, `type` is the name of the class."""


class Resolving(DownloadEvent, frozen=True):
    """The files of `revision` of `repo` are being requested from the hub."""

    repo: str
    revision: str


class Waiting(DownloadEvent, frozen=True):
    """An attempt failed; the next one is in `wait_s` seconds. Attempts are counted since the last byte received."""

    why: str
    wait_s: float
    attempt: int
    attempts: int


class PlannedFile(msgspec.Struct, frozen=True):
    """One file of the plan, of which `present_bytes` are already on disk."""

    name: str
    size_bytes: int
    present_bytes: int


class Planned(DownloadEvent, frozen=True):
    """The files to download, their commit and the free disk space. left_out: the number of files not downloaded."""

    repo: str
    revision: str
    commit: str
    files: tuple[PlannedFile, ...]
    total_bytes: int
    present_bytes: int
    free_bytes: int
    left_out: int


class DownloadProgress(DownloadEvent, frozen=True):
    """The progress of `file` and of all files; sent at least once a second. bytes_per_s: speed over the last seconds,
    None while unknown. eta_s: the remaining time at that speed, None if nothing arrives."""

    file: str
    file_bytes: int
    file_total_bytes: int
    done_bytes: int
    total_bytes: int
    bytes_per_s: float | None
    eta_s: float | None


class Verifying(DownloadEvent, frozen=True):
    """`size_bytes` of `file` on disk are being read for the digest: an earlier part, or all of it if a check was
    requested."""

    file: str
    size_bytes: int


class Fetched(DownloadEvent, frozen=True):
    """`file` is complete and its digest matches (or another program has downloaded it in the meantime)."""

    file: str
    size_bytes: int


class Done(DownloadEvent, frozen=True):
    """The model is complete at `path`. fetched_bytes: received over the network now. verified_bytes: the part of
    total_bytes whose digests were checked now; the rest was present in files of the right name and size."""

    repo: str
    commit: str
    path: str
    total_bytes: int
    fetched_bytes: int
    verified_bytes: int
    seconds: float


class Paused(DownloadEvent, frozen=True):
    """The download was stopped on request. The next download of `repo` continues from there."""

    repo: str
    done_bytes: int
    total_bytes: int


class Discarded(DownloadEvent, frozen=True):
    """The unfinished downloads of `repo` were deleted."""

    repo: str
    freed_bytes: int


class Failed(DownloadEvent, frozen=True):
    """The download failed. reason: one of `models.hub.failures.REASONS`. Everything received is kept."""

    reason: str
    message: str


AnyDownloadEvent = (
    Resolving | Waiting | Planned | DownloadProgress | Verifying | Fetched | Done | Paused | Discarded | Failed
)
