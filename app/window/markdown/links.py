"""Links: which addresses may become links, and the dialog that shows the whole address before one opens."""

import re

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

SCHEMES = ("http", "https", "mailto")
LONGEST_ADDRESS = 2048
_MAIL_FIELDS = {"subject", "body", "cc"}  # attach= makes some programs send files

# Printable ASCII, letters and signs beyond it: no space, control, quote or what else programs read differently.
_PLAIN = re.compile(
    r"[!#-;=?-\[\]_a-z~\u00a1-\u167f\u1681-\u1fff\u2190-\u2fff\u3001-\ud7ff\U00010000-\U0003ffff]+", re.I
)
_UNSAFE_ESCAPE = re.compile(r"%(?:[01][0-9a-f]|7f|5c)|%(?![0-9a-f]{2})", re.IGNORECASE)
_WEB = re.compile(r"https?://[^/?#@%\\]+(?:[/?#].*)?", re.IGNORECASE)
_MAIL = re.compile(r"mailto:[\w.!#$&'*+/=?^`{|}~-]+@[\w-]+(?:\.[\w-]+)*(?:\?(.*))?", re.IGNORECASE)


def safe_link(address: str) -> QUrl | None:
    """Returns the address normalised, its host in punycode; None for what is not a plain http, https or mailto address:
    other schemes, relative addresses, user names, escaped hosts, control characters in any form."""
    if len(address) > LONGEST_ADDRESS or not _PLAIN.fullmatch(address) or _UNSAFE_ESCAPE.search(address):
        return None
    mail = _MAIL.fullmatch(address)
    if mail is None and not _WEB.fullmatch(address):
        return None
    if mail and not _fields(mail[1] or "") <= _MAIL_FIELDS:
        return None
    url = QUrl(address, QUrl.ParsingMode.StrictMode)
    encoded = url.toString(QUrl.ComponentFormattingOption.FullyEncoded)
    if not url.isValid() or url.userInfo() or url.scheme() not in SCHEMES or not encoded.isascii():
        return None
    if mail is None and not url.host(QUrl.ComponentFormattingOption.FullyEncoded):
        return None
    return QUrl(encoded, QUrl.ParsingMode.StrictMode)


def _fields(query: str) -> set[str]:
    return {field.partition("=")[0].lower() for field in query.split("&") if field}


_ENCODED = QUrl.ComponentFormattingOption.FullyEncoded


def ask_to_open(parent: QWidget | None, url: QUrl) -> None:
    """Shows the whole address, and opens it in the browser or mail program if the user agrees. Returns at once. Does
    nothing for an address that `safe_link` refuses."""
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
        warning = QLabel("A model wrote this link. It may not lead where its text says.")
        warning.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        for part in (title, self._address_box(), warning, self._buttons()):
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
    """Returns the question, with the host as the network knows it, so that look-alike letters do not deceive."""
    if address.scheme() == "mailto":
        return f"Write an email to {address.path(_ENCODED)}?"
    return f"Open {address.host(_ENCODED)} in your browser?"
