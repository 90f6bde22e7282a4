"""What the menus do beyond showing and hiding: files in and out, the text size, the reply at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QApplication

from app.window.shell import files
from app.window.shell.commands import STOP_VERIFYING, VERIFY, Commands
from app.window.shell.conversations import UNTITLED
from app.window.shell.conversing import Conversing, Parts

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from app.window.controller import Controller

# Of the Edit menu: the method of a text field, and the key that others know.
EDITING = {
    "redo": ("redo", Qt.Key.Key_Y),
    "cut": ("cut", Qt.Key.Key_X),
    "copy": ("copy", Qt.Key.Key_C),
    "paste": ("paste", Qt.Key.Key_V),
    "select all": ("selectAll", Qt.Key.Key_A),
}


class Deeds(QObject):
    """window: for the dialogs."""

    def __init__(self, controller: Controller, parts: Parts, conversing: Conversing, window: QWidget) -> None:
        super().__init__(window)
        self._controller, self._parts, self._conversing, self._window = controller, parts, conversing, window

    def connect_to(self, commands: Commands) -> None:
        """Have the actions do it."""
        controller, parts = self._controller, self._parts
        for name, do in {
            "new": controller.new,
            "attach": self.attach,
            "import": self.import_one,
            "export markdown": lambda: self.export(controller.conversation.id, "markdown"),
            "export json": lambda: self.export(controller.conversation.id, "json"),
            "copy conversation": lambda: self.copy(controller.conversation.id),
            "undo": self.undo,
            "edit last": self._conversing.edit_last,
            "stop": controller.stop,
            "regenerate": lambda: self._with_last(controller.regenerate),
            "resume": lambda: self._with_last(controller.resume),
            "verify": self.verify,
            "unload": controller.unload,
            "message": lambda: parts.composer.editor.setFocus(Qt.FocusReason.ShortcutFocusReason),
            "previous": lambda: self.step(-1),
            "next": lambda: self.step(1),
            "rename": lambda: parts.sidebar.rename(controller.conversation.id),
            "delete": lambda: controller.delete(controller.conversation.id),
            "report": controller.copy_report,
        }.items():
            commands[name].triggered.connect(lambda _=False, do=do: do())
        commands["pin"].triggered.connect(lambda pinned: controller.pin(controller.conversation.id, pinned))
        for name, (method, key) in EDITING.items():
            commands[name].triggered.connect(lambda _=False, method=method, key=key: edit_focused(method, key))
        parts.composer.attach_asked.connect(self.attach)
        parts.sidebar.exported.connect(self.export)
        parts.sidebar.copied.connect(self.copy)
        parts.sidebar.imported.connect(self.import_one)

    def attach(self) -> None:
        """Ask for text files."""
        if paths := files.ask_attachments(self._window):
            self._parts.composer.attach_files(paths)

    def import_one(self) -> None:
        """Ask for a conversation that was exported."""
        if path := files.ask_conversation(self._window):
            self._controller.import_file(str(path))

    def export(self, conversation: int, kind: str) -> None:
        """Ask where to, and write. kind: of files.KINDS."""
        path = files.ask_where(self._window, self._title(conversation), kind)
        controller = self._controller
        text_of = controller.export_json if kind == "json" else controller.export_markdown
        if path is not None and (text := text_of(conversation)):
            self._write(path, text)

    def copy(self, conversation: int) -> None:
        """The conversation as Markdown, to the clipboard."""
        if text := self._controller.export_markdown(conversation):
            QGuiApplication.clipboard().setText(text)
            self._parts.notices.show_notice("info", "The conversation is copied as Markdown.")

    def verify(self) -> None:
        """The reply whose check goes on, to stop it; else the last one."""
        if (message := self._controller.checked_now) is not None:
            self._controller.verify(message)
        else:
            self._with_last(self._controller.verify)

    def step(self, by: int) -> None:
        """Open the conversation above or below."""
        sidebar, opened = self._parts.sidebar, self._controller.conversation.id
        beside = sidebar.conversations.beside(opened or None, by)
        if beside is not None and beside != opened:
            self._controller.open(beside)

    def undo(self) -> None:
        """What was typed last; with no text at hand, the last deletion."""
        undo = getattr(QApplication.focusWidget(), "undo", self._controller.undo_delete)
        undo()

    def refresh(self, commands: Commands) -> None:
        """Offer what can be done now."""
        controller = self._controller
        kept, busy, last = bool(controller.conversation.id), controller.busy, self._conversing.last_reply
        for name in ("export markdown", "export json", "copy conversation", "rename", "pin", "delete"):
            commands[name].setEnabled(kept)
        commands["pin"].setChecked(controller.conversation.pinned)
        commands["stop"].setEnabled(busy)
        commands["regenerate"].setEnabled(last is not None and not busy)
        commands["resume"].setEnabled(last is not None and not busy and last.state in ("stopped", "cut", "failed"))
        checks = controller.checked_now is not None
        commands["verify"].setText(STOP_VERIFYING if checks else VERIFY)
        commands["verify"].setEnabled(checks or (last is not None and not busy and last.checkable))
        commands["unload"].setEnabled(controller.loaded_pair is not None and not controller.in_use)
        commands["edit last"].setEnabled(last is not None and not busy)

    def _with_last(self, do: object) -> None:
        last = self._conversing.last_reply
        if last is not None and callable(do):
            do(last.id)

    def _title(self, conversation: int) -> str:
        records = self._controller.conversations()
        return next((record.title for record in records if record.id == conversation), "") or UNTITLED

    def _write(self, path: Path, text: str) -> None:
        try:
            files.write_text(path, text)
        except files.FileError as error:
            self._parts.notices.show_notice("error", str(error))
        else:
            self._parts.notices.show_notice("info", f"“{path.name}” is written.")


def edit_focused(method: str, key: Qt.Key) -> None:
    """Have the part with the keyboard do what its menu would; one without such a method gets the keys instead."""
    focused = QApplication.focusWidget()
    if focused is None:
        return
    if hasattr(focused, method):
        getattr(focused, method)()
        return
    pressed = QKeyEvent(QEvent.Type.KeyPress, key, Qt.KeyboardModifier.ControlModifier)
    QCoreApplication.sendEvent(focused, pressed)
