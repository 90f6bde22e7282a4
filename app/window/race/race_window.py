"""The Race window: the form above, and below it the measurement, then its replay."""

import secrets
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QCloseEvent, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.protocol import Pair
from app.protocol.race_messages import run_letters
from app.race import race_text
from app.race.race_document import RaceDocument, RaceError, open_race, race_json, write_file
from app.race.race_page import race_page
from app.window.common import theme
from app.window.common.layouts import column
from app.window.common.sentence import sentence
from app.window.common.status_line import StatusLine
from app.window.common.widgets import Hairline, style
from app.window.markdown import ask_to_open
from app.window.race import race_files
from app.window.race.measurement_view import MeasurementView
from app.window.race.race_board import RaceBoard
from app.window.race.race_files import CANCELLED, PictureExport
from app.window.race.race_form import RaceForm
from app.window.race.race_request import RaceRequest
from app.window.race.replay_controls import ReplayControls

DRAWING = "An export is in progress and would slow the race down. Wait for it to finish, or cancel it."
FIRST_SIZE, MIN_SIZE = QSize(1160, 800), QSize(860, 600)
STEP = 0.01  # of a race, for an arrow key


class RaceWindow(QWidget):
    """The window in which races are started, replayed and saved. pair: returns the pair whose target is used. wait:
    returns why a race has to wait, or "". still: whether to show
    the end of a race at once, since unneeded motion is unwanted."""

    def __init__(
        self,
        request: RaceRequest,
        pair: Callable[[], Pair] = Pair,
        wait: Callable[[], str] = lambda: "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setWindowTitle("Race")
        style(self, ground="page")
        self.request, self._pair, self._wait, self.still = request, pair, wait, False
        self.document: RaceDocument | None = None
        self.board: RaceBoard | None = None
        self.form, self.measuring, self.controls = RaceForm(), MeasurementView(), ReplayControls()
        self.line, self.exporter = StatusLine(), PictureExport(self)
        self._exported = ""
        self._middle, self._hairline = QStackedWidget(), Hairline()
        self._lay_out()
        self._connect()
        self.resize(FIRST_SIZE)
        self.setMinimumHeight(MIN_SIZE.height())

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
        self.controls.pause()
        self.line.clear()
        form.set_busy(True)
        form.stop.setFocus()
        sides = (form.sides[0].side(), form.sides[1].side())
        prompt = form.prompt.toPlainText().strip()
        runs, order_seed = form.runs.value(), secrets.randbelow(2**31)
        self.measuring.begin(run_letters(sides, runs, order_seed), form.tokens.value())
        self.request.begin(prompt, form.sampling(), sides, runs, self._pair(), order_seed)

    def show_race(self, document: RaceDocument) -> None:
        """Replays a race; with reduced motion, shows its end."""
        self.document = document
        if self.board is not None:
            self._middle.removeWidget(self.board)
            self.board.deleteLater()
        self.board = board = RaceBoard(document)
        board.link_clicked.connect(lambda url: ask_to_open(self, url))
        self.controls.moved.connect(board.show_time)
        self.controls.sped.connect(board.set_pace)
        self.controls.difference_reached.connect(board.reveal_difference)
        self._show_prompt()
        self._middle.addWidget(board)
        self._show(board)
        replay = board.replay
        self.controls.begin(replay.end_s, replay.differs_s, race_text.mark_tone(replay.receipt))
        if self.still:
            self.controls.seek(replay.end_s)
        else:
            self.controls.play()
        self.controls.play_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def open(self) -> None:
        """Asks for a saved race and replays it; not while a race is measured, which that would slow down."""
        if not self.request.busy and (path := race_files.ask_race(self)) is not None:
            self.replay(path)

    def replay(self, path: Path) -> None:
        """Replays a saved race. Says so where it cannot be read."""
        try:
            document = open_race(path)
        except RaceError as error:
            self.line.show_message(sentence(str(error)), "error")
            return
        self.line.clear()
        sides = tuple(one.side for one in document.sides)
        self.form.show_race(document.prompt, document.sampling, sides, document.pairs)
        self.show_race(document)

    def _end(self, document: RaceDocument | None, why: str) -> None:
        self.form.set_busy(False)
        if document is None:
            self.measuring.show_idle(sentence(why))
            self._show(self.measuring)
            self.form.prompt.setFocus(Qt.FocusReason.OtherFocusReason)
            return
        self.show_race(document)
        if why:
            pairs = "1 complete pair" if document.pairs == 1 else f"{document.pairs} complete pairs"
            self.line.show_message(f"{sentence(why)} Showing {pairs} of runs.", "warning")

    # --- files ---------------------------------------------------------------------------------

    def save(self, kind: str) -> None:
        """Asks where to save the race, and writes or draws it. kind: of `race_files.KINDS`."""
        document = self.document
        if document is None or self.exporter.busy:
            return
        path = race_files.ask_where(self, kind, document)
        if path is None:
            return
        self._exported = path.name
        if kind == "json":
            self._write(path, race_json(document))
        elif kind == "html":
            self._write(path, race_page(document))
        else:
            self.line.show_progress(f"Drawing “{path.name}”")
            self.exporter.begin(document, path, kind != "png", theme.current().scheme)

    def _write(self, path: Path, data: bytes) -> None:
        try:
            write_file(path, data)
        except RaceError as error:
            self.line.show_message(sentence(str(error)), "error")
        else:
            self._end_export("")

    def _end_export(self, why: str) -> None:
        if why == CANCELLED:
            self.line.show_message("Export cancelled.", "info")
        elif why:
            self.line.show_message(sentence(why), "error")
        else:
            self.line.show_message(f"Exported to “{self._exported}”.", "info")

    # --- keys ----------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handles the keys that no control took."""
        controls = self.controls
        actions: dict[int, Callable[[], None]] = {
            Qt.Key.Key_Space: controls.toggle,
            Qt.Key.Key_Left: lambda: controls.step(-STEP),
            Qt.Key.Key_Right: lambda: controls.step(STEP),
            Qt.Key.Key_D: controls.go_to_difference,
            Qt.Key.Key_R: controls.replay,
        }
        if event.key() == Qt.Key.Key_Escape:
            self.form.stop.click() if self.request.busy else self.close()
        elif event.key() in actions and self.board is not None and self._middle.currentWidget() is self.board:
            actions[event.key()]()
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ends a race that is being measured: without its window nobody would see it."""
        self.request.stop()
        self.exporter.cancel()
        self.controls.pause()
        super().closeEvent(event)

    def _show_prompt(self) -> None:
        """Shows the prompt above the replay, unless the form shows the same one."""
        if self.board is not None and self.document is not None:
            self.board.prompt.setVisible(self.form.prompt.toPlainText().strip() != self.document.prompt.strip())

    def _show(self, part: QWidget) -> None:
        self._middle.setCurrentWidget(part)
        for widget in (self.controls, self._hairline):
            widget.setVisible(part is self.board)

    def _connect(self) -> None:
        form, request = self.form, self.request
        form.raced.connect(self.race)
        form.prompt.textChanged.connect(self._show_prompt)
        form.stopped.connect(lambda: request.stop())
        form.open_asked.connect(self.open)
        request.progressed.connect(self.measuring.show_progress)
        request.silent.connect(self.measuring.show_silence)
        request.ended.connect(self._end)
        self.controls.save_asked.connect(self.save)
        self.exporter.progressed.connect(self.line.show_share)
        self.exporter.ended.connect(self._end_export)
        self.line.stop_asked.connect(self.exporter.cancel)
        for keys, do in (("Ctrl+Return", form.race), ("Ctrl+W", self.close), ("Ctrl+O", self.open)):
            QShortcut(QKeySequence(keys), self).activated.connect(do)

    def _lay_out(self) -> None:
        self._middle.addWidget(self.measuring)
        parts = (self.form, Hairline(), self.line, (self._middle, 1), self._hairline, self.controls)
        column(*parts, on=self).addStrut(MIN_SIZE.width())  # large text may want more
        self._show(self.measuring)
