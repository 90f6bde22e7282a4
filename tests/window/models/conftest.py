"""The page on children that play from a folder, under a main window whose controller only remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.window.models.asking import Asker
from app.window.models.library import Library
from app.window.models.pulling import Pulls
from app.window.models.window import ModelsWindow
from app.window.shell.window import MainWindow
from tests.window.control.waiting import until
from tests.window.models.shop import Shop
from tests.window.shell.conftest import end, open_window
from tests.window.shell.fakes import FakeController


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop")


@pytest.fixture
def controller(app: QApplication) -> FakeController:
    return FakeController()


@pytest.fixture
def window(controller: FakeController, shop: Shop) -> Iterator[MainWindow]:
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
        library, pulls = Library(Asker(shop.command)), Pulls(shop.command)
        pulls.ended.connect(lambda _: library.look())
        page = ModelsWindow(library, pulls)
        pages.append(page)
        library.look()
        page.show()
        page.activateWindow()
        settled(page)
        return page

    yield open_page
    for page in pages:
        page.pulls.close()
        page.library.asker.close()
        page.close()


@pytest.fixture
def page(opened: Callable[[], ModelsWindow]) -> ModelsWindow:
    return opened()


def settled(page: ModelsWindow) -> None:
    until(lambda: not page.library.loading and not page.library.asker.busy)
