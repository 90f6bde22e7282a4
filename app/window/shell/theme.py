"""From the reader's preferences and the system to the Look that is shown: scheme, accent, text size, motion."""

from __future__ import annotations

import sys
from dataclasses import replace

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from app.window.look import LOOKS, Look, Scheme, with_accent
from app.window.shell.motion import system_reduces_motion
from app.window.shell.preferences import Preferences

NATIVE = sys.platform == "darwin"


class Theme(QObject):
    """Keeps the application in the reader's look, and says when it changes: the reader or the system may do that."""

    changed = Signal(object)  # Look
    _system: QPalette | None = None  # before any of ours was set, so that its accent is the system's

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._preferences = Preferences()
        self._hints = QGuiApplication.styleHints()
        self._hints.setTabFocusBehavior(Qt.TabFocusBehavior.TabFocusAllControls)
        Theme._system = Theme._system or QGuiApplication.palette()
        if not NATIVE:
            QApplication.setStyle("Fusion")
        self.look, self._shown = self._made(), False
        self._hints.colorSchemeChanged.connect(self.follow)

    def apply(self, preferences: Preferences) -> None:
        """Show what the reader chose."""
        self._preferences = preferences
        wanted = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}.get(preferences.scheme)
        if wanted is None:
            self._hints.unsetColorScheme()
        else:
            self._hints.setColorScheme(wanted)
        self.follow()

    @property
    def reduced_motion(self) -> bool:
        """Whether nothing should move that need not."""
        if self._preferences.motion == "system":
            return system_reduces_motion()
        return self._preferences.motion == "reduced"

    @property
    def scheme(self) -> Scheme:
        """Light or dark; light where neither the reader nor the system says."""
        if self._preferences.scheme != "system":
            return self._preferences.scheme
        return "dark" if self._hints.colorScheme() == Qt.ColorScheme.Dark else "light"

    def follow(self) -> None:
        """The system may have changed its scheme or its accent."""
        look = self._made()
        if look == self.look and self._shown:
            return
        self.look, self._shown = look, True
        if not NATIVE:  # macOS colours its own controls, in its own accent
            QGuiApplication.setPalette(palette(self.look))
        self.changed.emit(self.look)

    def _made(self) -> Look:
        look = replace(LOOKS[self.scheme], scale=self._preferences.scale)
        accent = QGuiApplication.palette() if NATIVE else Theme._system
        if accent is None or not accent.isBrushSet(QPalette.ColorGroup.Active, QPalette.ColorRole.Accent):
            return look
        return with_accent(look, accent.color(QPalette.ColorRole.Accent).name())


def palette(look: Look) -> QPalette:
    """For a style that draws controls in the colours it is given."""
    role = QPalette.ColorRole
    colours = {
        role.Window: look.background,
        role.WindowText: look.text,
        role.Base: look.background,
        role.AlternateBase: look.raised,
        role.Text: look.text,
        role.Button: look.raised,
        role.ButtonText: look.text,
        role.BrightText: look.error,
        role.ToolTipBase: look.raised,
        role.ToolTipText: look.text,
        role.PlaceholderText: look.faint,
        role.Highlight: look.accent,
        role.HighlightedText: look.on_accent,
        role.Accent: look.accent,
        role.Link: look.accent,
        role.LinkVisited: look.accent,
        role.Mid: look.hairline,
        role.Midlight: look.hover,
        role.Light: look.raised,
        role.Dark: look.hairline,
        role.Shadow: look.hairline,
    }
    made = QPalette()
    for of, colour in colours.items():
        made.setColor(of, QColor(colour))
    for of in (role.WindowText, role.Text, role.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, of, QColor(look.faint))
    return made
