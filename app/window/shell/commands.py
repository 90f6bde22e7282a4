"""Everything that the menus offer, as one table: menus, buttons, the list of shortcuts and their test read it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar

Standard = QKeySequence.StandardKey
MenuRole = QAction.MenuRole
MAC = sys.platform == "darwin"


class Command(NamedTuple):
    """keys: "Ctrl" is Cmd on a Mac. role: where macOS puts it in the menu of the app. shown: the keys are only shown,
    as whatever has the keyboard knows them itself, each in its own way."""

    name: str
    text: str
    keys: str | Standard = ""
    checkable: bool = False
    role: MenuRole = MenuRole.NoRole
    shown: bool = False


SEPARATOR = Command("", "")
VERIFY, STOP_VERIFYING = "Verify Reply", "Stop Verifying"

MENUS: Mapping[str, tuple[Command, ...]] = {
    "File": (
        Command("new", "New Chat", Standard.New),
        Command("attach", "Attach Files…", "Ctrl+Shift+A"),
        SEPARATOR,
        Command("import", "Import Conversation…", Standard.Open),
        Command("export markdown", "Export as Markdown…", "Ctrl+E"),
        Command("export json", "Export as JSON…", "Ctrl+Shift+E"),
        SEPARATOR,
        Command("settings", "Settings…", "Ctrl+,", role=MenuRole.PreferencesRole),
        Command("close", "Close Window", "Ctrl+W"),
        Command("quit", "Quit Redline", "Ctrl+Q", role=MenuRole.QuitRole),
    ),
    "Edit": (
        Command("undo", "Undo", "Ctrl+Z"),
        Command("redo", "Redo", Standard.Redo, shown=True),
        SEPARATOR,
        Command("cut", "Cut", "Ctrl+X", shown=True),
        Command("copy", "Copy", "Ctrl+C", shown=True),
        Command("paste", "Paste", "Ctrl+V", shown=True),
        Command("select all", "Select All", "Ctrl+A", shown=True),
        SEPARATOR,
        Command("copy conversation", "Copy Conversation", "Ctrl+Shift+C"),
        Command("edit last", "Edit Last Message"),
        SEPARATOR,
        Command("search", "Search Conversations", Standard.Find),
    ),
    "View": (
        Command("sidebar", "Sidebar", "Ctrl+Meta+S" if MAC else "Ctrl+Alt+S", checkable=True),
        Command("inspector", "Inspector", "Ctrl+I", checkable=True),
        Command("chat settings", "Chat Settings", "Ctrl+Shift+,", checkable=True),
        SEPARATOR,
        Command("tints", "Tints of Tokens", "Ctrl+T", checkable=True),
        Command("ghosts", "Refused Tokens", "Ctrl+Shift+T", checkable=True),
        Command("raw", "Raw Text", "Ctrl+R", checkable=True),
        SEPARATOR,
        Command("zoom in", "Larger Text", Standard.ZoomIn),
        Command("zoom out", "Smaller Text", Standard.ZoomOut),
        Command("zoom reset", "Normal Text", "Ctrl+0"),
        SEPARATOR,
        Command("full screen", "Full Screen", Standard.FullScreen, checkable=True),
    ),
    "Chat": (
        Command("stop", "Stop", "Ctrl+."),
        Command("regenerate", "Regenerate Reply", "Ctrl+Shift+R"),
        Command("resume", "Continue Reply", "Ctrl+Shift+Return"),
        Command("verify", VERIFY, "Ctrl+Shift+K"),
        SEPARATOR,
        Command("unload", "Unload Models"),
        Command("race", "Race…", "Ctrl+D"),
        Command("models", "Models…", "Ctrl+Shift+M"),
        SEPARATOR,
        Command("message", "Write a Message", "Ctrl+L"),
        Command("previous", "Previous Conversation", "Ctrl+["),
        Command("next", "Next Conversation", "Ctrl+]"),
        SEPARATOR,
        Command("rename", "Rename Conversation"),
        Command("pin", "Pin Conversation", "Ctrl+Shift+P", checkable=True),
        Command("delete", "Delete Conversation", "Ctrl+Shift+Backspace"),
    ),
    "Window": (
        Command("minimise", "Minimise", "Ctrl+M"),
        Command("zoom window", "Zoom"),
    ),
    "Help": (
        Command("shortcuts", "Keyboard Shortcuts", "Ctrl+/"),
        Command("report", "Copy Error Report"),
        Command("about", "About Redline", role=MenuRole.AboutRole),
    ),
}

# What else keys do, for the list that people read.
ELSEWHERE: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Message": (
        ("Send", "Enter"),
        ("New line", "Shift-Enter"),
        ("Edit the last message, while nothing is written", "Up"),
        ("Stop the reply, or leave an edit", "Esc"),
    ),
    "Conversations": (
        ("Open", "Enter"),
        ("Rename", "F2"),
        ("Delete", "Delete"),
        ("Next hit of a search", "Down"),
    ),
}


def keys_of(command: Command) -> list[QKeySequence]:
    """All that do it on this system; the first is shown."""
    if isinstance(command.keys, Standard):
        found = QKeySequence.keyBindings(command.keys)
        fallback = {Standard.FullScreen: "Ctrl+Meta+F" if MAC else "F11"}.get(command.keys)
        if command.keys == Standard.ZoomIn:
            found = [*found, QKeySequence("Ctrl+=")]  # the same key without Shift, where + needs it
        return found or ([QKeySequence(fallback)] if fallback else [])
    return [QKeySequence(command.keys)] if command.keys else []


class Commands(QObject):
    """The actions by their names."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._actions: dict[str, QAction] = {}
        for commands in MENUS.values():
            for command in commands:
                if command.name:
                    self._actions[command.name] = self._action(command)

    def __getitem__(self, name: str) -> QAction:
        return self._actions[name]

    def all(self) -> dict[str, QAction]:
        """By name."""
        return dict(self._actions)

    def fill(self, bar: QMenuBar) -> None:
        """Make the menus."""
        for title, commands in MENUS.items():
            menu = QMenu(title, bar)
            for command in commands:
                if command.name:
                    menu.addAction(self._actions[command.name])
                else:
                    menu.addSeparator()
            bar.addMenu(menu)

    def _action(self, command: Command) -> QAction:
        action = QAction(command.text, self)
        action.setShortcuts(keys_of(command))
        if command.shown:
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.setCheckable(command.checkable)
        action.setMenuRole(command.role)
        return action
