"""The licences of the packages that run here, and the dialog that shows them.

In Redline.app they are the list and the texts that its builder collected (`licences.json`, see
packaging/bundling/licences.py); run from the source, the installed packages as they describe themselves.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QListWidget, QListWidgetItem, QPlainTextEdit, QWidget

from app.window.common.appearance import GAP
from app.window.common.widgets import style

LIST = "licences.json"
_CLASSIFIER = "License :: OSI Approved :: "
_LONGEST_NAME = 80  # characters: a longer "License" is the text, not the name
UNNAMED = "see the package"
TITLE = "Licences"
LIST_WIDTH = 260


@dataclass(frozen=True)
class Component:
    """A package. licence: its name. folder: of its texts, None where they were not collected."""

    name: str
    version: str
    licence: str
    homepage: str = ""
    folder: Path | None = None

    def text(self) -> str:
        """Returns the licence as its authors wrote it; without the files, where it is to be found."""
        files = sorted(file for file in self.folder.iterdir() if file.is_file()) if self.folder else []
        if not files:
            return f"See the package for the text of its licence. {self.homepage}".strip()
        return "\n\n\n".join(file.read_text(encoding="utf-8", errors="replace").strip() for file in files)


def collected(executable: str = sys.executable) -> Path | None:
    """Returns the folder in Redline.app; None where Redline does not run from an app."""
    folder = Path(executable).parent.parent / "Resources" / "licences"
    return folder if (folder / LIST).is_file() else None


def components(folder: Path | None = None) -> list[Component]:
    """Returns all packages by name: those collected in `folder` or in the app, else those that are installed."""
    folder = folder or collected()
    found = _installed() if folder is None else _listed(folder)
    return sorted(found, key=lambda component: component.name.casefold())


def _listed(folder: Path) -> list[Component]:
    rows = json.loads((folder / LIST).read_text(encoding="utf-8"))
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
    those that run here."""

    def __init__(self, found: list[Component] | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._components = components() if found is None else found
        self.setWindowTitle(TITLE)
        style(self, ground="page")
        self.packages, self.text = QListWidget(), QPlainTextEdit()
        self.packages.setAccessibleName("Packages")
        self.packages.setFixedWidth(LIST_WIDTH)
        self.packages.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.text.setAccessibleName("Licence")
        self.text.setReadOnly(True)
        style(self.text, role="code")
        for component in self._components:
            item = QListWidgetItem(f"{component.name} {component.version}")
            item.setToolTip(component.licence)
            self.packages.addItem(item)
        self.packages.currentRowChanged.connect(self._show)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * GAP, 2 * GAP, 2 * GAP, 2 * GAP)
        row.setSpacing(GAP)
        row.addWidget(self.packages)
        row.addWidget(self.text, 1)
        self.packages.setCurrentRow(0)
        self.resize(820, 560)

    def _show(self, row: int) -> None:
        if 0 <= row < len(self._components):
            component = self._components[row]
            head = f"{component.name} {component.version}\n{component.licence}\n{component.homepage}".rstrip()
            self.text.setPlainText(f"{head}\n\n\n{component.text()}")
