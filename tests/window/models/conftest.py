"""The page on children that play from a folder, under the main window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.window.chat import Controller
from app.window.main_window.main_window import MainWindow
from app.window.models.command_queue import CommandQueue
from app.window.models.downloads import DownloadQueue
from app.window.models.model_library import ModelLibrary
from app.window.models.models_window import ModelsWindow
from tests.window.chats import end, open_window
from tests.window.models.shop import Shop
from tests.window.waiting import until


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop")


@pytest.fixture
def window(controller: Controller, shop: Shop) -> Iterator[MainWindow]:
    """With the shop behind its Models page, which is not shown yet."""
    shown = open_window(controller)
    shown.models.command = shop.command
    yield shown
    shown.models.quit()
    end(shown)


@pytest.fixture
def opened(app: QApplication, shop: Shop) -> Iterator[Callable[[], ModelsWindow]]:
    """Opens the page alone, without a main window, once the shop is as it should be."""
    pages: list[ModelsWindow] = []

    def open_page() -> ModelsWindow:
        library, pulls = ModelLibrary(CommandQueue(shop.command)), DownloadQueue(shop.command)
        pulls.ended.connect(lambda _: library.refresh())
        page = ModelsWindow(library, pulls)
        pages.append(page)
        library.refresh()
        page.show()
        page.activateWindow()
        settled(page)
        return page

    yield open_page
    for page in pages:
        page.downloads.close()
        page.library.commands.close()
        page.close()


@pytest.fixture
def page(opened: Callable[[], ModelsWindow]) -> ModelsWindow:
    return opened()


def settled(page: ModelsWindow) -> None:
    until(lambda: not page.library.loading and not page.library.commands.busy)
