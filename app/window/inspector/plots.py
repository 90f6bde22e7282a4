"""The place of the plots: loads pyqtgraph when it is first shown, beside the GUI thread, and draws the plot in sight.

pyqtgraph and numpy take most of a second to import, which the start of the window must not pay.
"""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from app.window.inspector.fold import Fold
from app.window.look import GAP, Look

if TYPE_CHECKING:
    from app.window.inspector.charts import Chart

TITLES = ("Acceptance", "Speed", "Time")
TIPS = ("Acceptance by position in the draft", "Speed over time", "Verify and draft time of each round")
LOOK_AGAIN_MS = 25


class _Import(threading.Thread):
    """Imports pyqtgraph. failed: why it could not. Not a daemon: Python must not end in the middle of it."""

    def __init__(self) -> None:
        super().__init__(name="import of pyqtgraph")
        self.failed = "pyqtgraph broke off while it was loaded"

    def run(self) -> None:
        try:
            importlib.import_module("pyqtgraph")
            self.failed = ""
        except ImportError as error:
            self.failed = str(error)


class Plots(QWidget):
    """Three plots, of which one is in sight."""

    _import: _Import | None = None  # one for all windows

    def __init__(self, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._look, self._fold = look, Fold()
        self.charts: list[Chart] = []
        self._waiting = QTimer(self, interval=LOOK_AGAIN_MS)
        self._waiting.timeout.connect(self._build_when_ready)
        self._message = QLabel("Loading the plots…", alignment=Qt.AlignmentFlag.AlignCenter)
        self._message.setWordWrap(True)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self._message)
        self._choice = QButtonGroup(self)
        self._choice.idClicked.connect(self.choose)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(self._buttons())
        column.addWidget(self._stack, 1)
        self.set_look(look)

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setContentsMargins(GAP, 0, GAP, 0)
        row.setSpacing(GAP // 2)
        for i, (title, tip) in enumerate(zip(TITLES, TIPS, strict=True)):
            button = QPushButton(title, self)
            button.setCheckable(True)
            button.setChecked(i == 0)
            button.setToolTip(tip)
            button.setAccessibleName(f"Plot: {tip}")
            self._choice.addButton(button, i)
            row.addWidget(button)
        row.addStretch(1)
        return row

    @property
    def ready(self) -> bool:
        """Whether the plots are there."""
        return bool(self.charts)

    def choose(self, which: int) -> None:
        """Bring one of TITLES in sight."""
        self._choice.button(which).setChecked(True)
        self.show_fold(self._fold)

    def show_fold(self, fold: Fold) -> None:
        """Draw `fold` as it is now, in the plot in sight."""
        self._fold = fold
        if not self.charts:
            return
        chart = self.charts[self._choice.checkedId()]
        if lacks := chart.lacks(fold):
            self._say(lacks)
        else:
            self._stack.setCurrentWidget(chart)
            chart.show_fold(fold)

    def settle(self) -> None:
        """Bring what the plots say in words up to date."""
        for chart in self.charts:
            chart.show_fold(self._fold)
            chart.settle()

    def set_look(self, look: Look) -> None:
        self._look = look
        self._message.setStyleSheet(f"color: {look.faint}; font-size: {look.px(12)}px; padding: {3 * GAP}px;")
        self.setStyleSheet(
            f"QPushButton {{ border: none; border-radius: 5px; padding: 3px {GAP}px; color: {look.faint};"
            f" font-size: {look.px(12)}px; background: transparent; }}"
            f"QPushButton:checked {{ background: {look.hover}; color: {look.text}; }}"
            f"QPushButton:hover {{ color: {look.text}; }}"
            f"QPushButton:focus {{ border: 2px solid {look.accent}; padding: 1px {GAP - 2}px; }}"
        )
        for chart in self.charts:
            chart.set_look(look)

    def load(self) -> None:
        """Have the plots ready soon; the first time starts the import."""
        if not self.charts and not self._waiting.isActive():
            if Plots._import is None:
                Plots._import = _Import()
                Plots._import.start()
            self._waiting.start()

    def _build_when_ready(self) -> None:
        loading = Plots._import
        if loading is None or loading.is_alive():
            return
        self._waiting.stop()
        if loading.failed:
            self._say(f"The plots cannot be shown: {loading.failed}. Install Redline again.")
            return
        self.charts = [chart(self._look, self) for chart in _chart_kinds()]
        for chart in self.charts:
            self._stack.addWidget(chart)
        self.show_fold(self._fold)
        self.settle()

    def _say(self, text: str) -> None:
        self._message.setText(text)
        self._stack.setCurrentWidget(self._message)


def _chart_kinds() -> tuple[type[Chart], ...]:
    from app.window.inspector.charts import CHARTS

    return CHARTS
