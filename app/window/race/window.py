"""The race's own window: what is to be raced above; below it what is measured, and then replayed."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtGui import QCloseEvent, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from app.protocol import Pair
from app.race.document import RaceDocument, RaceError, open_race, race_json, write_file
from app.race.player import Player
from app.window.look import LIGHT, Look
from app.window.race import files
from app.window.race.asking import RaceAsker
from app.window.race.board import Board
from app.window.race.controls import Controls
from app.window.race.exporting import STOPPED, Exporter
from app.window.race.form import RaceForm
from app.window.race.line import Line
from app.window.race.measuring import Measuring
from app.window.race.middle import mark_kind
from app.window.reading import ask_to_open
from app.window.shell.styles import menu_style, scroll_style, wear
from app.window.shell.widgets import Hairline

DRAWING = "A picture is being drawn, which would slow the race down. Wait for it, or cancel it."
FRAME_MS = 16
FIRST_SIZE, LEAST_SIZE = QSize(1160, 800), QSize(860, 600)


class RaceWindow(QWidget):
    """pair: whose target is raced. wait: why a race would have to wait for something else, or "". now: seconds, never
    falling, for the replay. still: show the end at once, as nothing should move that need not."""

    def __init__(
        self,
        asker: RaceAsker,
        pair: Callable[[], Pair] = Pair,
        wait: Callable[[], str] = lambda: "",
        now: Callable[[], float] = time.monotonic,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("race")
        self.setWindowTitle("Race")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.asker, self._pair, self._wait, self._now, self.still = asker, pair, wait, now, False
        self.document: RaceDocument | None = None
        self.board: Board | None = None
        self.player = Player(0.0, now)
        self.form, self.measuring, self.controls = RaceForm(), Measuring(), Controls()
        self.line, self.exporter = Line(), Exporter(self)
        self._look, self._saved = LIGHT, ""
        self._hairlines = [Hairline(), Hairline()]
        self._middle = QStackedWidget()
        self._frame = QTimer(self, interval=FRAME_MS, timerType=Qt.TimerType.PreciseTimer)
        self._lay_out()
        self._connect()
        self.resize(FIRST_SIZE)
        self.setMinimumSize(LEAST_SIZE)

    # --- races ---------------------------------------------------------------------------------

    def suggest(self, prompt: str) -> None:
        """A prompt to begin with; one that is there already stays, unless it has been raced."""
        text = self.form.prompt.toPlainText().strip()
        if prompt and not self.asker.busy and (not text or (self.document and text == self.document.prompt)):
            self.form.prompt.setPlainText(prompt)

    def race(self) -> None:
        """What stands in the form, unless something goes on that it would wait for or that would slow it down."""
        form = self.form
        if why := DRAWING if self.exporter.busy else self._wait():
            form.said.setText(why)
            return
        self._show(self.measuring)
        self.player.pause()
        self.line.clear()
        self.measuring.begin(form.runs.value(), form.tokens.value())
        form.set_busy(True)
        form.stop.setFocus()
        sides = (form.sides[0].side(), form.sides[1].side())
        prompt = form.prompt.toPlainText().strip()
        self.asker.begin(prompt, form.law(), sides, form.runs.value(), self._pair())

    def show_race(self, document: RaceDocument) -> None:
        """Replay it; where nothing should move, its end."""
        self.document = document
        if self.board is not None:
            self._middle.removeWidget(self.board)
            self.board.deleteLater()
        self.board = Board(document, self._look)
        self.board.link_asked.connect(lambda url: ask_to_open(self, url))
        self.board.brand.hide()
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
        """Ask for a race that was saved, and replay it; not while one is measured, which that would slow down."""
        if self.asker.busy or (path := files.ask_race(self)) is None:
            return
        try:
            document = open_race(path)
        except RaceError as error:
            self.line.say(str(error), "error")
            return
        self.line.clear()
        sides = tuple(one.side for one in document.contestants)
        self.form.show_race(document.prompt, document.law, sides, document.pairs)
        self.show_race(document)

    def _end(self, document: RaceDocument | None, why: str) -> None:
        self.form.set_busy(False)
        if document is None:
            self.measuring.rest(why)
            self._show(self.measuring)
            self.form.prompt.setFocus(Qt.FocusReason.OtherFocusReason)
            return
        self.show_race(document)
        if why:
            whole = "1 pair of runs" if document.pairs == 1 else f"{document.pairs} pairs of runs"
            self.line.say(f"{why} What was whole is shown: {whole}.", "warning")

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
        """Play or pause."""
        if self.player.playing:
            self.player.pause()
            self._show_place()
        else:
            self.play()

    def replay(self) -> None:
        """From the start."""
        self.player.seek(0.0)
        self.play()

    def seek(self, time_s: float) -> None:
        self.player.seek(time_s)
        self._show_place()

    def set_speed(self, speed: float) -> None:
        """Times as fast as it was; what is shown says so."""
        self.player.set_speed(speed)
        if self.board is not None:
            self.board.set_pace(speed)

    def go_to_difference(self) -> None:
        """To the moment at which both have shown it, and stand there."""
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
        """Ask where to, and write or draw. kind: of `files.ENDINGS`."""
        document = self.document
        if document is None or self.exporter.busy:
            return
        path = files.ask_where(self, kind, document)
        if path is None:
            return
        if kind != "json":
            self.line.begin(f"Drawing “{path.name}”")
            self.exporter.begin(document, path, kind == "png", self._look.scheme)
            self._saved = path.name
            return
        try:
            write_file(path, race_json(document))
            self.line.say(f"“{path.name}” is written.", "info")
        except RaceError as error:
            self.line.say(str(error), "error")

    def _end_export(self, why: str) -> None:
        if why == STOPPED:
            self.line.say("Nothing was saved.", "info")
        elif why:
            self.line.say(f"{why[:1].upper()}{why[1:]}.", "error")
        else:
            self.line.say(f"“{self._saved}” is written.", "info")

    # --- look and keys -------------------------------------------------------------------------

    def set_look(self, look: Look) -> None:
        self._look = look
        for part in (self.form, self.measuring, self.controls, self.line, *self._hairlines):
            part.set_look(look)  # type: ignore[attr-defined]  # each has it
        if self.board is not None:
            self.board.set_look(look)
        ground = f"#race, #race QStackedWidget {{ background: {look.background}; }}"
        wear(self, ground + scroll_style(look) + menu_style(look))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """What no control wanted."""
        step_s = self.player.end_s / 100
        deeds: dict[int, Callable[[], None]] = {
            Qt.Key.Key_Space: self.toggle,
            Qt.Key.Key_Left: lambda: self.seek(self.player.position_s - step_s),
            Qt.Key.Key_Right: lambda: self.seek(self.player.position_s + step_s),
            Qt.Key.Key_D: self.go_to_difference,
            Qt.Key.Key_R: self.replay,
        }
        if event.key() == Qt.Key.Key_Escape:
            self.form.stop.click() if self.asker.busy else self.close()
        elif event.key() in deeds and self.replays:
            deeds[event.key()]()
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """A race that is measured goes on to no end without its window."""
        self.asker.stop()
        self.exporter.close()
        self.player.pause()
        super().closeEvent(event)

    def _show_prompt(self) -> None:
        """Above what is replayed, unless it stands in the form just as it was raced."""
        if self.board is not None:
            document = self.board.replay.document
            self.board.prompt.setVisible(self.form.prompt.toPlainText().strip() != document.prompt.strip())

    def _show(self, part: QWidget) -> None:
        self._middle.setCurrentWidget(part)
        for beside in (self.controls, self._hairlines[1]):
            beside.setVisible(part is self.board)

    def _connect(self) -> None:
        form, controls, asker = self.form, self.controls, self.asker
        form.raced.connect(self.race)
        form.prompt.textChanged.connect(self._show_prompt)
        form.stopped.connect(lambda: asker.stop())
        form.open_asked.connect(self.open)
        asker.progressed.connect(self.measuring.show_progress)
        asker.silent.connect(self.measuring.be_silent)
        asker.ended.connect(self._end)
        controls.play_asked.connect(self.toggle)
        controls.replay_asked.connect(self.replay)
        controls.sought.connect(self.seek)
        controls.sped.connect(self.set_speed)
        controls.difference_asked.connect(self.go_to_difference)
        controls.save_asked.connect(self.save)
        self._frame.timeout.connect(self._tick)
        self.exporter.progressed.connect(lambda drawn: self.line.show_share(drawn.done / max(1, drawn.total)))
        self.exporter.ended.connect(self._end_export)
        self.line.stop_asked.connect(self.exporter.stop)
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
