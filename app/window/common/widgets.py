"""The small widgets that every window is made of. They look up the colours of the theme while they are drawn."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, QSize, Qt
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QAction,
    QColor,
    QFont,
    QFontMetrics,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QScrollArea, QSizePolicy, QToolButton, QWidget

from app.window.common import theme
from app.window.common.appearance import LIGHT, Appearance
from app.window.common.icons import icon, pixmap
from app.window.common.timer import call_later

BAR_HEIGHT = 8  # px
DONE_MS = 1400


def style(widget: QWidget, **properties: str) -> None:
    """Selects styles of the application's style sheet by dynamic properties; `style_sheet` lists them."""
    changed = {name: value for name, value in properties.items() if widget.property(name) != value}
    for name, value in changed.items():
        widget.setProperty(name, value)
    if "ground" in changed or "kind" in changed:
        widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    if changed and widget.testAttribute(Qt.WidgetAttribute.WA_WState_Polished):
        widget.style().unpolish(widget)
        widget.style().polish(widget)
        widget.update()


def label(text: str = "", role: str = "body", tone: str = "", wrap: bool = False) -> QLabel:
    """Returns a label of plain text, which is never taken for HTML. wrap: whether it may take several lines."""
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(wrap)
    style(made, role=role, tone=tone)
    return made


def wrapped(text: str = "", role: str = "", tone: str = "") -> QLabel:
    """Returns a label of plain text that takes as many lines as it needs."""
    return label(text, role, tone, wrap=True)


class _WidthKeeper(QObject):
    """Sets the width of a widget again when the size of the text changes."""

    def __init__(self, widget: QWidget, width: Callable[[], int], set_width: Callable[[int], None]) -> None:
        super().__init__(widget)
        self._width, self._set_width = width, set_width
        widget.installEventFilter(self)
        self._set()

    def eventFilter(self, watched: QObject, event: object) -> bool:
        if isinstance(event, QEvent) and event.type() == QEvent.Type.StyleChange:
            self._set()
        return False

    def _set(self) -> None:
        self._set_width(self._width())


def keep_width(widget: QWidget, px: int) -> None:
    """Keeps a widget that holds text this wide, and wider where the text is larger than normal."""
    _WidthKeeper(widget, lambda: theme.current().scaled_width(px), widget.setFixedWidth)


def keep_min_width(widget: QWidget, px: int) -> None:
    """Lets a widget be no narrower than this, nor than its text."""
    _WidthKeeper(widget, lambda: max(px, widget.sizeHint().width()), widget.setMinimumWidth)


def fit_width(control: QWidget, px: int, texts: Sequence[str], at_least: bool = False) -> None:
    """Keeps a control this wide where the text is of normal size or smaller, and wide enough for the widest of its
    texts where it is larger. at_least: whether it may be wider."""

    def widest(font: QFont) -> int:
        return max(map(QFontMetrics(font).horizontalAdvance, texts))

    beside = px - widest(LIGHT.font())  # what is not text
    set_width = control.setMinimumWidth if at_least else control.setFixedWidth
    _WidthKeeper(control, lambda: max(px, widest(theme.current().font()) + beside), set_width)


def announce(widget: QWidget, text: str, assertive: bool = False) -> None:
    """Has assistive technology read `text` aloud: at once if it is assertive, else after what is being read."""
    if not QAccessible.isActive():
        return
    event = QAccessibleAnnouncementEvent(widget, text)
    if assertive:
        event.setPoliteness(QAccessible.AnnouncementPoliteness.Assertive)
    QAccessible.updateAccessibility(event)


_BESIDE = 6  # px, beside the icon of a button with a word


