"""The Models window under the main window: opened from it, and choosing the pair of its chat."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.protocol import Pair
from app.store.records import ChatSettings
from app.window.main_window.main_window import MainWindow
from app.window.main_window.welcome import PROMPTS
from tests.app.window.models.conftest import buttons, install_three, texts, wait_for_answers
from tests.app.window.models.fake_models import EAGLE, QWEN, SMALL, FakeModels, asking, done, model
from tests.app.window.waiting import until


def test_a_pair_is_used_by_the_open_chat(window: MainWindow, fake: FakeModels) -> None:
    install_three(fake)
    page = window.models.show()
    wait_for_answers(page)
    page.choose(QWEN)
    page.do("use")
    assert window.controller.conversation.settings.pair == Pair(target=QWEN, drafter="auto")
    assert "with prompt lookup and EAGLE" in page.line.text.text()
    assert buttons(page)["In Use"] is False
    rows = page.details.drafters.rows
    assert [(row.offer.name, row.offer.state) for row in rows if row.offer.state != "unloadable"] == [
        (EAGLE, "compatible"),
        (SMALL, "compatible"),
        ("z-lab/Qwen3-8B-DFlash-b16", "absent"),
        ("deepseek-ai/dspark_qwen3_8b_block7", "absent"),
        ("mgoin/Qwen3-8B-speculator.dspark", "absent"),
        ("builtin", "incompatible"),
    ]
    assert "Incompatible. Different tokenizer." in texts(page)
    rows[1].button.click()
    assert window.controller.conversation.settings.pair == Pair(target=QWEN, drafter=SMALL)


def test_the_window_is_opened_from_menu_welcome_and_form(window: MainWindow, fake: FakeModels) -> None:
    ask = (
        window.commands["models"].trigger,
        window.parts.welcome.other.click,
        window.parts.panel.form.pair.models.click,
    )
    for once in ask:
        once()
        assert window.models.window is not None and window.models.window.isVisible()
        window.models.window.close()


def test_installed_models_are_offered_in_the_chat_settings(window: MainWindow, fake: FakeModels) -> None:
    install_three(fake)
    window.models.find_names()
    form = window.parts.panel.form.pair
    until(lambda: form.target.box.findData(QWEN) >= 0)
    assert form.drafter.box.findData(EAGLE) >= 0
    assert form.target.box.findData(EAGLE) < 0, "a head cannot be a target"
    assert form.target.box.itemText(form.target.box.count() - 1) == "Choose Folder…"
    form.target.box.setCurrentIndex(form.target.box.findData(QWEN))
    form.target.box.activated.emit(0)
    assert form.valid and form.pair().target == QWEN


def test_the_welcome_offers_a_pair_downloads_it_uses_it_and_races_it(window: MainWindow, fake: FakeModels) -> None:
    offer = window.parts.welcome.offer
    window.parts.welcome.set_first(True)
    window.models.offer_pair()
    until(lambda: offer.isVisible())
    assert offer.offered is not None and offer.offered.missing_drafter
    target, drafter = offer.offered.key, offer.offered.missing_drafter
    assert offer.offered.title in offer.title.text() and offer.button.text() == "Download Both"
    assert "at 100 Mbit/s" in offer.text.text()
    fake.pull(target, asking(target), done(target, 1000))
    fake.pull(drafter, asking(drafter), done(drafter, 1000))
    for name, kind in ((target, "model"), (drafter, "eagle3")):
        fake.put(model(name, 1.0, kind))
    offer.button.click()
    assert "You can chat meanwhile" in offer.text.text() and offer.button.isHidden()
    until(lambda: offer.button.text() == "Use in This Chat")
    assert [call for call in fake.calls if call.startswith("pull")] == [f"pull {target}", f"pull {drafter}"]
    offer.button.click()
    assert window.controller.conversation.settings.pair == Pair(target=target, drafter=drafter)
    assert offer.button.text() == "Race It"
    window.controller.change_settings(ChatSettings(pair=Pair(target=target, drafter="none")))
    assert offer.button.text() == "Use in This Chat"  # the pair counts, not its target alone
    offer.button.click()
    offer.button.click()
    race = window.races.window
    assert race is not None and race.isVisible() and race.request.busy and race.request.builder is not None
    assert race.request.builder.race.prompt == PROMPTS[0].text  # as nothing was asked yet
    assert [side.drafter for side in race.request.builder.race.sides] == ["none", drafter]
    race.close()


@pytest.mark.slow
def test_who_chats_while_a_pair_is_downloaded_is_told_once_that_it_is_ready(
    window: MainWindow, fake: FakeModels
) -> None:
    offer = window.parts.welcome.offer
    window.parts.welcome.set_first(True)
    window.models.offer_pair()
    until(lambda: offer.isVisible())
    assert offer.offered is not None
    target, drafter = offer.offered.key, offer.offered.best_drafter
    for name in (target, drafter):
        fake.pull(name, asking(name), done(name, 1000))
    offer.button.click()
    window.parts.middle.setCurrentWidget(window.parts.transcript)
    for name, kind in ((target, "model"), (drafter, "eagle3")):
        fake.put(model(name, 1.0, kind))
    banners = window.parts.notices.banners
    until(lambda: any("is ready" in banner.text for banner in banners))
    next(banner for banner in banners if "is ready" in banner.text).buttons[0].click()
    assert window.controller.conversation.settings.pair == Pair(target=target, drafter=drafter)
    assert any("This chat uses" in banner.text for banner in banners)
    count = len(banners)
    window.controller.change_settings(ChatSettings())
    assert len(banners) == count


@pytest.mark.slow
def test_the_welcome_replays_a_recorded_race(window: MainWindow) -> None:
    window.parts.welcome.race.click()
    race = window.races.window
    assert race is not None and race.document is not None and race.document.pairs == 3
    assert race.board is not None and race.board.isVisible()
    race.close()


def test_a_pair_of_names_is_shown_as_names(window: MainWindow) -> None:
    window.controller.change_settings(ChatSettings(pair=Pair(target=QWEN, drafter=EAGLE)))
    QApplication.processEvents()
    form = window.parts.panel.form.pair
    assert form.valid
    assert form.pair() == Pair(target=QWEN, drafter=EAGLE)
    assert form.target.box.currentText() == "Qwen3-8B-4bit"
    window.controller.change_settings(ChatSettings(pair=Pair(target="/models/mine")))
    assert form.target.folder.text() == "/models/mine"


def test_the_header_lists_the_installed_pairs_and_changes_the_pair_by_keys(
    window: MainWindow, fake: FakeModels
) -> None:
    install_three(fake)
    window.parts.header.chip.click()
    menu = window.pair_menu
    assert menu.isVisible() and menu.accessibleName() == "Choose models"
    library = window.models.library
    until(lambda: library is not None and not library.loading and not library.commands.busy)
    choices = {action.data(): action for action in menu.actions() if action.data()}
    assert EAGLE not in choices, "a head cannot be a target"
    assert "EAGLE" in choices[QWEN].text() and choices[QWEN].text().endswith(("fits", "tight"))
    assert menu.activeAction() is choices["builtin"] and choices["builtin"].isChecked()
    assert [action.text() for action in menu.actions()][-2:] == ["Models…", "Chat Settings"]
    while menu.activeAction() is not choices[QWEN]:
        QTest.keyClick(menu, Qt.Key.Key_Down)
    QTest.keyClick(menu, Qt.Key.Key_Return)
    assert window.controller.conversation.settings.pair == Pair(target=QWEN)
    window.commands["choose models"].trigger()
    assert menu.activeAction().data() == QWEN
    menu.close()
