"""The three charts of a reply behind tabs: acceptance by position, speed over time, and the time of each round.

What a chart shows is a `Plot`, made from the rounds; `Chart` draws any of them in the colours of the theme, and says in
words what it shows, as its tooltip and to assistive technology.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from math import floor, isfinite, log10
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QButtonGroup, QPushButton, QStackedWidget, QWidget

from app.palette import Palette, mix
from app.reply import Reply
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.layouts import column, row
from app.window.common.widgets import style
from app.window.inspector.reply_summary import FocusRing
from app.window.inspector.round_list import LEFT, RIGHT
from app.window.inspector.round_rows import WINDOW_S, RoundRows, averaged, compact, mean, stride, wilson

SMALL_SAMPLE = 30  # rounds; a share of fewer is drawn pale
STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
HEADROOM = 1.6  # how much lower tokens per pass are drawn than they might, since they rise and fall with the speed
HALVES = (0.0, 0.5, 1.0)
LABEL_WIDTH = 30  # px, at least between two labels below
CENTRE, BOTTOM = Qt.AlignmentFlag.AlignCenter, Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignBottom


class Plot(NamedTuple):
    """What a chart shows. words: the same in words. marks: a sign, its colour and what it stands for. below: labels of
    the horizontal axis and their places. curves: xs, ys and pen; nan is left out. left, right: the labels of a vertical
    axis at HALVES. bars: left, right, height, colour. Places and sizes are shares of the box, 0 to 1."""

    words: str
    marks: Sequence[tuple[str, str, str]]
    below: Sequence[tuple[float, str]]
    curves: Sequence[tuple[Sequence[float], Sequence[float], QPen]]
    left: Sequence[str]
    right: Sequence[str] = ()
    bars: Sequence[tuple[float, float, float, str]] = ()


def acceptance_plot(rounds: RoundRows, look: Palette) -> Plot | str:
    """Plots how many of the tokens drafted at each position were accepted, of how many, and how certain that is."""
    reached, shares = rounds.reply.metrics.reached, rounds.reply.metrics.acceptance_by_position
    if not rounds.reply.metrics.drafted:
        return "Nothing was drafted, so there is no acceptance to show."
    hue, pale = look.hues["accepted"], mix(look.hues["accepted"], look.background, 0.6)
    pen, width = _pen(look.text, 1.2), 1 / len(reached)
    words, below, bars, curves = list[str](), [], [], []
    for place, (share, of) in enumerate(zip(shares, reached, strict=True)):
        x = (place + 0.5) * width
        words.append(f"position {place + 1}: {share:.0%} of {of:,}")
        below.append((x, f"{place + 1} ({compact(of)})"))
        bars.append((x - 0.31 * width, x + 0.31 * width, share, hue if of >= SMALL_SAMPLE else pale))
        curves.append(((x, x), wilson(rounds.reply.metrics.kept[place], of), pen))
    marks = (("■", hue, "accepted"), ("■", pale, f"of fewer than {SMALL_SAMPLE}"), ("I", look.text, "95%"))
    return Plot("; ".join(words), marks, below, curves, ("0%", "50%", "100%"), bars=bars)


def speed_plot(rounds: RoundRows, look: Palette) -> Plot | str:
    """Plots tokens per second and tokens per pass, over the last WINDOW_S at each moment."""
    columns = [rounds.column(name) for name in ("clock_s", "tokens_per_s", "tokens_per_pass")]
    words = "Available from the second round."
    if known := [value for value in columns[1] if isfinite(value)]:
        words = f"{known[-1]:.1f} tokens/s at the end, between {min(known):.1f} and {max(known):.1f} before; "
        words += f"{columns[2][-1]:.2f} tokens per pass at the end. Averages over {WINDOW_S:g} s."
    clock, speed, passes = map(averaged, columns)
    end, top, most = axis_end(clock), axis_end(speed), max(axis_end(HEADROOM * value for value in passes), 2.0)
    xs = [second / end for second in clock]
    return Plot(
        words=words,
        marks=(("━", look.accent, "tokens/s"), ("╍", look.warning, f"tokens/pass, over {WINDOW_S:g} s")),
        below=((0.0, "0"), (1.0, f"{end:g}")),
        curves=[
            (xs, [value / top for value in speed], _pen(look.accent)),
            (xs, [value / most for value in passes], _pen(look.warning, style=Qt.PenStyle.DashLine)),
        ],
        left=[f"{share * top:g}" for share in HALVES],
        right=[f"{share * most:g}" for share in HALVES],
    )


def time_plot(rounds: RoundRows, look: Palette) -> Plot | str:
    """Plots the time of each round's draft and verify pass, and of the whole round."""
    columns = {name: rounds.column(f"{name}_ms") for name in ("whole", "verify", "draft")}
    means = [f"{name} {found:.1f} ms" for name, values in columns.items() if isfinite(found := mean(values))]
    whole, verify, draft = map(averaged, columns.values())
    step, end = stride(len(rounds.rows)), max(axis_end([len(rounds.rows)]), 2.0)
    top = axis_end([*whole, *verify, *draft])
    timed = (("━", look.accent, "verify"), ("╍", look.warning, "draft")) if any(map(isfinite, verify)) else ()
    xs = [((i + 0.5) * step - 0.5) / (end - 1) for i in range(len(whole))]
    pens = _pen(look.faint, 1.0), _pen(look.accent), _pen(look.warning, style=Qt.PenStyle.DashLine)
    return Plot(
        words=f"Averages for this reply: {'; '.join(means)}" if means else "Available from the second round.",
        marks=(*timed, ("─", look.faint, "whole round" if step == 1 else f"whole round, averages of {step}")),
        below=((0.0, "1"), (1.0, f"{end:g}")),
        curves=[(xs, [v / top for v in column], pen) for column, pen in zip((whole, verify, draft), pens, strict=True)],
        left=[f"{share * top:g} ms" if share else "0" for share in HALVES],
    )


