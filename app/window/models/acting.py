"""What can be done with a model now: the buttons of the details, the first of them also by Enter. No Qt."""

from __future__ import annotations

from typing import NamedTuple

from app.window.models.download import Download
from app.window.models.shelf import Row
from app.window.models.wording import size

TOO_LARGE = "It does not fit into the memory of this machine."


class Deed(NamedTuple):
    """name: get, both, pause, resume, cancel, forget, use or delete. why: more about it, or why it is not possible.
    main: whether it is what one would do."""

    name: str
    text: str
    possible: bool = True
    main: bool = False
    why: str = ""


def deeds(row: Row, used: bool) -> list[Deed]:
    """In the order in which they stand, the main one first. used: whether the open chat uses it."""
    if row.download is not None:
        return _of_download(row.download)
    if row.here is not None:
        return _of_present(row, used)
    entry = row.entry
    if entry is None or entry.trouble:
        return []
    if row.room == "no":
        return [Deed("get", f"Get Anyway{_large(row.size_bytes)}", why=TOO_LARGE)]
    if row.best:
        both = Deed("both", "Get with Drafter", main=True, why=f"It and {row.drafter}, its best known drafter")
        return [both, Deed("get", f"Get Model Only{_large(row.size_bytes)}")]
    return [Deed("get", f"Get{_large(row.size_bytes)}", main=True)]


def _of_download(download: Download) -> list[Deed]:
    cancel = Deed("cancel", "Cancel Download", why="Throws away what came")
    if download.state == "discarding":
        return []
    if download.live:
        return [Deed("pause", "Pause", why="What came is kept"), cancel]
    if download.state == "failed" and not download.done_bytes:
        return [Deed("resume", "Try Again", main=True), Deed("forget", "Dismiss", why="Nothing came of it")]
    return [Deed("resume", "Resume", main=True), cancel]


def _of_present(row: Row, used: bool) -> list[Deed]:
    found = []
    if row.usable:
        text = "In Use" if used else "Use"
        why = TOO_LARGE if row.room == "no" else "Answer the open chat with it, drafted for automatically"
        found.append(Deed("use", text, row.room != "no" and not used, main=True, why=why))
    if row.here is not None and row.here.origin != "builtin":
        found.append(Deed("delete", "Delete…", why="Says first what goes, and who shares it"))
    return found


def _large(size_bytes: int | None) -> str:
    return f" ({size(size_bytes)})" if size_bytes else ""
