"""A message as a widget: what questions and replies have in common."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QRect, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QEnterEvent, QGuiApplication, QKeyEvent, QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import QMenu, QWidget

from app.window.look import GAP
from app.window.transcript.body import Place
from app.window.transcript.entry import Entry
from app.window.transcript.footer import Footer
from app.window.transcript.manner import SIDE, Manner
from app.window.transcript.page import NONE, Page
from app.window.transcript.selection import Selection

BETWEEN = 2 * GAP  # px between messages
_BAR = 3  # px, what shows that a message has the focus


class Tile(QWidget):
    """Lives while its message is near the view. It is as wide as the column and SIDE px at both sides.

    resized: its height may be another. pointed, stepped: a token by the mouse or the keyboard, and its place.
    dragged: a selection, to this height of the screen.
    """

    resized = Signal()
    pointed = Signal(int, QRect)
    stepped = Signal(int, QRect)
    dragged = Signal(int)
    link_asked = Signal(QUrl)
    regenerate = Signal(int)
    resume = Signal(int)
    edit = Signal(int, str)
    select = Signal(int)
    race = Signal(int)
    verify = Signal(int)

    def __init__(self, entry: Entry, manner: Manner, footer: Footer, parent: QWidget) -> None:
        super().__init__(parent)
        self.entry, self.manner, self.footer = entry, manner, footer
        footer.setParent(self)
        footer.select.connect(self.select)
        self.focused = False  # the focus is within
        self._hovered = self._last = False

    def arrange(self, width: int, top: int, bottom: int) -> int:
        """Lay out what is between `top` and `bottom`, px from the tile's top, in a column of `width`; the height."""
        raise NotImplementedError

    def place_at(self, y: int) -> Place | None:
        """What of the text is at `y`; None where there is none."""
        raise NotImplementedError

    def y_of(self, place: Place) -> int:
        """Where that is now."""
        raise NotImplementedError

    def stops(self) -> list[QWidget]:
        """What the keyboard reaches, in order."""
        raise NotImplementedError

    def set_manner(self, manner: Manner) -> None:
        """Show itself like this from the next `arrange` on."""
        self.manner = manner
        self.footer.set_look(manner.look)
        self.update()

    def refresh(self) -> None:
        """The record is another."""
        self.footer.tell(self.entry.record, self.entry.checking, self.entry.uncheckable)

    def refresh_text(self) -> None:
        """More of the text is to be shown."""

    def step(self, by: int) -> bool:
        """Move the token cursor; False where there are no tokens."""
        return False

    def unpoint(self) -> bool:
        """Take the token cursor away; whether there was one."""
        return False

    def drag_on(self) -> None:
        """The view was scrolled below the mouse, which still selects."""

    @property
    def selection(self) -> Selection:
        """Of its text."""
        raise NotImplementedError

    @property
    def kept(self) -> bool:
        """Whether it has to stay although it is out of view: the user is at work in it."""
        return self.focused or bool(self.selection)

    # --- keys and menu ------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        by = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.selection.choose_all()
        elif by and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            self.step(by)
        elif event.key() == Qt.Key.Key_Escape and self.unpoint():
            self.stepped.emit(NONE, QRect())
        else:
            event.ignore()

    def copy(self) -> None:
        """What is selected, to the clipboard; nothing when nothing is."""
        if self.selection:
            QGuiApplication.clipboard().setText(self.selection.text)

    def open_menu(self, page: Page, place: QPoint) -> None:
        """What can be done at a place of a page."""
        link, code = page.anchorAt(place), page.code_at(place.y())
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Copy", self.copy).setEnabled(bool(self.selection))
        menu.addAction("Copy message", lambda: _put(self.entry.record.text or self.entry.source))
        if code is not None:
            menu.addAction("Copy code", lambda: _put(code))
        if link:
            menu.addAction("Copy link", lambda: _put(link))
        menu.popup(page.mapToGlobal(place))

    # --- what shows the actions ---------------------------------------------------------------

    def set_last(self, last: bool) -> None:
        """The last message shows its actions always."""
        self._last = last
        self._show_actions()

    def set_focused(self, focused: bool) -> None:
        """The focus is within."""
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
            painter.fillRect(SIDE // 2, GAP // 2, _BAR, self.height() - GAP, QColor(self.manner.look.accent))
            painter.end()


def _put(text: str) -> None:
    QGuiApplication.clipboard().setText(text)
