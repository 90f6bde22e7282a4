"""The menus: every command in one table, its action, and what it does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QMenu, QMenuBar, QWidget

from app.window.common.file_output import FileError, write_text
from app.window.main_window import files
from app.window.main_window.chat_presenter import ChatPresenter, Parts
from app.window.sidebar.conversation_models import UNTITLED

if TYPE_CHECKING:
    from app.window.chat import Controller

Standard = QKeySequence.StandardKey
MenuRole = QAction.MenuRole
MAC = sys.platform == "darwin"


class Command(NamedTuple):
    """keys: "Ctrl" is Cmd on a Mac. role: where macOS puts it in the app's menu. shown: the keys are only shown, as the
    widget with the focus handles them itself."""

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
        Command("tints", "Token Colours", "Ctrl+T", checkable=True),
        Command("ghosts", "Refused Tokens", "Ctrl+Shift+T", checkable=True),
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

# What keys do outside the menus, for the list of shortcuts.
OTHER_KEYS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Message": (
        ("Send", "Enter"),
        ("New line", "Shift-Enter"),
        ("Edit the last message, if nothing is typed", "Up"),
        ("Stop the reply, or cancel an edit", "Esc"),
    ),
    "Conversations": (
        ("Open", "Enter"),
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


class Commands(QObject):
    """The actions of the menus by name."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        named = [command for commands in MENUS.values() for command in commands if command.name]
        self._actions = {command.name: self._action(command) for command in named}

    def __getitem__(self, name: str) -> QAction:
        return self._actions[name]

    def all(self) -> dict[str, QAction]:
        """Returns every action by name."""
        return dict(self._actions)

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
                    menu.addAction(self._actions[command.name])
                else:
                    menu.addSeparator()
            bar.addMenu(menu)

    def _action(self, command: Command) -> QAction:
        action = QAction(command.text, self)
        action.setShortcuts(key_sequences(command))
        if command.shown:
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.setCheckable(command.checkable)
        action.setMenuRole(command.role)
        return action


class ChatCommands(QObject):
    """Carries out the commands that concern conversations. window: the parent of dialogs."""

    def __init__(
        self, commands: Commands, controller: Controller, parts: Parts, presenter: ChatPresenter, window: QWidget
    ) -> None:
        super().__init__(window)
        self._commands, self._controller, self._parts = commands, controller, parts
        self._presenter, self._window = presenter, window
        self._connect()

    def _connect(self) -> None:
        controller, parts = self._controller, self._parts
        self._commands.connect_all(
            {
                "new": controller.new,
                "attach": self.attach,
                "import": self.import_file,
                "export markdown": lambda: self.export(controller.conversation.id, "markdown"),
                "export json": lambda: self.export(controller.conversation.id, "json"),
                "copy conversation": lambda: self.copy(controller.conversation.id),
                "undo": self.undo,
                "edit last": self._presenter.edit_last,
                "stop": controller.stop,
                "regenerate": lambda: self._with_last_reply(controller.regenerate),
                "resume": lambda: self._with_last_reply(controller.resume),
                "verify": self.verify,
                "unload": controller.unload,
                "message": lambda: parts.composer.editor.setFocus(Qt.FocusReason.ShortcutFocusReason),
                "previous": lambda: self.open_neighbour(-1),
                "next": lambda: self.open_neighbour(1),
                "rename": lambda: parts.sidebar.rename(controller.conversation.id),
                "delete": lambda: controller.delete(controller.conversation.id),
                "report": controller.host.copy_error_report,
            }
        )
        for name, (method, key) in EDIT_METHODS.items():
            self._commands[name].triggered.connect(lambda _=False, m=method, k=key: edit_focused(m, k))
        self._commands["pin"].triggered.connect(lambda on: controller.library.pin(controller.conversation.id, on))
        parts.composer.attach_asked.connect(self.attach)
        parts.sidebar.exported.connect(self.export)
        parts.sidebar.copied.connect(self.copy)
        parts.sidebar.imported.connect(self.import_file)

    def attach(self) -> None:
        """Asks for text files to attach."""
        if paths := files.ask_attachments(self._window):
            self._parts.composer.attach_files(paths)

    def import_file(self) -> None:
        """Asks for an exported conversation to import."""
        if path := files.ask_conversation(self._window):
            self._controller.import_file(str(path))

    def export(self, conversation: int, kind: str) -> None:
        """Asks where to save a conversation, and saves it. kind: one of files.FORMATS."""
        library = self._controller.library
        found = library.find(conversation)
        path = files.ask_export_path(self._window, found.title if found and found.title else UNTITLED, kind)
        text_of = library.export_json if kind == "json" else library.export_markdown
        if path is None or not (text := text_of(conversation)):
            return
        try:
            write_text(path, text)
        except FileError as error:
            self._parts.notices.show_notice("error", str(error))
        else:
            self._parts.notices.show_notice("info", f"Exported to “{path.name}”.")

    def copy(self, conversation: int) -> None:
        """Copies a conversation to the clipboard as Markdown."""
        if text := self._controller.library.export_markdown(conversation):
            QGuiApplication.clipboard().setText(text)
            self._parts.notices.show_notice("info", "Conversation copied as Markdown.")

    def verify(self) -> None:
        """Stops the verification in progress, or verifies the last reply."""
        if (message := self._controller.verifying_message) is not None:
            self._controller.verify(message)
        else:
            self._with_last_reply(self._controller.verify)

    def open_neighbour(self, step: int) -> None:
        """Opens the conversation above or below in the sidebar."""
        current = self._controller.conversation.id
        neighbour = self._parts.sidebar.conversations.neighbour(current or None, step)
        if neighbour is not None and neighbour != current:
            self._controller.open(neighbour)

    def undo(self) -> None:
        """Undoes typing; without a focused text field, the last deletion of a conversation."""
        undo = getattr(QApplication.focusWidget(), "undo", self._controller.undo_delete)
        undo()

    def update(self) -> None:
        """Enables the commands that can be used now."""
        controller, commands = self._controller, self._commands
        saved, busy, last = bool(controller.conversation.id), controller.busy, self._presenter.last_reply
        verifying = controller.verifying_message is not None
        idle_reply = last is not None and not busy
        for name in ("export markdown", "export json", "copy conversation", "rename", "pin", "delete"):
            commands[name].setEnabled(saved)
        for name in ("regenerate", "edit last"):
            commands[name].setEnabled(idle_reply)
        commands["pin"].setChecked(controller.conversation.pinned)
        commands["stop"].setEnabled(busy)
        commands["resume"].setEnabled(bool(idle_reply and last and last.state in ("stopped", "cut", "failed")))
        commands["verify"].setText(STOP_VERIFYING if verifying else VERIFY)
        commands["verify"].setEnabled(verifying or bool(idle_reply and last and last.checkable))
        commands["unload"].setEnabled(controller.loaded_pair is not None and not controller.in_use)

    def _with_last_reply(self, action: Callable[[int], object]) -> None:
        last = self._presenter.last_reply
        if last is not None:
            action(last.id)


def edit_focused(method: str, key: Qt.Key) -> None:
    """Calls an editing method of the focused widget; one without it gets the key instead."""
    focused = QApplication.focusWidget()
    if focused is None:
        return
    if hasattr(focused, method):
        getattr(focused, method)()
        return
    pressed = QKeyEvent(QEvent.Type.KeyPress, key, Qt.KeyboardModifier.ControlModifier)
    QCoreApplication.sendEvent(focused, pressed)
