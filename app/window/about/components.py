"""The packages that run here. In Redline.app, the list and the texts that its builder collected (`licences.json`, see
packaging/bundling/licences.py); run from the source, the installed packages as they describe themselves."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

LIST = "licences.json"
_CLASSIFIER = "License :: OSI Approved :: "
_LONGEST_NAME = 80  # characters: a longer "License" is the text, not the name
UNNAMED = "named in the package"


@dataclass(frozen=True)
class Component:
    """licence: its name. folder: of its texts, None where they were not collected."""

    name: str
    version: str
    licence: str
    homepage: str = ""
    folder: Path | None = None

    def text(self) -> str:
        """The licence as its authors wrote it; without the files, where it is to be found."""
        files = sorted(file for file in self.folder.iterdir() if file.is_file()) if self.folder else []
        if not files:
            return f"The text comes with the package. {self.homepage}".strip()
        return "\n\n\n".join(file.read_text(encoding="utf-8", errors="replace").strip() for file in files)


def collected(executable: str = sys.executable) -> Path | None:
    """The folder in Redline.app; None where Redline does not run from one."""
    folder = Path(executable).parent.parent / "Resources" / "licences"
    return folder if (folder / LIST).is_file() else None


def components(folder: Path | None = None) -> list[Component]:
    """By name. folder: a collection, else the app's own, else what is installed."""
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
    """PEP 639's expression, or what there was before."""
    metadata = distribution.metadata
    fields = (metadata[key] for key in ("License-Expression", "License") if key in metadata)
    said = " ".join(str(next(fields, "")).split())
    if 0 < len(said) <= _LONGEST_NAME:
        return said
    named = [line.removeprefix(_CLASSIFIER) for line in metadata.get_all("Classifier") or () if _CLASSIFIER in line]
    return ", ".join(named) or UNNAMED
