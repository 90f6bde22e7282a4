"""What the colours mean: the kinds of tokens, each drawn as such a token is, its name being the token."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.window.inspector.ink import Ink
from app.window.inspector.pieces import Kind, Piece
from app.window.look import GAP, LIGHT, Look

MEANINGS: dict[Kind, str] = {
    "accepted": "accepted: drafted, and kept by the target (tinted)",
    "corrected": "corrected: the target's own token at the first refused place (solid underline)",
    "bonus": "bonus: the target's own token after a draft that was kept whole (dotted underline)",
    "refused": "refused: drafted, not kept (struck through)",
}
APART = GAP - 2


class Legend(QWidget):
    """Swatch, cue and word in one. Goes over to a second line where it is too narrow for one."""

    def __init__(self, look: Look = LIGHT, parent: QWidget | None = None, ghosts: bool = True) -> None:
        super().__init__(parent)
        self._ghosts = ghosts
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Legend")
        self.set_look(look)
        self._describe()

    def set_look(self, look: Look) -> None:
        self._ink = Ink(look)
        self.updateGeometry()
        self.update()

    def set_ghosts(self, ghosts: bool) -> None:
        """Whether refused tokens are shown, and so explained."""
        self._ghosts = ghosts
        self._describe()
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        widths = [box.width() for _, box in self._placed(10_000)]
        width = round(sum(widths) + APART * (len(widths) - 1)) + 1
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        widest = max(box.width() for _, box in self._placed(10_000))
        return QSize(round(widest) + 1, round(self._ink.piece_height) + 2)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return round(max(box.bottom() for _, box in self._placed(width))) + 1

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setMinimumHeight(self.heightForWidth(self.width()))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self._ink.token_font)
        for kind, box in self._placed(self.width()):
            self._ink.draw_piece(painter, box, Piece(kind, kind, 0, None, None, 1))

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            under = [kind for kind, box in self._placed(self.width()) if box.contains(QPointF(event.pos()))]
            QToolTip.showText(event.globalPos(), MEANINGS[under[0]] if under else self.toolTip(), self)
            return True
        return super().event(event)

    def _kinds(self) -> list[Kind]:
        return [kind for kind in MEANINGS if self._ghosts or kind != "refused"]

    def _describe(self) -> None:
        said = "\n".join(MEANINGS[kind] for kind in self._kinds())
        self.setToolTip(said)
        self.setAccessibleDescription(said)

    def _placed(self, width: float) -> list[tuple[Kind, QRectF]]:
        """Each kind's place in `width` px."""
        placed, x, y = [], 0.0, 1.0
        height = self._ink.piece_height
        for kind in self._kinds():
            wide = self._ink.width(kind)
            if x and x + wide > width:
                x, y = 0.0, y + height + 2
            placed.append((kind, QRectF(x, y, wide, height)))
            x += wide + APART
        return placed
