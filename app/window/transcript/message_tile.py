"""A message as a widget: its text, the line of numbers and buttons below it, and what questions and replies share."""

from typing import NamedTuple

from PySide6.QtCore import QEvent, QPoint, QRect, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QEnterEvent, QGuiApplication, QKeyEvent, QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSizePolicy, QWidget

from app.reply_statistics import in_words, speed_in_words
from app.store.records import MessageRecord
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.timer import Timer, work_s
from app.window.common.widgets import ElidedLabel, IconButton, label
from app.window.transcript.message_editor import MessageEditor
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.receipt_badge import ReceiptBadge
from app.window.transcript.text_page import NONE, SIDE, DisplayOptions, Selection, TextPage
from app.window.transcript.tile_buttons import BUTTON, FooterButton

TURN_MS = 1  # after which the event loop has had a turn
_CONTINUE = "Continue Editing"  # a text that was not sent
_BAR = 3  # px, what shows that a message has the focus


class FooterAction(NamedTuple):
    """What a button of the footer does. request: the signal of the transcript that asks for it, "" if the tile does it
    itself. word: stands beside an icon that is not known from elsewhere."""

    icon: str
    name: str
    request: str = ""
    word: str = ""


COPY, COPY_PLAIN = FooterAction("copy", "Copy Message"), FooterAction("plain", "Copy as Plain Text")
REGENERATE, CONTINUE = (
    FooterAction("again", "Regenerate", "regenerate"),
    FooterAction("continue", "Continue", "resume", "Continue"),
)
DELETE = FooterAction("trash", "Delete This Version", "delete_version")
EDIT, RACE = FooterAction("edit", "Edit"), FooterAction("race", "Race This Prompt", "race", "Race")
VERIFY = FooterAction("verify", "Verify", "verify", "Verify")
STOP_VERIFYING = FooterAction("stop", "Stop Verifying", word="Stop")


class MessageFooter(QWidget):
    """The line below a message: its receipt, its numbers, which version it is, and what can be done with it.

    triggered: an action. version_chosen: the id of another version. right: whether it stands at the right.
    """

    triggered = Signal(object)  # FooterAction
    version_chosen = Signal(int)

    def __init__(self, record: MessageRecord, actions: tuple[FooterAction, ...], right: bool = False) -> None:
        super().__init__()
        self._record = record
        self._shown = self._verifying = False
        self.buttons = {action.name: FooterButton(action.icon, action.name, self) for action in actions}
        for action in actions:
            self.buttons[action.name].set_word(action.word)
        self.always = ""  # the name of a button that stays shown
        self.before = IconButton("left", "Previous Version", self, BUTTON)
        self.after = IconButton("right", "Next Version", self, BUTTON)
        self._place = label(role="detail")
        self._place.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        self.numbers = ElidedLabel("", self, role="detail")
        self.badge = ReceiptBadge(self)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        self.numbers.setVisible(not right)
        if right:
            row.addStretch()
        for part in (self.badge, self.numbers, self.before, self._place, self.after, *self.buttons.values()):
            row.addWidget(part, 1 if part is self.numbers else 0)
        for action in actions:
            self.buttons[action.name].clicked.connect(lambda _=False, action=action: self.triggered.emit(action))
        for arrow, by in ((self.before, -1), (self.after, 1)):
            arrow.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            arrow.clicked.connect(lambda _=False, by=by: self.version_chosen.emit(self._version(by)))
        self.show_record(record)

    def show_record(self, record: MessageRecord, verifying: str = "", failure: str = "") -> None:
        """Shows what is known of the message now. verifying: how far its verification is. failure: why the last one
        came to nothing. Both may be ""."""
        self._record = record
        self.badge.show_record(record, verifying, failure)
        self._verifying = bool(verifying)
        if (button := self.buttons.get(VERIFY.name)) is not None:
            action = STOP_VERIFYING if verifying else VERIFY
            button.set_shape(action.icon, action.name)
            button.set_word(action.word)
        for part in (self.before, self._place, self.after, self.buttons[DELETE.name]):
            part.setVisible(record.versions > 1)
        self._place.setText(f"{record.version}/{record.versions}")
        self._place.setAccessibleName(f"Version {record.version} of {record.versions}")
        self.before.setEnabled(self._version(-1) is not None)
        self.after.setEnabled(self._version(1) is not None)
        numbers = record.statistics
        parts = [speed_in_words(numbers), in_words(numbers)] if numbers else []
        self.numbers.setText(" · ".join(part[:1].upper() + part[1:] for part in parts if part))
        self.show_actions(self._shown)

    def show_actions(self, shown: bool) -> None:
        """Shows or hides the buttons. A verification can always be stopped without looking for its button. An edit that
        was left can be found again as easily."""
        self._shown = shown
        for name, button in self.buttons.items():
            now = shown or (self._verifying and name == VERIFY.name) or name == self.always
            if button.shown != now:
                button.shown = now
                button.update()

    def focus_widgets(self) -> list[QWidget]:
        """Returns what the keyboard reaches, in order."""
        found = [self.badge, self.before, self.after, *self.buttons.values()]
        return [button for button in found if button.isVisibleTo(self) and button.isEnabled()]

    def _version(self, by: int) -> int | None:
        place = self._record.version - 1 + by
        return self._record.siblings[place] if 0 <= place < len(self._record.siblings) else None


