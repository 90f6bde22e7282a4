"""Named presets of chat settings: choose, save, delete. Saving under an existing name replaces it, with a warning."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.store.records import ChatSettings
from app.window.common.form_fields import choice
from app.window.common.widgets import wrapped

NO_PRESET = "No Preset"
LONGEST_NAME = 60


class Presets(QWidget):
    """The presets of all chats. The one that equals the settings of the chat is shown as chosen."""

    used = Signal(str)
    saved = Signal(str)
    deleted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.box, self.save, self.delete = choice({}), QPushButton("Save…"), QPushButton("Delete")
        self.name, self.confirm, self.cancel = QLineEdit(), QPushButton("Save"), QPushButton("Cancel")
        self.warning, self._naming = wrapped(role="caption"), QWidget()
        self._presets: Mapping[str, ChatSettings] = {}
        self._set_up()
        self.box.activated.connect(lambda _: self._use())
        self.save.clicked.connect(self._begin)
        self.delete.clicked.connect(lambda: self.deleted.emit(self.box.currentData()))
        self.name.textChanged.connect(self._check)
        self.name.returnPressed.connect(self._save)
        self.confirm.clicked.connect(self._save)
        self.cancel.clicked.connect(self._end)
        self._end()

    def show_all(self, presets: Mapping[str, ChatSettings], settings: ChatSettings) -> None:
        """Shows these presets, and which of them equals `settings`."""
        self._presets = presets
        self.box.clear()
        self.box.addItem(NO_PRESET, "")
        for name in sorted(presets, key=str.casefold):
            self.box.addItem(name, name)
        same = next((name for name, of in presets.items() if of == settings), "")
        self.box.setCurrentIndex(self.box.findData(same))
        self.delete.setEnabled(bool(same))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._naming.isVisible():
            self._end()
        else:
            super().keyPressEvent(event)

    def _set_up(self) -> None:
        self.name.setPlaceholderText("Name")
        self.name.setMaxLength(LONGEST_NAME)
        for control, name in (
            *((self.box, "Preset"), (self.save, "Save as Preset"), (self.delete, "Delete Preset")),
            *((self.name, "Preset Name"), (self.confirm, "Save Preset"), (self.cancel, "Cancel Saving")),
        ):
            control.setAccessibleName(name)
        first, second = QHBoxLayout(), QHBoxLayout(self._naming)
        for row, widgets in (
            (first, (self.box, self.save, self.delete)),
            (second, (self.name, self.confirm, self.cancel)),
        ):
            row.setContentsMargins(0, 0, 0, 0)
            row.setSpacing(6)
            for place, widget in enumerate(widgets):
                row.addWidget(widget, 0 if place else 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(first)
        column.addWidget(self._naming)
        column.addWidget(self.warning)

    def _use(self) -> None:
        if name := self.box.currentData():
            self.used.emit(name)

    def _begin(self) -> None:
        self.name.setText(self.box.currentData() or "")
        self._naming.show()
        self._check()
        self.name.setFocus()
        self.name.selectAll()

    def _check(self) -> None:
        name = " ".join(self.name.text().split())
        self.confirm.setEnabled(bool(name))
        self.warning.setText(f"Replaces the preset “{name}”." if name in self._presets else "")
        self.warning.setVisible(bool(self.warning.text()))

    def _save(self) -> None:
        if name := " ".join(self.name.text().split()):
            self._end()
            self.saved.emit(name)

    def _end(self) -> None:
        self._naming.hide()
        self.warning.hide()
