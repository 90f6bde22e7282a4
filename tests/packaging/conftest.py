"""The tools of packaging/ are files that run, not a package: their folder goes on the path, as when they run."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path.insert(0, str(Path(__file__).parents[2] / "packaging"))

from bundling.layout import Layout
from PySide6.QtWidgets import QApplication


@pytest.fixture(scope="session", autouse=True)
def application() -> Iterator[QApplication]:
    """One that the window's tests, should they run in the same process, can go on with."""
    existing = QApplication.instance()
    yield existing if isinstance(existing, QApplication) else QApplication(["redline"])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A bundle with nothing in it."""
    empty = Layout(tmp_path / "Redline.app")
    empty.site_packages.mkdir(parents=True)
    return empty
