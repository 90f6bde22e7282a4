"""What a download is made of, told as it happens: frozen records of plain values.

    Asking  Waiting*  Planned  (Progress | Verifying | Waiting | Fetched)*  Done | Paused | Failed

Bytes are of the files as they will lie on disk. A download that is gone on with begins with what was there already.
"""

from __future__ import annotations

import msgspec


class Told(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """Base of them all; in JSON the `type` is the name of the class."""


class Asking(Told, frozen=True):
    """The hub is asked what `revision` of `repo` holds."""

    repo: str
    revision: str


class Waiting(Told, frozen=True):
    """Nothing came; the next try is in `wait_s` seconds. Attempts are counted since the last byte came."""

    why: str
    wait_s: float
    attempt: int
    attempts: int


class PlannedFile(msgspec.Struct, frozen=True):
    """One file of the plan; `present_bytes` of it lie here already."""

    name: str
    size_bytes: int
    present_bytes: int


class Planned(Told, frozen=True):
    """What will be fetched, of which commit, and how much room there is. left_out: files that are never fetched."""

    repo: str
    revision: str
    commit: str
    files: tuple[PlannedFile, ...]
    total_bytes: int
    present_bytes: int
    free_bytes: int
    left_out: int


class Progress(Told, frozen=True):
    """How far `file` is, and all of them; at least once a second, even if nothing comes. Speed over the last seconds,
    None before there is one; eta_s follows it, None where nothing comes."""

    file: str
    file_bytes: int
    file_total_bytes: int
    done_bytes: int
    total_bytes: int
    bytes_per_s: float | None
    eta_s: float | None


class Verifying(Told, frozen=True):
    """`size_bytes` of `file` that lie here are read again: what an earlier download left, for the digest of the whole,
    or all of it, because that was asked for."""

    file: str
    size_bytes: int


class Fetched(Told, frozen=True):
    """`file` is here, and is what the hub lists: its digest agrees (or another program has put it there meanwhile)."""

    file: str
    size_bytes: int


class Done(Told, frozen=True):
    """The model is here, whole, at `path`. fetched_bytes: how much came over the network now. verified_bytes: how much
    of total_bytes was held against the hub's digests now; the rest was here, in files of the right name and size."""

    repo: str
    commit: str
    path: str
    total_bytes: int
    fetched_bytes: int
    verified_bytes: int
    seconds: float


class Paused(Told, frozen=True):
    """The download was ended on request. What came is kept: the next pull of `repo` goes on from there."""

    repo: str
    done_bytes: int
    total_bytes: int


class Discarded(Told, frozen=True):
    """Unfinished work on `repo` is gone."""

    repo: str
    freed_bytes: int


class Failed(Told, frozen=True):
    """The download ended without the model. reason: one of `models.hub.failures.REASONS`. What came is kept."""

    reason: str
    message: str


Event = Asking | Waiting | Planned | Progress | Verifying | Fetched | Done | Paused | Discarded | Failed
