"""The receipt of a reply in its footer: a few calm words, and all that is known behind them."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtWidgets import QSizePolicy, QToolButton, QWidget

from app.records import MessageRecord
from app.window.fonts import font
from app.window.icons import icon
from app.window.look import Look
from app.window.transcript.buttons import SIZE, style
from app.window.transcript.details import Details, in_words
from app.window.transcript.manner import SMALL
from engine.receipt import Verdict

_NOBODY = MessageRecord(id=0, conversation=0, parent=None, role="user", text="")
_ICONS: dict[Verdict, str] = {"identical": "verify", "possible": "verify", "near-tie": "info", "failure": "warning"}


class Badge(QToolButton):
    """Shows nothing until there is a check, a receipt, or a reason why there is none. A click opens what is known."""

    def __init__(self, look: Look, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAutoRaise(True)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setIconSize(QSize(14, 14))
        self.setFixedHeight(SIZE)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._look, self._record, self._doing, self._why = look, _NOBODY, "", ""
        self.clicked.connect(self._open)
        self.set_look(look)

    def tell(self, record: MessageRecord, doing: str, why: str) -> None:
        """doing: how far a check is that goes on, or "". why: the last came to nothing, or ""."""
        self._record, self._doing, self._why = record, doing, why
        self._show()

    def set_look(self, look: Look) -> None:
        self._look = look
        self.setFont(font(look, SMALL))
        self._show()

    def _show(self) -> None:
        record, doing, why = self._record, self._doing, self._why
        text, words = doing or in_short(record, why), doing or in_words(record, why)
        self.setVisible(bool(text))
        self.setText(text)
        self.setToolTip("" if doing else words)
        self.setAccessibleName(doing or f"Receipt: {words}")
        shape = _ICONS[record.receipt.receipt.verdict] if record.receipt is not None else "info"
        colour = self._look.faint if doing else colour_of(record, self._look)
        self.setIcon(icon("loading" if doing else shape, colour))
        self.setStyleSheet(style(self._look) + f"Badge {{ color: {self._look.faint}; text-align: left; }}")

    def _open(self) -> None:
        if not self._doing:
            Details(self._record, self._why, self._look, self).show_at(self.mapToGlobal(QPoint(0, 0)))


def in_short(record: MessageRecord, why: str = "") -> str:
    """What the footer has room for; "" without a receipt. why: there is none, or none that is newer."""
    if record.receipt is None:
        return "Could not be verified" if why else ""
    receipt = record.receipt.receipt
    if record.stale:
        return f"Verified up to token {receipt.tokens:,}; it went on"
    failures = len(receipt.failures)
    if failures:
        first = receipt.failures[0].position
        said = f"Failure at token {first:,}" if failures == 1 else f"{failures:,} failures, first at token {first:,}"
    else:
        said = f"{receipt.summary[:1].upper()}{receipt.summary[1:]}"
    return f"{said} (imported)" if record.receipt.elsewhere else said


def colour_of(record: MessageRecord, look: Look) -> str:
    """As loud as what was found; faint where it is not of this reply as it is, or was not found here."""
    kept = record.receipt
    if kept is None or record.stale or kept.elsewhere:
        return look.faint
    return {"identical": look.good, "possible": look.faint, "near-tie": look.warning, "failure": look.error}[
        kept.receipt.verdict
    ]
