"""The receipt of a reply: a few calm words in its footer, and a popover with all that is known behind them."""

from datetime import datetime
from html import escape
from typing import NamedTuple

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy, QWidget

from app.reply_statistics import drafting_in_words, sampling_in_words
from app.store.records import MessageRecord, StoredReceipt
from app.window.common import theme
from app.window.common.appearance import Appearance
from app.window.common.layouts import column
from app.window.common.screens import screen_at
from app.window.common.sentence import sentence
from app.window.common.widgets import style
from app.window.transcript.tile_buttons import BUTTON, LabelledButton
from app.window.transcript.token_panel import short_token
from engine.audit.receipt import Difference, ReceiptVerdict

_LISTED = 100  # differences; nobody reads more
_LONGEST = 200  # characters of what an imported receipt says of its model
_WIDTH, _HEIGHT = 460, 380  # px of the text, and of the most that shows without scrolling


class _Verdict(NamedTuple):
    icon: str
    tone: str
    meaning: str


_VERDICTS: dict[ReceiptVerdict, _Verdict] = {
    "identical": _Verdict("verify", "good", "Plain decoding, run again from the start, gives the same tokens."),
    "possible": _Verdict(
        "verify",
        "faint",
        "Rejection sampling keeps the model's distribution, not its tokens, so the tokens cannot be compared one by "
        "one. Each token was possible in that distribution. Use coupled sampling to keep both.",
    ),
    "near-tie": _Verdict(
        "info",
        "warning",
        "Plain decoding chooses a different token there, but by a margin that rounding explains: the two tokens are "
        "almost tied, and passes of different widths round differently.",
    ),
    "failure": _Verdict(
        "warning", "error", "Plain decoding chooses a different token there, and rounding does not explain it."
    ),
}


