"""The menus: every command in one table, its action, and what it does."""

import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QMenu, QMenuBar

Standard = QKeySequence.StandardKey
MenuRole = QAction.MenuRole
MAC = sys.platform == "darwin"


class Command(NamedTuple):
    """An entry of a menu.

    keys: "Ctrl" is Cmd on a Mac. role: where macOS puts it in the app's menu. focused: the widget with the focus
    carries the command out, when it gets these keys; from the menu they are sent to it."""

    name: str
    text: str
    keys: str | Standard = ""
    checkable: bool = False
    role: MenuRole = MenuRole.NoRole
    focused: bool = False


SEPARATOR = Command("", "")
VERIFY, STOP_VERIFYING = "Verify Reply", "Stop Verifying"

MENUS: Mapping[str, tuple[Command, ...]] = {
    "File": (
        Command("new", "New Chat", Standard.New),
        Command("attach", "Attach Files…", "Ctrl+Shift+A"),
        SEPARATOR,
        Command("import", "Import Conversations…", Standard.Open),
        Command("export markdown", "Export as Markdown…", "Ctrl+E"),
        Command("export json", "Export as JSON…", "Ctrl+Shift+E"),
        Command("export page", "Export Last Reply as Web Page…"),
        SEPARATOR,
        Command("settings", "Settings…", "Ctrl+,", role=MenuRole.PreferencesRole),
        Command("close", "Close Window", "Ctrl+W"),
        Command("quit", "Quit Redline", "Ctrl+Q", role=MenuRole.QuitRole),
    ),
    "Edit": (
        Command("undo", "Undo", "Ctrl+Z"),
        Command("redo", "Redo", Standard.Redo, focused=True),
        SEPARATOR,
        Command("cut", "Cut", "Ctrl+X", focused=True),
        Command("copy", "Copy", "Ctrl+C", focused=True),
        Command("paste", "Paste", "Ctrl+V", focused=True),
        Command("select all", "Select All", "Ctrl+A", focused=True),
        SEPARATOR,
        Command("copy conversation", "Copy Conversation", "Ctrl+Shift+C"),
        Command("edit last", "Edit Last Message"),
        SEPARATOR,
        Command("find", "Find in Chat…", Standard.Find),
        Command("find next", "Find Next", "Ctrl+G"),
        Command("find previous", "Find Previous", "Ctrl+Shift+G"),
        Command("search", "Search Conversations", "Ctrl+Shift+F"),
    ),
    "View": (
        Command("sidebar", "Sidebar", "Ctrl+Meta+S" if MAC else "Ctrl+Alt+S", checkable=True),
        Command("inspector", "Inspector", "Ctrl+I", checkable=True),
        Command("chat settings", "Chat Settings", "Ctrl+Shift+,", checkable=True),
        SEPARATOR,
        Command("tints", "Token Colours", "Ctrl+T", checkable=True),
        Command("refused", "Refused Tokens", "Ctrl+Shift+T", checkable=True),
        Command("raw", "Raw Text", "Ctrl+R", checkable=True),
        SEPARATOR,
        Command("zoom in", "Zoom In", Standard.ZoomIn),
        Command("zoom out", "Zoom Out", Standard.ZoomOut),
        Command("zoom reset", "Actual Size", "Ctrl+0"),
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
        Command("choose models", "Choose Models", "Ctrl+Shift+L"),
        Command("models", "Models…", "Ctrl+Shift+M"),
        Command("serve", "Serve Models to Other Apps…"),
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
        SEPARATOR,
        Command("main window", "Main Window"),
    ),
    "Help": (
        Command("shortcuts", "Keyboard Shortcuts", "Ctrl+/"),
        Command("logs", "Show Logs"),
        Command("report", "Copy Error Report"),
        Command("about", "About Redline", role=MenuRole.AboutRole),
    ),
}

# What keys do outside the menus, for the list of shortcuts.
OTHER_KEYS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Message": (
        ("Send", "Enter"),
        ("New line", "Shift-Enter"),
        ("Edit the last message, if nothing is typed", "Up"),
        ("Stop the reply, or leave an edit, which is kept", "Esc"),
    ),
    "Conversations": (
        ("Open", "Enter"),
        ("Collapse or expand a folder", "Left, Right"),
        ("Rename", "F2"),
        ("Delete", "Delete"),
        ("Next search result", "Down"),
    ),
}


def key_sequences(command: Command) -> list[QKeySequence]:
    """Returns the keys of a command on this system; the first is the one that is shown."""
    if isinstance(command.keys, Standard):
        found = QKeySequence.keyBindings(command.keys)
        fallback = {Standard.FullScreen: "Ctrl+Meta+F" if MAC else "F11"}.get(command.keys)
        if command.keys == Standard.ZoomIn:
            found = [*found, QKeySequence("Ctrl+=")]  # the same key without Shift, where + needs it
        return found or ([QKeySequence(fallback)] if fallback else [])
    return [QKeySequence(command.keys)] if command.keys else []


def shortcut_list() -> list[tuple[str, list[tuple[str, str]]]]:
    """Returns all shortcuts by heading, as (what it does, keys as this system writes them)."""
    native = QKeySequence.SequenceFormat.NativeText
    groups = []
    for title, commands in MENUS.items():
        keys = [(command.text.rstrip("…"), key_sequences(command)) for command in commands]
        groups.append((title, [(text, found[0].toString(native)) for text, found in keys if found]))
    return groups + [(title, list(rows)) for title, rows in OTHER_KEYS.items()]


class Commands(dict[str, QAction]):
    """The actions of the menus by name. parent: owns them."""

    def __init__(self, parent: QObject) -> None:
        named = [command for commands in MENUS.values() for command in commands if command.name]
        super().__init__({command.name: _action(command, parent) for command in named})

    def connect_all(self, slots: Mapping[str, Callable[[], object]]) -> None:
        """Has each named action call its function."""
        for name, slot in slots.items():
            self[name].triggered.connect(lambda _=False, slot=slot: slot())

    def fill(self, bar: QMenuBar) -> None:
        """Adds the menus to a menu bar."""
        for title, commands in MENUS.items():
            menu = QMenu(title, bar)
            for command in commands:
                if command.name:
                    menu.addAction(self[command.name])
                else:
                    menu.addSeparator()
            bar.addMenu(menu)


def _action(command: Command, parent: QObject) -> QAction:
    action = QAction(command.text, parent)
    action.setShortcuts(key_sequences(command))
    if command.focused:
        action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(lambda: send_to_focus(action.shortcut()))
    action.setCheckable(command.checkable)
    action.setMenuRole(command.role)
    return action


def send_to_focus(keys: QKeySequence) -> None:
    """Has the widget with the focus handle these keys, as if they were pressed."""
    focused, pressed = QApplication.focusWidget(), keys[0]  # type: ignore[index]  # missing in the stubs
    if focused is not None:
        event = QKeyEvent(QEvent.Type.KeyPress, pressed.key(), pressed.keyboardModifiers())
        QCoreApplication.sendEvent(focused, event)
