"""The inspector beside the chat: the rounds of one reply as they happen, in numbers, plots and a list.

Told of rounds as often as one likes: it shows them at most ten times a second, and only while it is in sight. Long
replies are taken in a slice at a time, so that the window never waits.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QSize, Qt, QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSplitter, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from app.protocol import Loaded, Told
from app.records import MessageRecord, Statistics
from app.window.inspector.detail import Detail
from app.window.inspector.fold import Fold
from app.window.inspector.listing import RoundList
from app.window.inspector.plots import Plots
from app.window.inspector.rows import Row
from app.window.inspector.sharing import Sharing
from app.window.inspector.summary import Summary
from app.window.look import GAP, INSPECTOR_WIDTH, LIGHT, Look

if TYPE_CHECKING:  # it loads pyqtgraph
    from app.window.inspector.charts import Chart

FRAME_MS = 100
FRAMES_A_PLOT = 2  # a plot moves slowly and costs as much as all the rest
SLICE = 1000  # rounds, taken in without a pause
HEIGHTS = (190, 260, 170)  # px: plots, rounds, tokens of one
NO_REPLY = (
    "No rounds yet.\n\nWhile a reply is written, each round appears here: what was drafted, what the target kept "
    "of it, and why that many tokens were drafted."
)


class Inspector(QWidget):
    """What `tell` and `show_reply` are given need not be in order, nor be new."""

    def __init__(self, look: Look = LIGHT, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Inspector")
        self._fold, self._waiting = Fold(), deque[Told]()
        self._final: Statistics | None = None
        self._streaming = self._moved = False
        self._frames = 0
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._take)
        self.summary, self._plots = Summary(look, self), Plots(look, self)
        self.rounds, self._detail = RoundList(look, self), Detail(look, self)
        self._title, self._columns = QLabel("Rounds", self), QLabel("kept/drafted, draft + verify", self)
        self._plain, self._empty = QLabel(self), QLabel(NO_REPLY, self)
        self._share = QToolButton(self)
        self.sharing = Sharing(self._chosen_round, lambda: self._fold.rows, self)
        self._lay_out()
        self._connect()
        self.set_look(look)
        self.rounds.show_fold(self._fold)

    # --- what it is told ----------------------------------------------------------------------

    def clear(self) -> None:
        """No reply is shown."""
        self.show_reply([], None)

    def show_reply(self, told: list[Told], statistics: Statistics | None) -> None:
        """Another reply, as far as it has been told. statistics: its final numbers, None while it has none."""
        self._waiting.clear()
        self._waiting.extend(told)
        self._fold, self._final, self._moved, self._streaming = Fold(), statistics, False, False
        self.summary.set_note("")
        self.rounds.show_fold(self._fold)
        self._take()

    def tell(self, told: list[Told]) -> None:
        """More rounds of the reply that is shown."""
        self._waiting.extend(told)
        self._streaming, self._final = True, None
        if not self._timer.isActive():
            self._timer.start(FRAME_MS)

    def end(self, record: MessageRecord) -> None:
        """The reply that is shown is over; its numbers are the record's from now on."""
        self._streaming, self._final = False, record.statistics
        self.summary.set_note(record.note)
        self._take()

    def set_loaded(self, loaded: Loaded | None) -> None:
        """The pair that is loaded, None while there is none."""
        self.summary.set_loaded(loaded)

    def set_look(self, look: Look) -> None:
        self.setAutoFillBackground(True)
        palette = self.palette()
        for role in (palette.ColorRole.Window, palette.ColorRole.Base):
            palette.setColor(role, look.background)
        self.setPalette(palette)
        for part in (self.summary, self._plots, self.rounds, self._detail):
            part.set_look(look)
        self._title.setStyleSheet(f"color: {look.text}; font-size: {look.px(12)}px; font-weight: 600;")
        self._empty.setStyleSheet(f"color: {look.faint}; font-size: {look.px(12)}px; padding: {6 * GAP}px {3 * GAP}px;")
        for label in (self._columns, self._plain):
            label.setStyleSheet(f"color: {look.faint}; font-size: {look.px(11)}px;")
        self._split.setStyleSheet(f"QSplitter::handle {{ background: {look.hairline}; }}")
        self._share.setStyleSheet(
            f"QToolButton {{ border: none; border-radius: 5px; padding: 2px 6px; color: {look.faint};"
            f" font-size: {look.px(12)}px; }} QToolButton:hover {{ background: {look.hover}; }}"
            f"QToolButton:focus {{ border: 2px solid {look.accent}; padding: 0 4px; }}"
            "QToolButton::menu-indicator { image: none; }"
        )

    # --- what can be asked --------------------------------------------------------------------

    @property
    def statistics(self) -> Statistics:
        """The numbers that are shown."""
        return self._final or self._fold.statistics

    @property
    def busy(self) -> bool:
        """Whether it was told of rounds that it has not taken in yet."""
        return bool(self._waiting)

    @property
    def plots_ready(self) -> bool:
        return self._plots.ready

    @property
    def charts(self) -> list[Chart]:
        """The plots, once they are ready."""
        return self._plots.charts

    def choose_plot(self, which: int) -> None:
        """0: acceptance by position, 1: speed, 2: verify and draft time."""
        self._plots.choose(which)

    def update_now(self) -> None:
        """Take in, and show, what it was told without waiting for the next update."""
        self._timer.stop()
        self._take()

    # --- how it shows it ----------------------------------------------------------------------

    def _take(self) -> None:
        """Take in a slice of what waits; show where that leads once nothing waits."""
        slice_ = [self._waiting.popleft() for _ in range(min(SLICE, len(self._waiting)))]
        if not self._fold.add(slice_):
            self._moved = True
        if self._waiting:
            self._timer.start(0)
        elif self.isVisible():
            self._draw()

    def _draw(self) -> None:
        if self._moved:
            self._moved = False
            self.rounds.renew()
        else:
            self.rounds.grow()
        self.summary.set_statistics(self.statistics)
        self._plain.setText(self._why_plain())
        self._plain.setVisible(bool(self._plain.text()))
        self._columns.setVisible(self._fold.metrics.drafted > 0)
        self._body.setCurrentWidget(self._split if self._fold.rows else self._empty)
        self._frames += 1
        if not self._streaming or self._frames % FRAMES_A_PLOT == 0:
            self._plots.show_fold(self._fold)
        if not self._streaming:
            self._plots.settle()
            self._look_at(self.rounds.chosen())

    def _why_plain(self) -> str:
        """Where nothing was drafted at all: that, and why."""
        if not self._fold.rows or self._fold.metrics.drafted:
            return ""
        reason = self._fold.rows[-1].round.reason
        return f"Nothing was drafted: {reason}" if reason else "Nothing was drafted"

    def _look_at(self, row: Row | None) -> None:
        """Show a round in full: `row`, else the newest, once the reply is over."""
        if row is None and self._fold.rows and not self._streaming:
            row = self.rounds.round_model.newest()
        self._detail.show_row(row)

    def _chosen_round(self) -> list[Told]:
        row = self.rounds.chosen()
        return [row.told] if row else []

    # --- how it is made -----------------------------------------------------------------------

    def _lay_out(self) -> None:
        list_of_rounds = QWidget(self)
        heading = QHBoxLayout()
        heading.setContentsMargins(GAP, GAP // 2, GAP // 2, 0)
        heading.addWidget(self._title, 1)
        heading.addWidget(self._columns)
        heading.addWidget(self._share)
        column = QVBoxLayout(list_of_rounds)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(heading)
        column.addWidget(self._plain)
        column.addWidget(self.rounds, 1)
        self._plain.setWordWrap(True)
        self._plain.setTextFormat(Qt.TextFormat.PlainText)
        self._plain.setContentsMargins(GAP, 0, GAP, 0)
        self._split = QSplitter(Qt.Orientation.Vertical, self)
        self._split.setChildrenCollapsible(False)
        self._split.setHandleWidth(1)
        for i, (part, height) in enumerate(zip((self._plots, list_of_rounds, self._detail), HEIGHTS, strict=True)):
            part.setMinimumHeight(height // 2)
            self._split.addWidget(part)
            self._split.setStretchFactor(i, int(part is list_of_rounds))
        self._split.setSizes(list(HEIGHTS))
        self._empty.setWordWrap(True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
        self._body = QStackedWidget(self)
        self._body.addWidget(self._empty)
        self._body.addWidget(self._split)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self.summary)
        whole.addWidget(self._body, 1)
        self.setMinimumWidth(INSPECTOR_WIDTH - 5 * GAP)

    def _connect(self) -> None:
        self._share.setText("⋯")
        self._share.setToolTip("Copy or export rounds")
        self._share.setAccessibleName("Copy or export rounds")
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
        self._plots.load()
        if not self._waiting:
            self._draw()
