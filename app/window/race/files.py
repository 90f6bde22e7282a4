"""Files of races: asked for."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from app.race.document import RaceDocument
from app.window.shell.files import file_name

ENDINGS = {"png": ".png", "gif": ".gif", "webp": ".webp", "apng": ".png", "json": ".json"}
FILTERS = {
    "png": "Picture (*.png)",
    "gif": "Animation (*.gif)",
    "webp": "Animation (*.webp)",
    "apng": "Animated PNG (*.png)",
    "json": "Redline race (*.json)",
}


def ask_where(parent: QWidget, kind: str, document: RaceDocument) -> Path | None:
    """Where to save to. kind: of ENDINGS."""
    name = f"Race {file_name(document.prompt)}"[:64].strip()
    chosen, _ = QFileDialog.getSaveFileName(parent, "Save the race", f"{name}{ENDINGS[kind]}", FILTERS[kind])
    return with_ending(Path(chosen), kind) if chosen else None


def ask_race(parent: QWidget) -> Path | None:
    """A race that was saved."""
    chosen, _ = QFileDialog.getOpenFileName(parent, "Open a race", "", FILTERS["json"])
    return Path(chosen) if chosen else None


def with_ending(path: Path, kind: str) -> Path:
    """A name that was typed without its ending gets it: what draws goes by it."""
    return path if path.suffix.lower() == ENDINGS[kind] else path.with_name(path.name + ENDINGS[kind])
