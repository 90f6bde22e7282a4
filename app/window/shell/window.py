"""The window: what stands where, in which look, and where it stood the last time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QByteArray, QEvent, QSize, Qt, QTimer
from PySide6.QtGui import QCloseEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QStackedWidget, QVBoxLayout, QWidget

from app.records import ChatSettings
from app.window.inspector import ContextMeter, Inspector, Legend
from app.window.look import Look
from app.window.models.opening import Models
from app.window.race.opening import Races
from app.window.reading import ask_to_open
from app.window.shell.chat_panel import ChatPanel
from app.window.shell.commands import Commands
from app.window.shell.composer import Composer
from app.window.shell.conversing import Conversing, Parts
from app.window.shell.deeds import Deeds
from app.window.shell.dropping import Dropping
from app.window.shell.header import Header
from app.window.shell.notices import Notices
from app.window.shell.panes import Panes
from app.window.shell.preferences import PLACES, PREFERENCES, Places, Preferences, Side, read, written
from app.window.shell.settings import Settings
from app.window.shell.sidebar import Sidebar
from app.window.shell.styles import menu_style, scroll_style, wear
from app.window.shell.tabbing import tab_on
from app.window.shell.theme import Theme
from app.window.shell.welcome import Welcome
from app.window.transcript import Transcript
from app.window.transcript.announce import announce

if TYPE_CHECKING:
    from app.window.controller import Controller

FIRST_SIZE, LEAST_SIZE = QSize(1180, 780), QSize(640, 480)
KEEP_MS = 500


class MainWindow(QMainWindow):
    """place: the file in which the conversations are kept, for people. transcript, inspector: others than usual."""

    def __init__(
        self,
        controller: Controller,
        place: Path | None = None,
        transcript: Transcript | None = None,
        inspector: Inspector | None = None,
    ) -> None:
        super().__init__()
        self.controller = controller
        self.preferences = read(controller.value(PREFERENCES), Preferences)
        self.theme = Theme(self)
        self.theme.apply(self.preferences)
        self._dress(self.theme.look)  # first, as Qt goes through all that is there
        self.commands = Commands(self)
        self.meter, self.legend = ContextMeter(), Legend(ghosts=False)
        self.parts = Parts(
            sidebar=Sidebar(controller.search),
            header=Header(),
            notices=Notices(),
            middle=QStackedWidget(),
            welcome=Welcome(),
            transcript=transcript or Transcript(say=self._say),
            composer=Composer(self.meter, self.legend),
            inspector=inspector or Inspector(),
            panel=ChatPanel(),
        )
        self.panes = self._laid_out()
        self.dropping = Dropping(self)
        self.dropping.dropped.connect(self.parts.composer.attach_files)
        self.conversing = Conversing(controller, self.parts, self)
        self.deeds = Deeds(controller, self.parts, self.conversing, self)
        self.settings = Settings(controller, self, place)
        self.races, self.models = Races(controller, self), Models(controller, self)
        self._keeping = QTimer(self, singleShot=True, interval=KEEP_MS)
        self._connect()
        self._restore()
        self.set_look(self.theme.look)
        self.set_preferences(self.preferences)
        self.parts.composer.editor.setFocus()

    # --- what stands where ---------------------------------------------------------------------

    def _laid_out(self) -> Panes:
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
        centre.setObjectName("centre")
        centre.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        panes = Panes(parts.sidebar, centre, {"inspector": parts.inspector, "chat settings": parts.panel})
        self.setCentralWidget(panes)
        self.setMinimumSize(LEAST_SIZE)
        self.commands.fill(self.menuBar())
        return panes

    def _connect(self) -> None:
        parts, commands, controller = self.parts, self.commands, self.controller
        self.deeds.connect_to(commands)
        for button, name in (
            *((parts.header.sidebar, "sidebar"), (parts.header.new, "new"), (parts.header.tints, "tints")),
            *((parts.header.raw, "raw"), (parts.header.inspector, "inspector"), (parts.header.tune, "chat settings")),
        ):
            button.follow(commands[name])
        commands["sidebar"].triggered.connect(self.panes.want_sidebar)
        for side in ("inspector", "chat settings"):
            commands[side].triggered.connect(lambda on, side=side: self.show_side(side if on else ""))
        commands["raw"].triggered.connect(parts.transcript.set_raw)
        commands["search"].triggered.connect(self._search)
        commands["close"].triggered.connect(self.close)
        commands["quit"].triggered.connect(QApplication.quit)
        commands["minimise"].triggered.connect(self.showMinimized)
        commands["zoom window"].triggered.connect(lambda: self._maximise(not self.isMaximized()))
        commands["full screen"].triggered.connect(lambda on: self.showFullScreen() if on else self.showNormal())
        parts.header.settings_asked.connect(lambda: self.show_side("chat settings"))
        parts.panel.reset.connect(lambda: controller.change_settings(ChatSettings()))
        parts.transcript.link_asked.connect(lambda url: ask_to_open(self, url))
        parts.panel.closed.connect(lambda: self.show_side(""))
        self.panes.changed.connect(self._look_at_panes)
        self.theme.changed.connect(self.set_look)
        self._keeping.timeout.connect(self.keep_places)
        self._follow()
        application = QApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.keep_all)
        self.deeds.refresh(commands)
        self._look_at_panes()

    def _follow(self) -> None:
        """What the controller tells, the menus and the legend show."""
        commands, controller = self.commands, self.controller
        for signal in (
            *(controller.opened, controller.conversations_changed, controller.path_changed, controller.busy_changed),
            *(controller.reply_began, controller.reply_ended, controller.verifying, controller.speculation_changed),
        ):
            signal.connect(lambda *_: self.deeds.refresh(commands))
        for signal in (controller.path_changed, controller.reply_began):
            signal.connect(lambda _: self._explain())

    def show_side(self, side: Side) -> None:
        """Show this at the right, or nothing; the keyboard goes along."""
        self.panes.want_side(side)
        if self.panes.side == "chat settings":
            self.parts.panel.form.pair.target.setFocus(Qt.FocusReason.OtherFocusReason)
        elif not side:
            self.parts.composer.editor.setFocus()

    def _look_at_panes(self) -> None:
        """Menus and buttons say what is shown, whatever made it so."""
        self.commands["sidebar"].setChecked(self.panes.sidebar)
        self.parts.header.new.setVisible(not self.panes.sidebar)
        for side in ("inspector", "chat settings"):
            self.commands[side].setChecked(self.panes.side == side)
        self.conversing.look_at_inspector()
        self.controller.set_timed(self.panes.side == "inspector")  # its times are worth a synchronisation a round
        self._keeping.start()

    def _say(self, text: str) -> None:
        """A sentence of a reply, to those who have it read out."""
        if self.preferences.announce:
            announce(self.parts.transcript, text)

    def _search(self) -> None:
        if not self.panes.sidebar:
            self.panes.want_sidebar(True)
        self.parts.sidebar.start_search()

    def _maximise(self, larger: bool) -> None:
        (self.showMaximized if larger else self.showNormal)()

    # --- the look ------------------------------------------------------------------------------

    def set_preferences(self, preferences: Preferences) -> None:
        """Show what the reader chose, and keep it."""
        parts = self.parts
        if preferences != self.preferences:
            self.controller.set_value(PREFERENCES, written(preferences))
        self.preferences = preferences
        self.theme.apply(preferences)
        self.controller.set_unload_minutes(preferences.unload_minutes)
        for name, on in (("tints", preferences.tints), ("ghosts", preferences.ghosts)):
            self.commands[name].setChecked(on)
        parts.transcript.set_tints(preferences.tints)
        parts.transcript.set_ghosts(preferences.ghosts)
        self.legend.set_ghosts(preferences.ghosts)
        self._explain()
        parts.transcript.set_reduced_motion(self.theme.reduced_motion)
        self.settings.show_values()

    def _explain(self) -> None:
        """What the tints mean, while there are any."""
        replies = any(record.role == "assistant" for record in self.controller.path)
        self.parts.composer.show_legend(replies and self.preferences.tints)

    def change_preferences(self, **values: object) -> None:
        """Some of them."""
        self.set_preferences(replace(self.preferences, **values))

    def set_look(self, look: Look) -> None:
        parts = self.parts
        for part in (
            *(parts.sidebar, parts.header, parts.notices, parts.welcome, parts.transcript, parts.composer),
            *(parts.inspector, parts.panel, self.meter, self.legend, self.dropping, self.settings),
            *(self.races, self.models),
        ):
            part.set_look(look)
        self._dress(look)

    def _dress(self, look: Look) -> None:
        """What the parts have in common."""
        grounds = f"#centre {{ background: {look.background}; }} Panes::handle {{ background: {look.hairline}; }}"
        wear(self, grounds + scroll_style(look) + menu_style(look))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.theme.follow()

    # --- keys, and what is remembered ----------------------------------------------------------

    def focusNextPrevChild(self, forward: bool) -> bool:
        """From the sidebar to the right, whatever was made first."""
        parts = self.parts
        middle = parts.transcript if parts.middle.currentWidget() is parts.transcript else parts.welcome
        order = (parts.sidebar, parts.header, parts.notices, middle, parts.composer, parts.inspector, parts.panel)
        return tab_on(order, parts.transcript, forward)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc stops, where nothing else wanted it."""
        if event.key() == Qt.Key.Key_Escape and self.controller.busy:
            self.controller.stop()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._keeping.start()

    def closeEvent(self, event: QCloseEvent) -> None:
        self.keep_all()
        self.settings.close()
        self.races.close()
        self.models.close()
        super().closeEvent(event)

    def keep_all(self) -> None:
        """To disk, before the window goes."""
        self.keep_places()
        self.conversing.drafts.write()

    def keep_places(self) -> None:
        """Where everything stands now."""
        self._keeping.stop()
        geometry = self.saveGeometry().toBase64().toStdString()
        self.controller.set_value(PLACES, written(replace(self.panes.places(), geometry=geometry)))

    def _restore(self) -> None:
        places = read(self.controller.value(PLACES), Places)
        if not (places.geometry and self.restoreGeometry(QByteArray.fromBase64(places.geometry.encode()))):
            self.resize(FIRST_SIZE)
        self.panes.restore(places)
