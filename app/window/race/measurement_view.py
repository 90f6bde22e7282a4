"""What is shown while a race is measured: the runs in their order, the texts of the current pair, and why they do not
run at once."""

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.protocol.race_messages import RaceProgress
from app.race.race_text import counted
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.form_fields import Lines
from app.window.common.widgets import Glyph, wrapped
from app.window.markdown.text_blocks import visible

WHY = (
    "Two models that run at once slow each other down. The sides are measured one after the other, in turns, and "
    "then replayed side by side from a common start."
)
SILENT = "The engine has not responded for a while. It may be busy or stuck. You can stop the race at any time."
IDLE = (
    "Race plain decoding against speculative decoding, or any two drafters, draft lengths and acceptance rules, on the "
    "loaded model. Both sides answer the same prompt, and their texts are compared token by token."
)
WIDTH, FLAG = 560, 44  # px
LINES = 6  # of the texts
SIZE, APART, PAIRS_APART = 34, 6, 18  # px, of a run, between two runs, between two pairs


class RunOrder(QWidget):
    """The runs in their order, AB BA AB A: finished ones are filled, the current one's ring shows its progress."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(WIDTH, 2 * SIZE)
        self.setAccessibleName("Runs")
        self.letters, self.done, self._share = "", 0, 0.0

    def show_runs(self, letters: str, run: int, side: int, share: float) -> None:
        """Shows how far the race is. letters: of the runs. run: the current pair, from 1; 0 before the first. share: of
        the current run that is done, 0 to 1."""
        self.letters, self._share = letters, share
        self.done = 2 * (run - 1) + ("AB"[side] != self.letters[2 * (run - 1)]) if run else 0
        self.setAccessibleDescription(f"{self.done} of {len(letters)} runs are done")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(look.font(13, QFont.Weight.DemiBold))
        for place, (letter, box) in enumerate(zip(self.letters, self._boxes(), strict=True)):
            done = place < self.done
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(look.good if done else look.hover))
            painter.drawEllipse(box)
            if place == self.done:
                painter.setPen(QPen(QColor(look.accent), 3))
                painter.drawArc(box.adjusted(1.5, 1.5, -1.5, -1.5), 90 * 16, -round(360 * 16 * max(0.02, self._share)))
            painter.setPen(QColor(look.background if done else look.text))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, letter)
        painter.end()

    def _boxes(self) -> list[QRectF]:
        """Returns a place for each run; smaller ones if there are many."""
        lefts = [i // 2 * (2 * SIZE + APART + PAIRS_APART) + i % 2 * (SIZE + APART) for i in range(len(self.letters))]
        needed = lefts[-1] + SIZE if lefts else 1
        scale = min(1.0, self.width() / needed)
        size, start = scale * SIZE, (self.width() - scale * needed) / 2
        return [QRectF(start + scale * left, (self.height() - size) / 2, size, size) for left in lefts]


class MeasurementView(QWidget):
    """The progress of a measurement; before the first race, what a race is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._flag, self.order = Glyph("race", "faint", FLAG), RunOrder()
        self.title, self.why = wrapped(role="title"), wrapped(role="body", tone="faint")
        self.text = Lines(LINES, "")
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Texts of the Current Pair of Runs")
        self._letters, self._longest = "", 0
        self._run = (0, 0)  # the number and the side of the run whose text came last
        column = QVBoxLayout()
        column.setSpacing(2 * GAP)
        column.addStretch(2)
        column.addWidget(self._flag, 0, Qt.AlignmentFlag.AlignHCenter)
        for widget in (self.title, self.order, self.text, self.why):
            widget.setFixedWidth(WIDTH)
            column.addWidget(widget)
        column.addStretch(3)
        row = QHBoxLayout(self)
        row.addStretch(1)
        row.addLayout(column)
        row.addStretch(1)
        for label in (self.title, self.why):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.show_idle()

    def show_idle(self, title: str = "") -> None:
        """Shows that no race is being measured. title: why there is none to see; what was written until then stays."""
        self._show(title or "No Race Yet", IDLE, measuring=False)

    def begin(self, letters: str, longest: int) -> None:
        """Shows the start of a race. letters: of the sides, in the order of their runs. longest: the most tokens of a
        run."""
        self._letters, self._longest = letters, longest
        self.text.clear()
        self.order.show_runs(letters, 0, 0, 0.0)
        self._show("Preparing", WHY, measuring=True)

    def show_progress(self, progress: RaceProgress) -> None:
        """Shows what the race is doing now."""
        message = progress.message
        if progress.run:
            message = f"{message}, side {'AB'[progress.side]}"
        if progress.run and progress.tokens:
            message = f"{message}: {counted(progress.tokens)}"
        self._append(progress)
        self.order.show_runs(self._letters, progress.run, progress.side, progress.tokens / max(1, self._longest))
        self._show(f"{message[:1].upper()}{message[1:]}", WHY, measuring=True)

    def show_silence(self) -> None:
        """Shows that the engine has not answered for a while."""
        self.why.setText(SILENT)

    def _append(self, progress: RaceProgress) -> None:
        """Adds what the current run has written, below the other run of its pair; another pair begins with nothing."""
        run = progress.run, progress.side
        if progress.run != self._run[0]:
            self.text.clear()
        if not progress.text:
            return
        written, text = self.text.toPlainText(), visible(progress.text)
        if run != self._run or not written:
            gap = "" if not written else "\n" if written.endswith("\n") else "\n\n"
            text = f"{gap}Side {'AB'[progress.side]}:\n{text}"
        self._run = run
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        self.text.insertPlainText(text)
        self.text.moveCursor(QTextCursor.MoveOperation.End)

    def _show(self, title: str, why: str, measuring: bool) -> None:
        self.title.setText(title)
        self.why.setText(why)
        self.order.setVisible(measuring)
        self.text.setVisible(measuring or bool(self.text.toPlainText()))
        self._flag.setVisible(not measuring)
