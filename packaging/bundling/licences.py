"""The licences of everything in the bundle: their texts in a folder each, and one list of them.

Read from the packages' own metadata (PEP 639 and before). Where a wheel has no text of its licence, ours is taken, by
the licence's name. What is compiled into libraries and is no package has its texts in `bundling.notices`.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from importlib.metadata import PathDistribution
from pathlib import Path

from bundling import notices
from bundling.layout import ROOT, Layout
from bundling.tools import BuildError

LIST = "licences.json"
_NAMES = ("LICEN", "COPYING", "NOTICE", "AUTHORS")
_NO_TERMS = ("NOTICE", "AUTHORS")  # files that accompany a licence and are none
_CLASSIFIER = "License :: OSI Approved :: "
_SHORT = 80  # characters: a longer "License" is the text, not the name
# The licences of which wheels carry no text: by a word of their name, the files.
_OURS = {
    "LGPL-3": (ROOT / "resources/licences/LGPL-3.0.txt", ROOT / "resources/licences/GPL-3.0.txt"),
    "Apache": (ROOT / "LICENSE",),
}
_UNNAMED = {"pyromark": "MIT"}  # packages that carry the text of their licence and do not name it
_KATEX = ROOT / "resources/licences/KaTeX.txt"  # of resources/formulas/katex.js and mhchem.js


@dataclass(frozen=True)
class Licence:
    """licence: its name or SPDX expression. texts: a folder in the bundle's `licences`."""

    name: str
    version: str
    licence: str
    homepage: str
    texts: str


def collect(layout: Layout, python_version: str, python_licence: Path) -> list[Licence]:
    """Write them all; the list, by name. Raises BuildError for what has no licence that could be found, and for a
    library that nothing says whose it is."""
    layout.licences.mkdir(parents=True)
    found = [_of_package(layout, info) for info in sorted(layout.site_packages.glob("*.dist-info"))]
    python = Licence("Python", python_version, "PSF-2.0", "https://www.python.org", f"Python-{python_version}")
    _copy([python_licence], layout.licences / python.texts)
    katex = Licence("KaTeX with mhchem", "0.19.1", "MIT and Apache-2.0", "https://katex.org", _KATEX.stem)
    _copy([_KATEX], layout.licences / katex.texts)
    found = sorted([*found, python, katex, *_of_parts(layout)], key=lambda licence: licence.name.casefold())
    listed = json.dumps([asdict(licence) for licence in found], indent=1, sort_keys=True)
    (layout.licences / LIST).write_text(listed + "\n")
    return found


def _of_parts(layout: Layout) -> list[Licence]:
    libraries = notices.native_libraries(layout)
    if unnoticed := notices.unnoticed(layout, libraries):
        raise BuildError(
            f"no licence notice for {', '.join(unnoticed)}: add the text of its makers to packaging/notices"
        )
    found = []
    for notice in notices.read():
        if any(map(notice.covers, libraries)):
            _copy(list(notice.texts), layout.licences / notice.texts[0].stem)
            found.append(Licence(notice.name, "", notice.licence, notice.homepage, notice.texts[0].stem))
    return found


def _of_package(layout: Layout, info: Path) -> Licence:
    metadata = PathDistribution(info).metadata
    name, version, licence = metadata["Name"], metadata["Version"], _name_of(info)
    texts = sorted(file for file in info.rglob("*") if file.is_file() and _is_text(file, info))
    if not any(map(_has_terms, texts)):
        texts += [file for word, files in _OURS.items() if word in licence for file in files]
    if not licence or not any(map(_has_terms, texts)):
        raise BuildError(f"{name} does not say under which licence it is: find out, and add it to bundling/licences.py")
    folder = layout.licences / f"{name}-{version}"
    _copy(texts, folder)
    return Licence(name, version, licence, _homepage(info), folder.name)


def _name_of(info: Path) -> str:
    metadata = PathDistribution(info).metadata
    if expression := metadata.get("License-Expression"):  # type: ignore[attr-defined]
        return str(expression)
    classifiers = [
        c.removeprefix(_CLASSIFIER) for c in metadata.get_all("Classifier") or () if c.startswith(_CLASSIFIER)
    ]
    declared = " ".join(str(metadata.get("License") or "").split())  # type: ignore[attr-defined]
    named = declared if 0 < len(declared) <= _SHORT else ", ".join(classifiers)
    return named or _UNNAMED.get(metadata["Name"], "")


def _homepage(info: Path) -> str:
    metadata = PathDistribution(info).metadata
    links = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL") or () if ", " in line)
    named = {label.casefold(): link for label, link in links.items()}
    return next((named[k] for k in ("homepage", "source", "repository") if k in named), metadata.get("Home-page") or "")  # type: ignore[attr-defined]


def _is_text(file: Path, info: Path) -> bool:
    return "licenses" in file.relative_to(info).parts or file.name.upper().startswith(_NAMES)


def _has_terms(text: Path) -> bool:
    """Whether a file says under which terms a package is: it is neither empty nor a list of people."""
    return text.stat().st_size > 0 and not text.name.upper().startswith(_NO_TERMS)


def _copy(texts: list[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        place = folder / text.name
        shutil.copyfile(text, place if not place.exists() else folder / f"{number}-{text.name}")
