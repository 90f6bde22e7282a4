"""The first five minutes, with a real host, real children and a hub on loopback: the window is ready with the built-in
model, offers a pair, downloads it while one chats, uses it, and races it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTextEdit

from app.protocol import Pair, SamplingSettings
from app.store import Store
from app.store.records import ChatSettings
from app.window.chat import Controller
from app.window.chat.host_process import HostProcess
from app.window.common.appearance import LIGHT
from app.window.main_window.header import Banner
from app.window.main_window.main_window import MainWindow
from app.window.main_window.welcome import PROMPTS
from app.window.markdown.token_tints import token_list
from tests.app.window.chats import end
from tests.app.window.waiting import until
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import Loopback, loopback
from tests.models.hub.tiny import read_folder
from tests.toys.folders import roomy_copy


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A hub that holds every download until it may go on."""
    with loopback() as server:
        for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        server.allowed_bytes = 20_000
        yield server


@pytest.fixture
def window(app: QApplication, tmp_path: Path, hub: Loopback) -> Iterator[MainWindow]:
    """The window of a first start."""
    opened = Store.open(tmp_path / "conversations.db")
    shown = MainWindow(controller := Controller(opened.store, HostProcess()), tmp_path / "conversations.db")
    controller.host.pair_loaded.connect(shown.models.offer_pair)
    controller.open_last()
    controller.change_settings(ChatSettings(sampling=SamplingSettings(temperature=0, max_tokens=20, draft_length=2)))
    shown.show()
    controller.start()
    yield shown
    shown.models.quit()
    end(shown)
    controller.close()


def ask(window: MainWindow, text: str) -> str:
    """Asks by keyboard; returns the reply once it is complete."""
    controller, before = window.controller, len(window.controller.path)
    QTest.keyClicks(window.parts.composer.editor, text)
    QTest.keyClick(window.parts.composer.editor, Qt.Key.Key_Return)
    until(lambda: len(controller.path) == before + 2 and controller.path[-1].state != "streaming")
    assert controller.path[-1].state == "complete", controller.path[-1].note
    return controller.path[-1].text


def check_tints(window: MainWindow, text: str) -> None:
    """Checks that the last reply is on screen to the character, with the tints of accepted and corrected tokens."""
    rounds = window.controller.rounds_of(window.controller.path[-1].id)
    assert {"accepted", "corrected"} <= {origin for each in rounds for origin in each.round.origins}
    until(lambda: len({tint for _, tint in characters_of_tokens(window)} - {""}) >= 2)
    characters = characters_of_tokens(window)
    assert "".join("".join(character for character, _ in characters).split()) == "".join(text.split())
    assert {tint for _, tint in characters} - {""} <= {*LIGHT.tints.values()}


def characters_of_tokens(window: MainWindow) -> list[tuple[str, str]]:
    """Returns what is on screen and came from a token, character by character, with its tint, "" where it has none."""
    found = []
    for page in window.parts.transcript.findChildren(QTextEdit):
        for run in token_list(page.document()).runs:
            tint = LIGHT.tints[run.origin] if run.origin else ""
            found += [(page.document().characterAt(place), tint) for place in range(run.start, run.end)]
    return found


def banner(window: MainWindow, words: str) -> Banner:
    """Returns the banner that says this, once it is there."""
    banners = window.parts.notices.banners
    until(lambda: any(words in one.text for one in banners))
    return next(one for one in banners if words in one.text)


@pytest.mark.real_model
def test_a_pair_is_offered_downloaded_while_one_chats_used_and_raced(
    window: MainWindow, hub: Loopback, toy_folder: Path, toy_drafter_folder: Path, tmp_path: Path
) -> None:
    controller, offer = window.controller, window.parts.welcome.offer
    until(lambda: controller.host.loaded is not None)
    assert "is ready. It is a small demonstration model." in window.parts.welcome.model.text()
    until(lambda: offer.isVisible())
    assert offer.offered is not None
    target, drafter = offer.offered.key, offer.offered.best_drafter
    for name, folder in ((target, toy_folder), (drafter, toy_drafter_folder)):
        hub.add(Repo(name, read_folder(roomy_copy(folder, tmp_path / name.replace("/", "-")))))
    offer.button.click()
    downloads = window.models.downloads
    assert downloads is not None
    until(lambda: downloads.downloads[target].done_bytes > 0)
    assert offer.bar.isVisible() and "You can chat meanwhile" in offer.text.text()

    check_tints(window, ask(window, "Why is the sky blue?"))  # by the built-in model
    assert downloads.downloads[target].live and downloads.downloads[drafter].live
    hub.allowed_bytes = None
    hub.go.set()
    banner(window, "is ready").buttons[0].click()
    assert controller.conversation.settings.pair == Pair(target=target, drafter=drafter)
    until(lambda: controller.pair.status.state == "on" and controller.pair.status.target in target)
    ask(window, "And another one?")

    banner(window, "This chat uses").buttons[0].click()
    race = window.races.window
    assert race is not None and race.request.busy
    until(lambda: race.document is not None or not race.request.busy)
    assert race.document is not None
    assert race.document.prompt == "And another one?" != PROMPTS[0].text
    assert [side.side.drafter for side in race.document.sides] == ["none", drafter]
    assert race.document.pairs == 3 and race.board is not None and race.board.isVisible()
    race.close()
