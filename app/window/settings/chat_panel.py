"""The side sheet with the settings of the open chat. Changes apply from the next reply on."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.store.records import ChatSettings
from app.window.common.appearance import GAP
from app.window.common.widgets import IconButton, label, style, wrapped
from app.window.settings.chat_form import ChatForm
from app.window.settings.presets import Presets


class ChatPanel(QWidget):
    """changed(ChatSettings): the user changed something. reset(): back to the defaults. shown(): it became visible."""

    changed = Signal(object)
    reset = Signal()
    closed = Signal()
    shown = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.presets, self.form, self.state = Presets(), ChatForm(), wrapped(role="detail")
        self.close_button = IconButton("close", "Close Chat Settings")
        self.defaults, self._scroll = QPushButton("Reset to Defaults"), QScrollArea()
        self._saved: Mapping[str, ChatSettings] = {}
        self._lay_out()
        self.form.changed.connect(self._change)
        self.defaults.clicked.connect(self.reset)
        self.close_button.clicked.connect(self.closed)

    def show_chat(self, settings: ChatSettings, presets: Mapping[str, ChatSettings]) -> None:
        """Shows the settings of this chat, and the presets there are."""
        self._saved = presets
        self.form.show_settings(settings)
        self.presets.show_all(presets, settings)

    def show_state(self, text: str) -> None:
        """Shows whether speculation is on, and why not."""
        self.state.setText(text)
        self.state.setVisible(bool(text))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.shown.emit()

    def _change(self, settings: ChatSettings) -> None:
        self.presets.show_all(self._saved, settings)
        self.changed.emit(settings)

    def _lay_out(self) -> None:
        style(self, ground="page")
        style(self._scroll, ground="page")
        top = QHBoxLayout()
        top.setContentsMargins(2 * GAP, 10, GAP, 0)
        top.addWidget(label("Chat Settings", "header"), 1)
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
