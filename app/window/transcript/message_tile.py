"""A message as a widget: its text, the line of numbers and buttons below it, and what questions and replies share."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QRect, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QEnterEvent, QGuiApplication, QKeyEvent, QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSizePolicy, QWidget

from app.reply_statistics import in_words
from app.store.records import MessageRecord
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.widgets import ElidedLabel, IconButton, label
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.receipt_badge import ReceiptBadge
from app.window.transcript.reply_body import TextPlace
from app.window.transcript.text_page import BUTTON, NONE, SIDE, DisplayOptions, Selection, TextPage

BETWEEN = 2 * GAP  # px between messages
_BAR = 3  # px, what shows that a message has the focus

FooterActions = tuple[tuple[str, str], ...]  # (icon, name)

COPY, COPY_PLAIN, REGENERATE, CONTINUE, EDIT, RACE, VERIFY = (
    ("copy", "Copy Message"),
    ("plain", "Copy as Plain Text"),
    ("again", "Regenerate"),
    ("continue", "Continue"),
    ("edit", "Edit"),
    ("race", "Race This Prompt"),
    ("verify", "Verify"),
)
STOP_VERIFYING = ("stop", "Stop Verifying")


class FooterButton(IconButton):
    """A button that the keyboard always reaches, but that is seen only when `shown`, focused or hovered."""

    shown = False

    def __init__(self, shape: str, name: str, parent: QWidget) -> None:
        super().__init__(shape, name, parent, BUTTON)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.shown or self.hasFocus() or self.underMouse():
            super().paintEvent(event)


class MessageFooter(QWidget):
    """The line below a message: its receipt, its numbers, which version it is, and what can be done with it.

    triggered: the name of an action. version_chosen: the id of another version. right: whether it stands at the right.
    """

    triggered = Signal(str)
    version_chosen = Signal(int)

    def __init__(self, record: MessageRecord, actions: FooterActions, right: bool = False) -> None:
        super().__init__()
        self._record = record
        self._shown = self._verifying = False
        self.buttons = {name: FooterButton(shape, name, self) for shape, name in actions}
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
        for part in (self.badge, self.numbers, self.before, self._place, self.after):
            row.addWidget(part, 1 if part is self.numbers else 0)
        if right:
            row.insertStretch(0)
        for name, button in self.buttons.items():
            row.addWidget(button)
            button.clicked.connect(lambda _=False, name=name: self.triggered.emit(name))
        for arrow, by in ((self.before, -1), (self.after, 1)):
            arrow.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            arrow.clicked.connect(lambda _=False, by=by: self._choose_version(by))
        self.show_record(record)

    def show_record(self, record: MessageRecord, verifying: str = "", failure: str = "") -> None:
        """Shows what is known of the message now. verifying: how far its verification is. failure: why the last one
        came to nothing. Both may be ""."""
        self._record = record
        self.badge.show_record(record, verifying, failure)
        self._verifying = bool(verifying)
        if (button := self.buttons.get(VERIFY[1])) is not None:
            button.set_shape(*(STOP_VERIFYING if verifying else VERIFY))
            button.shown = self._shown or self._verifying  # what goes on can be stopped without looking for it
        several = record.versions > 1
        for part in (self.before, self._place, self.after):
            part.setVisible(several)
        self._place.setText(f"{record.version}/{record.versions}")
        self._place.setAccessibleName(f"Version {record.version} of {record.versions}")
        self.before.setEnabled(self._version(-1) is not None)
        self.after.setEnabled(self._version(1) is not None)
        self.numbers.setText(in_words(record.statistics) if record.statistics else "")

    def show_actions(self, shown: bool) -> None:
        """Shows or hides the buttons."""
        if shown != self._shown:
            self._shown = shown
            for name, button in self.buttons.items():
                button.shown = shown or (self._verifying and name == VERIFY[1])
                button.update()

    def focus_widgets(self) -> list[QWidget]:
        """Returns what the keyboard reaches, in order."""
        found = [self.badge, self.before, self.after, *self.buttons.values()]
        return [button for button in found if button.isVisibleTo(self) and button.isEnabled()]

    def _version(self, by: int) -> int | None:
        place = self._record.version - 1 + by
        return self._record.siblings[place] if 0 <= place < len(self._record.siblings) else None

    def _choose_version(self, by: int) -> None:
        version = self._version(by)
        if version is not None:
            self.version_chosen.emit(version)


class MessageTile(QWidget):
    """A message near the view. It is as wide as the column and SIDE px more at both sides.

    resized: its height may have changed. pointed, stepped: a token by the mouse or the keyboard, and its place.
    dragged: the mouse drags a selection to this height of the screen.
    """

    resized = Signal()
    pointed = Signal(int, QRect)
    stepped = Signal(int, QRect)
    dragged = Signal(int)
    link_clicked = Signal(QUrl)
    regenerate = Signal(int)
    resume = Signal(int)
    edit = Signal(int, str)
    select = Signal(int)
    race = Signal(int)
    verify = Signal(int)

    def __init__(self, entry: MessageEntry, options: DisplayOptions, footer: MessageFooter, parent: QWidget) -> None:
        super().__init__(parent)
        self.entry, self.options, self.footer = entry, options, footer
        footer.setParent(self)
        footer.version_chosen.connect(self.select)
        self.focused = False  # the focus is within
        self._hovered = self._last = False

    def arrange(self, width: int, top: int, bottom: int) -> int:
        """Lays out what is between `top` and `bottom`, px from the tile's top, in a column of `width`. Returns the
        height of the tile."""
        raise NotImplementedError

    def place_at(self, y: int) -> TextPlace | None:
        """Returns the place in the text at `y`; None where there is no text."""
        raise NotImplementedError

    def y_of(self, place: TextPlace) -> int:
        """Returns where `place` is now, px from the tile's top."""
        raise NotImplementedError

    def focus_widgets(self) -> list[QWidget]:
        """Returns what the keyboard reaches, in order."""
        raise NotImplementedError

    def set_options(self, options: DisplayOptions) -> None:
        """Shows the message by these options from the next `arrange` on."""
        self.options = options
        self.update()

    def refresh(self) -> None:
        """Shows the record of the entry, which may have changed."""
        self.footer.show_record(self.entry.record, self.entry.check_progress, self.entry.check_error)

    def refresh_text(self) -> None:
        """Shows more of the text."""

    def step(self, by: int) -> bool:
        """Moves the token cursor; False where there are no tokens."""
        return False

    def clear_token(self) -> bool:
        """Removes the token cursor. Returns whether there was one."""
        return False

    def drag_on(self) -> None:
        """Extends the selection after the view was scrolled below the mouse."""

    @property
    def selection(self) -> Selection:
        """The selection in its text."""
        raise NotImplementedError

    @property
    def kept(self) -> bool:
        """Whether it has to stay although it is out of view, because the user is at work in it."""
        return self.focused or bool(self.selection)

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
            self.stepped.emit(NONE, QRect())
        else:
            event.ignore()

    def copy(self) -> None:
        """Copies the selection; does nothing without one."""
        if self.selection:
            _copy(self.selection.text)

    def open_menu(self, page: TextPage, place: QPoint) -> None:
        """Opens the context menu at a place of a page."""
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
