"""Settings that show rather than ask: where the data lives, the shortcuts, versions."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Signal, qVersion
from PySide6.QtGui import QDesktopServices, QFont, QKeySequence
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.window.about import LicencesDialog
from app.window.fonts import font
from app.window.look import GAP, LIGHT, Look
from app.window.shell.commands import ELSEWHERE, MENUS, keys_of
from app.window.shell.styles import faint_style
from app.window.shell.widgets import wrapped

NATIVE_TEXT = QKeySequence.SequenceFormat.NativeText
PRIVATE = "Nothing leaves this computer: no account, no telemetry."
ABOUT = (
    "Local chat with exact speculative decoding: a drafter proposes, the target checks, and every reply is what the "
    "target alone would have written."
)


class DataPage(QWidget):
    """place: the file in which the conversations are kept, None where that is not known."""

    export_asked = Signal()
    import_asked = Signal()

    def __init__(self, place: Path | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._place = place
        self.what, self.where, self.private = wrapped("Conversations are kept in"), wrapped(), wrapped(PRIVATE)
        self.where.setText(str(place) if place else "a place that is not known")
        self.where.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.open, self.export = QPushButton("Open Folder"), QPushButton("Export All…")
        self.load, self.said = QPushButton("Import…"), wrapped()
        self.open.setEnabled(place is not None)
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
        for widget in (self.what, self.where):
            column.addWidget(widget)
        column.addLayout(row)
        column.addWidget(self.said)
        column.addSpacing(2 * GAP)
        column.addWidget(self.private)
        column.addStretch(1)

    def say(self, text: str) -> None:
        """What became of an export."""
        self.said.setText(text)

    def set_look(self, look: Look) -> None:
        self.what.setFont(font(look))
        self.where.setFont(font(look, 13, QFont.Weight.DemiBold))
        for label in (self.said, self.private):
            label.setStyleSheet(faint_style(look))

    def _open(self) -> None:
        if self._place is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._place.parent)))


class ShortcutsPage(QScrollArea):
    """All of them, as this system writes them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setAccessibleName("Keyboard shortcuts")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # so that the arrows scroll it
        self._headings: list[QLabel] = []
        self._names: list[QLabel] = []
        self._keys: list[QLabel] = []
        inside = QWidget()
        self._grid = QGridLayout(inside)
        self._grid.setContentsMargins(40, 12, 40, 24)
        self._grid.setColumnStretch(0, 1)
        self._grid.setVerticalSpacing(6)
        for title, rows in shortcuts():
            self._add(title, rows)
        self._grid.setRowStretch(self._grid.rowCount(), 1)
        self.setWidget(inside)

    def set_look(self, look: Look) -> None:
        for label in self._headings:
            label.setFont(font(look, 11.5, QFont.Weight.Bold))
            label.setStyleSheet(f"color: {look.faint};")
        for label in (*self._names, *self._keys):
            label.setFont(font(look))
        for label in self._keys:
            label.setStyleSheet(f"color: {look.faint};")

    def _add(self, title: str, rows: list[tuple[str, str]]) -> None:
        heading = QLabel(title)
        heading.setContentsMargins(0, GAP, 0, 0)
        self._headings.append(heading)
        self._grid.addWidget(heading, self._grid.rowCount(), 0, 1, 2)
        for name, keys in rows:
            row, shown, pressed = self._grid.rowCount(), QLabel(name), QLabel(keys)
            self._names.append(shown)
            self._keys.append(pressed)
            self._grid.addWidget(shown, row, 0)
            self._grid.addWidget(pressed, row, 1, Qt.AlignmentFlag.AlignRight)


class AboutPage(QWidget):
    """What Redline is, and versions."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title, self.what = QLabel("Redline"), wrapped(ABOUT)
        self.versions = wrapped(versions())
        self.versions.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.licences = QPushButton("Licences…")
        self.licences.setAccessibleName("Licences of what Redline is made of")
        self.licences.clicked.connect(self.show_licences)
        self._look: Look = LIGHT
        column = QVBoxLayout(self)
        column.setSpacing(GAP)
        for widget in (self.title, self.what, self.versions):
            column.addWidget(widget)
        column.addWidget(self.licences, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(1)

    def show_licences(self) -> LicencesDialog:
        """Of every package that runs here."""
        dialog = LicencesDialog(self._look, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.show()
        return dialog

    def set_look(self, look: Look) -> None:
        self._look = look
        self.title.setFont(font(look, 24, QFont.Weight.Bold))
        self.what.setFont(font(look))
        self.versions.setStyleSheet(faint_style(look, 12))


def shortcuts() -> list[tuple[str, list[tuple[str, str]]]]:
    """By menu: what is done, and the keys that do it."""
    listed = []
    for title, commands in MENUS.items():
        rows = [(c.text.rstrip("…"), keys_of(c)[0].toString(NATIVE_TEXT)) for c in commands if keys_of(c)]
        listed.append((title, rows))
    return listed + [(title, list(rows)) for title, rows in ELSEWHERE.items()]


def versions() -> str:
    """Of what runs here."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    parts = f"MLX {_version('mlx')}, mlx-lm {_version('mlx-lm')}, Qt {qVersion()} under the LGPL, Python {python}"
    return f"Redline {_version('redline')}\n{parts}\nRedline is free under Apache-2.0."


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder that was not installed
        return "unknown"
