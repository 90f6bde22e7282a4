"""The theme of the application: the appearance that the user's preferences and the system's settings ask for.

A `Theme` applies the appearance to the whole application, as a palette and a style sheet (`style_sheet`). No widget
keeps an appearance of its own:

- It selects styles by dynamic properties: `style(label, role="detail", tone="error")`, `style(frame, kind="card")`.
  Fonts come from there too: a font set by `setFont` is lost when the style sheet changes.
- If it draws itself, it reads `theme.current()` in `paintEvent` (and in `sizeHint`, for sizes). Qt repaints every
  widget when the style sheet changes.
- An icon of `icons.icon` follows the theme. What else is cached from colours or fonts is renewed in `changeEvent` on
  `QEvent.Type.StyleChange`.

`Theme.changed` is for the few parts that are not widgets, such as documents with colours in their text formats.
"""

import sys
from dataclasses import replace

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QStyle

from app import macos
from app.palette import Scheme
from app.window.common.appearance import APPEARANCES, LIGHT, Appearance, with_accent
from app.window.common.preferences import Preferences
from app.window.common.style_sheet import style_sheet

NATIVE = sys.platform == "darwin"
_current: Appearance = LIGHT


def current() -> Appearance:
    """Returns the appearance that the application shows."""
    return _current


def show(appearance: Appearance) -> None:
    """Shows `appearance` in every window of the application."""
    global _current
    _current = appearance
    if not NATIVE:  # macOS colours its own controls, in its own accent
        QGuiApplication.setPalette(palette(appearance))
    application = QApplication.instance()
    sheet = style_sheet(appearance, NATIVE)
    if isinstance(application, QApplication) and application.styleSheet() != sheet:
        application.setStyleSheet(sheet)


class Theme(QObject):
    """Keeps the application in the appearance that the user and the system ask for. changed(Appearance)."""

    changed = Signal(object)
    _system: QPalette | None = None  # the system's palette, for its accent, before `show` replaces it

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._preferences = Preferences()
        self._hints = QGuiApplication.styleHints()
        self._hints.setTabFocusBehavior(Qt.TabFocusBehavior.TabFocusAllControls)
        Theme._system = Theme._system or QGuiApplication.palette()
        if not NATIVE:
            QApplication.setStyle("Fusion")
        self._shown: Appearance | None = None
        self._hints.colorSchemeChanged.connect(self.follow)

    @property
    def appearance(self) -> Appearance:
        """The appearance that is shown."""
        return self._shown or self._wanted()

    def apply(self, preferences: Preferences) -> None:
        """Shows the appearance that these preferences ask for."""
        self._preferences = preferences
        chosen = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}.get(preferences.scheme)
        if chosen is None:
            self._hints.unsetColorScheme()
        else:
            self._hints.setColorScheme(chosen)
        self.follow()

    @property
    def reduced_motion(self) -> bool:
        """Whether the user, or else the system, asks for less animation."""
        if self._preferences.motion == "system":
            return system_reduces_motion()
        return self._preferences.motion == "reduced"

    @property
    def scheme(self) -> Scheme:
        """Light or dark; light if neither the user nor the system says which."""
        if self._preferences.scheme != "system":
            return self._preferences.scheme
        return "dark" if self._hints.colorScheme() == Qt.ColorScheme.Dark else "light"

    def follow(self) -> None:
        """Shows the current appearance again after the system changed its colour scheme or accent."""
        wanted = self._wanted()
        if wanted != self._shown:
            self._shown = wanted
            show(wanted)
            self.changed.emit(wanted)

    def _wanted(self) -> Appearance:
        appearance = replace(APPEARANCES[self.scheme], scale=self._preferences.scale)
        system = QGuiApplication.palette() if NATIVE else Theme._system
        if system is None or not system.isBrushSet(QPalette.ColorGroup.Active, QPalette.ColorRole.Accent):
            return appearance
        return with_accent(appearance, system.color(QPalette.ColorRole.Accent).name())


def palette(appearance: Appearance) -> QPalette:
    """Returns the palette for a style that draws controls in the colours of the palette."""
    role, made = QPalette.ColorRole, QPalette()
    for colour, roles in (
        (appearance.background, (role.Window, role.Base)),
        (appearance.text, (role.WindowText, role.Text, role.ButtonText, role.ToolTipText)),
        (appearance.raised, (role.AlternateBase, role.Button, role.ToolTipBase, role.Light)),
        (appearance.accent, (role.Highlight, role.Accent, role.Link, role.LinkVisited)),
        (appearance.hairline, (role.Mid, role.Dark, role.Shadow)),
        (appearance.error, (role.BrightText,)),
        (appearance.faint, (role.PlaceholderText,)),
        (appearance.on_accent, (role.HighlightedText,)),
        (appearance.hover, (role.Midlight,)),
    ):
        for one in roles:
            made.setColor(one, QColor(colour))
    for one in (role.WindowText, role.Text, role.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, one, QColor(appearance.faint))
    return made


def system_reduces_motion() -> bool:
    """Returns whether the system is set to reduce motion. On macOS, AppKit tells; elsewhere, a style without animations
    counts as reduced motion."""
    if NATIVE:
        return macos.reduces_motion()
    return QApplication.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) == 0
