"""The legend of the token tints: each kind is drawn as such a token, with its name for a text."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.window.common.appearance import GAP
from app.window.inspector.round_tokens import Kind, Piece
from app.window.inspector.token_painter import token_painter

MEANINGS: dict[Kind, str] = {
    "accepted": "Accepted: drafted, and kept by the target (tinted)",
    "corrected": "Corrected: the target's own token at the first refused place (solid underline)",
    "bonus": "Bonus: the target's own token after a fully accepted draft (dotted underline)",
    "refused": "Refused: drafted, but not kept (struck through)",
}
APART = GAP - 2


class Legend(QWidget):
    """Swatch, cue and word in one; in several lines if narrow. refused: whether refused tokens are explained."""

    def __init__(self, refused: bool = True, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._refused = refused
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Legend")
        self._describe()

    def set_refused(self, refused: bool) -> None:
        """Whether refused tokens are shown, and so explained."""
        self._refused = refused
        self._describe()
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        widths = [box.width() for _, box in self._placed(10_000)]
        width = round(sum(widths) + APART * (len(widths) - 1)) + 1
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        widest = max(box.width() for _, box in self._placed(10_000))
        return QSize(round(widest) + 1, round(token_painter().piece_height) + 2)

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
        painter.setFont(token_painter().token_font)
        for kind, box in self._placed(self.width()):
            token_painter().draw_piece(painter, box, Piece(kind, kind, 0, None, None, 1))

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            under = [kind for kind, box in self._placed(self.width()) if box.contains(QPointF(event.pos()))]
            QToolTip.showText(event.globalPos(), MEANINGS[under[0]] if under else self.toolTip(), self)
            return True
        return super().event(event)

    def _kinds(self) -> list[Kind]:
        return [kind for kind in MEANINGS if self._refused or kind != "refused"]

    def _describe(self) -> None:
        description = "\n".join(MEANINGS[kind] for kind in self._kinds())
        self.setToolTip(description)
        self.setAccessibleDescription(description)

    def _placed(self, width: float) -> list[tuple[Kind, QRectF]]:
        """Returns the place of each kind in `width` px."""
        placed, x, y = [], 0.0, 1.0
        height = token_painter().piece_height
        for kind in self._kinds():
            wide = token_painter().width(kind)
            if x and x + wide > width:
                x, y = 0.0, y + height + 2
            placed.append((kind, QRectF(x, y, wide, height)))
            x += wide + APART
        return placed