CHARTS = (  # title of the tab, name, horizontal axis, plot
    ("Acceptance", "Acceptance by position", "position in the draft, and rounds that reached it", acceptance_plot),
    ("Speed", "Speed over time", "seconds since the request", speed_plot),
    ("Time", "Verify and draft time", "round", time_plot),
)


class Chart(FocusRing):
    """Draws a plot. name: of the chart. bottom: what its horizontal axis is. make: returns the plot, or why there is
    none."""

    def __init__(self, name: str, bottom: str, make: Callable[[RoundRows, Palette], Plot | str]) -> None:
        super().__init__()
        self.name, self._bottom, self._make = name, bottom, make
        self.rounds = RoundRows(Reply())
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(name)

    def plot(self) -> Plot | str:
        """Returns the plot of the rounds, or why there is none."""
        if not self.rounds.rows:
            return "Charts appear with the first rounds of a reply."
        return self._make(self.rounds, theme.current())

    def describe(self) -> None:
        """Renews what the chart says in words: not at every change, which would flood a screen reader."""
        plot = self.plot()
        text = plot if isinstance(plot, str) else f"{self.name}. {plot.words}"
        self.setAccessibleDescription(text)
        self.setToolTip(text)

    def event(self, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.ToolTip, QEvent.Type.FocusIn):
            self.describe()
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        plot, painter, look = self.plot(), QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if isinstance(plot, Plot):
            painter.setFont(look.font(10))
            line = painter.fontMetrics().height()
            box = QRectF(self.rect()).adjusted(36, line + 10, -30, -2 * line - 8)
            self._draw_axes(painter, box, plot)
            _draw_values(painter, box, plot)
        else:
            painter.setFont(look.font(12))
            painter.setPen(QColor(look.faint))
            painter.drawText(self.rect(), CENTRE | Qt.TextFlag.TextWordWrap, plot)
        painter.end()
        super().paintEvent(event)

    def _draw_axes(self, painter: QPainter, box: QRectF, plot: Plot) -> None:
        look, metrics, x, free = theme.current(), painter.fontMetrics(), float(GAP), 0.0
        for sign, colour, meaning in plot.marks:
            for text, hue in ((f"{sign} ", colour), (f"{meaning}   ", look.faint)):
                painter.setPen(QColor(hue))
                painter.drawText(QPointF(x, metrics.ascent() + 2), text)
                x += metrics.horizontalAdvance(text)
        for share, left, right in zip_longest(HALVES, plot.left, plot.right, fillvalue=""):
            y = _point(box, 0, float(share)).y()
            painter.setPen(QColor(look.hairline))
            painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))
            painter.setPen(QColor(look.faint))
            painter.drawText(QRectF(0, y - 8, box.left() - 3, 16), RIGHT, str(left))
            painter.setPen(QColor(look.warning))
            painter.drawText(QRectF(box.right() + 3, y - 8, 30, 16), LEFT, str(right))
        painter.setPen(QColor(look.faint))
        for place, text in plot.below:
            x = _point(box, place, 0).x()
            if x >= free:
                painter.drawText(QRectF(x - 30, box.bottom() + 2, 60, metrics.height()), CENTRE, text)
                free = x + LABEL_WIDTH
        painter.drawText(self.rect().adjusted(0, 0, 0, -2), BOTTOM, self._bottom)


