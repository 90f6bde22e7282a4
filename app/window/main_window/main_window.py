"""The main window, where all parts meet: it makes them, connects them, and remembers how it was left."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import QByteArray, QEvent, QLocale, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QGuiApplication, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QSplitter, QStackedWidget, QWidget

from app.reply_statistics import saved_in_words
from app.window.chat import Controller
from app.window.common.appearance import INSPECTOR_WIDTH, SIDEBAR_WIDTH
from app.window.common.layouts import column
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
from app.window.common.status_line import StatusLine
from app.window.common.theme import Theme
from app.window.common.timer import Timer, call_later
from app.window.common.widgets import announce, style
from app.window.composer.composer import Composer
from app.window.composer.context_meter import ContextMeter
from app.window.inspector import Inspector, Legend
from app.window.main_window.chat_presenter import ChatPresenter, Parts
from app.window.main_window.files import DropTarget
from app.window.main_window.header import Header, NoticeBanners
from app.window.main_window.menus import Commands
from app.window.main_window.pair_menu import PairMenu
from app.window.main_window.quit_question import QuitQuestion
from app.window.main_window.secondary_windows import (
    ApiOpener,
    MainContext,
    ModelsOpener,
    RaceOpener,
    SettingsOpener,
    come_forward,
)
from app.window.main_window.undo_command import UndoCommand
from app.window.main_window.welcome import Welcome
from app.window.markdown import ask_to_open
from app.window.settings.chat_panel import ChatPanel
from app.window.sidebar.sidebar import Sidebar
from app.window.transcript import Transcript

FIRST_SIZE, MIN_SIZE = QSize(1180, 780), QSize(640, 480)
SAVE_PLACES_MS = 500  # after the last change
MIN_CENTRE = 320  # px
_COMPOSED = (  # languages whose words an input method composes
    QLocale.Language.Chinese,
    QLocale.Language.Cantonese,
    QLocale.Language.Japanese,
    QLocale.Language.Korean,
    QLocale.Language.Vietnamese,
)
SIDEBAR_RANGE, SIDE_RANGE = (190, 420), (300, 640)


class Panes(QSplitter):
    """Hides a pane for want of room and shows it again once there is room. Of two panes that do not fit together, the
    one that was requested last is shown. changed(): which panes are shown, or their widths."""

    changed = Signal()

    def __init__(self, sidebar: QWidget, centre: QWidget, sides: Mapping[Side, QWidget]) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._sidebar, self._sides = sidebar, sides
        self._stack = QStackedWidget()
        self._sidebar_wanted, self._side_wanted = True, False
        self._sidebar_last = True  # the sidebar was requested after the side pane
        self._side: Side = "inspector"
        self._widths = [SIDEBAR_WIDTH, INSPECTOR_WIDTH]
        for widget in sides.values():
            self._stack.addWidget(widget)
        sidebar.setMinimumWidth(SIDEBAR_RANGE[0])
        sidebar.setMaximumWidth(SIDEBAR_RANGE[1])
        centre.setMinimumWidth(MIN_CENTRE)
        self._stack.setMaximumWidth(SIDE_RANGE[1])
        for place, widget in enumerate((sidebar, centre, self._stack)):
            self.addWidget(widget)
            self.setStretchFactor(place, int(widget is centre))
        self.setChildrenCollapsible(False)
        self.setHandleWidth(1)
        self.splitterMoved.connect(self._remember_widths)
        self._stack.hide()

    @property
    def sidebar(self) -> bool:
        """Whether the sidebar is shown."""
        return not self._sidebar.isHidden()

    @property
    def side(self) -> Side:
        """What is shown at the right."""
        return "" if self._stack.isHidden() else self._side

    def request_sidebar(self, shown: bool) -> None:
        """Shows or hides the sidebar."""
        self._sidebar_wanted, self._sidebar_last = shown, True
        self._arrange()
        self.changed.emit()

    def request_side(self, side: Side) -> None:
        """Shows this at the right, or nothing."""
        self._side_wanted, self._sidebar_last = bool(side), False
        if side:
            self._side = side
            self._stack.setCurrentWidget(self._sides[side])
        self._arrange()
        self.changed.emit()

    def restore(self, places: Places) -> None:
        """Arranges the panes as they were saved."""
        self._widths = [places.sidebar_width or SIDEBAR_WIDTH, places.side_width or INSPECTOR_WIDTH]
        self._sidebar_wanted = places.sidebar
        self.request_side(places.side)

    def places(self) -> Places:
        """Returns the arrangement, to be saved."""
        side: Side = self._side if self._side_wanted else ""
        left, right = self._widths
        return Places(sidebar=self._sidebar_wanted, side=side, sidebar_width=left, side_width=right)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.Show):
            call_later(self, self._arrange)  # once what is inside has its new font
        return done

    def _arrange(self) -> None:
        """Shows the requested panes as far as the centre keeps its least width."""
        sidebar, side, free = self._sidebar_wanted, self._side_wanted, self.width() - MIN_CENTRE
        narrowest = self._sides[self._side].minimumSizeHint().width()  # large text may need more than is usual
        least = (SIDEBAR_RANGE[0], max(SIDE_RANGE[0], min(narrowest, SIDE_RANGE[1], free - 2 * self.handleWidth())))
        self._stack.setMinimumWidth(least[1])
        if sidebar and side and sum(least) > free:
            sidebar, side = self._sidebar_last, not self._sidebar_last
        shown = (not self._sidebar.isHidden(), not self._stack.isHidden())
        self._sidebar.setVisible(sidebar)
        self._stack.setVisible(side)
        left, right = self._widths[0] * sidebar, max(self._widths[1], least[1]) * side
        if left + right > free:
            left, right = least[0] * sidebar, least[1] * side
        self.setSizes([left, self.width() - left - right, right])
        if shown != (sidebar, side):
            self.changed.emit()

    def _remember_widths(self) -> None:
        left, _, right = self.sizes()
        self._widths = [left or self._widths[0], right or self._widths[1]]
        self.changed.emit()


class MainWindow(QMainWindow):
    """The window of the chat. store_file: the file that holds the conversations, to be shown to the user."""

    def __init__(self, controller: Controller, store_file: Path | None = None) -> None:
        super().__init__()
        self.controller = controller
        self.preferences = read(controller.library.value(PREFERENCES), Preferences)
        self._learns: bool | None = None  # whether drafts may copy from earlier replies; None until that is applied
        self.theme = Theme(self)
        self.theme.apply(self.preferences)
        self.commands = Commands(self)
        self.meter, self.legend = ContextMeter(), Legend(refused=False)
        self.parts = self._make_parts()
        self.panes = self._lay_out()
        self.drop_target = DropTarget(self)
        self.presenter = ChatPresenter(controller, self.parts, self.commands, self)
        main = MainContext(
            *(self, controller, self.parts, self.commands, self.theme),
            *(lambda: self.preferences, self.change_preferences),
        )
        self.settings, self.races, self.models = SettingsOpener(main, store_file), RaceOpener(main), ModelsOpener(main)
        self.api = ApiOpener(main, store_file)
        more = [self.commands["models"], self.commands["chat settings"]]
        chip, used = self.parts.header.chip, lambda: controller.conversation.settings.pair
        self.pair_menu = PairMenu(chip, used, self.models, more)
        self.undo = UndoCommand(self.commands["undo"], controller.deletion, self)
        self.quit_question = QuitQuestion(self, controller)
        self._save_timer = Timer(self, singleShot=True, interval=SAVE_PLACES_MS)
        self._connect_commands()
        self._connect_parts()
        self._restore_places()
        self.set_preferences(self.preferences)
        self.parts.composer.editor.setFocus()

    # --- parts ---------------------------------------------------------------------------------

    def _make_parts(self) -> Parts:
        return Parts(
            sidebar=Sidebar(self.controller.library.search),
            header=Header(),
            notices=NoticeBanners(),
            progress=StatusLine(),
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
        column(parts.header, parts.notices, parts.progress, (parts.middle, 1), parts.composer, on=centre)
        style(centre, ground="page")
        panes = Panes(parts.sidebar, centre, {"inspector": parts.inspector, "chat settings": parts.panel})
        self.setCentralWidget(panes)
        self.setMinimumSize(MIN_SIZE)
        self.commands.fill(self.menuBar())
        return panes

    def _connect_commands(self) -> None:
        header, commands = self.parts.header, self.commands
        commands.connect_all(
            {
                "search": self._search,
                "close": lambda: self._active_window().close(),
                "quit": QApplication.quit,
                "minimise": lambda: self._active_window().showMinimized(),
                "zoom window": self._zoom_window,
                "main window": lambda: come_forward(self),
                "settings": lambda: self.settings.show("appearance"),
                "shortcuts": lambda: self.settings.show("keyboard"),
                "about": lambda: self.settings.show("info"),
                "race": self.races.show_last_question,
                "models": self.models.show,
                "serve": self.api.show,
                "choose models": self.pair_menu.open,
                "zoom in": lambda: self._zoom(self.preferences.zoom + 1),
                "zoom out": lambda: self._zoom(self.preferences.zoom - 1),
                "zoom reset": lambda: self._zoom(0),
            }
        )
        for name, slot in {
            "sidebar": self.panes.request_sidebar,
            "inspector": lambda on: self.show_side("inspector" if on else ""),
            "chat settings": lambda on: self.show_side("chat settings" if on else ""),
            "tints": lambda on: self.change_preferences(tints=on),
            "refused": lambda on: self.change_preferences(show_refused=on),
            "raw": lambda on: self.parts.transcript.change_options(raw=on),
            "full screen": lambda on: self.showFullScreen() if on else self.showNormal(),
        }.items():
            commands[name].triggered.connect(slot)
        for button, name in (
            *((header.sidebar, "sidebar"), (header.new, "new"), (header.tints, "tints"), (header.raw, "raw")),
            *((header.inspector, "inspector"), (header.tune, "chat settings")),
        ):
            button.follow(commands[name])

    def _connect_parts(self) -> None:
        parts, controller = self.parts, self.controller
        self.drop_target.dropped.connect(parts.composer.attach_files)
        self.drop_target.image_dropped.connect(parts.composer.refuse_image)
        parts.header.chip.clicked.connect(self.pair_menu.open)
        self.models.found.connect(self.pair_menu.refresh)
        for form in (parts.panel.form.pair, self.settings):
            self.models.named.connect(form.offer_models)
        self.settings.preferred.connect(self.set_preferences)
        self.settings.import_asked.connect(self.presenter.import_file)
        self.settings.models_asked.connect(self.models.show)
        parts.panel.closed.connect(lambda: self.show_side(""))
        parts.transcript.link_clicked.connect(lambda url: ask_to_open(self, url))
        parts.transcript.race.connect(self.races.show_message)
        for signal in (parts.welcome.other.clicked, parts.panel.form.pair.models_asked):
            signal.connect(self.models.show)
        for signal in (controller.path_changed, controller.reply_began, controller.reply_ended):
            signal.connect(self._update_legend)
        parts.welcome.offer.download_asked.connect(self.models.get_pair)
        parts.welcome.offer.use_asked.connect(self.models.use)
        parts.welcome.race.clicked.connect(self.races.show_demonstration)
        parts.welcome.offer.race_asked.connect(self.races.race_last_question)
        self.panes.changed.connect(self._update_panes)
        parts.sidebar.folded.connect(self._save_timer.start)
        self._save_timer.timeout.connect(self.save_places)
        application = QApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.save_all)
        self._update_panes()

    def _active_window(self) -> QWidget:
        """Returns the window that the user works in: a menu of macOS belongs to all windows."""
        return QApplication.activeWindow() or self

    def _zoom_window(self) -> None:
        window = self._active_window()
        if window.isMaximized():
            window.showNormal()
        else:
            window.showMaximized()

    # --- panes ---------------------------------------------------------------------------------

    def show_side(self, side: Side) -> None:
        """Shows this at the right, or nothing, and moves the focus along."""
        self.panes.request_side(side)
        if self.panes.side == "chat settings":
            self.parts.panel.form.pair.target.box.setFocus(Qt.FocusReason.OtherFocusReason)
        elif not side:
            self.parts.composer.editor.setFocus()

    def _update_panes(self) -> None:
        """Shows in menus and buttons which panes are in sight, and fills the inspector where it is."""
        self.commands["sidebar"].setChecked(self.panes.sidebar)
        self.parts.header.new.setVisible(not self.panes.sidebar)
        for side in ("inspector", "chat settings"):
            self.commands[side].setChecked(self.panes.side == side)
        self.presenter.fill_inspector()
        self.controller.replies.times_phases = self.panes.side == "inspector"  # only it shows these times
        self._save_timer.start()

    def _search(self) -> None:
        if not self.panes.sidebar:
            self.panes.request_sidebar(True)
        self.parts.sidebar.start_search()

    # --- preferences ---------------------------------------------------------------------------

    def set_preferences(self, preferences: Preferences) -> None:
        """Applies and saves the user's preferences."""
        if preferences != self.preferences:
            self.controller.library.set_value(PREFERENCES, written(preferences))
        self.preferences = preferences
        self.theme.apply(preferences)
        self.controller.pair.set_idle_minutes(preferences.unload_minutes)
        self.controller.host.set_parallel(preferences.parallel)
        if self._learns != preferences.learn_replies:
            self._learns = preferences.learn_replies
            self.controller.set_learning(self._learns)
        for name, on in (("tints", preferences.tints), ("refused", preferences.show_refused)):
            self.commands[name].setChecked(on)
        tints, refused, still = preferences.tints, preferences.show_refused, self.theme.reduced_motion
        self.parts.transcript.change_options(tints=tints, refused=refused, still=still)
        self.legend.set_refused(preferences.show_refused)
        self._update_legend()
        self.settings.show_values()
        self.api.follow(preferences)

    def change_preferences(self, **values: object) -> None:
        """Changes some of the preferences."""
        self.set_preferences(replace(self.preferences, **values))

    def _zoom(self, steps: int) -> None:
        self.change_preferences(zoom=max(SMALLEST, min(LARGEST, steps)))

    def _update_legend(self, _: object = None) -> None:
        replies = any(record.role == "assistant" for record in self.controller.path)
        self.parts.composer.show_legend(replies and self.preferences.tints)
        numbers = [record.statistics for record in self.controller.path if record.statistics is not None]
        self.parts.composer.show_saved(saved_in_words(numbers))

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
        editor = self.parts.composer.editor
        if event.key() == Qt.Key.Key_Escape and self.controller.busy:
            self.controller.stop()
        elif _is_typing(event) and editor.isEnabled() and not editor.hasFocus():
            composed = editor.in_composition or _is_composed(QGuiApplication.inputMethod().locale())
            editor.setFocus(Qt.FocusReason.OtherFocusReason)
            if not composed:
                QApplication.sendEvent(editor, event)
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._save_timer.start()

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self.quit_question.allows_quit():
            event.ignore()
            return
        self.save_all()
        super().closeEvent(event)

    # --- saved state ---------------------------------------------------------------------------

    def save_all(self) -> None:
        """Saves the arrangement and all drafts, before the window goes."""
        self.save_places()
        self.presenter.save_drafts()

    def save_places(self) -> None:
        """Saves the size of the window and the arrangement of its panes."""
        self._save_timer.stop()
        geometry = self.saveGeometry().toBase64().toStdString()
        collapsed = tuple(sorted(self.parts.sidebar.conversations.collapsed))
        places = replace(self.panes.places(), geometry=geometry, collapsed=collapsed)
        self.controller.library.set_value(PLACES, written(places))

    def _restore_places(self) -> None:
        places = read(self.controller.library.value(PLACES), Places)
        if not (places.geometry and self.restoreGeometry(QByteArray.fromBase64(places.geometry.encode()))):
            self.resize(FIRST_SIZE)
        self.panes.restore(places)
        for folder in places.collapsed:
            self.parts.sidebar.conversations.toggle(folder)


