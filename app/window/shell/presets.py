"""Named presets: choose, save, delete. Saving under a name that exists replaces it, and says so before."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.records import ChatSettings
from app.window.look import Look
from app.window.shell.fields import choice
from app.window.shell.styles import faint_style
from app.window.shell.widgets import wrapped

NONE = "No preset"
LONGEST_NAME = 60


class Presets(QWidget):
    """The presets of all chats; the one that is the same as this chat's settings is shown as chosen."""

    used = Signal(str)
    saved = Signal(str)
    deleted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.box, self.save, self.delete = choice({}), QPushButton("Save…"), QPushButton("Delete")
        self.name, self.keep, self.cancel = QLineEdit(), QPushButton("Save"), QPushButton("Cancel")
        self.said, self._naming = wrapped(), QWidget()
        self._presets: Mapping[str, ChatSettings] = {}
        self._set_up()
        self.box.activated.connect(lambda _: self._use())
        self.save.clicked.connect(self._begin)
        self.delete.clicked.connect(lambda: self.deleted.emit(self.box.currentData()))
        self.name.textChanged.connect(self._check)
        self.name.returnPressed.connect(self._keep)
        self.keep.clicked.connect(self._keep)
        self.cancel.clicked.connect(self._end)
        self._end()

    def show_all(self, presets: Mapping[str, ChatSettings], settings: ChatSettings) -> None:
        """Show these, and which of them `settings` are."""
        self._presets = presets
        self.box.clear()
        self.box.addItem(NONE, "")
        for name in sorted(presets, key=str.casefold):
            self.box.addItem(name, name)
        same = next((name for name, of in presets.items() if of == settings), "")
        self.box.setCurrentIndex(self.box.findData(same))
        self.delete.setEnabled(bool(same))

    def set_look(self, look: Look) -> None:
        self.box.set_look(look)
        self.said.setStyleSheet(faint_style(look, 11.5))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._naming.isVisible():
            self._end()
        else:
            super().keyPressEvent(event)

    def _set_up(self) -> None:
        self.box.setAccessibleName("Preset")
        self.save.setAccessibleName("Save as a preset")
        self.delete.setAccessibleName("Delete the preset")
        self.name.setAccessibleName("Name of the preset")
        self.name.setPlaceholderText("Name")
        self.name.setMaxLength(LONGEST_NAME)
        self.keep.setAccessibleName("Save the preset")
        self.cancel.setAccessibleName("Do not save a preset")
        first, second = QHBoxLayout(), QHBoxLayout(self._naming)
        for row, widgets in (
            (first, (self.box, self.save, self.delete)),
            (second, (self.name, self.keep, self.cancel)),
        ):
            row.setContentsMargins(0, 0, 0, 0)
            row.setSpacing(6)
            for place, widget in enumerate(widgets):
                row.addWidget(widget, 0 if place else 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(first)
        column.addWidget(self._naming)
        column.addWidget(self.said)

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
        self.keep.setEnabled(bool(name))
        self.said.setText(f"Replaces the preset “{name}”." if name in self._presets else "")
        self.said.setVisible(bool(self.said.text()))

    def _keep(self) -> None:
        if name := " ".join(self.name.text().split()):
            self._end()
            self.saved.emit(name)

    def _end(self) -> None:
        self._naming.hide()
        self.said.hide()
