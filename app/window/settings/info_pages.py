"""The pages of the settings that only inform: where the data is, keyboard shortcuts, versions and licences.

In Redline.app the licences were collected when it was built; elsewhere the installed packages describe themselves.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Signal, qVersion
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QDialog,
    QGridLayout,
    QListWidget,
    QListWidgetItem,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QWidget,
)

from app.window.common.appearance import GAP
from app.window.common.layouts import STRETCH, column, row
from app.window.common.widgets import keep_width, label, scroll_area, style, wrapped
from models.package_versions import version_of

Shortcuts = Sequence[tuple[str, Sequence[tuple[str, str]]]]  # by menu: the name of an action, and its keys

PRIVATE = "Your conversations stay on this computer. Redline needs no account and collects no data."
ABOUT = (
    "Local chat with exact speculative decoding. A drafter proposes, the target checks, and every reply is what the "
    "target alone would have written."
)
PAGE_MARGINS = (40, 24, 40, 24)  # px
LICENCE_LIST = "licences.json"
_CLASSIFIER = "License :: OSI Approved :: "
_LONGEST_NAME = 80  # characters: a longer "License" is the text, not the name
UNNAMED = "see the package"
PACKAGES_WIDTH = 260  # px


class DataPage(QWidget):
    """Where the conversations are, with export and import. file: that holds them, None if unknown."""

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
        for button in (self.open, self.export, self.load):
            button.setAccessibleName(button.text().rstrip("…"))
        title, private = wrapped("Conversations are stored in", role="body"), wrapped(PRIVATE, role="detail")
        buttons = row(self.open, self.export, self.load, STRETCH, gap=6)
        parts = (title, self.where, buttons, self.result, 2 * GAP, private, STRETCH)
        column(*parts, on=self, margins=PAGE_MARGINS, gap=GAP)

    def show_result(self, text: str) -> None:
        """Shows the result of an export."""
        self.result.setText(text)

    def _open(self) -> None:
        if self._file is not None:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._file.parent)))


def shortcuts_page(shortcuts: Shortcuts) -> QScrollArea:
    """Returns the page with all keyboard shortcuts, as this system writes them."""
    inside = QWidget()
    grid = QGridLayout(inside)
    grid.setContentsMargins(40, 12, 40, 24)
    grid.setColumnStretch(0, 1)
    grid.setVerticalSpacing(6)
    for title, actions in shortcuts:
        heading = label(title, "section")
        heading.setContentsMargins(0, GAP, 0, 0)
        grid.addWidget(heading, grid.rowCount(), 0, 1, 2)
        for name, keys in actions:
            line = grid.rowCount()
            grid.addWidget(label(name), line, 0)
            grid.addWidget(label(keys, tone="faint"), line, 1, Qt.AlignmentFlag.AlignRight)
    grid.setRowStretch(grid.rowCount(), 1)
    page = scroll_area(inside)
    page.setAccessibleName("Keyboard Shortcuts")
    page.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # so that the arrow keys scroll it
    return page


class AboutPage(QWidget):
    """What Redline is, with its version and its licences."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.versions = wrapped(versions(), role="detail")
        self.versions.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.licences = QPushButton("Licences…")
        self.licences.setAccessibleName("Licences of Redline and Its Components")
        self.licences.clicked.connect(self.show_licences)
        title, about = label("Redline", "title"), wrapped(ABOUT, role="body")
        button = (self.licences, 0, Qt.AlignmentFlag.AlignLeft)
        column(title, about, self.versions, button, STRETCH, on=self, margins=PAGE_MARGINS, gap=GAP)

    def show_licences(self) -> LicencesDialog:
        """Shows the licences of all packages in a dialog."""
        dialog = LicencesDialog(parent=self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.show()
        return dialog


def versions() -> str:
    """Returns the versions of Redline and of what it is made of."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    parts = f"MLX {version_of('mlx')}, mlx-lm {version_of('mlx-lm')}, Qt {qVersion()} under the LGPL, Python {python}"
    return f"Redline {version_of('redline')}\n{parts}\nRedline is free software under the Apache License 2.0."


@dataclass(frozen=True)
class Component:
    """A package, or what is compiled into one; that has no version of its own. licence: the name of its licence.
    folder: of the texts, None if they were not collected."""

    name: str
    version: str
    licence: str
    homepage: str = ""
    folder: Path | None = None

    def text(self) -> str:
        """Returns the text of the licence, or where to find it if it was not collected."""
        files = sorted(file for file in self.folder.iterdir() if file.is_file()) if self.folder else []
        if not files:
            return f"See the package for the text of its licence. {self.homepage}".strip()
        return "\n\n\n".join(file.read_text(encoding="utf-8", errors="replace").strip() for file in files)


def collected(executable: str = sys.executable) -> Path | None:
    """Returns the folder of licences in Redline.app; None if Redline does not run from the app."""
    folder = Path(executable).parent.parent / "Resources" / "licences"
    return folder if (folder / LICENCE_LIST).is_file() else None


def components(folder: Path | None = None) -> list[Component]:
    """Returns all packages by name: those in `folder` or in the app, else those that are installed."""
    folder = folder or collected()
    found = _installed() if folder is None else _listed(folder)
    return sorted(found, key=lambda component: component.name.casefold())


def _listed(folder: Path) -> list[Component]:
    rows = json.loads((folder / LICENCE_LIST).read_text(encoding="utf-8"))
    return [Component(r["name"], r["version"], r["licence"], r["homepage"], folder / r["texts"]) for r in rows]


def _installed() -> list[Component]:
    python = Component("Python", ".".join(map(str, sys.version_info[:3])), "PSF-2.0")
    found = {str(each.metadata["Name"]): each for each in distributions() if each.metadata["Name"]}
    return [python, *(Component(name, each.version, _licence(each)) for name, each in found.items())]


def _licence(distribution: Distribution) -> str:
    """Returns the licence expression of PEP 639, or what older metadata says."""
    metadata = distribution.metadata
    fields = (metadata[key] for key in ("License-Expression", "License") if key in metadata)
    name = " ".join(str(next(fields, "")).split())
    if 0 < len(name) <= _LONGEST_NAME:
        return name
    named = [line.removeprefix(_CLASSIFIER) for line in metadata.get_all("Classifier") or () if _CLASSIFIER in line]
    return ", ".join(named) or UNNAMED


class LicencesDialog(QDialog):
    """All packages at the left, the licence of the chosen one at the right. found: the packages to show, by default
    those of the running program."""

    def __init__(self, found: list[Component] | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._components = components() if found is None else found
        self.setWindowTitle("Licences")
        style(self, ground="page")
        self.packages, self.text = QListWidget(), QPlainTextEdit()
        self.packages.setAccessibleName("Packages")
        keep_width(self.packages, PACKAGES_WIDTH)
        self.packages.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.text.setAccessibleName("Licence")
        self.text.setReadOnly(True)
        style(self.text, role="code")
        for component in self._components:
            item = QListWidgetItem(f"{component.name} {component.version}".rstrip())
            item.setToolTip(component.licence)
            self.packages.addItem(item)
        self.packages.currentRowChanged.connect(self._show)
        row(self.packages, (self.text, 1), on=self, margins=(2 * GAP, 2 * GAP, 2 * GAP, 2 * GAP), gap=GAP)
        self.packages.setCurrentRow(0)
        self.resize(820, 560)

    def _show(self, place: int) -> None:
        if 0 <= place < len(self._components):
            component = self._components[place]
            name = f"{component.name} {component.version}".rstrip()
            head = f"{name}\n{component.licence}\n{component.homepage}".rstrip()
            self.text.setPlainText(f"{head}\n\n\n{component.text()}")
