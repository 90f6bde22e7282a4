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


@pytest.fixture(autouse=True)
def no_window_stays() -> Iterator[None]:
    """What a test has shown is hidden after it: a window that waits for the garbage collector lies over the next one
    and takes its mouse."""
    yield
    if isinstance(QApplication.instance(), QApplication):
        for window in QApplication.topLevelWidgets():
            window.hide()
