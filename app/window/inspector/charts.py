"""The three charts of a reply behind tabs: acceptance by position, speed over time, and the time of each round.

Each draws itself in the colours of the theme, leaves the mouse to what is around it, and says in words what it shows,
as its tooltip and to assistive technology.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf, isfinite, log10, sqrt
from typing import ClassVar

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFocusEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from app.palette import mix
from app.window.common import theme
from app.window.common.appearance import GAP, Appearance
from app.window.common.paint_helpers import draw_focus_ring, focused_by_keyboard
from app.window.common.widgets import style, wrapped
from app.window.inspector.round_series import WINDOW_S, RoundSeries

SMALL_SAMPLE = 30  # rounds; a share of fewer is drawn pale
MAX_POINTS = 192
Z = 1.96  # of the normal distribution, for an interval that holds 95 %
STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
HEADROOM = 1.6  # how much lower tokens per pass are drawn than they might, since they rise and fall with the speed
Mark = tuple[str, str, str]  # a sign, its tone, what it stands for


class Chart(QWidget):
    """A plot between axes, under a line that says what its marks are."""

    NAME: ClassVar[str]
    BOTTOM: ClassVar[str]

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rounds, self._ringed = RoundSeries(), False
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(self.NAME)

    def missing(self, rounds: RoundSeries) -> str:
        """Returns why there is nothing to draw, or ""."""
        return "" if rounds.rows else "Charts appear with the first rounds of a reply."

    def summary(self) -> str:
        """Returns in words what the chart shows."""
        raise NotImplementedError

    def draw(self, painter: QPainter, box: QRectF, look: Appearance) -> None:
        """Draws the plot into `box`, and its axes around it."""
        raise NotImplementedError

    def describe(self) -> None:
        """Renews what the chart says in words: not at every change, which would flood a screen reader."""
        text = self.missing(self.rounds) or self.summary()
        self.setAccessibleDescription(text)
        self.setToolTip(text)

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(look.font(10))
        line = painter.fontMetrics().height()
        if not self.missing(self.rounds):
            self.draw(painter, QRectF(self.rect()).adjusted(36, line + 10, -30, -2 * line - 8), look)
            painter.setPen(QColor(look.faint))
            bottom = QRectF(0, self.height() - line - 2, self.width(), line)
            painter.drawText(bottom, Qt.AlignmentFlag.AlignCenter, self.BOTTOM)
        if self._ringed:
            draw_focus_ring(painter, self, look.accent)
        painter.end()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            self.describe()
        return super().event(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.describe()
        super().focusInEvent(event)
        self._ringed = focused_by_keyboard(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._ringed = False


class AcceptanceChart(Chart):
    """How many of the tokens drafted at each position were accepted, of how many, and how certain that is."""

    NAME = "Acceptance by position"
    BOTTOM = "position in the draft, and rounds that reached it"

    def missing(self, rounds: RoundSeries) -> str:
        nothing = "" if rounds.metrics.drafted else "Nothing was drafted, so there is no acceptance to show."
        return super().missing(rounds) or nothing

    def summary(self) -> str:
        numbers = zip(self.rounds.metrics.acceptance_by_position, self.rounds.metrics.reached, strict=True)
        shares = [f"position {i}: {share:.0%} of {n:,}" for i, (share, n) in enumerate(numbers, 1)]
        return f"{self.NAME}. " + "; ".join(shares)

    def draw(self, painter: QPainter, box: QRectF, look: Appearance) -> None:
        reached, kept = self.rounds.metrics.reached, self.rounds.metrics.kept
        hue, pale = look.hues["accepted"], mix(look.hues["accepted"], look.background, 0.6)
        _draw_marks(
            painter, (("■", hue, "accepted"), ("■", pale, f"of fewer than {SMALL_SAMPLE}"), ("I", look.text, "95 %"))
        )
        _draw_axis(painter, box, look, [f"{share} %" for share in (0, 50, 100)])
        width = box.width() / len(reached)
        every = max(1, -(-30 // max(1, int(width))))
        for place, (share, n) in enumerate(zip(self.rounds.metrics.acceptance_by_position, reached, strict=True)):
            x = box.left() + (place + 0.5) * width
            bar = QRectF(x - 0.31 * width, box.bottom() - share * box.height(), 0.62 * width, share * box.height())
            painter.fillRect(bar, QColor(hue if n >= SMALL_SAMPLE else pale))
            low, high = (box.bottom() - edge * box.height() for edge in wilson(kept[place], n))
            painter.setPen(QPen(QColor(look.text), 1.2))
            painter.drawLine(QPointF(x, low), QPointF(x, high))
            painter.setPen(QColor(look.faint))
            if place % every == 0:
                below = QRectF(x - 30, box.bottom() + 2, 60, 2 * painter.fontMetrics().height())
                painter.drawText(below, Qt.AlignmentFlag.AlignHCenter, f"{place + 1} ({compact(n)})")


class SpeedChart(Chart):
    """Tokens per second and tokens per pass, over the last WINDOW_S at each moment."""

    NAME = "Speed over time"
    BOTTOM = "seconds since the request"

    def summary(self) -> str:
        speed, passes = self.rounds.series.tokens_per_s, self.rounds.series.tokens_per_pass
        known = [value for value in speed if isfinite(value)]
        if not known:
            return f"{self.NAME}. Known from the second round on."
        text = f"{known[-1]:.1f} tokens/s at the end, between {min(known):.1f} and {max(known):.1f} before"
        return f"{self.NAME}, averages of {WINDOW_S:g} s. {text}; {passes[-1]:.2f} tokens per pass at the end."

    def draw(self, painter: QPainter, box: QRectF, look: Appearance) -> None:
        series = self.rounds.series
        clock, speed, passes = map(thinned, (series.clock_s, series.tokens_per_s, series.tokens_per_pass))
        end, top = ceiling(clock[-1]), ceiling(greatest(speed))
        most = max(ceiling(greatest(passes) * HEADROOM), 2.0)
        _draw_marks(painter, (("━", look.accent, "tokens/s"), ("╍", look.warning, f"tokens/pass, over {WINDOW_S:g} s")))
        _draw_axis(painter, box, look, [f"{share * top:g}" for share in (0, 0.5, 1)])
        _draw_axis(painter, box, look, [f"{share * most:g}" for share in (0, 0.5, 1)], right=True)
        _draw_ends(painter, box, look, "0", f"{end:g}")
        xs = [second / end for second in clock]
        _draw_curve(painter, box, xs, [value / top for value in speed], QPen(QColor(look.accent), 1.6))
        _draw_curve(painter, box, xs, [value / most for value in passes], _dashed(look.warning))


class TimeChart(Chart):
    """The time of each round's draft and verify pass, and of the whole round."""

    NAME = "Verify and draft time"
    BOTTOM = "round"

    def summary(self) -> str:
        series = self.rounds.series
        named = (("verify", series.verify_ms), ("draft", series.draft_ms), ("whole round", series.whole_ms))
        means = [f"{name} {_mean(values):.1f} ms" for name, values in named if isfinite(_mean(values))]
        return f"{self.NAME}, means of the reply. " + ("; ".join(means) if means else "Known from the second round on.")

    def draw(self, painter: QPainter, box: QRectF, look: Appearance) -> None:
        series, count = self.rounds.series, len(self.rounds.rows)
        whole, verify, draft = map(averaged, (series.whole_ms, series.verify_ms, series.draft_ms))
        end, top, step = max(ceiling(count), 2.0), ceiling(greatest([*whole, *verify, *draft])), stride(count)
        mean = f", means of {step}" if step > 1 else ""
        marks = (("━", look.accent, "verify"), ("╍", look.warning, "draft")) if self.rounds.timed else ()
        _draw_marks(painter, (*marks, ("─", look.faint, f"whole round{mean}")))
        _draw_axis(painter, box, look, [f"{share * top:g} ms" if share else "0" for share in (0, 0.5, 1)])
        _draw_ends(painter, box, look, "1", f"{end:g}")
        xs = [((i + 0.5) * step - 0.5) / (end - 1) for i in range(len(whole))]
        pens = (QPen(QColor(look.faint), 1.0), QPen(QColor(look.accent), 1.6), _dashed(look.warning))
        for values, pen in zip((whole, verify, draft), pens, strict=True):
            _draw_curve(painter, box, xs, [value / top for value in values], pen)


