"""The menus: no key does two things, roles are where macOS looks for them, the list of shortcuts is whole."""

from collections import Counter
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAction, QDesktopServices, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.window.chat import Controller
from app.window.main_window.main_window import MainWindow
from app.window.main_window.secondary_windows import come_forward
from tests.app.window.chats import open_chat
from tests.app.window.waiting import until

EDITED_IN_TEXT = ("undo", "redo", "cut", "copy", "paste", "select all")


def test_every_key_is_in_the_table_once_and_none_is_a_text_fields(window: MainWindow) -> None:
    actions = window.commands
    keys = Counter(keys.toString() for action in actions.values() for keys in action.shortcuts())
    assert [key for key, count in keys.items() if count > 1] == []
    assert len(keys) > 25
    others = [a for a in window.findChildren(QAction) if a.shortcuts() and a not in set(actions.values())]
    assert [a.text() for a in others if a.shortcutContext() != Qt.ShortcutContext.WidgetShortcut] == []
    standard = QKeySequence.StandardKey
    texts = (standard.Cut, standard.Copy, standard.Paste, standard.Undo, standard.Redo, standard.SelectAll)
    taken = {keys.toString() for key in texts for keys in QKeySequence.keyBindings(key)}
    edited = {keys.toString() for name in EDITED_IN_TEXT for keys in actions[name].shortcuts()}
    assert (keys.keys() - edited) & taken == set()


def test_every_command_is_in_a_menu_does_something_and_has_its_role(window: MainWindow) -> None:
    listed = [action for menu in window.menuBar().actions() for action in menu.menu().actions()]  # type: ignore[attr-defined]
    listed = [action for action in listed if not action.isSeparator()]
    assert set(listed) == set(window.commands.values())
    assert [a.text() for a in listed if not a.receivers("2triggered(bool)")] == []
    roles = {name: action.menuRole() for name, action in window.commands.items()}
    assert roles.pop("about") == QAction.MenuRole.AboutRole
    assert roles.pop("settings") == QAction.MenuRole.PreferencesRole
    assert roles.pop("quit") == QAction.MenuRole.QuitRole
    assert set(roles.values()) == {QAction.MenuRole.NoRole}


@pytest.mark.parametrize("busy", [False, True])
def test_commands_are_enabled_while_they_can_be_used(window: MainWindow, controller: Controller, busy: bool) -> None:
    commands = window.commands
    assert not commands["regenerate"].isEnabled()
    assert not commands["export markdown"].isEnabled()
    open_chat(controller, "Why?", "So", state="stopped")
    if busy:
        controller.regenerate(controller.path[1].id)
    assert controller.busy == busy
    assert commands["stop"].isEnabled() == busy
    assert commands["regenerate"].isEnabled() == (not busy)
    assert commands["resume"].isEnabled() == (not busy)
    assert commands["export markdown"].isEnabled()


def test_regenerate_continue_and_stop_apply_to_the_last_reply(window: MainWindow, controller: Controller) -> None:
    _, reply = open_chat(controller, "Why?", "So", state="stopped")
    for name, same_message in (("regenerate", False), ("resume", True)):
        before = controller.path[1].id
        window.commands[name].trigger()
        assert controller.busy and (controller.path[1].id == before) == same_message
        window.commands["stop"].trigger()
        assert not controller.busy
    assert controller.path[1].parent == reply.parent and controller.path[1].versions == 2


@pytest.mark.slow_for("models", "races")
@pytest.mark.parametrize("opener", ["settings", "races", "models"])
def test_window_commands_act_on_the_window_in_front(window: MainWindow, opener: str) -> None:
    window.models.command = ["true"]
    other = window.settings.show("data") if opener == "settings" else getattr(window, opener).show()
    until(other.isActiveWindow)
    window.commands["zoom window"].trigger()
    assert other.isMaximized() and not window.isMaximized()
    window.commands["minimise"].trigger()
    assert other.isMinimized() and not window.isMinimized()
    come_forward(other)
    until(other.isActiveWindow)
    QTest.keyClick(other, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    assert not other.isVisible() and window.isVisible()
    window.activateWindow()
    until(window.isActiveWindow)
    window.commands["close"].trigger()
    assert not window.isVisible()
    window.models.quit()


def test_closing_the_main_window_quits_only_when_no_other_is_open(window: MainWindow, app: QApplication) -> None:
    settings, seen = window.settings.show("data"), list[str]()

    def close_window() -> None:
        window.close()
        QTimer.singleShot(0, close_settings)

    def close_settings() -> None:
        seen.append("settings are open" if settings.isVisible() else "")
        settings.close()

    note_last = app.lastWindowClosed.connect(lambda: seen.append("last"))
    QTimer.singleShot(0, close_window)
    app.exec()  # until it quits
    app.disconnect(note_last)
    assert seen == ["settings are open", "last"]
    window.commands["main window"].trigger()
    assert window.isVisible()


@pytest.mark.slow
def test_editing_commands_of_the_menu_reach_the_focused_text(window: MainWindow) -> None:
    editor = window.parts.composer.editor
    editor.setPlainText("word")
    editor.setFocus()
    for name, text in (("select all", "word"), ("cut", ""), ("paste", "word"), ("undo", ""), ("redo", "word")):
        window.commands[name].trigger()
        assert editor.toPlainText() == text


def test_show_logs_opens_the_folder_of_the_log(
    window: MainWindow, controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    assert not window.commands["logs"].isEnabled()
    controller.host.log_file = tmp_path / "redline.log"
    window.presenter.update_commands()
    window.commands["logs"].trigger()
    assert opened == [str(tmp_path)]
