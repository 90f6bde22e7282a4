"""The main window, where all parts meet: it makes them, connects them, and remembers how it was left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QByteArray, QEvent, QSize, Qt, QTimer
from PySide6.QtGui import QCloseEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QStackedWidget, QVBoxLayout, QWidget

from app.store.records import ChatSettings
from app.window.common.preferences import (
    LARGEST,
    PLACES,
    PREFERENCES,
    SMALLEST,
    Places,
    Preferences,
    Side,
    read,
    written,
)
from app.window.common.theme import Theme
from app.window.common.widgets import announce, style
from app.window.composer.composer import Composer
from app.window.composer.context_meter import ContextMeter
from app.window.inspector import Inspector, Legend
from app.window.main_window.chat_presenter import ChatPresenter, Parts
from app.window.main_window.files import DropTarget
from app.window.main_window.header import Header
from app.window.main_window.menus import ChatCommands, Commands
from app.window.main_window.notice_banners import NoticeBanners
from app.window.main_window.panes import Panes, focus_next
from app.window.main_window.secondary_windows import ModelsOpener, RaceOpener, SettingsOpener
from app.window.main_window.welcome import Welcome
from app.window.markdown import ask_to_open
from app.window.settings.chat_panel import ChatPanel
from app.window.sidebar.sidebar import Sidebar
from app.window.transcript import Transcript

if TYPE_CHECKING:
    from app.window.chat import Controller

FIRST_SIZE, MIN_SIZE = QSize(1180, 780), QSize(640, 480)
SAVE_PLACES_MS = 500  # after the last change


class MainWindow(QMainWindow):
    """store_file: the file that holds the conversations, to be shown to the user."""

    def __init__(self, controller: Controller, store_file: Path | None = None) -> None:
        super().__init__()
        self.controller = controller
        self.preferences = read(controller.library.value(PREFERENCES), Preferences)
        self.theme = Theme(self)
        self.theme.apply(self.preferences)
        self.commands = Commands(self)
        self.meter, self.legend = ContextMeter(), Legend(refused=False)
        self.parts = self._make_parts()
        self.panes = self._lay_out()
        self.drop_target = DropTarget(self)
        self.presenter = ChatPresenter(controller, self.parts, self)
        self.chat_commands = ChatCommands(self.commands, controller, self.parts, self.presenter, self)
        self.settings = SettingsOpener(controller, lambda: self.preferences, store_file, self)
        self.races = RaceOpener(controller, lambda: self.theme.reduced_motion, self)
        self.models = ModelsOpener(controller, self)
        self._save_timer = QTimer(self, singleShot=True, interval=SAVE_PLACES_MS)
        self._connect_commands()
        self._connect_parts()
        self._connect_controller()
        self._restore_places()
        self.set_preferences(self.preferences)
        self.parts.composer.editor.setFocus()

    # --- parts ---------------------------------------------------------------------------------

    def _make_parts(self) -> Parts:
        return Parts(
            sidebar=Sidebar(self.controller.library.search),
            header=Header(),
            notices=NoticeBanners(),
            middle=QStackedWidget(),
            welcome=Welcome(),
            transcript=Transcript(say=self._announce),
            composer=Composer(self.meter, self.legend),
            inspector=Inspector(),
            panel=ChatPanel(),
        )

    def _lay_out(self) -> Panes:
        parts, centre = self.parts, QWidget()
        parts.middle.addWidget(parts.welcome)
        parts.middle.addWidget(parts.transcript)
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(parts.header)
        column.addWidget(parts.notices)
        column.addWidget(parts.middle, 1)
        column.addWidget(parts.composer)
        style(centre, ground="page")
        panes = Panes(parts.sidebar, centre, {"inspector": parts.inspector, "chat settings": parts.panel})
        self.setCentralWidget(panes)
        self.setMinimumSize(MIN_SIZE)
        self.commands.fill(self.menuBar())
        return panes

    def _connect_commands(self) -> None:
        parts, commands, controller = self.parts, self.commands, self.controller
        commands.connect_all(
            {
                "search": self._search,
                "close": self.close,
                "quit": QApplication.quit,
                "minimise": self.showMinimized,
                "zoom window": lambda: self.showNormal() if self.isMaximized() else self.showMaximized(),
                "settings": lambda: self.settings.show("appearance"),
                "shortcuts": lambda: self.settings.show("keyboard"),
                "about": lambda: self.settings.show("info"),
                "race": self.races.show_last_question,
                "models": self.models.show,
                "zoom in": lambda: self._zoom(self.preferences.zoom + 1),
                "zoom out": lambda: self._zoom(self.preferences.zoom - 1),
                "zoom reset": lambda: self._zoom(0),
            }
        )
        commands["sidebar"].triggered.connect(self.panes.request_sidebar)
        for side in ("inspector", "chat settings"):
            commands[side].triggered.connect(lambda on, side=side: self.show_side(side if on else ""))
        for name in ("tints", "ghosts"):
            commands[name].triggered.connect(lambda on, name=name: self.change_preferences(**{name: on}))
        commands["raw"].triggered.connect(parts.transcript.set_raw)
        commands["full screen"].triggered.connect(lambda on: self.showFullScreen() if on else self.showNormal())
        header = parts.header
        for button, name in (
            *((header.sidebar, "sidebar"), (header.new, "new"), (header.tints, "tints"), (header.raw, "raw")),
            *((header.inspector, "inspector"), (header.tune, "chat settings")),
        ):
            button.follow(commands[name])
        for signal in (
            *(controller.conversation_opened, controller.conversations_changed, controller.path_changed),
            *(controller.reply_began, controller.reply_ended, controller.busy_changed, controller.status_changed),
            controller.verification_progressed,
        ):
            signal.connect(lambda *_: self.chat_commands.update())
        self.chat_commands.update()

    def _connect_parts(self) -> None:
        parts, controller = self.parts, self.controller
        self.drop_target.dropped.connect(parts.composer.attach_files)
        parts.header.settings_asked.connect(lambda: self.show_side("chat settings"))
        parts.panel.reset.connect(lambda: controller.change_settings(ChatSettings()))
        parts.panel.closed.connect(lambda: self.show_side(""))
        parts.transcript.link_clicked.connect(lambda url: ask_to_open(self, url))
        parts.transcript.race.connect(self.races.show_message)
        pair_form = parts.panel.form.pair
        for signal in (parts.welcome.models_asked, pair_form.models_asked, self.settings.models_requested):
            signal.connect(self.models.show)
        self.models.names_changed.connect(pair_form.offer_models)
        self.models.names_changed.connect(self.settings.set_model_names)
        self.settings.preferences_changed.connect(self.set_preferences)
        self.settings.import_requested.connect(self.chat_commands.import_file)
        self.panes.changed.connect(self._update_panes)
        self._update_panes()

    def _connect_controller(self) -> None:
        for signal in (self.controller.path_changed, self.controller.reply_began):
            signal.connect(lambda _: self._update_legend())
        self._save_timer.timeout.connect(self.save_places)
        application = QApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.save_all)

    # --- panes ---------------------------------------------------------------------------------

    def show_side(self, side: Side) -> None:
        """Shows this at the right, or nothing, and moves the focus along."""
        self.panes.request_side(side)
        if self.panes.side == "chat settings":
            self.parts.panel.form.pair.target.setFocus(Qt.FocusReason.OtherFocusReason)
        elif not side:
            self.parts.composer.editor.setFocus()

    def _update_panes(self) -> None:
        """Shows in menus and buttons which panes are in sight, and fills the inspector where it is."""
        self.commands["sidebar"].setChecked(self.panes.sidebar)
        self.parts.header.new.setVisible(not self.panes.sidebar)
        for side in ("inspector", "chat settings"):
            self.commands[side].setChecked(self.panes.side == side)
        self.presenter.fill_inspector()
        self.controller.set_phase_timing(self.panes.side == "inspector")  # only it shows these times
        self._save_timer.start()

    def _search(self) -> None:
        if not self.panes.sidebar:
            self.panes.request_sidebar(True)
        self.parts.sidebar.start_search()

    # --- preferences ---------------------------------------------------------------------------

    def set_preferences(self, preferences: Preferences) -> None:
        """Applies and saves the user's preferences."""
        transcript = self.parts.transcript
        if preferences != self.preferences:
            self.controller.library.set_value(PREFERENCES, written(preferences))
        self.preferences = preferences
        self.theme.apply(preferences)
        self.controller.set_unload_minutes(preferences.unload_minutes)
        for name, on in (("tints", preferences.tints), ("ghosts", preferences.show_refused)):
            self.commands[name].setChecked(on)
        transcript.set_tints(preferences.tints)
        transcript.set_refused_shown(preferences.show_refused)
        self.legend.set_refused(preferences.show_refused)
        self._update_legend()
        transcript.set_reduced_motion(self.theme.reduced_motion)
        self.settings.show_values()

    def change_preferences(self, **values: object) -> None:
        """Changes some of the preferences."""
        self.set_preferences(replace(self.preferences, **values))

    def _zoom(self, steps: int) -> None:
        self.change_preferences(zoom=max(SMALLEST, min(LARGEST, steps)))

    def _update_legend(self) -> None:
        replies = any(record.role == "assistant" for record in self.controller.path)
        self.parts.composer.show_legend(replies and self.preferences.tints)

    def _announce(self, text: str) -> None:
        """Has a sentence of a reply read out, if the user wants that."""
        if self.preferences.announce:
            announce(self.parts.transcript, text)

    # --- events --------------------------------------------------------------------------------

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.theme.follow()

    def focusNextPrevChild(self, forward: bool) -> bool:
        parts = self.parts
        middle = parts.transcript if parts.middle.currentWidget() is parts.transcript else parts.welcome
        order = (parts.sidebar, parts.header, parts.notices, middle, parts.composer, parts.inspector, parts.panel)
        return focus_next(order, parts.transcript, forward)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.controller.busy:
            self.controller.stop()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._save_timer.start()

    def closeEvent(self, event: QCloseEvent) -> None:
        self.save_all()
        for secondary in (self.settings, self.races, self.models):
            secondary.close()
        super().closeEvent(event)

    # --- saved state ---------------------------------------------------------------------------

    def save_all(self) -> None:
        """Saves the arrangement and all drafts, before the window goes."""
        self.save_places()
        self.presenter.drafts.save()

    def save_places(self) -> None:
        """Saves the size of the window and the arrangement of its panes."""
        self._save_timer.stop()
        geometry = self.saveGeometry().toBase64().toStdString()
        self.controller.library.set_value(PLACES, written(replace(self.panes.places(), geometry=geometry)))

    def _restore_places(self) -> None:
        places = read(self.controller.library.value(PLACES), Places)
        if not (places.geometry and self.restoreGeometry(QByteArray.fromBase64(places.geometry.encode()))):
            self.resize(FIRST_SIZE)
        self.panes.restore(places)
