"""Every test of the chat needs an event loop."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication


@pytest.fixture(autouse=True)
def event_loop(app: QApplication) -> None:
    """Makes the application."""
