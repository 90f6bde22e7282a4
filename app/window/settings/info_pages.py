"""The pages of the settings that only inform: where the data is, the keyboard shortcuts, versions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Signal, qVersion
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.window.common.appearance import GAP
from app.window.common.widgets import label, style, wrapped
from app.window.settings.licences import LicencesDialog

Shortcuts = Sequence[tuple[str, Sequence[tuple[str, str]]]]  # by menu: what is done, and the keys that do it

PRIVATE = "Your conversations stay on this computer. Redline needs no account and collects no data."
ABOUT = (
    "Local chat with exact speculative decoding. A drafter proposes, the target checks, and every reply is what the "
    "target alone would have written."
)


class DataPage(QWidget):
    """file: in which the conversations are kept, None where that is not known."""

    export_asked = Signal()
    import_asked = Signal()

    def __init__(self, file: Path | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._file = file
        self.where = wrapped(str(file) if file else "Unknown", role="heading")
        self.where.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.open, self.export = QPushButton("Open Folder"), QPushButton("Export All…")
        self.load, self.result = QPushButton("Import…"), wrapped(role="detail")
        self.open.setEnabled(file is not None)
        self.open.clicked.connect(self._open)
        self.export.clicked.connect(self.export_asked)
        self.load.clicked.connect(self.import_asked)
        row = QHBoxLayout()
        for button in (self.open, self.export, self.load):
            button.setAccessibleName(button.text().rstrip("…"))
            row.addWidget(button)
        row.addStretch(1)
        column = QVBoxLayout(self)
        column.setSpacing(GAP)
        column.addWidget(wrapped("Conversations are stored in", role="body"))
        column.addWidget(self.where)
        column.addLayout(row)
        column.addWidget(self.result)
        column.addSpacing(2 * GAP)
        column.addWidget(wrapped(PRIVATE, role="detail"))
        column.addStretch(1)

    def show_result(self, text: str) -> None:
        """Shows what became of an export."""
        self.result.setText(text)

    def _open(self) -> None:
        if self._file is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._file.parent)))


class ShortcutsPage(QScrollArea):
    """All keyboard shortcuts, as this system writes them."""

    def __init__(self, shortcuts: Shortcuts, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setAccessibleName("Keyboard Shortcuts")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # so that the arrow keys scroll it
        style(self, ground="page")
        inside = QWidget()
        grid = QGridLayout(inside)
        grid.setContentsMargins(40, 12, 40, 24)
        grid.setColumnStretch(0, 1)
        grid.setVerticalSpacing(6)
        for title, rows in shortcuts:
            heading = label(title, "section")
            heading.setContentsMargins(0, GAP, 0, 0)
            grid.addWidget(heading, grid.rowCount(), 0, 1, 2)
            for name, keys in rows:
                row = grid.rowCount()
                grid.addWidget(label(name), row, 0)
                grid.addWidget(label(keys, tone="faint"), row, 1, Qt.AlignmentFlag.AlignRight)
        grid.setRowStretch(grid.rowCount(), 1)
        self.setWidget(inside)


class AboutPage(QWidget):
    """What Redline is, its versions and its licences."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.versions = wrapped(versions(), role="detail")
        self.versions.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.licences = QPushButton("Licences…")
        self.licences.setAccessibleName("Licences of Redline and Its Components")
        self.licences.clicked.connect(self.show_licences)
        column = QVBoxLayout(self)
        column.setSpacing(GAP)
        for widget in (label("Redline", "title"), wrapped(ABOUT, role="body"), self.versions):
            column.addWidget(widget)
        column.addWidget(self.licences, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(1)

    def show_licences(self) -> LicencesDialog:
        """Shows the licences of every package that runs here."""
        dialog = LicencesDialog(parent=self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.show()
        return dialog


def versions() -> str:
    """Returns the versions of what runs here."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    parts = f"MLX {_version('mlx')}, mlx-lm {_version('mlx-lm')}, Qt {qVersion()} under the LGPL, Python {python}"
    return f"Redline {_version('redline')}\n{parts}\nRedline is free software under the Apache License 2.0."


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder that was not installed
        return "unknown"
