"""The windows beside the main one (settings, race, models, serving): each is made when it is first shown, and closed
alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QWidget

from app.api.key_file import KEY_FILE
from app.protocol import Pair
from app.race.race_document import DEMONSTRATION
from app.store.records import ChatSettings, MessageRecord
from app.window.api.api_server import ApiServer, ApiState
from app.window.chat import Controller
from app.window.chat.notices import Notice
from app.window.common.preferences import Preferences
from app.window.common.theme import Theme
from app.window.main_window import files
from app.window.main_window.chat_presenter import Parts
from app.window.main_window.menus import Commands, shortcut_list
from app.window.main_window.welcome import PROMPTS
from app.window.settings.settings_window import SettingsWindow

if TYPE_CHECKING:
    from app.window.api.api_window import ApiWindow
    from app.window.models.downloads import DownloadQueue
    from app.window.models.model_library import ModelLibrary
    from app.window.models.models_window import ModelsWindow
    from app.window.race.race_window import RaceWindow

STOPPED_FOR_REPLY = "The race was stopped because a reply was requested."


@dataclass(frozen=True)
class MainContext:
    """What the other windows are given of the main one. window: their parent. preferences: returns those in use.
    change: changes the preferences that it names."""

    window: QWidget
    controller: Controller
    parts: Parts
    commands: Commands
    theme: Theme
    preferences: Callable[[], Preferences]
    change: Callable[..., None]


class SecondaryWindow(QObject):
    """Opens one window beside the main one. window: None until it is made."""

    window: QWidget | None = None

    def __init__(self, main: MainContext) -> None:
        super().__init__(main.window)
        self._main, self._controller = main, main.controller

    @property
    def _chat_settings(self) -> ChatSettings:
        return self._controller.conversation.settings


class SettingsOpener(SecondaryWindow):
    """Opens the Settings window. store_file: the file that holds the conversations, to be shown to the user."""

    preferred = Signal(object)  # Preferences, as the user chose them
    import_asked = Signal()
    models_asked = Signal()

    def __init__(self, main: MainContext, store_file: Path | None) -> None:
        super().__init__(main)
        self.window: SettingsWindow | None = None
        self._store_file = store_file
        self._models: tuple[list[str], list[str]] = ([], [])  # targets and drafters to be offered

    def show(self, page: str) -> SettingsWindow:
        """Shows the Settings window at one of its pages."""
        main = self._main
        if self.window is None:
            self.window = SettingsWindow(self._store_file, shortcut_list(), main.window)
            self.window.addActions([main.commands["close"], main.commands["minimise"]])
            self.window.preferred.connect(self.preferred)
            self.window.defaulted.connect(self._change_defaults)
            self.window.data.export_asked.connect(self._export_all)
            self.window.data.import_asked.connect(self.import_asked)
            self.window.defaults.pair.models_asked.connect(self.models_asked)
            self.offer_models(*self._models)
        self.show_values()
        self.window.show_page(page)
        come_forward(self.window)
        return self.window

    def show_values(self) -> None:
        """Shows the values in use."""
        if self.window is not None:
            if (loaded := self._controller.host.loaded) is not None:
                self.window.defaults.set_model(loaded)
            self.window.show_values(self._main.preferences(), self._controller.library.default_settings())

    def offer_models(self, targets: list[str], drafters: list[str]) -> None:
        """Offers these downloaded models in the form."""
        self._models = targets, drafters
        if self.window is not None:
            self.window.defaults.pair.offer_models(targets, drafters)

    def _change_defaults(self, settings: ChatSettings) -> None:
        """Saves the settings of new conversations; an open one without messages is new."""
        if not self._controller.conversation.id:
            self._controller.change_settings(settings)
        self._controller.library.set_default_settings(settings)

    def _export_all(self) -> None:
        folder = files.ask_folder(self._main.window)
        if folder is not None and self.window is not None:
            files.ConversationExport(folder, self._controller.library, self.window.data.show_result, self)


class RaceOpener(SecondaryWindow):
    """Opens the Race window, and stops its race when a reply begins."""

    def __init__(self, main: MainContext) -> None:
        super().__init__(main)
        self.window: RaceWindow | None = None
        self._suggested: ChatSettings | None = None  # what the form was filled with
        self._controller.reply_began.connect(self._stop_for_reply)

    def show(self, prompt: str = "") -> RaceWindow:
        """Shows the race window; its form, where it is empty, gets this prompt, or else the last question."""
        if self.window is None:
            from app.window.race.race_request import RaceRequest
            from app.window.race.race_window import RaceWindow

            request = RaceRequest(self._controller.host, parent=self)
            self.window = RaceWindow(request, lambda: self._chat_settings.pair, self._reason_to_wait, self._main.window)
            self.window.addAction(self._main.commands["minimise"])
        if self._chat_settings != self._suggested and not self.window.request.busy:
            self._suggested = self._chat_settings
            self.window.form.suggest(self._chat_settings)
        self.window.still = self._main.theme.reduced_motion
        self.window.suggest(prompt)
        come_forward(self.window)
        return self.window

    def show_last_question(self) -> RaceWindow:
        """Shows the race window with the last question of the open conversation."""
        question = self._controller.last("user")
        return self.show(question.content if question is not None else "")

    def race_last_question(self) -> None:
        """Races the pair of the open conversation over its last question, or where there is none over a suggested one.
        A race that is being measured goes on."""
        question, window = self._controller.last("user"), self.show()
        if not window.request.busy:
            window.form.prompt.setPlainText(question.content if question is not None else PROMPTS[0].text)
            window.form.race()

    def show_demonstration(self) -> None:
        """Replays a race that was measured with the built-in pair, unless one is being measured."""
        window = self.show()
        if not window.request.busy:
            window.replay(DEMONSTRATION)

    def show_message(self, message: int) -> None:
        """Shows the race window with a question of the current branch, attachments included."""
        record = self._controller.find(message)
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
        """Stops the race, as a reply would have to wait for it."""
        if self.window is not None and self.window.request.busy:
            self.window.request.stop(STOPPED_FOR_REPLY)


class ModelsOpener(SecondaryWindow):
    """Opens the Models window. Downloads go on without it.

    command: of the child processes; the terminal command itself if empty.
    """

    found = Signal()  # something about the models on this computer
    named = Signal(object, object)  # the downloaded targets and drafters, to be offered in forms

    def __init__(self, main: MainContext) -> None:
        super().__init__(main)
        self.window: ModelsWindow | None = None
        self.command: list[str] = []
        self._offers = False  # a pair, on the welcome page
        self._unannounced = {"use", "race"}  # steps of the offer of which a notice has yet to tell, in the chat
        self.library: ModelLibrary | None = None
        self.downloads: DownloadQueue | None = None
        for signal in (self._controller.settings_changed, self._controller.conversation_opened):
            signal.connect(lambda _: self.window is not None and self.window.refresh())
            signal.connect(self.show_offer)
        application = QApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.quit)

    def show(self) -> ModelsWindow:
        """Shows the Models window and looks for models again."""
        library, downloads = self._library_and_downloads()
        if self.window is None:
            from app.window.models.models_window import ModelsWindow

            self.window = ModelsWindow(library, downloads, lambda: self._chat_settings.pair, self._main.window)
            self.window.addAction(self._main.commands["minimise"])
            self.window.use_asked.connect(self.use)
        library.refresh()
        come_forward(self.window)
        self.window.list.setFocus()
        return self.window

    def find_names(self) -> None:
        """Looks for downloaded models, for the forms, unless they are known."""
        library, _ = self._library_and_downloads()
        if not library.known.installed and not library.loading:
            library.list_installed()

    def look(self) -> ModelLibrary:
        """Looks for models again, for a list that is shown meanwhile, and returns where they will be known."""
        library, _ = self._library_and_downloads()
        library.refresh()
        return library

    def offer_pair(self, *_: object) -> None:
        """Looks, at the first start, for the best pair for this computer, which the welcome page then offers."""
        if self._main.parts.welcome.first and not self._offers:
            self._offers = True
            self.look()
            self.show_offer()

    def show_offer(self, *_: object) -> None:
        """Shows how far the offer of the welcome page has come: at the first start, and later if it was accepted."""
        welcome = self._main.parts.welcome
        if not self._offers or self.library is None or self.downloads is None:
            return
        offer = welcome.offer
        if not (welcome.first or offer.accepted):
            offer.hide()
        else:
            offer.show_state(self.library.known, self.downloads.downloads, self._chat_settings.pair)
            if offer.accepted and not offer.isVisible() and offer.step in self._unannounced:
                self._unannounced.remove(offer.step)
                action = (offer.button.text(), offer.act)
                text = f"{offer.title.text()}. {offer.text.text()}"
                self._controller.notice.emit(Notice("info", text, (action,)))

    def get_pair(self, target: str, drafter: str) -> None:
        """Downloads both models, unless they are here; it goes on in the background."""
        library, downloads = self._library_and_downloads()
        for name in (target, drafter):
            if not library.known.is_here(name):
                downloads.get(name)

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
            self.library.listed.connect(self._name_models)
            self.library.changed.connect(self.found)
            for changed in (self.library.changed, self.downloads.changed):
                changed.connect(self.show_offer)
        return self.library, self.downloads

    def _name_models(self) -> None:
        complete = [one for one in self.library.known.installed if one.complete] if self.library else []
        targets = [one.name for one in complete if one.kind == "model"]
        drafters = [one.name for one in complete if one.kind not in ("gguf", "unknown")]
        self.named.emit(targets, drafters)

    def use(self, pair: Pair) -> None:
        """Chooses a pair for the open conversation and for new ones."""
        self._controller.change_settings(replace(self._chat_settings, pair=pair))


class ApiOpener(SecondaryWindow):
    """Opens the window of the API, which other programs use while the preferences say so. store_file: beside which the
    key is kept; without one, programs cannot be served."""

    def __init__(self, main: MainContext, store_file: Path | None) -> None:
        super().__init__(main)
        self.window: ApiWindow | None = None
        self.server: ApiServer | None = None
        self._chosen = (False, 0)
        if store_file is not None:
            self.server = ApiServer(self._controller, store_file.parent / KEY_FILE)
            self.server.changed.connect(self.show_values)

    def show(self) -> ApiWindow:
        """Shows the window."""
        if self.window is None:
            from app.window.api.api_window import ApiWindow

            self.window = window = ApiWindow(self._main.window)
            window.addActions([self._main.commands["close"], self._main.commands["minimise"]])
            window.switched.connect(lambda on: self._main.change(serve=on))
            window.port_chosen.connect(lambda port: self._main.change(serve_port=port))
        self.show_values()
        come_forward(self.window)
        self.window.switch.setFocus()
        return self.window

    def follow(self, preferences: Preferences) -> None:
        """Serves programs, or no longer, as the user chose."""
        chosen = (preferences.serve, preferences.serve_port)
        if chosen != self._chosen and self.server is not None:
            self._chosen = chosen
            on, port = chosen
            self.server.serve(port if on else None)
        self.show_values()

    def show_values(self) -> None:
        """Shows what was chosen and what runs now."""
        if self.window is None:
            return
        chosen, state = self._main.preferences(), self.server.state() if self.server is not None else ApiState()
        self.window.show_state(chosen.serve, chosen.serve_port, state)


def come_forward(window: QWidget) -> None:
    """Brings a window to the front, as far as the system allows it."""
    if window.isMinimized():
        window.showNormal()
    window.show()
    window.raise_()
    window.activateWindow()
    if (handle := window.windowHandle()) is not None:
        # Else Qt quits with the main window, whatever else is open. The stubs know no None here.
        handle.setTransientParent(None)  # type: ignore[arg-type]
