"""The side sheet with the settings of the chat that is open. What is changed holds from the next reply on."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.records import ChatSettings
from app.window.fonts import font
from app.window.look import GAP, LIGHT, Look
from app.window.shell.chat_form import ChatForm
from app.window.shell.presets import Presets
from app.window.shell.styles import controls_style, faint_style
from app.window.shell.widgets import IconButton, wrapped


class ChatPanel(QWidget):
    """changed(ChatSettings): the user made it so. reset: back to the settings of new chats. shown(): it came into
    sight."""

    changed = Signal(object)
    reset = Signal()
    closed = Signal()
    shown = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sheet")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.presets, self.form, self.state = Presets(), ChatForm(), wrapped()
        self.title, self.close_button = QLabel("Chat settings"), IconButton("close", "Close chat settings")
        self.defaults, self._scroll = QPushButton("Reset to defaults"), QScrollArea()
        self._saved: Mapping[str, ChatSettings] = {}
        self._look, self._worn = LIGHT, False
        self._set_up()
        self.form.changed.connect(self._change)
        self.defaults.clicked.connect(self.reset)
        self.close_button.clicked.connect(self.closed)

    def show_chat(self, settings: ChatSettings, presets: Mapping[str, ChatSettings]) -> None:
        """Show the settings of this chat, and the presets there are."""
        self._saved = presets
        self.form.show_settings(settings)
        self.presets.show_all(presets, settings)

    def show_state(self, text: str) -> None:
        """What became of the pair: whether speculation is on, and why not."""
        self.state.setText(text)
        self.state.setVisible(bool(text))

    def set_look(self, look: Look) -> None:
        """Shown at once where it is in sight, else when it comes there: its many controls cost the start time."""
        self._look, self._worn = look, False
        if self.isVisible():
            self._wear(look)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.shown.emit()
        if not self._worn:
            self._wear(self._look)

    def _wear(self, look: Look) -> None:
        self._worn = True
        self.presets.set_look(look)
        self.form.set_look(look)
        self.close_button.set_look(look)
        self.title.setFont(font(look, 14, QFont.Weight.DemiBold))
        self.state.setStyleSheet(faint_style(look, 12))
        self.setStyleSheet(
            f"#sheet {{ background: {look.background}; }} QLabel {{ background: transparent; }}"
            f"#sheet > QScrollArea, #sheet > QScrollArea > QWidget > ChatForm {{ background: {look.background}; }}"
            + controls_style(look)
        )

    def _change(self, settings: ChatSettings) -> None:
        self.presets.show_all(self._saved, settings)
        self.changed.emit(settings)

    def _set_up(self) -> None:
        top = QHBoxLayout()
        top.setContentsMargins(2 * GAP, 10, GAP, 0)
        top.addWidget(self.title, 1)
        top.addWidget(self.close_button)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidget(self.form)
        head = QVBoxLayout()
        head.setContentsMargins(2 * GAP, 0, 2 * GAP, GAP)
        head.setSpacing(GAP)
        head.addWidget(self.state)
        head.addWidget(self.presets)
        foot = QHBoxLayout()
        foot.setContentsMargins(2 * GAP, GAP, 2 * GAP, 12)
        foot.addWidget(self.defaults)
        foot.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GAP)
        column.addLayout(top)
        column.addLayout(head)
        column.addWidget(self._scroll, 1)
        column.addLayout(foot)
