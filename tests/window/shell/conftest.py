"""The window on a controller that only remembers, with a plain transcript."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from app.window.shell.window import MainWindow
from tests.window.shell.fakes import FakeController, PlainTranscript

TITLES = ("Why the sky is blue", "Counting to thirty", "Bread", "Letters to the landlord")


@pytest.fixture
def controller(app: QApplication) -> FakeController:
    return FakeController(TITLES)


@pytest.fixture
def window(controller: FakeController) -> Iterator[MainWindow]:
    shown = open_window(controller)
    yield shown
    end(shown)


def open_window(controller: FakeController) -> MainWindow:
    """On screen, as wide as it first opens."""
    window = MainWindow(controller, transcript=PlainTranscript())  # type: ignore[arg-type]
    window.show()
    window.activateWindow()
    QCoreApplication.processEvents()
    return window


def end(window: MainWindow) -> None:
    """Close it, and have Qt let go of all of it."""
    window.close()
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QCoreApplication.processEvents()
