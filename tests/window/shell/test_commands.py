"""The menus: no key does two things, roles are where macOS looks for them, the list of shortcuts is whole."""

from __future__ import annotations

from collections import Counter

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence

from app.window.shell.commands import MENUS, Commands
from app.window.shell.pages import shortcuts
from app.window.shell.window import MainWindow
from tests.window.shell.fakes import FakeController, message

EDITED_IN_TEXT = ("undo", "redo", "cut", "copy", "paste", "select all")


def test_no_two_commands_have_the_same_key(window: MainWindow) -> None:
    keys = Counter(keys.toString() for action in window.commands.all().values() for keys in action.shortcuts())
    assert [key for key, count in keys.items() if count > 1] == []
    assert len(keys) > 25


def test_no_action_of_the_window_has_a_key_of_its_own_beside_the_table(window: MainWindow) -> None:
    known = set(window.commands.all().values())
    others = [a for a in window.findChildren(QAction) if a.shortcuts() and a not in known]
    assert [a.text() for a in others if a.shortcutContext() != Qt.ShortcutContext.WidgetShortcut] == []


def test_standard_keys_of_text_stay_with_the_text(window: MainWindow) -> None:
    ours = {keys.toString() for name, a in window.commands.all().items() if name not in EDITED_IN_TEXT
            for keys in a.shortcuts()}  # fmt: skip
    standard = QKeySequence.StandardKey
    texts = (standard.Cut, standard.Copy, standard.Paste, standard.Undo, standard.Redo, standard.SelectAll)
    taken = {keys.toString() for key in texts for keys in QKeySequence.keyBindings(key)}
    assert ours & taken == set()


def test_about_settings_and_quit_have_their_roles(window: MainWindow) -> None:
    roles = {name: action.menuRole() for name, action in window.commands.all().items()}
    assert roles.pop("about") == QAction.MenuRole.AboutRole
    assert roles.pop("settings") == QAction.MenuRole.PreferencesRole
    assert roles.pop("quit") == QAction.MenuRole.QuitRole
    assert set(roles.values()) == {QAction.MenuRole.NoRole}


def test_every_command_is_in_a_menu_and_does_something(window: MainWindow) -> None:
    listed = [action for menu in window.menuBar().actions() for action in menu.menu().actions()]
    listed = [action for action in listed if not action.isSeparator()]
    assert set(listed) == set(window.commands.all().values())
    assert [a.text() for a in listed if not a.receivers("2triggered(bool)")] == []


def test_the_list_of_shortcuts_has_every_key(window: MainWindow) -> None:
    shown = {keys for _, rows in shortcuts() for _, keys in rows}
    native = QKeySequence.SequenceFormat.NativeText
    bound = {a.shortcut().toString(native) for a in window.commands.all().values() if not a.shortcut().isEmpty()}
    assert bound <= shown
    assert [title for title, _ in shortcuts()][: len(MENUS)] == list(MENUS)


@pytest.mark.parametrize("busy", [False, True])
def test_what_cannot_be_done_now_is_not_offered(window: MainWindow, controller: FakeController, busy: bool) -> None:
    commands: Commands = window.commands
    assert not commands["regenerate"].isEnabled()
    assert not commands["export markdown"].isEnabled()
    controller.open(1)
    controller.show([message(1, "user", "Why?"), message(2, "assistant", "So", state="stopped")])
    controller.be_busy(busy)
    assert commands["stop"].isEnabled() == busy
    assert commands["regenerate"].isEnabled() == (not busy)
    assert commands["resume"].isEnabled() == (not busy)
    assert commands["export markdown"].isEnabled()


def test_regenerate_continue_and_stop_are_of_the_last_reply(window: MainWindow, controller: FakeController) -> None:
    controller.show([message(1, "user", "Why?"), message(2, "assistant", "So", state="stopped")])
    for name in ("regenerate", "resume"):
        window.commands[name].trigger()
        assert controller.asked_for(name) == [(2,)]
    controller.be_busy(True)
    window.commands["stop"].trigger()
    assert controller.asked_for("stop") == [()]
