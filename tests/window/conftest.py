"""No screen is needed: Qt draws off screen. One application for all tests of the window."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication


@pytest.fixture(scope="session")
def app() -> Iterator[QApplication]:
    """The application."""
    existing = QApplication.instance()
    yield existing if isinstance(existing, QApplication) else QApplication(["redline"])
