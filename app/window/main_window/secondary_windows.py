"""The windows beside the main one (settings, race, models): each is made when it is first shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QWidget

from app.protocol import Pair
from app.store.records import ChatSettings, MessageRecord
from app.window.common.preferences import Preferences
from app.window.main_window import files
from app.window.main_window.menus import shortcut_list
from app.window.settings.settings_window import SettingsWindow

if TYPE_CHECKING:
    from app.window.chat import Controller
    from app.window.models.downloads import DownloadQueue
    from app.window.models.model_library import ModelLibrary
    from app.window.models.models_window import ModelsWindow
    from app.window.race.race_window import RaceWindow

STOPPED_FOR_REPLY = "The race was stopped because a reply was requested."


class SecondaryWindow(QObject):
    """window: None until it is made. The parent is the main window."""

    window: QWidget | None = None

    def __init__(self, controller: Controller, parent: QWidget) -> None:
        super().__init__(parent)
        self._controller, self._main = controller, parent
        self.window = None

    def close(self) -> None:
        """Closes the window with the main one. Work in the background, such as a download, continues."""
        if self.window is not None:
            self.window.close()

    @property
    def _chat_settings(self) -> ChatSettings:
        return self._controller.conversation.settings


class SettingsOpener(SecondaryWindow):
    """preferences_changed(Preferences), import_requested(), models_requested(): by the user.

    preferences: returns those in use. place: the file that holds the conversations.
    """

    preferences_changed = Signal(object)
    import_requested = Signal()
    models_requested = Signal()

    def __init__(
        self, controller: Controller, preferences: Callable[[], Preferences], place: Path | None, parent: QWidget
    ) -> None:
        super().__init__(controller, parent)
        self.window: SettingsWindow | None = None
        self._preferences, self._place = preferences, place
        self._names: tuple[list[str], list[str]] = ([], [])

    def show(self, page: str) -> SettingsWindow:
        """Shows the Settings window at one of its pages."""
        if self.window is None:
            self.window = SettingsWindow(self._place, shortcut_list(), self._main)
            self.window.preferred.connect(self.preferences_changed)
            self.window.defaulted.connect(self._change_defaults)
            self.window.data.export_asked.connect(self._export_all)
            self.window.data.import_asked.connect(self.import_requested)
            self.window.defaults.pair.models_asked.connect(self.models_requested)
        self.set_model_names(*self._names)
        self.show_values()
        self.window.show_page(page)
        return self.window

    def show_values(self) -> None:
        """Shows the values in use."""
        if self.window is not None:
            self.window.show_values(self._preferences(), self._controller.library.default_settings())

    def set_model_names(self, targets: list[str], drafters: list[str]) -> None:
        """Offers these downloaded models in the form."""
        self._names = (targets, drafters)
        if self.window is not None:
            self.window.defaults.pair.offer_models(targets, drafters)

    def _change_defaults(self, settings: ChatSettings) -> None:
        """Saves the settings of new conversations; an open one without messages is new."""
        if not self._controller.conversation.id:
            self._controller.change_settings(settings)
        self._controller.library.set_default_settings(settings)

    def _export_all(self) -> None:
        folder = files.ask_folder(self._main)
        if folder is not None and self.window is not None:
            library = self._controller.library
            files.ConversationExport(
                folder, library.conversations(), library.export_json, self.window.data.show_result, self
            )


class RaceOpener(SecondaryWindow):
    """reduced_motion: returns whether animation is unwanted."""

    def __init__(self, controller: Controller, reduced_motion: Callable[[], bool], parent: QWidget) -> None:
        super().__init__(controller, parent)
        self.window: RaceWindow | None = None
        self._reduced_motion = reduced_motion
        self._suggested: ChatSettings | None = None  # what the form was filled with
        controller.reply_began.connect(self._stop_for_reply)

    def show(self, prompt: str = "") -> RaceWindow:
        """Shows the race window; its form, where it is empty, gets this prompt, or else the last question."""
        if self.window is None:
            from app.window.race.race_request import RaceRequest
            from app.window.race.race_window import RaceWindow

            request = RaceRequest(self._controller.host, parent=self)
            self.window = RaceWindow(request, lambda: self._chat_settings.pair, self._reason_to_wait, parent=self._main)
        if self._chat_settings != self._suggested and not self.window.request.busy:
            self._suggested = self._chat_settings
            self.window.form.suggest(self._chat_settings)
        self.window.still = self._reduced_motion()
        self.window.suggest(prompt)
        _bring_forward(self.window)
        return self.window

    def show_last_question(self) -> RaceWindow:
        """Shows the race window with the last question of the open conversation."""
        return self.show(next((r.content for r in reversed(self._controller.path) if r.role == "user"), ""))

    def show_message(self, message: int) -> None:
        """Shows the race window with a question of the current branch, attachments included."""
        record = next((record for record in self._controller.path if record.id == message), None)
        if record is not None:
            window = self.show()
            if not window.request.busy:
                window.form.prompt.setPlainText(record.content)

    def _reason_to_wait(self) -> str:
        """Returns why a race cannot start, or "": the host does one thing at a time."""
        if not self._controller.in_use:
            return ""
        return "A reply is being written or verified. Wait for it to finish, or stop it, before you race."

    def _stop_for_reply(self, _: MessageRecord) -> None:
        """Whoever writes should not have to wait for a measurement."""
        if self.window is not None and self.window.request.busy:
            self.window.request.stop(STOPPED_FOR_REPLY)


class ModelsOpener(SecondaryWindow):
    """names_changed(list[str], list[str]): the downloaded targets and drafters. Downloads need no window.

    command: of the child processes; the terminal command itself if empty.
    """

    names_changed = Signal(list, list)

    def __init__(self, controller: Controller, parent: QWidget) -> None:
        super().__init__(controller, parent)
        self.window: ModelsWindow | None = None
        self.command: list[str] = []
        self.library: ModelLibrary | None = None
        self.downloads: DownloadQueue | None = None
        for signal in (controller.settings_changed, controller.conversation_opened):
            signal.connect(lambda _: self.window is not None and self.window.refresh())
        application = QApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.quit)

    def show(self) -> ModelsWindow:
        """Shows the Models window and looks for models again."""
        library, downloads = self._library_and_downloads()
        if self.window is None:
            from app.window.models.models_window import ModelsWindow

            self.window = ModelsWindow(library, downloads, lambda: self._chat_settings.pair, self._main)
            self.window.use_asked.connect(self._use)
        library.refresh()
        _bring_forward(self.window)
        self.window.list.setFocus()
        return self.window

    def find_names(self) -> None:
        """Looks for downloaded models, for the forms, unless they are known."""
        library, _ = self._library_and_downloads()
        if not library.known.installed and not library.loading:
            library.list_installed()

    def quit(self) -> None:
        """Pauses downloads, which can be continued another time."""
        if self.downloads is not None:
            self.downloads.close()
        if self.library is not None:
            self.library.commands.close()

    def _library_and_downloads(self) -> tuple[ModelLibrary, DownloadQueue]:
        if self.library is None or self.downloads is None:
            from app.window.models.downloads import DownloadQueue
            from app.window.models.model_library import ModelLibrary

            self.library = ModelLibrary(self.command, self)
            self.downloads = DownloadQueue(self.command, self)
            self.downloads.ended.connect(lambda _, library=self.library: library.refresh())
            self.library.listed.connect(self._list_names)
        return self.library, self.downloads

    def _list_names(self) -> None:
        complete = [one for one in self.library.known.installed if one.complete] if self.library else []
        targets = [one.name for one in complete if one.kind == "model"]
        self.names_changed.emit(targets, [one.name for one in complete if one.kind in ("model", "eagle3", "medusa")])

    def _use(self, pair: Pair) -> None:
        """Chooses a pair for the open conversation and for new ones."""
        self._controller.change_settings(replace(self._chat_settings, pair=pair))


def _bring_forward(window: QWidget) -> None:
    window.show()
    window.raise_()
    window.activateWindow()
