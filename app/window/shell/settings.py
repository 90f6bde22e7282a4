"""Between what was chosen and the Settings window, which is made when it is first asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from app.records import ChatSettings
from app.window.shell import files
from app.window.shell.beside import Beside
from app.window.shell.preferences import LARGEST, SMALLEST
from app.window.shell.settings_window import SettingsWindow

if TYPE_CHECKING:
    from app.window.controller import Controller
    from app.window.shell.window import MainWindow

UNSAVED = 0  # id of a conversation in which nothing was said
DEFAULTS = "chat.settings"  # of new chats, where the controller looks for them


class Settings(Beside):
    """Of the whole app."""

    def __init__(self, controller: Controller, window: MainWindow, place: Path | None) -> None:
        super().__init__(window)
        self._controller, self._main, self._place = controller, window, place
        self.window: SettingsWindow | None = None
        commands = window.commands
        for name, page in {"settings": "appearance", "shortcuts": "keyboard", "about": "info"}.items():
            commands[name].triggered.connect(lambda _=False, page=page: self.show(page))
        for name in ("tints", "ghosts"):
            commands[name].triggered.connect(lambda on, name=name: window.change_preferences(**{name: on}))
        for name, by in {"zoom in": 1, "zoom out": -1, "zoom reset": None}.items():
            commands[name].triggered.connect(lambda _=False, by=by: self._zoom(by))

    def show(self, page: str) -> SettingsWindow:
        """Show the Settings window at one of its pages."""
        if self.window is None:
            self.window = SettingsWindow(self._place, self._main)
            self.window.preferred.connect(self._main.set_preferences)
            self.window.defaulted.connect(self._keep_defaults)
            self.window.data.export_asked.connect(self._export_all)
            self.window.data.import_asked.connect(self._main.deeds.import_one)
            self.window.defaults.pair.models_asked.connect(self._main.models.show)
            self.window.set_look(self._look)
        self.window.defaults.pair.show_present(*self._main.models.names)
        self.show_values()
        self.window.show_page(page)
        return self.window

    def show_values(self) -> None:
        """What holds now."""
        if self.window is not None:
            self.window.show_values(self._main.preferences, self.defaults())

    def defaults(self) -> ChatSettings:
        """What a new chat begins with."""
        text = self._controller.value(DEFAULTS)
        try:
            return msgspec.json.decode(text, type=ChatSettings) if text else ChatSettings()
        except msgspec.MsgspecError:
            return ChatSettings()

    def _keep_defaults(self, settings: ChatSettings) -> None:
        """For new chats; the one that is open is one of them until something is said in it."""
        if self._controller.conversation.id == UNSAVED:
            self._controller.change_settings(settings)
        self._controller.set_value(DEFAULTS, msgspec.json.encode(settings).decode())

    def _zoom(self, by: int | None) -> None:
        zoom = 0 if by is None else max(SMALLEST, min(LARGEST, self._main.preferences.zoom + by))
        self._main.change_preferences(zoom=zoom)

    def _export_all(self) -> None:
        folder = files.ask_folder(self._main)
        if folder is not None and self.window is not None:
            records = self._controller.conversations()
            files.ExportAll(folder, records, self._controller.export_json, self.window.data.say, self)
