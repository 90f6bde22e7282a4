"""What can be done with a model now: the buttons of the details, the first of which Return presses too. No Qt."""

from __future__ import annotations

from typing import NamedTuple

from app.window.models.catalogue_view import Row
from app.window.models.downloads import Download
from app.window.models.model_text import size

TOO_LARGE = "This model does not fit into the memory of this computer."


class ModelAction(NamedTuple):
    """A button. name: get, both, pause, resume, cancel, forget, use or delete. why: its tooltip, or why it is disabled.
    main: whether it is the primary action."""

    name: str
    text: str
    possible: bool = True
    main: bool = False
    why: str = ""


def actions_for(row: Row, used: bool) -> list[ModelAction]:
    """Returns the actions in their order, the primary one first. used: whether the open chat uses the model."""
    if row.download is not None:
        return _of_download(row.download)
    if row.here is not None:
        return _of_present(row, used)
    entry = row.entry
    if entry is None or entry.trouble:
        return []
    if row.room == "no":
        return [ModelAction("get", f"Download Anyway{_large(row.size_bytes)}", why=TOO_LARGE)]
    if row.best:
        both = ModelAction(
            "both", "Download with Drafter", main=True, why=f"Downloads {row.drafter} as well, its best known drafter"
        )
        return [both, ModelAction("get", f"Download Model Only{_large(row.size_bytes)}")]
    return [ModelAction("get", f"Download{_large(row.size_bytes)}", main=True)]


def _of_download(download: Download) -> list[ModelAction]:
    cancel = ModelAction("cancel", "Cancel Download", why="Deletes what was downloaded")
    if download.state == "discarding":
        return []
    if download.live:
        return [ModelAction("pause", "Pause", why="Keeps what was downloaded"), cancel]
    if download.state == "failed" and not download.done_bytes:
        return [
            ModelAction("resume", "Try Again", main=True),
            ModelAction("forget", "Dismiss", why="Nothing was downloaded"),
        ]
    return [ModelAction("resume", "Resume", main=True), cancel]


def _of_present(row: Row, used: bool) -> list[ModelAction]:
    found = []
    if row.usable:
        text = "In Use" if used else "Use"
        why = TOO_LARGE if row.room == "no" else "Uses this model in the open chat, with the automatic drafter"
        found.append(ModelAction("use", text, row.room != "no" and not used, main=True, why=why))
    if row.here is not None and row.here.origin != "builtin":
        found.append(ModelAction("delete", "Delete…", why="Shows first what is deleted and who shares it"))
    return found


def _large(size_bytes: int | None) -> str:
    return f" ({size(size_bytes)})" if size_bytes else ""
