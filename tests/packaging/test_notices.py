"""Every native library of the bundle has a notice of whose code is in it, and the texts are what they claim to be."""

import json
import re
import shutil
import sysconfig
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
from bundling import licences, notices, trim, wheels
from bundling.layout import Layout
from bundling.tools import BuildError

MACHO = b"\xcf\xfa\xed\xfe" + bytes(28)
QT = ("Core", "DBus", "Gui", "Network", "Qml", "Svg", "Widgets")
PLUGINS = ("platforms/libqcocoa", "styles/libqmacstyle", "iconengines/libqsvgicon", "imageformats/libqjpeg")
OF_PYTHON = ("OpenSSL", "SQLite", "XZ Utils (liblzma)", "bzip2", "zlib", "Expat", "libffi", "mpdecimal")


def put(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(MACHO)


def put_macos_libraries(layout: Layout) -> None:
    """Puts the names of what Qt and Python have on a Mac into a bundle."""
    qt, dynamic = layout.site_packages / "PySide6/Qt", layout.stdlib / "lib-dynload"
    put(*(qt / f"lib/Qt{name}.framework/Versions/A/Qt{name}" for name in QT))
    put(*(qt / f"plugins/{name}.dylib" for name in PLUGINS))
    put(layout.frameworks / "libpython3.12.dylib", dynamic / "_ssl.cpython-312-darwin.so", dynamic / "libssl.3.dylib")
    put(dynamic / "_heapq.cpython-312-darwin.so")  # is Python's own


def licences_of(layout: Layout, tmp_path: Path) -> dict[str, licences.Licence]:
    (tmp_path / "LICENSE.txt").write_text("terms")
    return {each.name: each for each in licences.collect(layout, "3.12.1", tmp_path / "LICENSE.txt")}


@pytest.mark.slow
def test_every_native_library_of_the_locked_packages_has_a_notice(layout: Layout) -> None:
    """By the names of what is installed here, as far as trimming keeps it."""
    locked = set(re.findall(r"^([a-z0-9.-]+)==", wheels.LOCK.read_text(), re.MULTILINE))
    for info in Path(sysconfig.get_path("purelib")).glob("*.dist-info"):
        if re.sub(r"[-_.]+", "-", info.stem.partition("-")[0]).lower() in locked:
            shutil.copytree(info, layout.site_packages / info.name)
            files = PathDistribution(info).files or ()
            put(*(layout.site_packages / file for file in files if re.search(r"\.(so|dylib)\b", file.name)))
    trim.trim(layout)
    put_macos_libraries(layout)
    libraries = notices.native_libraries(layout)
    assert len(libraries) > 60
    assert notices.unnoticed(layout, libraries) == []


def test_what_the_bundle_ships_is_acknowledged_with_its_text(layout: Layout, tmp_path: Path) -> None:
    put_macos_libraries(layout)
    found = licences_of(layout, tmp_path)
    assert {*OF_PYTHON, "Python: third parties", "libjpeg-turbo", "Qt Cocoa plugin: third parties"} <= set(found)
    assert {f"Qt {name}: third parties" for name in ("Core", "GUI", "Network", "QML", "D-Bus", "SVG")} <= set(found)
    listed = json.loads((layout.licences / licences.LIST).read_text())
    assert all(list((layout.licences / row["texts"]).iterdir()) for row in listed)


def test_what_the_bundle_does_not_ship_is_not_acknowledged(layout: Layout, tmp_path: Path) -> None:
    put(layout.site_packages / "PySide6/Qt/lib/QtNetwork.framework/Versions/A/QtNetwork")
    assert set(licences_of(layout, tmp_path)) == {"Python", "KaTeX with mhchem", "Qt Network: third parties"}


@pytest.mark.parametrize(
    "name", ["site-packages/PySide6/Qt/lib/QtPdf.framework/Versions/A/QtPdf", "lib-dynload/libgdbm.6.dylib"]
)
def test_a_library_that_nobody_has_a_notice_for_stops_the_build(layout: Layout, tmp_path: Path, name: str) -> None:
    put(layout.stdlib / name)
    with pytest.raises(BuildError, match=Path(name).name):
        licences_of(layout, tmp_path)


def test_the_texts_are_those_of_their_authors() -> None:
    phrases = {
        "OpenSSL": "Apache License",
        "SQLite": "dedicated to the public",
        "XZ Utils (liblzma)": "The XZ Utils authors",
        "bzip2": "Julian R Seward",
        "zlib": "Jean-loup Gailly",
        "Expat": "Thai Open Source Software Center",
        "libffi": "Anthony Green",
        "mpdecimal": "Stefan Krah",
        "Python: third parties": "Mersenne Twister",
        "Qt Core: third parties": "University of Cambridge",
        "Qt GUI: third parties": "The FreeType Project LICENSE",
        "Qt Network: third parties": "Mozilla Public License Version 2.0",
        "Qt QML: third parties": "University of Szeged",
        "Qt D-Bus: third parties": "Academic Free License",
        "Qt SVG: third parties": "USC/Information Sciences Institute",
        "Qt Cocoa plugin: third parties": "Apple, Inc.",
        "libjpeg-turbo": "Independent JPEG Group",
    }
    texts = {notice.name: " ".join(file.read_text() for file in notice.texts) for notice in notices.read()}
    assert texts.keys() == phrases.keys()
    flat = {name: " ".join(text.split()) for name, text in texts.items()}
    assert [name for name, phrase in phrases.items() if phrase not in flat[name]] == []
    named = {text for notice in notices.read() for text in notice.texts}
    assert named == set(notices.FOLDER.glob("*.txt"))
