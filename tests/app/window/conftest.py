"""No screen is needed: Qt draws off screen. One application for all tests of the window."""

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from pathlib import Path

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from app.window.chat import Controller
from app.window.common import theme
from app.window.common.appearance import LIGHT
from app.window.common.timer import use_clock
from app.window.main_window.main_window import MainWindow
from tests.app.window.chats import TITLES, end, make_controller, open_window
from tests.app.window.stepped_clock import LongWaitsClock, SteppedClock


@pytest.fixture(scope="session")
def app() -> Iterator[QApplication]:
    """The application."""
    existing = QApplication.instance()
    application = existing if isinstance(existing, QApplication) else QApplication(["redline"])
    theme.Theme._system = QApplication.palette()  # before any test shows another
    yield application


@pytest.fixture(autouse=True)
def no_window_stays(app: QApplication) -> Iterator[None]:
    """Deletes the windows of a test: one that waits for the garbage collector lies over the next one and takes its
    mouse, and takes part in each change of style. Every test of the window needs the application."""
    yield
    for window in app.topLevelWidgets():
        window.hide()
        window.deleteLater()
    app.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def clock() -> Iterator[SteppedClock]:
    """Has the window go by a clock that the test steps."""
    stepped = SteppedClock()
    before = use_clock(stepped)
    yield stepped
    use_clock(before)


@pytest.fixture
def long_waits() -> Iterator[LongWaitsClock]:
    """Has the test step what the window waits for for a second or longer."""
    stepped = LongWaitsClock()
    before = use_clock(stepped)
    yield stepped
    use_clock(before)


@pytest.fixture(autouse=True)
def usual_look(app: QApplication) -> None:
    """The light theme of the usual size and an empty clipboard, whatever tests before this one left."""
    app.styleHints().unsetColorScheme()
    theme.show(LIGHT)
    app.clipboard().clear()


@pytest.fixture
def controller(app: QApplication, tmp_path: Path) -> Iterator[Controller]:
    """The real controller with four empty conversations. Its host starts when it is needed, and is never ready."""
    controller = make_controller(tmp_path, TITLES)
    controller.host.process.command = ["sh", "-c", "cat > /dev/null"]
    yield controller
    controller.close()


@pytest.fixture
def window(controller: Controller) -> Iterator[MainWindow]:
    """The main window of that controller."""
    shown = open_window(controller)
    yield shown
    end(shown)
