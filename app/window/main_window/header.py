"""What stands above the conversation: its title, the status of speculation, buttons for what the window shows, and
banners that say what happened and what can be done about it."""

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QToolButton, QWidget

from app.window.chat.notices import Notice, SpeculationStatus
from app.window.common.appearance import GAP, TEXT_WIDTH
from app.window.common.layouts import STRETCH, column, row
from app.window.common.timer import Timer
from app.window.common.widgets import ElidedLabel, Glyph, Hairline, IconButton, announce, label, style, wrapped
from app.window.composer.composer import BOX_OVERHANG

MIN_DETAIL = 40  # px; with less room the names are left out
SETTINGS_BUTTON_FROM = 470  # px; in a narrower window the list of models and the menu open the chat's settings

# Of each state: in full, and where there is little room.
STATE_TEXTS = {
    "loading": ("Loading", "Loading"),
    "on": ("Speculation on", "On"),
    "off": ("Speculation off", "Off"),
    "unsupported": ("Speculation not available", "Not available"),
    "fell back": ("Fell back to plain decoding", "Fell back"),
    "host down": ("Engine stopped", "Engine stopped"),
    "unloaded": ("Models unloaded", "Unloaded"),
}
STATES_WITH_REASON = ("loading", "unsupported", "fell back", "host down", "unloaded")
STATE_TONES = {"on": "good", "fell back": "warning", "unsupported": "warning", "host down": "error"}

INFO_MS, OFFER_MS = 6_000, 12_000  # how long an info stays without and with an action
MAX_BANNERS = 3  # at once; the others wait
LEVEL_TONES = {"info": "accent", "warning": "warning", "error": "error"}


def status_text(status: SpeculationStatus) -> tuple[str, str]:
    """Returns the state in words, and its details: the reason where there is one, and the loaded pair."""
    drafter = status.drafter if status.state == "on" else ""
    machines = f"on {status.machines} machines" if status.machines > 1 else ""
    pair = " · ".join(name for name in (status.target, drafter, machines) if name)
    details = (status.detail, pair) if status.state in STATES_WITH_REASON else (pair,)
    return STATE_TEXTS[status.state][0], " · ".join(detail for detail in details if detail)


class StatusChip(QToolButton):
    """The status of speculation, always in words, with an icon and a colour; a press opens the list of models."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        style(self, role="flat")
        self._state = "loading"
        self._icon, self._word, self._detail = Glyph(size=14), label(role="section"), ElidedLabel(role="detail")
        self._arrow, self._row = Glyph("down", "faint", 12), QHBoxLayout(self)
        self._row.setContentsMargins(7, 2, 5, 2)
        for widget in (self._icon, self._word, self._detail, self._arrow):
            widget.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            self._row.addWidget(widget, int(widget is self._detail))
        self.show_status(SpeculationStatus("loading"))

    def show_status(self, status: SpeculationStatus) -> None:
        """Shows this status."""
        word, detail = status_text(status)
        reason = f"\n{status.detail}" if status.detail and status.detail not in detail else ""
        text = f"{word}: {detail}{reason}" if detail else f"{word}{reason}"
        tone = STATE_TONES.get(status.state, "faint")
        self._state = status.state
        self._icon.show_shape(status.state, tone)
        style(self._word, tone=tone)
        self._detail.setText(detail)
        self.setAccessibleName(f"Choose models. {text}")
        self.setToolTip(text)
        self._shorten()
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        self._word.ensurePolished()
        word = self._word.fontMetrics().horizontalAdvance(STATE_TEXTS[self._state][0])
        detail = self._detail.sizeHint().width() if self._detail.text() else 0
        return QSize(word + detail + self._room_for_others(), self._word.fontMetrics().height() + 8)

    def minimumSizeHint(self) -> QSize:
        return QSize(64, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._shorten()

    def _shorten(self) -> None:
        """Shortens the state and leaves the details out where there is no room for them."""
        full, short = STATE_TEXTS[self._state]
        metrics, room = self._word.fontMetrics(), self.width() - self._room_for_others()
        self._word.setText(full if metrics.horizontalAdvance(full) <= room else short)
        left = room - metrics.horizontalAdvance(self._word.text())
        self._detail.setVisible(bool(self._detail.text()) and left >= MIN_DETAIL)

    def _room_for_others(self) -> int:
        """Returns the px that icons and margins take."""
        return self._icon.width() + self._arrow.width() + 12 + 3 * self._row.spacing()


class Header(QWidget):
    """The title, the status of speculation, and buttons, which follow the actions that they are given."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title, self.chip = ElidedLabel(role="heading"), StatusChip()
        self.sidebar, self.new = IconButton("sidebar", "Sidebar"), IconButton("compose", "New Chat")
        self.tints, self.raw = IconButton("tints", "Token Colours"), IconButton("raw", "Raw Text")
        self.inspector, self.tune = IconButton("inspector", "Inspector"), IconButton("tune", "Chat Settings")
        self.sidebar.set_marked(False)
        self.title.setContentsMargins(8, 0, 0, 0)
        self.title.setAccessibleName("Conversation")
        self._lay_out()

    def show_title(self, title: str) -> None:
        """Shows the title of the conversation."""
        self.title.setText(title)
        self.title.setAccessibleName(f"Conversation: {title}")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.tune.setVisible(self.width() >= SETTINGS_BUTTON_FROM)

    def _lay_out(self) -> None:
        texts = column(self.title, row(self.chip, STRETCH))
        buttons = (self.tints, self.raw, self.tune, self.inspector)
        above = row(self.sidebar, self.new, (texts, 1), *buttons, margins=(GAP, 6, GAP, 6), gap=2)
        column(above, Hairline(), on=self)