class TextPlace(NamedTuple):
    """A place in the text of a message. character: of the page, the first of its line. offset: px below the top of the
    line."""

    page: int
    character: int
    offset: float


class LayoutSlice(Timer):
    """The time for reading, dividing and laying out messages in one turn of the event loop, by the thread's own clock.
    It is spent within `with slice:`. Once it is used up, the next page waits for the next turn, so that the window
    answers in between. Of two turns in a row, one lays out a page at least."""

    LONGEST_S = 0.015  # the last page may take several times as long

    def __init__(self) -> None:
        super().__init__(singleShot=True, interval=TURN_MS)
        self._spent_s = 0.0
        self._began_s: float | None = None
        self._laid_out = False  # whether a page was laid out in this turn
        self._put_off = False  # whether a page was put off in this turn
        self._due = False  # whether the turn before put off a page and laid out none
        self.timeout.connect(self._begin_turn)

    def __enter__(self) -> None:
        self._began_s = work_s()

    def __exit__(self, *_: object) -> None:
        self._spent_s, self._began_s = self._spent(), None
        if not self.isActive():
            self.start()

    def used_up(self) -> bool:
        return self._spent() > self.LONGEST_S

    def has_time_for_page(self) -> bool:
        """Whether a page can be laid out now; if not, it is put off to the next turn."""
        if self.used_up() and (self._laid_out or not self._due):
            self._put_off = True
            return False
        self._laid_out = True
        return True

    def _begin_turn(self) -> None:
        self._due = self._put_off and not self._laid_out
        self._spent_s, self._laid_out, self._put_off = 0.0, False, False

    def _spent(self) -> float:
        return self._spent_s + (0.0 if self._began_s is None else work_s() - self._began_s)


