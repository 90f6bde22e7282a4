"""What is known of one token, in a small panel beside it."""

from html import escape
from textwrap import wrap

from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QFrame, QLabel, QWidget

from app.reply import TokenDetail
from app.window.common import theme
from app.window.common.appearance import GAP, Appearance
from app.window.common.layouts import column
from app.window.common.widgets import style
from app.window.markdown.text_blocks import visible
from engine.audit.receipt import Difference

_MOST = 4  # proposals that are listed
_LONGEST = 24  # characters of a token
_WIDTH = 64  # characters of a line that explains
_BLANKS = str.maketrans({"\n": "⏎", "\t": "⇥", " ": "␣"})


class TokenPanel(QFrame):
    """Shows a detail beside a box of its parent; takes no focus and no clicks."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        style(self, kind="popover")
        self._parent = parent
        self._label = QLabel(self)
        self._label.setTextFormat(Qt.TextFormat.RichText)
        style(self._label, role="detail", tone="text")
        column(self._label, on=self, margins=(10, 8, 10, 8))
        self.hide()

    def show_detail(self, detail: TokenDetail, beside: QRect) -> None:
        """Shows `detail` beside the token's place in the parent."""
        self._label.setText(as_html(detail, theme.current()))
        self.setAccessibleName(as_text(detail))
        self.adjustSize()
        free = self._parent.size()
        x = max(GAP, min(beside.left(), free.width() - self.width() - GAP))
        y = beside.bottom() + 6
        if y + self.height() > free.height() - GAP:
            y = max(GAP, beside.top() - self.height() - 6)
        self.move(x, y)
        self.raise_()
        self.show()


def kind_of(detail: TokenDetail) -> str:
    """Returns the token's kind in words."""
    return "plain: nothing was drafted" if detail.kind == "plain" else detail.kind


def as_text(detail: TokenDetail) -> str:
    """Returns the detail in one line, for screen readers."""
    parts = [short_token(detail.text), kind_of(detail), f"round {detail.round}"]
    parts += [f"p {detail.p:.2f}"] if detail.p is not None else []
    parts += [f"q {detail.q:.2f}"] if detail.q is not None else []
    parts += [f"the drafter proposed {short_token(text)}, q {q:.2f}" for text, q in detail.instead[:_MOST]]
    parts += [detail.why.words] if detail.why is not None else []
    parts += [difference_text(detail.differs)] if detail.differs is not None else []
    return ", ".join(parts)


def as_html(detail: TokenDetail, appearance: Appearance) -> str:
    """Returns short lines: what the token is, and why it is there. Every text of a model is escaped."""
    faint = f"color:{appearance.faint}"
    hue = appearance.faint if detail.kind == "plain" else appearance.hues[detail.kind]
    lines = [
        f"<b>{escape(short_token(detail.text))}</b>",
        f'<span style="color:{hue}">■</span> {escape(kind_of(detail))}'
        f'<span style="{faint}"> &nbsp;round {detail.round:,}</span>',
        f'<span style="{faint}">p</span> {_number(detail.p)} &nbsp; <span style="{faint}">q</span> {_number(detail.q)}',
    ]
    if detail.instead:
        lines.append(f'<span style="{faint}">the drafter proposed</span>')
        lines += [f"<s>{escape(short_token(text))}</s> &nbsp;q {q:.3f}" for text, q in detail.instead[:_MOST]]
        more = len(detail.instead) - _MOST
        lines += [f'<span style="{faint}">and {more} more</span>'] if more > 0 else []
    if detail.why is not None:
        lines += [escape(line) for line in wrap(detail.why.words, _WIDTH)]
        rest = [*detail.why.formula.splitlines(), detail.why.source]
        lines += [f'<span style="{faint}">{escape(line)}</span>' for part in rest for line in wrap(part, _WIDTH)]
    if detail.differs is not None:
        colour = appearance.warning if detail.differs.near_tie else appearance.error
        lines.append(f'<span style="color:{colour}">{escape(difference_text(detail.differs))}</span>')
    return "<br>".join(lines)


def difference_text(one: Difference) -> str:
    """Returns what a verification found at a token."""
    verdict = "a near-tie" if one.near_tie else "a failure"
    if one.plain_token is None:
        return f"{verdict}: plain decoding {'has ended there' if one.ends else 'cannot choose this token'}"
    sizes = "" if one.gap_ulps is None else f", by {one.gap_ulps:.3g} ULPs"
    noise = "" if one.noise_ulps is None else f" (rounding: {one.noise_ulps:.3g})"
    return f"{verdict}: plain decoding chooses {short_token(one.plain_text)}{sizes}{noise}"


def short_token(text: str) -> str:
    """Returns a token's text, its blanks made visible, in one short line."""
    shown = visible(text).translate(_BLANKS)
    if not shown:
        return "(part of a character)"
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
