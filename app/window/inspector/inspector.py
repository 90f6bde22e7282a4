"""The inspector beside the chat: the rounds of one reply as they happen, in numbers, charts and a list.

Rounds may come at any rate: they are shown at most ten times a second, and only while the inspector is visible. Long
replies are taken in slices, so that the window never waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QSplitter, QStackedWidget, QToolButton, QWidget

from app.protocol import Loaded, Machines, RoundDone
from app.store import StoreError
from app.store.records import MessageRecord, Statistics
from app.window.common.appearance import GAP, INSPECTOR_WIDTH
from app.window.common.layouts import column, row
from app.window.common.timer import Timer
from app.window.common.widgets import label, style, wrapped
from app.window.inspector.charts import Charts
from app.window.inspector.reply_summary import ReplySummary
from app.window.inspector.round_detail import RoundDetail
from app.window.inspector.round_export import ShareMenu
from app.window.inspector.round_list import RoundList
from app.window.inspector.round_rows import RoundRow, RoundSeries

FRAME_MS = 100
FRAMES_PER_CHART = 2  # a chart moves slowly and costs as much as all the rest
SLICE = 1000  # rounds, taken in at once
HEIGHTS = (170, 230, 300)  # px: charts, rounds, tokens of one
NO_REPLY = (
    "No Rounds Yet\n\nWhile a reply is generated, its rounds appear here: what was drafted, what the target accepted, "
    "and why that many tokens were drafted."
)


class Inspector(QWidget):
    """Shows the rounds of one reply, which may be given in any order, and more than once."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Inspector")
        self._series, self._waiting = RoundSeries(), deque[RoundDone]()
        self._stored: Iterator[RoundDone] | None = None  # what is left to read of a reply that was there before
        self._final: Statistics | None = None
        self._streaming = self._moved = False
        self._frames = 0
        self._timer = Timer(self, singleShot=True)
        self._timer.timeout.connect(self._take)
        self.summary, self.charts = ReplySummary(), Charts()
        self.rounds, self._detail = RoundList(), RoundDetail()
        self._title, self._columns = label("Rounds", "heading"), label("accepted/drafted, draft + verify", "caption")
        self._plain, self._empty = wrapped(role="caption"), wrapped(NO_REPLY, role="detail")
        self._share = QToolButton()
        self.sharing = ShareMenu(self._chosen_round, lambda: [row.done for row in self._series.rows], self)
        self._lay_out()
        self._connect()
        style(self, ground="page")
        self.rounds.show_rounds(self._series)

    def clear(self) -> None:
        """Shows no reply."""
        self.show_reply([], None)

    def show_reply(self, rounds: Iterable[RoundDone], statistics: Statistics | None) -> None:
        """Shows another reply as far as it has come. rounds: read in slices; none is shown where they raise StoreError.
        statistics: its final numbers, None while it has none."""
        self._waiting.clear()
        self._stored = iter(rounds)
        self._series, self._final, self._moved, self._streaming = RoundSeries(), statistics, False, False
        self.summary.set_note("")
        self.rounds.show_rounds(self._series)
        self._take()

    def add_rounds(self, rounds: list[RoundDone]) -> None:
        """Shows more rounds of the reply."""
        self._waiting.extend(rounds)
        self._streaming, self._final = True, None
        if not self._timer.isActive():
            self._timer.start(FRAME_MS)

    def end(self, record: MessageRecord) -> None:
        """Ends the reply: from now on the numbers of its record are shown."""
        self._streaming, self._final = False, record.statistics
        self.summary.set_note(record.note)
        self._take()

    def set_loaded(self, loaded: Loaded | None) -> None:
        """Shows the loaded pair; None while there is none."""
        self.summary.set_loaded(loaded)

    def set_machines(self, machines: Machines | None) -> None:
        """Shows what the network took of a round. machines: that share the target of the reply, None for one alone."""
        self._detail.set_machines(machines)

    @property
    def busy(self) -> bool:
        """Whether there are rounds that are not shown yet."""
        return bool(self._waiting) or self._stored is not None

    def update_now(self) -> None:
        """Shows all rounds without waiting for the next update."""
        self._timer.stop()
        self._take()

    def _take(self) -> None:
        """Takes a slice of the rounds that wait, and shows the result once none waits."""
        slice_ = self._next_slice()  # before the series is looked up, which it may replace
        if not self._series.add(slice_):
            self._moved = True
        if self.busy:
            self._timer.start(0)
        elif self.isVisible():
            self._draw()

    def _next_slice(self) -> list[RoundDone]:
        try:
            slice_ = list(islice(self._stored or (), SLICE))
        except StoreError:
            self._series, slice_ = RoundSeries(), []
            self.rounds.show_rounds(self._series)
        if len(slice_) < SLICE:
            self._stored = None
            slice_ += [self._waiting.popleft() for _ in range(min(SLICE - len(slice_), len(self._waiting)))]
        return slice_

    def _draw(self) -> None:
        if self._moved:
            self._moved = False
            self.rounds.renew()
        else:
            self.rounds.grow()
        self.summary.set_statistics(self._final or self._series.statistics)
        self._plain.setText(self._why_plain())
        self._plain.setVisible(bool(self._plain.text()))
        self._columns.setVisible(self._series.metrics.drafted > 0)
        self._body.setCurrentWidget(self._split if self._series.rows else self._empty)
        self._frames += 1
        if not self._streaming or self._frames % FRAMES_PER_CHART == 0:
            self.charts.show_rounds(self._series, describe=not self._streaming)
        if not self._streaming:
            self._look_at(self.rounds.chosen())

    def _why_plain(self) -> str:
        """Returns why nothing was drafted, if so."""
        if not self._series.rows or self._series.metrics.drafted:
            return ""
        reason = self._series.rows[-1].done.round.reason
        return f"Nothing was drafted: {reason}" if reason else "Nothing was drafted"

    def _look_at(self, row: RoundRow | None) -> None:
        """Shows a round in full: `row`, else the newest, once the reply is over."""
        if row is None and self._series.rows and not self._streaming:
            row = self._series.rows[-1]
        self._detail.show_row(row)

    def _chosen_round(self) -> list[RoundDone]:
        row = self.rounds.chosen()
        return [row.done] if row else []

    def _lay_out(self) -> None:
        list_of_rounds = QWidget(self)
        heading = row((self._title, 1), self._columns, self._share, margins=(GAP, GAP // 2, GAP // 2, 0), gap=2)
        column(heading, self._plain, (self.rounds, 1), on=list_of_rounds, gap=2)
        self._plain.setContentsMargins(GAP, 0, GAP, 0)
        self._split = QSplitter(Qt.Orientation.Vertical, self)
        self._split.setChildrenCollapsible(False)
        self._split.setHandleWidth(1)
        for i, (part, height) in enumerate(zip((self.charts, list_of_rounds, self._detail), HEIGHTS, strict=True)):
            part.setMinimumHeight(height // 2)
            self._split.addWidget(part)
            self._split.setStretchFactor(i, int(part is list_of_rounds))
        self._split.setSizes(list(HEIGHTS))
        self._empty.setContentsMargins(3 * GAP, 6 * GAP, 3 * GAP, 0)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
        self._body = QStackedWidget(self)
        self._body.addWidget(self._empty)
        self._body.addWidget(self._split)
        column(self.summary, (self._body, 1), on=self)
        self.setMinimumWidth(INSPECTOR_WIDTH - 5 * GAP)

    def _connect(self) -> None:
        style(self._share, role="flat")
        self._share.setText("⋯")
        self._share.setToolTip("Copy or Export Rounds")
        self._share.setAccessibleName("Copy or Export Rounds")
        self._share.setMenu(self.sharing)
        self._share.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._share.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.rounds.looked_at.connect(self._look_at)
        self.rounds.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.rounds.customContextMenuRequested.connect(self._open_menu)
        self.sharing.copy_chosen.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.rounds.addAction(self.sharing.copy_chosen)

    def _open_menu(self, where: QPoint) -> None:
        self.sharing.popup(self.rounds.viewport().mapToGlobal(where))

    def sizeHint(self) -> QSize:
        return QSize(INSPECTOR_WIDTH, sum(HEIGHTS) + 160)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self.busy:
            self._draw()
