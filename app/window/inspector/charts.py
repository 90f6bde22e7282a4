"""The three plots of a reply. Imported once pyqtgraph is there; see `plots`.

None takes the mouse: a wheel over a plot scrolls what is around it. Axes stop at round numbers, so that they are drawn
anew only now and then. Each plot says in words what it shows, as its tip and to assistive technology.
"""

from __future__ import annotations

from array import array
from math import isfinite
from typing import Any

import numpy as np
import pyqtgraph as pg  # type: ignore[import-untyped]
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QFocusEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.window.fonts import font
from app.window.inspector.focus import by_keyboard, draw_ring
from app.window.inspector.fold import WINDOW_S, Fold
from app.window.inspector.reduce import averaged, ceiling, compact, greatest, middles, stride, thinned, wilson
from app.window.look import GAP, Look, mix

SMALL_SAMPLE = 30  # rounds; a share of fewer is drawn pale
LABEL_WIDTH = 30  # px that the label of a bar needs
WIDTH = 1.6  # px, of a line
ASIDE = 1.6  # how much lower tokens per pass lie than they might, since they rise and fall with the speed

pg.setConfigOptions(antialias=True)


class Chart(QWidget):
    """A plot under a line that says what its marks are."""

    NAME = ""
    LEFT = ""
    BOTTOM = ""

    def __init__(self, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fold, self._ringed = Fold(), False
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(self.NAME)
        self._caption = QLabel(self)
        self._caption.setTextFormat(Qt.TextFormat.RichText)
        self.plot: Any = pg.PlotWidget(self, background=None)
        self.plot.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.plot.setMinimumSize(0, 0)
        self.item: Any = self.plot.getPlotItem()
        self.item.setMenuEnabled(False)
        self.item.setMouseEnabled(False, False)
        self.item.hideButtons()
        self.item.getViewBox().disableAutoRange()
        self.item.layout.setContentsMargins(0, GAP, GAP, 0)  # the uppermost and the last label reach over the plot
        column = QVBoxLayout(self)
        column.setContentsMargins(GAP, 2, GAP // 2, 2)
        column.setSpacing(0)
        column.addWidget(self._caption)
        column.addWidget(self.plot, 1)
        self.build()
        self.set_look(look)

    def build(self) -> None:
        """Make the plot's items."""
        raise NotImplementedError

    def colour(self, look: Look) -> None:
        """Give them the colours of `look`."""
        raise NotImplementedError

    def draw(self, fold: Fold) -> None:
        """Show `fold` as it is now."""
        raise NotImplementedError

    def summary(self) -> str:
        """The same in words."""
        raise NotImplementedError

    def lacks(self, fold: Fold) -> str:
        """Why there is nothing to draw, "" if there is."""
        return "" if fold.rows else "Plots appear with the first rounds of a reply."

    def set_look(self, look: Look) -> None:
        self._look = look
        self._caption.setStyleSheet(f"color: {look.faint}; font-size: {look.px(11)}px;")
        for side, text in (("left", self.LEFT), ("bottom", self.BOTTOM)):
            self.style_axis(side, text, look.faint)
        self.colour(look)
        self.show_fold(self._fold)

    def show_fold(self, fold: Fold) -> None:
        """Draw it, if there is anything to draw."""
        self._fold = fold
        if not self.lacks(fold):
            self.draw(fold)

    def settle(self) -> None:
        """Say it in words, too: not at every change, which would flood a screen reader."""
        said = self.lacks(self._fold) or self.summary()
        self.setAccessibleDescription(said)
        self.setToolTip(said)

    def style_axis(self, side: str, text: str, colour: str) -> None:
        axis, look = self.item.getAxis(side), self._look
        axis.setLabel(text, **{"color": colour, "font-size": f"{look.px(11)}px"})
        axis.setStyle(tickFont=font(look, 10), tickLength=-3, tickTextOffset=4, maxTickLevel=0)
        axis.enableAutoSIPrefix(False)
        axis.setPen(pg.mkPen(look.hairline))
        axis.setTextPen(pg.mkPen(colour))

    def limit(self, x: float, y: float, first: float = 0.0) -> None:
        """The plot reaches from (first, 0) to (x, y)."""
        self.item.getViewBox().setRange(xRange=(first, x), yRange=(0, y), padding=0)

    def set_caption(self, *marks: tuple[str, str, str]) -> None:
        """For each mark: sign, its colour, what it stands for."""
        said = "&nbsp;&nbsp; ".join(
            f'<span style="color:{colour}">{sign}</span> {text}' for sign, colour, text in marks
        )
        if said != self._caption.text():
            self._caption.setText(said)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            self.settle()
        return super().event(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.settle()
        super().focusInEvent(event)
        self._ringed = by_keyboard(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._ringed = False
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._ringed:
            draw_ring(QPainter(self), self, self._look.accent)


class AcceptanceChart(Chart):
    """How many of the tokens drafted at each place were kept, with how many that are and how sure that is."""

    NAME = "Acceptance by position"
    LEFT = "kept, %"
    BOTTOM = "place in the draft, and rounds that reached it"

    def build(self) -> None:
        self._bars: Any = pg.BarGraphItem(x=[], height=[], width=0.62)
        self._whiskers: Any = pg.ErrorBarItem(beam=0.14)
        self.item.addItem(self._bars)
        self.item.addItem(self._whiskers)
        self.item.getAxis("left").setTicks([[(at, str(at)) for at in (0, 25, 50, 75, 100)]])

    def colour(self, look: Look) -> None:
        hue = look.hues["accepted"]
        self._full, self._pale = pg.mkBrush(hue), pg.mkBrush(mix(hue, look.background, 0.6))
        self._whiskers.setData(pen=pg.mkPen(look.text, width=1.2))
        axis = self.item.getAxis("bottom")
        axis.setStyle(tickTextHeight=look.px(24), autoExpandTextSpace=False)
        axis.setHeight(look.px(24 + 18))
        self.set_caption(
            ("■", hue, "share kept"),
            ("■", mix(hue, look.background, 0.6), f"of fewer than {SMALL_SAMPLE}"),
            ("I", look.text, "95 %"),
        )

    def draw(self, fold: Fold) -> None:
        reached, kept = fold.metrics.reached, fold.metrics.kept
        shares = 100 * np.array(fold.metrics.acceptance_by_position)
        places = np.arange(1, len(reached) + 1)
        spans = 100 * np.array([wilson(k, n) for k, n in zip(kept, reached, strict=True)]).reshape(-1, 2)
        brushes = [self._full if n >= SMALL_SAMPLE else self._pale for n in reached]
        self._bars.setOpts(x=places, height=shares, width=0.62, brushes=brushes, pen=pg.mkPen(None))
        self._whiskers.setData(x=places, y=shares, top=spans[:, 1] - shares, bottom=shares - spans[:, 0])
        every = max(1, -(-len(reached) * LABEL_WIDTH // max(self.plot.width() - 40, 1)))
        labels = [(i + 1, f"{i + 1}\n{compact(n)}") for i, n in enumerate(reached) if i % every == 0]
        self.item.getAxis("bottom").setTicks([labels])
        self.limit(len(reached) + 0.5, 102, first=0.5)

    def summary(self) -> str:
        numbers = zip(self._fold.metrics.acceptance_by_position, self._fold.metrics.reached, strict=True)
        said = [f"place {i}: {share:.0%} of {n:,}" for i, (share, n) in enumerate(numbers, 1)]
        return f"{self.NAME}. " + "; ".join(said)

    def lacks(self, fold: Fold) -> str:
        nothing = "" if fold.metrics.drafted else "Nothing was drafted, so there is no acceptance to show."
        return super().lacks(fold) or nothing


class SpeedChart(Chart):
    """Tokens a second and tokens a pass, over the last WINDOW_S at each moment."""

    NAME = "Speed over time"
    LEFT = "tokens/s"
    BOTTOM = "time since the request, s"

    def build(self) -> None:
        self._speed: Any = pg.PlotCurveItem(connect="finite")
        self._passes: Any = pg.PlotCurveItem(connect="finite")
        self._right: Any = pg.ViewBox(enableMouse=False, enableMenu=False)
        self.item.addItem(self._speed)
        self.item.showAxis("right")
        self.item.scene().addItem(self._right)
        self.item.getAxis("right").linkToView(self._right)
        self._right.setXLink(self.item.getViewBox())
        self._right.addItem(self._passes)
        self.item.getViewBox().sigResized.connect(self._resized)

    def colour(self, look: Look) -> None:
        self._speed.setPen(pg.mkPen(look.accent, width=WIDTH))
        self._passes.setPen(pg.mkPen(look.warning, width=WIDTH, style=Qt.PenStyle.DashLine))
        self.style_axis("left", self.LEFT, look.accent)
        self.style_axis("right", "tokens/pass", look.warning)
        self.set_caption(
            ("━", look.accent, "tokens/s"),
            ("╍", look.warning, f"tokens per pass, both over {WINDOW_S:g} s"),
        )

    def draw(self, fold: Fold) -> None:
        series = fold.series
        clock, speed, passes = map(thinned, (series.clock_s, series.tokens_per_s, series.tokens_per_pass))
        self._speed.setData(clock, speed)
        self._passes.setData(clock, passes)
        self.limit(ceiling(float(clock[-1])), ceiling(greatest(speed)))
        self._right.setYRange(0, max(ceiling(greatest(passes) * ASIDE), 2.0), padding=0)

    def summary(self) -> str:
        speed, passes = self._fold.series.tokens_per_s, self._fold.series.tokens_per_pass
        known = [value for value in speed if isfinite(value)]
        if not known:
            return f"{self.NAME}. Known from the second round on."
        said = f"{known[-1]:.1f} tokens/s at the end, between {min(known):.1f} and {max(known):.1f} before"
        return f"{self.NAME}, averages of {WINDOW_S:g} s. {said}; {passes[-1]:.2f} tokens per pass at the end."

    def _resized(self) -> None:
        self._right.setGeometry(self.item.getViewBox().sceneBoundingRect())


class TimeChart(Chart):
    """What each round's draft and verify pass took, or the round as a whole where they were not measured apart."""

    NAME = "Verify and draft time"
    LEFT = "time, ms"
    BOTTOM = "round"

    def build(self) -> None:
        self._whole: Any = pg.PlotCurveItem(connect="finite")
        self._verify: Any = pg.PlotCurveItem(connect="finite")
        self._draft: Any = pg.PlotCurveItem(connect="finite")
        for curve in (self._whole, self._verify, self._draft):
            self.item.addItem(curve)

    def colour(self, look: Look) -> None:
        self._verify.setPen(pg.mkPen(look.accent, width=WIDTH))
        self._draft.setPen(pg.mkPen(look.warning, width=WIDTH, style=Qt.PenStyle.DashLine))
        self._whole.setPen(pg.mkPen(look.faint, width=1.0))

    def draw(self, fold: Fold) -> None:
        series, look, rounds = fold.series, self._look, len(fold.rows)
        at = middles(rounds)
        whole, verify, draft = map(averaged, (series.whole_ms, series.verify_ms, series.draft_ms))
        for curve, values in ((self._whole, whole), (self._verify, verify), (self._draft, draft)):
            curve.setData(at, values)
        self.limit(max(ceiling(rounds), 2.0), ceiling(greatest(whole, verify, draft)), first=1.0)
        step = stride(rounds)
        mean = f", means of {step}" if step > 1 else ""
        marks = [("━", look.accent, "verify"), ("╍", look.warning, "draft")] if fold.timed else []
        self.set_caption(*marks, ("─", look.faint, f"whole round{mean}"))

    def summary(self) -> str:
        series = self._fold.series
        named = (("verify", series.verify_ms), ("draft", series.draft_ms), ("whole round", series.whole_ms))
        said = [f"{name} {mean:.1f} ms" for name, values in named if (mean := _mean(values)) is not None]
        return f"{self.NAME}, means of the reply. " + ("; ".join(said) if said else "Known from the second round on.")


def _mean(values: array[float]) -> float | None:
    known = [value for value in values if isfinite(value)]
    return sum(known) / len(known) if known else None


CHARTS = (AcceptanceChart, SpeedChart, TimeChart)
