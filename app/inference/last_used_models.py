"""From names to folders, and what was used when: for whoever loads a model."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from filelock import Timeout

from models.local.inventory import note_use
from models.local.locations import find_locations, find_model


def model_folder(name: str, cache_root: Path | None = None) -> Path:
    """The folder that `name` means: a path, `owner/name` of the hub or of LM Studio, or a model of Redline's own.
    Raises ModelError, with what to do where it is not here."""
    return find_model(name, find_locations(Path.home(), cache_root))


def note_used(folder: Path, cache_root: Path | None = None) -> None:
    """Remember that the model in `folder` is used now, if it lies where models lie. A record that cannot be written is
    no reason to keep anyone from a reply."""
    with suppress(OSError, Timeout):
        if find_locations(Path.home(), cache_root).holds(folder):
            note_use(folder, cache_root)