class ReceiptBadge(LabelledButton):
    """Shows nothing until there is a verification, a receipt, or a reason why there is none. A click opens all that is
    known."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, role="quiet", size=14)
        self.setFixedHeight(BUTTON)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._shown: tuple[MessageRecord, str] | None = None
        self.clicked.connect(self._open)

    def show_record(self, record: MessageRecord, verifying: str, failure: str) -> None:
        """Shows what is known of a reply. verifying: how far its verification is, or "". failure: why the last one came
        to nothing, or ""."""
        self._shown = None if verifying else (record, failure)
        words = receipt_text(record, failure)
        self.setText(verifying or short_receipt_text(record, failure))
        self.setVisible(bool(self.text()))
        self.setToolTip("" if verifying else words)
        self.setAccessibleName(verifying or f"Receipt: {words}")
        shape = _VERDICTS[record.receipt.receipt.verdict].icon if record.receipt is not None else "info"
        self.show_icon("loading" if verifying else shape, "faint" if verifying else receipt_tone(record))

    def _open(self) -> None:
        if self._shown is not None:
            ReceiptPopover(*self._shown, self).show_at(self.mapToGlobal(QPoint(0, 0)))


class ReceiptPopover(QFrame):
    """All that a receipt says. It stands above the badge; Esc or a click elsewhere closes it."""

    def __init__(self, record: MessageRecord, failure: str, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAccessibleName("Receipt")
        self.setAccessibleDescription(receipt_text(record, failure))
        style(self, kind="popover")
        self.label = QLabel(as_html(record, failure, theme.current()))
        self.label.setTextFormat(Qt.TextFormat.RichText)
        self.label.setWordWrap(True)
        self.label.setFixedWidth(_WIDTH)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        style(self.label, role="body")
        self._area = QScrollArea()
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setWidget(self.label)
        style(self._area, ground="clear")
        column(self._area, on=self, margins=(14, 12, 14, 12))

    def show_at(self, place: QPoint) -> None:
        """Opens above `place` of the screen, or below it where there is no room."""
        self.label.resize(_WIDTH, height := self.label.heightForWidth(_WIDTH))
        bar = self._area.verticalScrollBar().sizeHint().width() if height > _HEIGHT else 0
        self._area.setFixedSize(_WIDTH + bar, min(height, _HEIGHT))
        self.adjustSize()
        x, y = place.x(), place.y() - self.height() - 4
        if (screen := screen_at(place)) is not None:
            free = screen.availableGeometry()
            x = max(free.left(), min(x, free.right() - self.width()))
            y = y if y >= free.top() else min(place.y() + BUTTON + 4, free.bottom() - self.height())
        self.move(x, y)
        self.show()
        self._area.setFocus(Qt.FocusReason.PopupFocusReason)  # its keys scroll


def short_receipt_text(record: MessageRecord, failure: str = "") -> str:
    """Returns what the footer has room for; "" without a receipt and a failure."""
    if record.receipt is None:
        return "Could not be verified" if failure else ""
    receipt = record.receipt.receipt
    if record.stale:
        return f"Verified up to token {receipt.tokens:,}"
    failures = len(receipt.failures)
    if failures:
        first = receipt.failures[0].position
        text = f"Failure at token {first:,}" if failures == 1 else f"{failures:,} failures, first at token {first:,}"
    else:
        text = f"{receipt.summary[:1].upper()}{receipt.summary[1:]}"
    return f"{text} (imported)" if record.receipt.elsewhere else text


def receipt_text(record: MessageRecord, failure: str = "") -> str:
    """Returns the receipt as sentences, for screen readers and the tool tip."""
    kept = record.receipt
    failed = [sentence(f"This reply could not be verified: {failure}")] if failure else []
    if kept is None:
        return " ".join(failed)
    receipt = kept.receipt
    parts = [f"{receipt.summary[:1].upper()}{receipt.summary[1:]}.", _VERDICTS[receipt.verdict].meaning]
    if record.stale:
        parts.insert(0, f"Verified up to token {receipt.tokens:,}. The reply continues after it; verify it again.")
    if record.statistics is not None and (drafting := drafting_in_words(record.statistics)):
        parts.append(sentence(drafting))
    if kept.reference:
        parts.append(f"The model's architecture, {kept.reference[:_LONGEST]}.")
    if kept.elsewhere:
        parts.append("This receipt came with an imported file and was not verified on this computer.")
    return " ".join([*parts, *failed])


def receipt_tone(record: MessageRecord) -> str:
    """Returns the tone of what was found; faint where the receipt is of an older reply or came from elsewhere."""
    kept = record.receipt
    return "faint" if kept is None or record.stale or kept.elsewhere else _VERDICTS[kept.receipt.verdict].tone


def as_html(record: MessageRecord, failure: str, appearance: Appearance) -> str:
    """Returns the text of the popover. Every text of a model is escaped."""
    head, _, rest = receipt_text(record, failure).partition(". " if record.receipt is not None else ": ")
    lines = [f"<b>{escape(head)}.</b>", f"<br>{escape(f'{rest[:1].upper()}{rest[1:]}')}"]
    if record.receipt is not None:
        lines += _table(record.receipt.receipt.differences, appearance)
        used = f"<br>Sampled at {escape(sampling_in_words(record.sampling))}" if record.sampling else ""
        lines.append(f'<br><span style="color:{appearance.faint}">{_when(record.receipt)}{used}</span>')
    return "".join(lines)


def _table(differences: tuple[Difference, ...], appearance: Appearance) -> list[str]:
    """A row for each difference, and what the columns are."""
    if not differences:
        return []
    faint = f"color:{appearance.faint}"
    rows = "".join(_row(one, appearance) for one in differences[:_LISTED])
    more = len(differences) - _LISTED
    key = "Tokens are numbered from 0; gap and noise are in ULPs, the smallest steps of the logits' number format"
    return [
        f'<table cellspacing="0" cellpadding="3"><tr style="{faint}"><td align="right">token</td><td>plain</td>'
        f'<td>reply</td><td align="right">gap</td><td align="right">noise</td><td></td></tr>{rows}</table>',
        f'<span style="{faint}">{f"and {more:,} more. " if more > 0 else ""}{key}.</span>',
    ]


def _row(one: Difference, appearance: Appearance) -> str:
    colour, verdict = (appearance.warning, "near-tie") if one.near_tie else (appearance.error, "failure")
    missing = "ends" if one.ends else "a different token"
    texts = [
        escape(short_token(text) if text else f"id {token}") if token is not None else missing
        for token, text in ((one.plain_token, one.plain_text), (one.other_token, one.other_text))
    ]
    sizes = ["" if size is None else f"{size:.3g}" for size in (one.gap_ulps, one.noise_ulps)]
    cells = [f'<td align="right">{one.position:,}</td>', *(f"<td>{text}</td>" for text in texts)]
    cells += [f'<td align="right">{size}</td>' for size in sizes]
    return f'<tr>{"".join(cells)}<td style="color:{colour}">{verdict}</td></tr>'


def _when(kept: StoredReceipt) -> str:
    when = f"{datetime.fromtimestamp(kept.made_s):%d %B %Y, %H:%M}" if kept.made_s else "at an unknown time"
    return f"Verified {when}" + (f", Redline {escape(kept.redline[:20])}" if kept.redline else "")
