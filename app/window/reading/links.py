"""Which addresses may become links."""

from __future__ import annotations

import re

from PySide6.QtCore import QUrl

SCHEMES = ("http", "https", "mailto")
LONGEST = 2048
_MAIL_FIELDS = {"subject", "body", "cc"}  # attach= makes some programs send files

# Printable ASCII, letters and signs beyond it: no space, control, quote or what else programs read differently.
_PLAIN = re.compile(
    r"[!#-;=?-\[\]_a-z~\u00a1-\u167f\u1681-\u1fff\u2190-\u2fff\u3001-\ud7ff\U00010000-\U0003ffff]+", re.I
)
_UNSAFE_ESCAPE = re.compile(r"%(?:[01][0-9a-f]|7f|5c)|%(?![0-9a-f]{2})", re.IGNORECASE)
_WEB = re.compile(r"https?://[^/?#@%\\]+(?:[/?#].*)?", re.IGNORECASE)
_MAIL = re.compile(r"mailto:[\w.!#$&'*+/=?^`{|}~-]+@[\w-]+(?:\.[\w-]+)*(?:\?(.*))?", re.IGNORECASE)


def safe_link(address: str) -> QUrl | None:
    """The address normalised, its host in punycode; None for what is no plain http, https or mailto address: other
    schemes, relative ones, user names, escaped hosts, control characters in any disguise."""
    if len(address) > LONGEST or not _PLAIN.fullmatch(address) or _UNSAFE_ESCAPE.search(address):
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
