"""The Models window with children that answer from a folder, alone or under the main window."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QLabel

from app.window.chat import Controller
from app.window.main_window.main_window import MainWindow
from app.window.models.downloads import DownloadQueue
from app.window.models.model_library import ModelLibrary
from app.window.models.models_window import ModelsWindow
from tests.app.window.chats import end, open_window
from tests.app.window.models.fake_models import EAGLE, QWEN, SMALL, FakeModels, model, pair
from tests.app.window.waiting import until


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeModels:
    return FakeModels(tmp_path / "fake").patch(monkeypatch)


@pytest.fixture
def window(controller: Controller, fake: FakeModels) -> Iterator[MainWindow]:
    """The main window; its Models window, which is not shown yet, asks the fake models."""
    shown = open_window(controller)
    shown.models.command = fake.command
    yield shown
    shown.models.quit()
    end(shown)


@pytest.fixture
def open_page(app: QApplication, fake: FakeModels) -> Iterator[Callable[[], ModelsWindow]]:
    """Opens the Models window alone, once the fake models are set up."""
    pages: list[ModelsWindow] = []

    def open_page() -> ModelsWindow:
        library, downloads = ModelLibrary(fake.command), DownloadQueue(fake.command)
        downloads.ended.connect(lambda _: library.refresh())
        page = ModelsWindow(library, downloads)
        pages.append(page)
        library.refresh()
        page.show()
        page.activateWindow()
        wait_for_answers(page)
        return page

    yield open_page
    for page in pages:
        page.downloads.close()
        page.library.commands.close()
        page.close()


@pytest.fixture
def page(open_page: Callable[[], ModelsWindow]) -> ModelsWindow:
    return open_page()


def wait_for_answers(page: ModelsWindow) -> None:
    """Waits until every command has answered."""
    until(lambda: not page.library.loading and not page.library.commands.busy)


def buttons(page: ModelsWindow) -> dict[str, bool]:
    """Returns the labels of the actions, and whether each is enabled."""
    return {button.text(): button.isEnabled() for button in page.details.buttons.values()}


def texts(page: ModelsWindow) -> str:
    """Returns all visible text of the details."""
    QApplication.processEvents()
    labels = page.details.findChildren(QLabel)
    return "\n".join(label.text() for label in labels if label.isVisibleTo(page.details) and label.text())


def install_three(fake: FakeModels) -> None:
    """Puts a target and two drafters on this computer."""
    for name, gb, kind in ((QWEN, 4.62, "model"), (EAGLE, 1.2, "eagle3"), (SMALL, 0.35, "model")):
        fake.put(model(name, gb, kind))
    others = (pair(SMALL, "model", True, "the same tokens"), pair("builtin", "model", False, "different tokenizer"))
    fake.judge(
        QWEN, pair(EAGLE, "eagle3", True, "as wide"), *others, auto=f"lookup+{EAGLE}", why="prompt lookup and EAGLE"
    )
    fake.fit(QWEN, "good", 7.4)
