"""All packages on the left, the chosen one's licence on the right."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QDialog, QHBoxLayout, QListWidget, QListWidgetItem, QPlainTextEdit, QWidget

from app.window.about.components import Component, components
from app.window.fonts import font
from app.window.look import GAP, Look
from app.window.shell.styles import controls_style, scroll_style

TITLE = "Licences"
LIST_WIDTH = 260


class LicencesDialog(QDialog):
    """found: what to show, the packages that run here if None."""

    def __init__(self, look: Look, parent: QWidget | None = None, found: list[Component] | None = None) -> None:
        super().__init__(parent)
        self._components = components() if found is None else found
        self.setObjectName("licences")
        self.setWindowTitle(TITLE)
        self.packages, self.text = QListWidget(), QPlainTextEdit()
        self.packages.setAccessibleName("Packages")
        self.packages.setFixedWidth(LIST_WIDTH)
        self.packages.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.text.setAccessibleName("Licence")
        self.text.setReadOnly(True)
        for component in self._components:
            item = QListWidgetItem(f"{component.name} {component.version}")
            item.setToolTip(component.licence)
            self.packages.addItem(item)
        self.packages.currentRowChanged.connect(self._show)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * GAP, 2 * GAP, 2 * GAP, 2 * GAP)
        row.setSpacing(GAP)
        row.addWidget(self.packages)
        row.addWidget(self.text, 1)
        self.packages.setCurrentRow(0)
        self.resize(820, 560)
        self.set_look(look)

    def set_look(self, look: Look) -> None:
        self.packages.setFont(font(look))
        fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        fixed.setPixelSize(look.px(12))
        self.text.setFont(fixed)
        self.setStyleSheet(
            f"#licences {{ background: {look.background}; }}"
            f"QListWidget {{ background: {look.raised}; color: {look.text}; border: 1px solid {look.hairline};"
            f" border-radius: 6px; padding: 4px; }}"
            f"QListWidget::item {{ padding: 3px 6px; border-radius: 4px; }}"
            f"QListWidget::item:selected {{ background: {look.accent}; color: {look.on_accent}; }}"
            + controls_style(look)
            + scroll_style(look)
            + f"QPlainTextEdit {{ font-size: {look.px(12)}px; }}"
        )

    def _show(self, row: int) -> None:
        if 0 <= row < len(self._components):
            component = self._components[row]
            head = f"{component.name} {component.version}\n{component.licence}\n{component.homepage}".rstrip()
            self.text.setPlainText(f"{head}\n\n\n{component.text()}")