class MessageTile(QWidget):
    """A message near the view. It is as wide as the column and SIDE px more at both sides.

    pages: of its text, by number, as far as they exist. editor: stands in the place of the text while that is edited,
    None otherwise. slice: shared by all tiles of a list. resized: its height may
    have changed. pointed: the number of a token, or NONE, its place, and whether the keyboard went there rather than
    the mouse. dragged: the mouse drags a selection to this height of the screen. requested: the name of a signal of
    the transcript and its values.
    """

    slice: LayoutSlice  # which the list sets
    resized = Signal()
    pointed = Signal(int, QRect, bool)
    dragged = Signal(int)
    link_clicked = Signal(QUrl)
    requested = Signal(str, tuple)

    def __init__(self, entry: MessageEntry, options: DisplayOptions, footer: MessageFooter, parent: QWidget) -> None:
        super().__init__(parent)
        self.entry, self.options, self.footer = entry, options, footer
        self.pages: dict[int, TextPage] = {}
        self.selection = Selection(self.pages)
        self.focused = False  # the focus is within
        self.editor: MessageEditor | None = None
        self._focused_after: QWidget = footer.buttons[EDIT.name]  # what has the focus once the editor is left
        self._tops: dict[int, int] = {}  # where each page stands, whether it exists or not
        self._hovered = self._last = False
        self._held: tuple[TextPage, int] | None = None  # where a drag began, and where on the screen it is
        footer.setParent(self)
        footer.version_chosen.connect(lambda version: self.requested.emit("select", (version,)))
        footer.triggered.connect(self._run)

    @property
    def has_work_left(self) -> bool:
        """Whether it has left something to read, divide or lay out for the next turn."""
        return False

    def arrange(self, width: int, top: int, bottom: int) -> int:
        """Lays out what is between `top` and `bottom`, px from the tile's top, in a column of `width`. Returns the
        height of the tile."""
        raise NotImplementedError

    def focus_widgets(self) -> list[QWidget]:
        """Returns what the keyboard reaches, in order."""
        raise NotImplementedError

    def place_at(self, y: int) -> TextPlace | None:
        """Returns the place in the text at `y`; None where there is no text."""
        for number, page in self.pages.items():
            if number in self._tops and page.y() <= y < page.y() + page.height():
                character = page.character_at(y - page.y())
                return TextPlace(number, character, y - page.y() - page.top_of(character))
        return None

    def y_of(self, place: TextPlace) -> int:
        """Returns where `place` is now, px from the tile's top."""
        page, top = self.pages.get(place.page), self._tops.get(place.page, 0)
        return top if page is None else round(top + page.top_of(place.character) + place.offset)

    def top_of(self, number: int) -> int:
        """Returns where a page begins, px from the tile's top, as far as is known."""
        return self._tops.get(number, 0)

    def set_options(self, options: DisplayOptions) -> None:
        """Shows the message by these options from the next `arrange` on."""
        find, self.options = self.options.find, options
        if options.find != find:
            self.show_found()
        self.update()

    def show_found(self) -> None:
        """Marks what is looked for in all pages."""
        for page in self.pages.values():
            page.show_found(self.options.find)

    def refresh(self) -> None:
        """Shows the record of the entry, which may have changed."""
        self.footer.show_record(self.entry.record, self.entry.check_progress, self.entry.check_error)

    def step(self, by: int) -> None:
        """Moves the token cursor, where there are tokens."""

    def clear_token(self) -> bool:
        """Removes the token cursor. Returns whether there was one."""
        return False

    @property
    def kept(self) -> bool:
        """Whether it has to stay although it is out of view, because the user is at work in it."""
        return self.focused or bool(self.selection) or self.editor is not None

    def _run(self, action: FooterAction) -> None:
        if action == EDIT:
            self.begin_edit(self.footer.buttons[EDIT.name])
        elif action.request:
            self.requested.emit(action.request, (self.entry.record.id,))
        else:
            _copy(self._copied(action))
            self.footer.buttons[action.name].show_done()

    def _copied(self, action: FooterAction) -> str:
        """Returns what an action copies."""
        return self.entry.record.text

    # --- editing ------------------------------------------------------------------------------

    def begin_edit(self, focused_after: QWidget) -> None:
        """Opens the editor, if it is not open. focused_after: what has the focus once the editor is left."""
        self._focused_after = focused_after
        editor = self.editor or self._open_editor()
        editor.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def _restore_editor(self) -> None:
        """Opens the editor where it was open, and says where the text of an edit is kept."""
        self._show_edit_button()
        if self.entry.editing:
            self._open_editor()

    def _open_editor(self) -> MessageEditor:
        """Opens the editor with what was typed in it last, without giving it the focus."""
        self.editor = editor = MessageEditor(self.entry.record, self.entry.edit, self)
        self.entry.editing = True
        editor.saved.connect(self._save)
        editor.changed.connect(self._keep)
        editor.left.connect(self._end_edit)
        editor.discarded.connect(self._discard)
        editor.resized.connect(self.resized)
        self._show_parts()
        return editor

    def _save(self, text: str) -> None:
        """Asks for the edit. The branch with the new text has another tile; where it is refused, the editor stays."""
        self.requested.emit("edit", (self.entry.record.id, text))

    def _keep(self, text: str) -> None:
        self.entry.edit = text
        self.requested.emit("edit_changed", (self.entry.record.id, text))

    def _discard(self) -> None:
        self._keep("")
        self._end_edit()

    def _end_edit(self) -> None:
        """Closes the editor. What was typed is there when it is opened again."""
        self.entry.editing = False
        if self.editor is not None:
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
            self._show_parts()
            self._focused_after.setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_parts(self) -> None:
        """Shows the editor or what stands in its place."""
        self.footer.setVisible(self.editor is None)
        self._show_edit_button()
        if self.editor is not None:
            self.editor.show()
        self.resized.emit()
        self.update()

    def _show_edit_button(self) -> None:
        """Has the button say, and stay shown, where the text of an edit is kept."""
        self.footer.buttons[EDIT.name].set_word(_CONTINUE if self.entry.edit else EDIT.word)
        self.footer.always = EDIT.name if self.entry.edit else ""
        self._show_actions()

    # --- pages --------------------------------------------------------------------------------

    def _add_page(self, number: int, page: TextPage, name: str) -> TextPage:
        page.setAccessibleName(name)
        page.pointed.connect(lambda token: self.pointed.emit(token, self._box_of(token), False))
        page.link_clicked.connect(self.link_clicked)
        page.pressed.connect(lambda: self.selection.clear(but=page))
        page.dragged.connect(lambda place: self._drag(page, place.y()))
        page.copy_asked.connect(self.copy)
        page.menu_asked.connect(self._open_menu)
        self.pages[number] = page
        return page

    def _box_of(self, token: int) -> QRect:
        """Returns the place of a token in the tile; empty where it is not seen."""
        boxes = ((page, page.box_of(token)) for page in self.pages.values())
        return next((box.translated(page.pos()) for page, box in boxes if not box.isNull()), QRect())

    def _drag(self, page: TextPage, y: int) -> None:
        self._held = (page, y)
        self.drag_on()
        self.dragged.emit(y)

    def drag_on(self) -> None:
        """Extends the selection to the mouse, below which the view may have scrolled."""
        if self._held is not None and self._held[0] in self.pages.values():
            page, y = self._held
            self.selection.drag(page, self.mapFromGlobal(QPoint(0, y)).y())

    # --- keys and menu ------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        by = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.selection.select_all()
        elif by and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            self.step(by)
        elif event.key() == Qt.Key.Key_Escape and self.clear_token():
            self.pointed.emit(NONE, QRect(), True)
        else:
            event.ignore()

    def copy(self) -> None:
        """Copies the selection; does nothing without one."""
        if self.selection:
            _copy(self.selection.text)

    def _open_menu(self, page: TextPage, place: QPoint) -> None:
        link, code = page.anchorAt(place), page.code_at(place.y())
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Copy", self.copy).setEnabled(bool(self.selection))
        menu.addAction("Copy Message", lambda: _copy(self.entry.record.text or self.entry.source))
        if code is not None:
            menu.addAction("Copy Code", lambda: _copy(code))
        if link:
            menu.addAction("Copy Link", lambda: _copy(link))
        menu.popup(page.mapToGlobal(place))

    # --- what shows the actions ---------------------------------------------------------------

    def set_last(self, last: bool) -> None:
        """Whether this is the last message, which always shows its actions."""
        self._last = last
        self._show_actions()

    def set_focused(self, focused: bool) -> None:
        """Whether the focus is within."""
        self.focused = focused
        self._show_actions()
        self.update()

    def enterEvent(self, event: QEnterEvent) -> None:
        self._hovered = True
        self._show_actions()

    def leaveEvent(self, event: QEvent) -> None:
        self._hovered = False
        self._show_actions()

    def _show_actions(self) -> None:
        self.footer.show_actions(self._hovered or self.focused or self._last)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.focused:
            painter = QPainter(self)
            painter.fillRect(SIDE // 2, GAP // 2, _BAR, self.height() - GAP, QColor(theme.current().accent))
            painter.end()


def _copy(text: str) -> None:
    QGuiApplication.clipboard().setText(text)