def _is_typing(event: QKeyEvent) -> bool:
    """Whether a key that no control took writes a character: it belongs to the message."""
    command = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier
    return event.text().isprintable() and bool(event.text().strip()) and not event.modifiers() & command


def _is_composed(keyboard: QLocale) -> bool:
    """Whether an input method composes what is typed. A key that is pressed outside the editor does not reach the input
    method and would be inserted raw: it only moves the focus, and the next one is composed."""
    return keyboard.language() in _COMPOSED


# --- the order of Tab -------------------------------------------------------------------------


def focus_next(parts: Sequence[QWidget], self_managed: QWidget, forward: bool) -> bool:
    """Moves the focus to the next or previous control and returns whether there is one. parts: of the window, in
    reading order. self_managed: the part that moves the focus within itself, and is entered and left here."""
    current = QApplication.focusWidget()
    stops: list[QWidget] = []
    for part in parts:
        controls = tab_stops(part)
        if part is self_managed and controls:
            inside = current is not None and part.isAncestorOf(current)
            entry = controls[0] if forward else max(controls, key=_bottom_right)
            controls = [current if inside and current is not None else entry]
        stops += controls
    if not stops:
        return False
    place = stops.index(current) + (1 if forward else -1) if current in stops else 0
    reason = Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason
    stops[place % len(stops)].setFocus(reason)
    return True


def tab_stops(part: QWidget) -> list[QWidget]:
    """Returns the controls of a part that Tab reaches, in the order of Qt's own chain."""
    found: list[QWidget] = []
    widget = part.nextInFocusChain()
    while widget is not None and widget is not part:
        tabbed = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) and widget.focusProxy() is None
        if tabbed and part.isAncestorOf(widget) and widget.isVisible() and widget.isEnabled():
            found.append(widget)
        widget = widget.nextInFocusChain()
    return found


def _bottom_right(widget: QWidget) -> tuple[int, int]:
    at = widget.mapToGlobal(QPoint(0, 0))
    return at.y() + widget.height(), at.x()