class Charts(QWidget):
    """The charts behind their tabs, of which one is visible."""

    TITLES = ("Acceptance", "Speed", "Time")

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rounds = RoundSeries()
        self.charts: list[Chart] = [AcceptanceChart(), SpeedChart(), TimeChart()]
        self._message, self._stack, self._tabs = wrapped(role="detail"), QStackedWidget(), QButtonGroup(self)
        self._message.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._tabs.idClicked.connect(self.choose)
        row = QHBoxLayout()
        row.setContentsMargins(GAP, 0, GAP, 0)
        row.setSpacing(GAP // 2)
        for place, (title, chart) in enumerate(zip(self.TITLES, self.charts, strict=True)):
            tab = QPushButton(title)
            style(tab, role="tab")
            tab.setCheckable(True)
            tab.setChecked(place == 0)
            tab.setToolTip(chart.NAME)
            tab.setAccessibleName(f"Chart: {chart.NAME}")
            self._tabs.addButton(tab, place)
            row.addWidget(tab)
        row.addStretch(1)
        for page in (self._message, *self.charts):
            self._stack.addWidget(page)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(row)
        column.addWidget(self._stack, 1)

    def choose(self, which: int) -> None:
        """Shows one of TITLES."""
        self._tabs.button(which).setChecked(True)
        self.show_rounds(self._rounds)

    def show_rounds(self, rounds: RoundSeries, describe: bool = False) -> None:
        """Shows these rounds as they are now. describe: whether the charts say it in words, too."""
        self._rounds = rounds
        for chart in self.charts:
            chart.rounds = rounds
            if describe:
                chart.describe()
        chart = self.charts[self._tabs.checkedId()]
        self._message.setText(chart.missing(rounds))
        self._stack.setCurrentWidget(self._message if self._message.text() else chart)
        chart.update()


def stride(count: int) -> int:
    """Returns the least power of two that leaves at most MAX_POINTS of `count`: points stay where they are while more
    come."""
    step = 1
    while count > step * MAX_POINTS:
        step *= 2
    return step


def thinned(values: Sequence[float]) -> list[float]:
    """Returns every stride-th value and the last: for what is an average already."""
    kept = list(values[:: stride(len(values))])
    return [*kept, values[-1]] if (len(values) - 1) % stride(len(values)) else kept


def averaged(values: Sequence[float]) -> list[float]:
    """Returns means over stride rounds, of what is known; nan where nothing is."""
    step = stride(len(values))
    return [_mean(values[start : start + step]) for start in range(0, len(values), step)]


def ceiling(value: float) -> float:
    """Returns the next round number from `value` up, for an axis that does not move with every point."""
    if not 0 < value < inf:
        return 1.0
    scale = 10.0 ** floor(log10(value))
    return next(step * scale for step in STEPS if step * scale >= value * 0.999999)


def greatest(values: Sequence[float]) -> float:
    """Returns the greatest known value, 0 where none is known."""
    return max((value for value in values if isfinite(value)), default=0.0)


def wilson(kept: int, of: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share (Wilson 1927), which is honest for small samples too."""
    if of <= 0:
        return 0.0, 1.0
    share, z2 = kept / of, Z * Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z / (1 + z2 / of) * sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def compact(count: int) -> str:
    """Returns "196", "1.2k" or "19k"."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 9950 else f"{count / 1000:.0f}k"


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if isfinite(value)]
    return sum(known) / len(known) if known else float("nan")


def _dashed(colour: str) -> QPen:
    return QPen(QColor(colour), 1.6, Qt.PenStyle.DashLine)


def _draw_marks(painter: QPainter, marks: Sequence[Mark]) -> None:
    """Draws what the marks of a chart stand for."""
    x, baseline = float(GAP), painter.fontMetrics().ascent() + 2
    for sign, colour, meaning in marks:
        painter.setPen(QColor(colour))
        painter.drawText(QPointF(x, baseline), sign)
        painter.setPen(QColor(theme.current().faint))
        x += painter.fontMetrics().horizontalAdvance(f"{sign} ")
        painter.drawText(QPointF(x, baseline), meaning)
        x += painter.fontMetrics().horizontalAdvance(f"{meaning}   ")


def _draw_axis(painter: QPainter, box: QRectF, look: Appearance, labels: Sequence[str], right: bool = False) -> None:
    """Draws the labels of a vertical axis from the bottom up, and a line for each."""
    for place, text in enumerate(labels):
        y = box.bottom() - box.height() * place / (len(labels) - 1)
        painter.setPen(QColor(look.hairline))
        painter.drawLine(QPointF(box.left(), y), QPointF(box.right(), y))
        painter.setPen(QColor(look.warning if right else look.faint))
        where = QRectF(box.right() + 3, y - 8, 30, 16) if right else QRectF(0, y - 8, box.left() - 3, 16)
        side = Qt.AlignmentFlag.AlignLeft if right else Qt.AlignmentFlag.AlignRight
        painter.drawText(where, side | Qt.AlignmentFlag.AlignVCenter, text)


def _draw_ends(painter: QPainter, box: QRectF, look: Appearance, first: str, last: str) -> None:
    """Draws the labels at both ends of the horizontal axis."""
    painter.setPen(QColor(look.faint))
    below = QRectF(box.left(), box.bottom() + 2, box.width(), 16)
    painter.drawText(below, Qt.AlignmentFlag.AlignLeft, first)
    painter.drawText(below, Qt.AlignmentFlag.AlignRight, last)


def _draw_curve(painter: QPainter, box: QRectF, xs: Sequence[float], ys: Sequence[float], pen: QPen) -> None:
    """Draws a line through the points that are known, in shares of the box."""
    painter.setPen(pen)
    points = QPolygonF()
    for x, y in zip(xs, ys, strict=True):
        if isfinite(y):
            points.append(QPointF(box.left() + x * box.width(), box.bottom() - min(y, 1.0) * box.height()))
    painter.drawPolyline(points)