# --- banners ----------------------------------------------------------------------------------


class Banner(QFrame):
    """One notice. Infos disappear after a while, but not while the pointer or the focus is on them.

    dismissed(Banner): by the user or by its timer.
    """

    dismissed = Signal(object)

    def __init__(self, notice: Notice) -> None:
        super().__init__()
        level, text = self.level, self.text = notice.level, notice.text
        style(self, kind="banner", level=level)
        self.setAccessibleName(f"{level.capitalize()}: {text}")
        self.icon, self.label = Glyph(level, LEVEL_TONES[level], 18), wrapped(text, role="body")
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.buttons = [self._button(*action) for action in notice.actions]
        self.close_button = IconButton("close", "Dismiss", size=26)
        self.close_button.clicked.connect(self.dismiss)
        self._timer = Timer(self, singleShot=True, interval=OFFER_MS if notice.actions else INFO_MS)
        self._timer.timeout.connect(self._dismiss_unless_used)
        self._lay_out()
        if level == "info":
            self._timer.start()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)

    def dismiss(self) -> None:
        """Removes the banner."""
        self.dismissed.emit(self)

    def _lay_out(self) -> None:
        icon = (self.icon, 0, Qt.AlignmentFlag.AlignVCenter)
        row(icon, (self.label, 1), *self.buttons, self.close_button, on=self, margins=(12, 6, 6, 6), gap=GAP)

    def _button(self, text: str, action: Callable[[], object]) -> QPushButton:
        button = QPushButton(text)
        style(button, role="link")
        button.clicked.connect(self.dismiss)
        button.clicked.connect(lambda: action())
        return button

    def _dismiss_unless_used(self) -> None:
        focused = any(w.hasFocus() for w in (*self.buttons, self.close_button))
        if focused or self.underMouse():
            self._timer.start()
        else:
            self.dismiss()


class NoticeBanners(QWidget):
    """The banners, newest first, as wide as the text below them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.banners: list[Banner] = []
        middle = QWidget()
        middle.setMaximumWidth(TEXT_WIDTH + BOX_OVERHANG)
        self._column = column(on=middle, margins=(0, 6, 0, 6), gap=6)
        row(STRETCH, (middle, 1000), STRETCH, on=self, margins=(2 * GAP, 0, 2 * GAP, 0))
        self.hide()

    def show_notice(self, notice: Notice) -> None:
        """Shows a notice; the same text again replaces itself."""
        for banner in [b for b in self.banners if b.text == notice.text]:
            self._remove(banner)
        banner = Banner(notice)
        banner.dismissed.connect(self._remove)
        self.banners.insert(0, banner)
        self._arrange()
        announce(banner, banner.accessibleName(), assertive=notice.level == "error")

    def _remove(self, banner: Banner) -> None:
        if banner in self.banners:
            self.banners.remove(banner)
            self._column.removeWidget(banner)
            banner.hide()
            banner.deleteLater()
            self._arrange()

    def _arrange(self) -> None:
        """Shows the newest banners, errors above others."""
        self.banners.sort(key=lambda b: b.level != "error")
        for place, banner in enumerate(self.banners):
            self._column.insertWidget(place, banner)
            banner.setVisible(place < MAX_BANNERS)
        self.setVisible(bool(self.banners))