class IconButton(QToolButton):
    """A flat button with an icon, and beside it perhaps a word. Its name is its tooltip, and what assistive technology
    reads."""

    def __init__(self, shape: str, name: str, parent: QWidget | None = None, size: int = 32) -> None:
        super().__init__(parent)
        self._marked, self._done, self._word = True, False, ""
        self.tone = "faint"  # the colour of the icon, by its name in the appearance
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAutoRaise(True)
        self.setFixedSize(size, size)
        self.setIconSize(QSize(18, 18) if size > 28 else QSize(16, 16))
        style(self, role="flat")
        self.set_shape(shape, name)

    def set_shape(self, shape: str, name: str) -> None:
        """Shows another icon and another name."""
        self._shape = shape
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.update()

    def set_word(self, word: str) -> None:
        """Shows a word beside the icon."""
        self._word = word
        text = QFontMetrics(theme.current().font(12)).horizontalAdvance(word)
        self.setFixedWidth(_BESIDE + self.iconSize().width() + 4 + text + _BESIDE if word else self.height())
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._word:
            self.set_word(self._word)

    def set_marked(self, marked: bool) -> None:
        """Sets whether the button is tinted while it is checked."""
        self._marked = marked
        style(self, marked="true" if marked else "false")

    def follow(self, action: QAction) -> None:
        """Triggers `action`, and mirrors its state; the tooltip shows its shortcut."""
        self.setCheckable(action.isCheckable())
        self.clicked.connect(action.trigger)
        action.changed.connect(lambda: self._mirror(action))
        self._mirror(action)

    def show_done(self) -> None:
        """Shows a check mark for a moment."""
        self._done = True
        self.update()
        call_later(self, self._end_done, DONE_MS)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        shape = "check" if self._done else self._shape
        size = self.iconSize().width()
        painter = QPainter(self)
        look = theme.current()
        drawn = pixmap(shape, self.icon_colour(look), size, self.devicePixelRatioF())
        left = _BESIDE if self._word else (self.width() - size) // 2
        painter.drawPixmap(QPoint(left, (self.height() - size) // 2), drawn)
        if self._word:
            painter.setFont(look.font(12))
            painter.setPen(QColor(self.icon_colour(look)))
            painter.drawText(self.rect().adjusted(left + size + 4, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self._word)
        painter.end()

    def icon_colour(self, look: Appearance) -> str:
        """Returns the colour of the icon in its present state."""
        if self._done:
            return look.good
        if not self.isEnabled():
            return look.hairline
        return look.accent if self.isChecked() and self._marked else look.colour(self.tone)

    def _end_done(self) -> None:
        self._done = False
        self.update()

    def _mirror(self, action: QAction) -> None:
        self.setEnabled(action.isEnabled())
        self.setChecked(action.isChecked())
        keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        self.setToolTip(f"{self.accessibleName()} ({keys})" if keys else self.accessibleName())


class Glyph(QWidget):
    """An icon. tone: its colour, by its name in the appearance. size: px at scale 1."""

    def __init__(self, shape: str = "", tone: str = "text", size: float = 16, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shape, self._tone, self._size = shape, tone, size
        self._resize()

    def show_shape(self, shape: str, tone: str) -> None:
        """Shows an icon in a colour of the appearance."""
        self._shape, self._tone = shape, tone
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._resize()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._shape:
            look, painter = theme.current(), QPainter(self)
            drawn = pixmap(self._shape, look.colour(self._tone), self.width(), self.devicePixelRatioF())
            painter.drawPixmap(0, 0, drawn)
            painter.end()

    def _resize(self) -> None:
        px = theme.current().px(self._size)
        self.setFixedSize(px, px)


class ElidedLabel(QLabel):
    """One line of text that is cut with an ellipsis if it is too long; the tooltip then shows all of it."""

    def __init__(self, text: str = "", parent: QWidget | None = None, role: str = "") -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setText(text)
        style(self, role=role)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.contentsRect().width())
        painter.drawText(self.contentsRect(), self.alignment(), text)
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        cut = self.fontMetrics().horizontalAdvance(self.text()) > self.contentsRect().width()
        self.setToolTip(self.text() if cut else "")


class Hairline(QFrame):
    """A horizontal line of 1 px between two parts of a window."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(1)


def search_field(name: str) -> QLineEdit:
    """Returns a field for search words. name: what it searches, for assistive technology."""
    field = QLineEdit()
    style(field, role="search")
    field.setPlaceholderText("Search")
    field.setAccessibleName(name)
    field.setClearButtonEnabled(True)
    field.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
    return field


class ProgressBar(QWidget):
    """A bar that shows how much of something is done. name: of what, for assistive technology."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(BAR_HEIGHT)
        self.setAccessibleName(name)
        self.share, self._done = 0.0, False

    def show_share(self, share: float, done: bool) -> None:
        """share: 0 to 1. done: whether it has ended, which a full bar does not say."""
        if (share, done) != (self.share, self._done):
            self.share, self._done = share, done
            self.setAccessibleDescription(f"{share:.0%}")
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        draw_bar(painter, QRectF(self.rect()), self.share, look.good if self._done else look.accent, look.hairline)
        painter.end()


def draw_bar(painter: QPainter, rect: QRectF, share: float, colour: str, ground: str) -> None:
    """Draws a rounded bar on its ground, filled from the left by `share`, 0 to 1."""
    filled, radius = QRectF(rect), rect.height() / 2
    filled.setWidth(max(rect.height(), rect.width() * share) if share else 0)
    painter.setPen(Qt.PenStyle.NoPen)
    for part, fill in ((rect, ground), (filled, colour)):
        painter.setBrush(QColor(fill))
        painter.drawRoundedRect(part, radius, radius)


def scroll_area(inside: QWidget) -> QScrollArea:
    """Returns an area of a page in which `inside`, as wide as the area, scrolls up and down."""
    area = QScrollArea()
    style(area, ground="page")
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidget(inside)
    return area
