"""Before a link opens, its whole address is shown."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.window.reading.links import safe_link

_ENCODED = QUrl.ComponentFormattingOption.FullyEncoded


def ask_to_open(parent: QWidget | None, url: QUrl) -> None:
    """Shows the whole address, and opens it in the browser or mail program on consent. Returns at once. An address
    that `safe_link` refuses is not even asked about."""
    address = safe_link(url.toString(_ENCODED))
    if address is not None:
        OpenLink(address, parent).open()


class OpenLink(QDialog):
    """Asks whether to open an address."""

    def __init__(self, address: QUrl, parent: QWidget | None) -> None:
        super().__init__(parent)
        self._address = address
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Open Link")
        self.setMinimumWidth(420)
        title = QLabel(_question(address))
        title.setTextFormat(Qt.TextFormat.PlainText)
        title.setWordWrap(True)
        font = title.font()
        font.setBold(True)
        title.setFont(font)
        said = QLabel("A model wrote this link. It may lead elsewhere than its text says.")
        said.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        for part in (title, self._address_box(), said, self._buttons()):
            layout.addWidget(part)
        self.accepted.connect(self._open)

    def _address_box(self) -> QPlainTextEdit:
        box = QPlainTextEdit(self._address.toString(_ENCODED))
        box.setReadOnly(True)
        box.setTabChangesFocus(True)
        box.setAccessibleName("Address")
        box.setFixedHeight(box.fontMetrics().lineSpacing() * 4)
        return box

    def _buttons(self) -> QDialogButtonBox:
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        opens = buttons.addButton("Open", QDialogButtonBox.ButtonRole.AcceptRole)
        copies = buttons.addButton("Copy Address", QDialogButtonBox.ButtonRole.ActionRole)
        opens.setDefault(True)
        copies.clicked.connect(self._copy)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        for button in buttons.findChildren(QPushButton):
            button.setAccessibleName(button.text().replace("&", ""))
        return buttons

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._address.toString(_ENCODED))

    def _open(self) -> None:
        QDesktopServices.openUrl(self._address)


def _question(address: QUrl) -> str:
    """Names the host as the network knows it, so that look-alike letters do not deceive."""
    if address.scheme() == "mailto":
        return f"Write a mail to {address.path(_ENCODED)}?"
    return f"Open {address.host(_ENCODED)} in the browser?"
