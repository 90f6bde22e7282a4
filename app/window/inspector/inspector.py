"""The inspector beside the chat: the rounds of one reply as they happen, in numbers, charts and a list.

It draws only while it is visible. Long replies are taken in slices, so that the window never waits.
"""

from itertools import count

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QSplitter, QStackedWidget, QToolButton, QWidget

from app.protocol import Loaded, Machines, RoundDone
from app.reply import Reply
from app.reply_statistics import drafting_in_words
from app.store.records import MessageRecord, Statistics
from app.window.common.appearance import GAP, INSPECTOR_WIDTH
from app.window.common.layouts import column, row
from app.window.common.timer import Timer, clock_s
from app.window.common.widgets import label, style, wrapped
from app.window.inspector.charts import Charts
from app.window.inspector.reply_summary import ReplySummary
from app.window.inspector.round_detail import RoundDetail
from app.window.inspector.round_export import ShareMenu
from app.window.inspector.round_list import RoundList
from app.window.inspector.round_rows import RoundRow, RoundRows

CHART_S = 0.2  # from one drawing of a chart to the next: it moves slowly and costs as much as all the rest
SLICE = 1000  # rounds, taken in at once
HEIGHTS = (170, 230, 300)  # px: charts, rounds, tokens of one
NO_REPLY = (
    "No Rounds Yet\n\nWhile a reply is generated, its rounds appear here: what was drafted, what the target accepted, "
    "and why that many tokens were drafted."
)


class Inspector(QWidget):
    """Shows the rounds of one reply."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Inspector")
        self._rows = RoundRows(Reply())
        self._final: Statistics | None = None
        self._streaming = False
        self._charts_due_s = 0.0
        self._slices = Timer(self, singleShot=True, interval=0)
        self._slices.timeout.connect(self.read_on)
        self.summary, self.charts = ReplySummary(), Charts()
        self.rounds, self._detail = RoundList(), RoundDetail()
        self._title, self._columns = label("Rounds", "heading"), label("accepted/drafted, draft + verify", "caption")
        self._plain, self._empty = wrapped(role="caption"), wrapped(NO_REPLY, role="detail")
        self._share = QToolButton()
        self.sharing = ShareMenu(self._chosen_round, lambda: self._rows.reply.rounds, self)
        self._lay_out()
        self._connect()
        style(self, ground="page")
        self.rounds.show_rounds(self._rows)

    def clear(self) -> None:
        """Shows no reply."""
        self.show_reply(Reply(), None)

    def show_reply(self, reply: Reply, statistics: Statistics | None) -> None:
        """Shows another reply as far as it has come. statistics: its final numbers, None while it has none."""
        self._rows, self._final, self._streaming = RoundRows(reply), statistics, False
        self.summary.set_note("")
        self.rounds.show_rounds(self._rows)
        self.read_on()

    def grow(self) -> None:
        """Shows what was added to the reply."""
        self._streaming, self._final = True, None
        self.read_on()

    def end(self, record: MessageRecord) -> None:
        """Ends the reply: from now on the numbers of its record are shown."""
        self._streaming, self._final = False, record.statistics
        self.summary.set_note(record.note)
        self.read_on()

    def set_loaded(self, loaded: Loaded | None) -> None:
        """Shows the loaded pair; None while there is none."""
        self.summary.set_loaded(loaded)

    def set_machines(self, machines: Machines | None) -> None:
        """Shows what the network took of a round. machines: that share the target of the reply, None for one alone."""
        self._detail.set_machines(machines)

    @property
    def busy(self) -> bool:
        """Whether there are rounds that are not shown yet."""
        return not self._rows.complete

    def read_on(self) -> None:
        """Takes another slice of the reply, and shows all of it once there is no more."""
        taken = count(1)
        self._rows.reply.read(lambda: next(taken) == SLICE)
        self._rows.grow(SLICE)
        if self.busy:
            self._slices.start()
        elif self.isVisible():
            self._draw()

    def _draw(self) -> None:
        self.rounds.grow()
        reply = self._rows.reply
        self.summary.set_statistics(self._final or reply.statistics)
        self._plain.setText(self._why_plain())
        self._plain.setVisible(bool(self._plain.text()))
        self._columns.setVisible(reply.metrics.drafted > 0)
        self._body.setCurrentWidget(self._split if reply.rounds else self._empty)
        if not self._streaming or clock_s() >= self._charts_due_s:
            self._charts_due_s = clock_s() + CHART_S
            self.charts.show_rounds(self._rows, describe=not self._streaming)
        if not self._streaming:
            self._look_at(self.rounds.chosen())

    def _why_plain(self) -> str:
        """Returns why nothing or little was drafted, if so."""
        words = drafting_in_words(self._rows.reply.metrics)
        return f"{words[:1].upper()}{words[1:]}"

    def _look_at(self, row: RoundRow | None) -> None:
        """Shows a round in full: `row`, else the newest, once the reply is over."""
        if row is None and self._rows.rows and not self._streaming:
            row = self._rows.rows[-1]
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
