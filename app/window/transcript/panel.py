"""What is known of one token, in a small panel beside it."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QFrame, QLabel, QVBoxLayout, QWidget

from app.window.fonts import font
from app.window.look import GAP, Look
from app.window.reading.visible import visible
from app.window.transcript.manner import SMALL
from app.window.transcript.telling import TokenDetail
from engine.receipt import Difference

_MOST = 4  # proposals that are listed
_LONGEST = 24  # characters of a token
_BLANKS = str.maketrans({"\n": "⏎", "\t": "⇥", " ": "␣"})


class TokenPanel(QFrame):
    """Shows a detail beside a box; takes no focus and no clicks."""

    def __init__(self, look: Look, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._over = parent
        self._label = QLabel(self)
        self._label.setTextFormat(Qt.TextFormat.RichText)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 8, 10, 8)
        column.addWidget(self._label)
        self._look = look
        self.set_look(look)
        self.hide()

    def set_look(self, look: Look) -> None:
        self._look = look
        self.setStyleSheet(
            f"TokenPanel {{ background: {look.raised}; border: 1px solid {look.hairline}; border-radius: 8px; }}"
            f"QLabel {{ color: {look.text}; }}"
        )
        self._label.setFont(font(look, SMALL))

    def tell(self, detail: TokenDetail, beside: QRect) -> None:
        """beside: the token's place in the parent."""
        self._label.setText(as_html(detail, self._look))
        self.setAccessibleName(as_text(detail))
        self.adjustSize()
        room = self._over.size()
        x = max(GAP, min(beside.left(), room.width() - self.width() - GAP))
        y = beside.bottom() + 6
        if y + self.height() > room.height() - GAP:
            y = max(GAP, beside.top() - self.height() - 6)
        self.move(x, y)
        self.raise_()
        self.show()


def kind_of(detail: TokenDetail) -> str:
    """The token's kind in words."""
    return detail.origin if detail.drafted else "plain: nothing was drafted"


def as_text(detail: TokenDetail) -> str:
    """For those who listen."""
    parts = [in_view(detail.text), kind_of(detail), f"round {detail.round}"]
    parts += [f"p {detail.p:.2f}"] if detail.p is not None else []
    parts += [f"q {detail.q:.2f}"] if detail.q is not None else []
    parts += [f"the drafter proposed {in_view(text)}, q {q:.2f}" for text, q in detail.instead[:_MOST]]
    parts += [difference_in_words(detail.differs)] if detail.differs is not None else []
    return ", ".join(parts)


def as_html(detail: TokenDetail, look: Look) -> str:
    """Two to six short lines; every text of a model is escaped."""
    faint, hue = f"color:{look.faint}", look.hues[detail.origin] if detail.drafted else look.faint
    lines = [
        f"<b>{escape(in_view(detail.text))}</b>",
        f'<span style="color:{hue}">■</span> {escape(kind_of(detail))}'
        f'<span style="{faint}"> &nbsp;round {detail.round:,}</span>',
        f'<span style="{faint}">p</span> {_share(detail.p)} &nbsp; <span style="{faint}">q</span> {_share(detail.q)}',
    ]
    if detail.instead:
        lines.append(f'<span style="{faint}">the drafter proposed instead</span>')
        lines += [f"<s>{escape(in_view(text))}</s> &nbsp;q {q:.3f}" for text, q in detail.instead[:_MOST]]
        more = len(detail.instead) - _MOST
        lines += [f'<span style="{faint}">and {more} more</span>'] if more > 0 else []
    if detail.differs is not None:
        colour = look.warning if detail.differs.near_tie else look.error
        lines.append(f'<span style="color:{colour}">{escape(difference_in_words(detail.differs))}</span>')
    return "<br>".join(lines)


def difference_in_words(one: Difference) -> str:
    """What a check found at a token."""
    verdict = "a near-tie" if one.near_tie else "a failure"
    if one.plain_token is None:
        return f"{verdict}: plain decoding {'has ended there' if one.ends else 'gives it no chance'}"
    sizes = "" if one.gap_ulps is None else f", by {one.gap_ulps:.3g} ULPs"
    noise = "" if one.noise_ulps is None else f" (rounding: {one.noise_ulps:.3g})"
    return f"{verdict}: plain decoding says {in_view(one.plain_text)}{sizes}{noise}"


def in_view(text: str) -> str:
    """A token's text, its blanks included, in one short line."""
    shown = visible(text).translate(_BLANKS)
    if not shown:
        return "(part of a character)"
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
