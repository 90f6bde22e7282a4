"""All that a receipt says, in a popover: what was found, each difference with its place, tokens and gap, and when."""

from __future__ import annotations

from datetime import datetime
from html import escape

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.records import KeptReceipt, MessageRecord
from app.window.fonts import font
from app.window.look import Look
from app.window.transcript.buttons import SIZE
from app.window.transcript.manner import SMALL
from app.window.transcript.panel import in_view
from engine.receipt import Difference, Verdict

_LISTED = 100  # differences: more tell nobody more
_WIDTH, _HEIGHT = 460, 380  # px of its text, and of the most that shows without scrolling
_MEANING: dict[Verdict, str] = {
    "identical": "Plain decoding, run again from nothing, says the same tokens.",
    "possible": "Rejection sampling keeps the law of the model, not its tokens: there is no promise token by token to "
    "check. Each token was possible under the law. Coupled sampling keeps both.",
    "near-tie": "Plain decoding says another token there, by less than rounding makes: the two all but tie, and a pass "
    "of another width rounds in another way.",
    "failure": "Plain decoding says something else there, and rounding does not explain it.",
}


class Details(QFrame):
    """Above the badge; Esc or a click elsewhere closes it. why: the last check came to nothing, or ""."""

    def __init__(self, record: MessageRecord, why: str, look: Look, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Receipt")
        self.setAccessibleDescription(in_words(record, why))
        self.label = QLabel(as_html(record, why, look))
        self.label.setTextFormat(Qt.TextFormat.RichText)
        self.label.setWordWrap(True)
        self.label.setFixedWidth(_WIDTH)
        self.label.setFont(font(look, SMALL + 1))
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._area = QScrollArea()
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setWidget(self.label)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.addWidget(self._area)
        self.setStyleSheet(
            f"Details {{ background: {look.raised}; border: 1px solid {look.hairline}; border-radius: 8px; }}"
            f"QScrollArea, QLabel {{ color: {look.text}; background: transparent; }}"
        )

    def show_at(self, place: QPoint) -> None:
        """Above `place` of the screen, or below where there is no room."""
        self.label.resize(_WIDTH, height := self.label.heightForWidth(_WIDTH))
        bar = self._area.verticalScrollBar().sizeHint().width() if height > _HEIGHT else 0
        self._area.setFixedSize(_WIDTH + bar, min(height, _HEIGHT))
        self.adjustSize()
        screen = QGuiApplication.screenAt(place) or QGuiApplication.primaryScreen()
        room = screen.availableGeometry()
        x = max(room.left(), min(place.x(), room.right() - self.width()))
        y = place.y() - self.height() - 4
        self.move(x, y if y >= room.top() else min(place.y() + SIZE + 4, room.bottom() - self.height()))
        self.show()
        self._area.setFocus(Qt.FocusReason.PopupFocusReason)  # its keys scroll

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)


def in_words(record: MessageRecord, why: str = "") -> str:
    """The receipt as sentences, for those who listen and for the tip."""
    kept = record.receipt
    failed = [f"This reply could not be verified: {why}."] if why else []
    if kept is None:
        return " ".join(failed)
    receipt = kept.receipt
    parts = [f"{receipt.summary[:1].upper()}{receipt.summary[1:]}.", _MEANING[receipt.verdict]]
    if record.stale:
        parts.insert(0, f"Verified up to token {receipt.tokens:,}; the reply went on since: verify it again.")
    if kept.elsewhere:
        parts.append("This came with an imported file and was not verified here.")
    return " ".join([*parts, *failed])


def as_html(record: MessageRecord, why: str, look: Look) -> str:
    """Every text of a model is escaped."""
    head, _, rest = in_words(record, why).partition(". " if record.receipt is not None else ": ")
    lines = [f"<b>{escape(head)}.</b>", f"<br>{escape(f'{rest[:1].upper()}{rest[1:]}')}"]
    if record.receipt is not None:
        lines += _table(record.receipt.receipt.differences, look)
        lines.append(f'<br><span style="color:{look.faint}">{_made(record.receipt)}</span>')
    return "".join(lines)


def _table(differences: tuple[Difference, ...], look: Look) -> list[str]:
    """A row a difference, and what its columns are."""
    if not differences:
        return []
    faint = f"color:{look.faint}"
    rows = "".join(_row(one, look) for one in differences[:_LISTED])
    more = len(differences) - _LISTED
    said = "Tokens are counted from 0, gap and noise in ULPs of float32"
    return [
        f'<table cellspacing="0" cellpadding="3"><tr style="{faint}"><td align="right">token</td><td>plain</td>'
        f'<td>reply</td><td align="right">gap</td><td align="right">noise</td><td></td></tr>{rows}</table>',
        f'<span style="{faint}">{f"and {more:,} more. " if more > 0 else ""}{said}.</span>',
    ]


def _row(one: Difference, look: Look) -> str:
    colour, verdict = (look.warning, "near-tie") if one.near_tie else (look.error, "failure")
    said = [
        escape(in_view(text) if text else f"id {token}") if token is not None else "ends" if one.ends else "another"
        for token, text in ((one.plain_token, one.plain_text), (one.other_token, one.other_text))
    ]
    sizes = ["" if size is None else f"{size:.3g}" for size in (one.gap_ulps, one.noise_ulps)]
    cells = [f'<td align="right">{one.position:,}</td>', *(f"<td>{text}</td>" for text in said)]
    cells += [f'<td align="right">{size}</td>' for size in sizes]
    return f'<tr>{"".join(cells)}<td style="color:{colour}">{verdict}</td></tr>'


def _made(kept: KeptReceipt) -> str:
    when = f"{datetime.fromtimestamp(kept.made_s):%d %B %Y, %H:%M}" if kept.made_s else "some time ago"
    return f"Verified {when}" + (f", Redline {escape(kept.redline[:20])}" if kept.redline else "")
