"""The Race window: the form above, and below it the measurement, then its replay."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtGui import QCloseEvent, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from app.protocol import Pair
from app.race.race_document import RaceDocument, RaceError, open_race, race_json, write_file
from app.race.replay_clock import Player
from app.window.common import theme
from app.window.common.status_line import StatusLine
from app.window.common.widgets import Hairline, style
from app.window.markdown import ask_to_open
from app.window.race import race_files
from app.window.race.comparison import mark_kind
from app.window.race.measurement_view import MeasurementView
from app.window.race.race_board import RaceBoard
from app.window.race.race_files import CANCELLED, PictureExport
from app.window.race.race_form import RaceForm
from app.window.race.race_request import RaceRequest
from app.window.race.replay_controls import ReplayControls

DRAWING = "An export is in progress and would slow the race down. Wait for it to finish, or cancel it."
FRAME_MS = 16
FIRST_SIZE, MIN_SIZE = QSize(1160, 800), QSize(860, 600)


class RaceWindow(QWidget):
    """pair: returns the pair whose target is used. wait: returns why a race has to wait, or "". now: returns seconds,
    never falling, for the replay. still: whether the end is shown at once, as nothing should move that need not."""

    def __init__(
        self,
        request: RaceRequest,
        pair: Callable[[], Pair] = Pair,
        wait: Callable[[], str] = lambda: "",
        now: Callable[[], float] = time.monotonic,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setWindowTitle("Race")
        style(self, ground="page")
        self.request, self._pair, self._wait, self._now, self.still = request, pair, wait, now, False
        self.document: RaceDocument | None = None
        self.board: RaceBoard | None = None
        self.player = Player(0.0, now)
        self.form, self.measuring, self.controls = RaceForm(), MeasurementView(), ReplayControls()
        self.line, self.exporter = StatusLine(), PictureExport(self)
        self._saved = ""
        self._hairlines = [Hairline(), Hairline()]
        self._middle = QStackedWidget()
        self._frame = QTimer(self, interval=FRAME_MS, timerType=Qt.TimerType.PreciseTimer)
        self._lay_out()
        self._connect()
        self.resize(FIRST_SIZE)
        self.setMinimumSize(MIN_SIZE)

    # --- races ---------------------------------------------------------------------------------

    def suggest(self, prompt: str) -> None:
        """Suggests a prompt; one that the user has typed stays, unless it has been raced."""
        text = self.form.prompt.toPlainText().strip()
        if prompt and not self.request.busy and (not text or (self.document and text == self.document.prompt)):
            self.form.prompt.setPlainText(prompt)

    def race(self) -> None:
        """Starts the race of the form, unless it would have to wait for something, or be slowed down by it."""
        form = self.form
        if why := DRAWING if self.exporter.busy else self._wait():
            form.error.setText(why)
            return
        self._show(self.measuring)
        self.player.pause()
        self.line.clear()
        self.measuring.begin(form.runs.value(), form.tokens.value())
        form.set_busy(True)
        form.stop.setFocus()
        sides = (form.sides[0].side(), form.sides[1].side())
        prompt = form.prompt.toPlainText().strip()
        self.request.begin(prompt, form.sampling(), sides, form.runs.value(), self._pair())

    def show_race(self, document: RaceDocument) -> None:
        """Replays a race; with reduced motion, shows its end."""
        self.document = document
        if self.board is not None:
            self._middle.removeWidget(self.board)
            self.board.deleteLater()
        self.board = RaceBoard(document)
        self.board.link_clicked.connect(lambda url: ask_to_open(self, url))
        self._show_prompt()
        self._middle.addWidget(self.board)
        self._show(self.board)
        speed, self.player = self.player.speed, Player(self.board.replay.end_s, self._now)
        self.set_speed(speed)
        self.controls.begin(self.player.end_s, self.board.replay.parts_s, mark_kind(self.board.replay))
        if self.still:
            self.seek(self.player.end_s)
        else:
            self.play()
        self.controls.play.setFocus(Qt.FocusReason.OtherFocusReason)

    def open(self) -> None:
        """Asks for a saved race and replays it; not while a race is measured, which that would slow down."""
        if self.request.busy or (path := race_files.ask_race(self)) is None:
            return
        try:
            document = open_race(path)
        except RaceError as error:
            self.line.show_message(str(error), "error")
            return
        self.line.clear()
        sides = tuple(one.side for one in document.contestants)
        self.form.show_race(document.prompt, document.sampling, sides, document.pairs)
        self.show_race(document)

    def _end(self, document: RaceDocument | None, why: str) -> None:
        self.form.set_busy(False)
        if document is None:
            self.measuring.show_idle(why)
            self._show(self.measuring)
            self.form.prompt.setFocus(Qt.FocusReason.OtherFocusReason)
            return
        self.show_race(document)
        if why:
            pairs = "1 complete pair" if document.pairs == 1 else f"{document.pairs} complete pairs"
            self.line.show_message(f"{why} Showing {pairs} of runs.", "warning")

    # --- the replay ----------------------------------------------------------------------------

    @property
    def replays(self) -> bool:
        """Whether a replay is shown."""
        return self.board is not None and self._middle.currentWidget() is self.board

    def play(self) -> None:
        self.player.play()
        self._frame.start()
        self._show_place()

    def toggle(self) -> None:
        """Plays or pauses."""
        if self.player.playing:
            self.player.pause()
            self._show_place()
        else:
            self.play()

    def replay(self) -> None:
        """Plays from the start."""
        self.player.seek(0.0)
        self.play()

    def seek(self, time_s: float) -> None:
        self.player.seek(time_s)
        self._show_place()

    def set_speed(self, speed: float) -> None:
        """Sets the speed of the replay, in times the real speed."""
        self.player.set_speed(speed)
        if self.board is not None:
            self.board.set_pace(speed)

    def go_to_difference(self) -> None:
        """Goes to the moment at which both sides have shown the difference, and pauses there."""
        if self.board is None or (at_s := self.board.replay.parts_s) is None:
            return
        self.player.pause()
        self.seek(at_s)
        self.board.reveal_difference()

    def _tick(self) -> None:
        self.player.tick()
        self._show_place()
        if not self.player.playing:
            self._frame.stop()

    def _show_place(self) -> None:
        if self.board is not None:
            self.board.show_time(self.player.position_s)
            self.controls.show_place(self.player.position_s, self.player.playing)

    # --- files ---------------------------------------------------------------------------------

    def save(self, kind: str) -> None:
        """Asks where to save, and writes or draws. kind: of `race_files.ENDINGS`."""
        document = self.document
        if document is None or self.exporter.busy:
            return
        path = race_files.ask_where(self, kind, document)
        if path is None:
            return
        if kind != "json":
            self.line.show_progress(f"Drawing “{path.name}”")
            self.exporter.begin(document, path, kind != "png", theme.current().scheme)
            self._saved = path.name
            return
        try:
            write_file(path, race_json(document))
            self.line.show_message(f"Saved “{path.name}”.", "info")
        except RaceError as error:
            self.line.show_message(str(error), "error")

    def _end_export(self, why: str) -> None:
        if why == CANCELLED:
            self.line.show_message("Export cancelled.", "info")
        elif why:
            self.line.show_message(f"{why[:1].upper()}{why[1:]}.", "error")
        else:
            self.line.show_message(f"Saved “{self._saved}”.", "info")

    # --- keys ----------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handles the keys that no control took."""
        step_s = self.player.end_s / 100
        actions: dict[int, Callable[[], None]] = {
            Qt.Key.Key_Space: self.toggle,
            Qt.Key.Key_Left: lambda: self.seek(self.player.position_s - step_s),
            Qt.Key.Key_Right: lambda: self.seek(self.player.position_s + step_s),
            Qt.Key.Key_D: self.go_to_difference,
            Qt.Key.Key_R: self.replay,
        }
        if event.key() == Qt.Key.Key_Escape:
            self.form.stop.click() if self.request.busy else self.close()
        elif event.key() in actions and self.replays:
            actions[event.key()]()
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ends a race that is being measured: without its window nobody would see it."""
        self.request.stop()
        self.exporter.close()
        self.player.pause()
        super().closeEvent(event)

    def _show_prompt(self) -> None:
        """Shows the prompt above the replay, unless the form shows the same one."""
        if self.board is not None:
            document = self.board.replay.document
            self.board.prompt.setVisible(self.form.prompt.toPlainText().strip() != document.prompt.strip())

    def _show(self, part: QWidget) -> None:
        self._middle.setCurrentWidget(part)
        for beside in (self.controls, self._hairlines[1]):
            beside.setVisible(part is self.board)

    def _connect(self) -> None:
        form, controls, request = self.form, self.controls, self.request
        form.raced.connect(self.race)
        form.prompt.textChanged.connect(self._show_prompt)
        form.stopped.connect(lambda: request.stop())
        form.open_asked.connect(self.open)
        request.progressed.connect(self.measuring.show_progress)
        request.silent.connect(self.measuring.show_silence)
        request.ended.connect(self._end)
        controls.play_asked.connect(self.toggle)
        controls.replay_asked.connect(self.replay)
        controls.sought.connect(self.seek)
        controls.sped.connect(self.set_speed)
        controls.difference_asked.connect(self.go_to_difference)
        controls.save_asked.connect(self.save)
        self._frame.timeout.connect(self._tick)
        self.exporter.progressed.connect(lambda drawn: self.line.show_share(drawn.done / max(1, drawn.total)))
        self.exporter.ended.connect(self._end_export)
        self.line.stop_asked.connect(self.exporter.cancel)
        for keys, do in (("Ctrl+Return", form.race), ("Ctrl+W", self.close), ("Ctrl+O", self.open)):
            QShortcut(QKeySequence(keys), self).activated.connect(do)

    def _lay_out(self) -> None:
        self._middle.addWidget(self.measuring)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.form)
        column.addWidget(self._hairlines[0])
        column.addWidget(self.line)
        column.addWidget(self._middle, 1)
        column.addWidget(self._hairlines[1])
        column.addWidget(self.controls)
        self._show(self.measuring)
