"""Versions and licences: of the app's own collection, or of what is installed."""

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.window.settings.info_pages import AboutPage, LicencesDialog, collected, components


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A collection of licences in an app, as packaging/bundling/licences.py leaves it."""
    folder = tmp_path / "Mes Apps été" / "Redline.app" / "Contents" / "Resources" / "licences"
    rows = []
    for name, licence in (("zlib-ng", "Zlib"), ("Qt", "LGPL-3.0-only")):
        (folder / f"{name}-1").mkdir(parents=True)
        (folder / f"{name}-1" / "LICENSE").write_text(f"Terms of {name}, «free»", encoding="utf-8")
        row = {"name": name, "version": "1", "licence": licence, "homepage": "https://a.test", "texts": f"{name}-1"}
        rows.append(row)
    (folder / "licences.json").write_text(json.dumps(rows))
    return folder


def test_the_app_shows_what_was_collected_with_its_texts(folder: Path, tmp_path: Path) -> None:
    assert collected(str(tmp_path / "Redline")) is None
    assert collected(str(folder.parents[1] / "MacOS" / "Redline")) == folder
    found = components(folder)
    assert [(each.name, each.licence) for each in found] == [("Qt", "LGPL-3.0-only"), ("zlib-ng", "Zlib")]
    assert found[1].text() == "Terms of zlib-ng, «free»"


def test_from_the_source_the_installed_packages_describe_themselves() -> None:
    found = {each.name.casefold(): each for each in components()}
    assert found["mlx-lm"].licence == "MIT" and "LGPL" in found["pyside6_essentials"].licence
    assert found["python"].version.startswith("3.")
    assert all(each.licence and len(each.licence) <= 200 and each.text() for each in found.values())


def test_each_package_shows_its_licence_by_mouse_and_by_keys(app: QApplication, folder: Path) -> None:
    dialog = LicencesDialog(components(folder))
    dialog.show()
    assert [dialog.packages.item(row).text() for row in range(2)] == ["Qt 1", "zlib-ng 1"]
    assert "LGPL-3.0-only" in dialog.text.toPlainText() and "Terms of Qt" in dialog.text.toPlainText()
    dialog.packages.setFocus()
    QTest.keyClick(dialog.packages, Qt.Key.Key_Down)
    assert "Terms of zlib-ng" in dialog.text.toPlainText() and dialog.text.isReadOnly()
    dialog.close()


def test_the_about_page_has_versions_and_leads_to_the_licences(app: QApplication) -> None:
    page = AboutPage()
    for name in ("Redline 0.", "MLX 0.", "mlx-lm 0.", "Qt 6.", "Python 3."):
        assert name in page.versions.text()
    dialog = page.show_licences()
    assert dialog.packages.count() > 40
    dialog.close()
