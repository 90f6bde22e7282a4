"""A folder of a model: typed or chosen, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QLineEdit, QPushButton, QWidget


class FolderField(QWidget):
    """A folder on this machine, typed or chosen."""

    changed = Signal()

    def __init__(self, placeholder: str, ask: Callable[[QWidget], str] | None = None) -> None:
        super().__init__()
        self._ask = ask or _ask_folder
        self.line, self.button = QLineEdit(), QPushButton("Choose…")
        self.line.setPlaceholderText(placeholder)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.line, 1)
        row.addWidget(self.button)
        self.setFocusProxy(self.line)
        self.line.editingFinished.connect(self.changed)
        self.button.clicked.connect(self._choose)

    def setAccessibleName(self, name: str) -> None:
        super().setAccessibleName(name)
        self.line.setAccessibleName(name)
        self.button.setAccessibleName(f"Choose: {name}")

    def text(self) -> str:
        return self.line.text().strip()

    def set_text(self, text: str) -> None:
        self.line.setText(text)

    def _choose(self) -> None:
        if folder := self._ask(self):
            self.line.setText(folder)
            self.changed.emit()


def folder_error(text: str) -> str:
    """What is wrong with a model folder, as far as one can see without reading it."""
    if not text:
        return "Choose a folder."
    try:
        folder = Path(text).expanduser()
        if not folder.is_dir():
            return "There is no such folder."
        return "" if (folder / "config.json").is_file() else "This folder has no config.json, so it holds no model."
    except (OSError, ValueError):
        return "There is no such folder."


def _ask_folder(parent: QWidget) -> str:
    return QFileDialog.getExistingDirectory(parent, "Choose a model folder")