def _draw_values(painter: QPainter, box: QRectF, plot: Plot) -> None:
    for left, right, height, colour in plot.bars:
        painter.fillRect(QRectF(_point(box, left, height), _point(box, right, 0)), QColor(colour))
    for xs, ys, pen in plot.curves:
        painter.setPen(pen)
        painter.drawPolyline(QPolygonF([_point(box, x, y) for x, y in zip(xs, ys, strict=True) if isfinite(y)]))


def _point(box: QRectF, x: float, y: float) -> QPointF:
    return QPointF(box.left() + x * box.width(), box.bottom() - min(y, 1.0) * box.height())


class Charts(QWidget):
    """The charts behind their tabs, of which one is visible."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.charts = [Chart(name, bottom, make) for _, name, bottom, make in CHARTS]
        self._stack, self._tabs = QStackedWidget(), QButtonGroup(self)
        self._tabs.idClicked.connect(self.choose)
        tabs = row(margins=(GAP, 0, GAP, 0), gap=GAP // 2)
        for place, (title, name, *_) in enumerate(CHARTS):
            tab = QPushButton(title)
            tab.setCheckable(True)
            tab.setChecked(place == 0)
            tab.setToolTip(name)
            tab.setAccessibleName(f"Chart: {name}")
            style(tab, role="tab")
            self._tabs.addButton(tab, place)
            tabs.addWidget(tab)
            self._stack.addWidget(self.charts[place])
        tabs.addStretch(1)
        column(tabs, (self._stack, 1), on=self, gap=2)

    def choose(self, which: int) -> None:
        """Shows one of CHARTS."""
        self._tabs.button(which).setChecked(True)
        self._stack.setCurrentIndex(which)
        self.charts[which].describe()

    def show_rounds(self, rounds: RoundRows, describe: bool = False) -> None:
        """Shows these rounds as they are now. describe: whether the chart in sight says it in words, too."""
        for chart in self.charts:
            chart.rounds = rounds
            chart.update()
        if describe:
            self.charts[self._tabs.checkedId()].describe()


def axis_end(values: Iterable[float]) -> float:
    """Returns the next round number from the greatest known value up, for an axis that does not move with every point;
    1 where nothing above 0 is known."""
    greatest = max((value for value in values if isfinite(value)), default=0.0)
    if greatest <= 0:
        return 1.0
    scale = 10.0 ** floor(log10(greatest))
    return next(step * scale for step in STEPS if step * scale >= greatest * 0.999999)


def _pen(colour: str, width: float = 1.6, style: Qt.PenStyle = Qt.PenStyle.SolidLine) -> QPen:
    return QPen(QColor(colour), width, style)
