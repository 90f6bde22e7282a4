"""The Settings window: what is chosen holds at once and at the next start; data goes out and in."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.records import ChatSettings
from app.window.look import DARK, LIGHT, READABLE, Look, contrast, with_accent
from app.window.shell import fields, files, motion, styles, theme
from app.window.shell.fields import choose
from app.window.shell.files import FileError, file_name, write_text
from app.window.shell.preferences import PREFERENCES, Places, Preferences, read, written
from app.window.shell.window import MainWindow
from tests.window.control.waiting import until
from tests.window.shell.conftest import end, open_window
from tests.window.shell.fakes import FakeController, conversation


def test_appearance_holds_at_once_and_at_the_next_start(window: MainWindow, controller: FakeController) -> None:
    page = window.settings.show("appearance").appearance
    for box, value in ((page.scheme, "dark"), (page.text_size, "2"), (page.motion, "reduced")):
        choose(box, value)
        box.activated.emit(0)
    page.tints.click()
    page.ghosts.click()
    page.announce.click()
    chosen = Preferences(scheme="dark", zoom=2, motion="reduced", tints=False, ghosts=True, announce=False)
    assert window.preferences == chosen
    assert (window.theme.look.scheme, window.theme.look.scale) == ("dark", chosen.scale)
    heard = window.parts.transcript.heard
    assert [given for given in heard if given[0] == "set_reduced_motion"][-1] == ("set_reduced_motion", True)
    assert [given for given in heard if given[0] == "set_tints"][-1] == ("set_tints", False)
    second = open_window(controller)
    assert second.preferences == chosen
    assert second.settings.show("appearance").appearance.text_size.currentText() == "121 %"
    end(second)


def test_idle_models_are_unloaded_when_the_reader_says(window: MainWindow, controller: FakeController) -> None:
    assert controller.unload_minutes == 30
    page = window.settings.show("appearance").appearance
    choose(page.unload, "0")
    page.unload.activated.emit(0)
    assert (window.preferences.unload_minutes, controller.unload_minutes) == (0, 0)
    second = open_window(controller)
    assert controller.unload_minutes == 0
    end(second)


def test_tints_have_one_key_and_the_button_and_menu_agree(window: MainWindow) -> None:
    window.commands["tints"].trigger()
    assert not window.preferences.tints
    assert not window.parts.header.tints.isChecked()
    window.parts.header.tints.click()
    assert window.preferences.tints
    assert window.commands["tints"].isChecked()


def test_text_grows_shrinks_and_returns_within_limits(window: MainWindow) -> None:
    normal = window.parts.composer.editor.font().pixelSize()
    for _ in range(20):
        window.commands["zoom in"].trigger()
    assert window.parts.composer.editor.font().pixelSize() > 2 * normal
    for _ in range(40):
        window.commands["zoom out"].trigger()
    assert window.preferences.scale == pytest.approx(1.1**-3)
    window.commands["zoom reset"].trigger()
    assert window.parts.composer.editor.font().pixelSize() == normal


def test_motion_is_the_readers_or_the_systems(window: MainWindow) -> None:
    window.change_preferences(motion="full")
    assert not window.theme.reduced_motion
    window.change_preferences(motion="reduced")
    assert window.theme.reduced_motion


def test_sentences_are_not_read_out_to_those_who_do_not_want_it(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("app.window.shell.window.announce", lambda _, text: said.append(text))
    window._say("One.")
    window.change_preferences(announce=False)
    window._say("Two.")
    assert said == ["One."]


def test_new_chats_begin_with_the_defaults(window: MainWindow, controller: FakeController) -> None:
    shown = window.settings.show("chat")
    shown.defaults.law.temperature.setValue(0.5)
    assert window.settings.defaults().law.temperature == 0.5
    shown.reset.click()
    assert window.settings.defaults() == ChatSettings()
    assert controller.conversation.settings == ChatSettings()  # the open one is new as well
    controller.set_value("chat.settings", "damaged")
    assert window.settings.defaults() == ChatSettings()


def test_escape_closes_the_settings(window: MainWindow) -> None:
    shown = window.settings.show("info")
    QTest.keyClick(shown, Qt.Key.Key_Escape)
    assert not shown.isVisible()
    window.commands["shortcuts"].trigger()
    assert shown.isVisible()
    assert shown.page == "keyboard"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"zoom": "big"}', '{"scheme": "pink"}', "\x00", "[" * 100_000])
def test_damaged_values_are_as_good_as_none(text: str) -> None:
    assert read(text, Preferences) == Preferences()
    assert read(text, Places) == Places()


def test_values_go_round() -> None:
    chosen = Preferences(scheme="dark", zoom=-2, tints=False)
    assert read(written(chosen), Preferences) == chosen


# --- the look ---------------------------------------------------------------------------------


def test_the_palette_is_the_looks(window: MainWindow) -> None:
    for scheme, look in (("light", LIGHT), ("dark", DARK)):
        window.change_preferences(scheme=scheme)
        assert QApplication.palette().color(QPalette.ColorRole.Window).name() == look.background
        assert QApplication.palette().color(QPalette.ColorRole.Text).name() == look.text
    window.change_preferences(scheme="system")


@pytest.mark.parametrize("accent", ["#ffcc00", "#007aff", "#8c8c8c", "#ff2d55", "#000000", "#ffffff"])
@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_any_accent_of_the_system_can_be_read(accent: str, look: Look) -> None:
    shown = with_accent(look, accent)
    assert contrast(shown.accent, shown.background) >= READABLE
    assert contrast(shown.accent, shown.on_accent) >= READABLE


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_of_text_can_be_read_on_every_ground(look: Look) -> None:
    grounds = (look.background, look.sidebar, look.raised)
    inks = (look.text, look.faint, look.accent, look.good, look.warning, look.error)
    assert min(contrast(ink, ground) for ink in inks for ground in grounds) >= READABLE


def test_the_window_follows_the_system_while_the_reader_wants_that(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window.theme, "_hints", SimpleNamespace(colorScheme=lambda: Qt.ColorScheme.Dark))
    window.theme.follow()
    assert window.theme.look.scheme == "dark"
    assert DARK.background in window.styleSheet()
    assert DARK.sidebar in window.parts.sidebar.styleSheet()
    monkeypatch.setattr(window.theme, "_hints", SimpleNamespace(colorScheme=lambda: Qt.ColorScheme.Unknown))
    window.theme.follow()
    assert window.theme.look.scheme == "light"


def test_where_the_system_draws_the_controls_they_are_left_to_it(
    controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (theme, styles, fields):
        monkeypatch.setattr(module, "NATIVE", True)
    QApplication.setPalette(QApplication.style().standardPalette())
    before = QApplication.palette()
    window = open_window(controller)
    window.change_preferences(scheme="dark")
    window.show_side("chat settings")
    assert QApplication.palette() == before
    assert "QScrollBar" not in window.styleSheet()
    assert "QPushButton" not in window.parts.panel.styleSheet()
    end(window)


def test_motion_of_a_mac_without_its_library_is_taken_for_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion.sys, "platform", "darwin")
    monkeypatch.setattr(motion.ctypes.util, "find_library", lambda _: None)
    assert not motion.system_reduces_motion()


# --- data -------------------------------------------------------------------------------------


def test_a_conversation_is_exported_where_the_user_says(
    window: MainWindow, controller: FakeController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.open(2)
    monkeypatch.setattr(files, "ask_where", lambda parent, title, kind: tmp_path / f"{title}.{files.KINDS[kind][0]}")
    window.commands["export markdown"].trigger()
    window.parts.sidebar.exported.emit(3, "json")
    assert (tmp_path / "Counting to thirty.md").read_text() == "# 2\n"
    assert (tmp_path / "Bread.json").read_text() == '{"id": 3}'


def test_an_export_that_fails_is_said(
    window: MainWindow, controller: FakeController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.open(2)
    monkeypatch.setattr(files, "ask_where", lambda *_: tmp_path / "none" / "a.md")
    window.commands["export markdown"].trigger()
    banner = window.parts.notices.banners[0]
    assert banner.level == "error"
    assert "a.md" in banner.text


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "ä\n")
    assert path.read_bytes() == "ä\n".encode()
    with pytest.raises(FileError, match="choose another place"):
        write_text(tmp_path, "b")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("title", "name"), [("a/b: c?", "a b c"), ("..", "Chat"), ("", "Chat"), ("x" * 99, "x" * 60), ("a.", "a")]
)
def test_any_title_makes_a_file_name(title: str, name: str) -> None:
    assert file_name(title) == name


def test_all_conversations_are_exported_under_names_of_their_own(
    window: MainWindow, controller: FakeController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.records = [conversation(1, "Bread", 0), conversation(2, "bread", 0), conversation(3, "", 0)]
    (tmp_path / "Chat.json").write_text("mine")
    monkeypatch.setattr(files, "ask_folder", lambda _: tmp_path)
    page = window.settings.show("data").data
    page.export.click()
    until(lambda: page.said.text().startswith("3 conversations are in"), 10)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["Bread.json", "Chat 2.json", "Chat.json", "bread 2.json"]
    assert (tmp_path / "Chat.json").read_text() == "mine"


def test_an_import_is_handed_on(
    window: MainWindow, controller: FakeController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ask_conversation", lambda _: tmp_path / "a.json")
    window.commands["import"].trigger()
    assert controller.asked_for("import_file") == [(str(tmp_path / "a.json"),)]


def test_a_conversation_is_copied_as_markdown(window: MainWindow, controller: FakeController) -> None:
    controller.open(2)
    window.commands["copy conversation"].trigger()
    assert QApplication.clipboard().text() == "# 2\n"


def test_preferences_that_did_not_change_are_not_written(window: MainWindow, controller: FakeController) -> None:
    window.set_preferences(window.preferences)
    assert PREFERENCES not in controller.values
