"""Draws the tokens of a round and its tree, with a tint and a second cue for each kind; and the legend of the kinds."""

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.palette import mix
from app.window.common import theme
from app.window.common.appearance import GAP, Appearance
from app.window.common.layouts import FlowLayout
from app.window.inspector.round_rows import Kind, RoundToken, branches, depths
from engine.events import Round

PADDING = 4.0  # px, left and right of a piece's text
APART = 2.0  # px, between pieces
NODE = 2.2  # px, half a node of a small tree
LEVEL = 7.0  # px, from one level of a tree to the next
MEANINGS: dict[Kind, str] = {
    "accepted": "Accepted: drafted, and kept by the target (tinted)",
    "corrected": "Corrected: the target's own token at the first refused position (solid underline)",
    "bonus": "Bonus: the target's own token after a fully accepted draft (dotted underline)",
    "refused": "Refused: drafted, but not kept (struck through)",
}


class TokenPainter:
    """Fonts, pens and measures of one appearance."""

    def __init__(self, look: Appearance) -> None:
        self.look = look
        self.token_font, self.small_font = look.font(12), look.font(11)
        self.token_metrics, self.small_metrics = QFontMetricsF(self.token_font), QFontMetricsF(self.small_font)
        self.text, self.faint, self.hairline = QColor(look.text), QColor(look.faint), QColor(look.hairline)
        self._tints: dict[str, QColor] = {kind: QColor(tint) for kind, tint in look.tints.items()}
        self._hue = QColor(look.hues["accepted"])
        dotted = QPen(self.text, 1.6, Qt.PenStyle.CustomDashLine, Qt.PenCapStyle.FlatCap)
        dotted.setDashPattern([1.0, 1.2])
        self._cues = {"corrected": QPen(self.text, 1.4), "bonus": dotted, "refused": QPen(self.faint, 1.0)}
        self._branch = QPen(QColor(mix(look.faint, look.background, 0.5)), 1.0)
        self._path = QPen(self._hue, 1.8)

    @property
    def token_height(self) -> float:
        """The height of a token, px."""
        return self.token_metrics.height() + 3

    def width(self, text: str) -> float:
        """Returns the width of a token that shows `text`, px."""
        return self.token_metrics.horizontalAdvance(text) + 2 * PADDING

    def draw_token(self, painter: QPainter, box: QRectF, piece: RoundToken) -> None:
        """Draws a token over all of `box`."""
        painter.setFont(self.token_font)
        if piece.kind in self._tints:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._tints[piece.kind])
            painter.drawRoundedRect(box, 3, 3)
        painter.setPen(self.faint if piece.kind == "refused" else self.text)
        baseline = box.top() + (box.height() + self.token_metrics.ascent() - self.token_metrics.descent()) / 2
        left, right = box.left() + PADDING, box.right() - PADDING
        painter.drawText(QPointF(left, baseline), piece.text)
        if piece.kind not in self._cues:
            return
        painter.setPen(self._cues[piece.kind])
        if piece.kind == "refused":
            middle = baseline - self.token_metrics.xHeight() / 2
            painter.drawLine(QPointF(left - 1, middle), QPointF(right + 1, middle))
        else:
            painter.drawLine(QPointF(left, box.bottom() - 2), QPointF(right, box.bottom() - 2))

    def draw_tree(self, painter: QPainter, box: QRectF, round_: Round) -> None:
        """Draws the draft as a small tree that grows to the right: the accepted path in its hue, the rest in grey."""
        spots, kept = tree_spots(round_, box), set(round_.path[: round_.accepted])
        heights = [spot.y() for spot in spots] or [box.center().y()]
        root = QPointF(box.left() + NODE, (min(heights) + max(heights)) / 2)
        for taken in (False, True):
            painter.setPen(self._path if taken else self._branch)
            for node, parent in enumerate(round_.parents or ()):
                if (node in kept) == taken:
                    painter.drawLine(spots[parent] if parent >= 0 else root, spots[node])
        painter.setPen(Qt.PenStyle.NoPen)
        for node, spot in enumerate(spots):
            painter.setBrush(self._hue if node in kept else self.faint)
            size = NODE if node in kept else NODE * 0.6
            painter.drawEllipse(spot, size, size)
        painter.setBrush(self.text)
        painter.drawEllipse(root, NODE * 0.8, NODE * 0.8)


_painter: TokenPainter | None = None


def token_painter() -> TokenPainter:
    """Returns the painter for the appearance that is shown."""
    global _painter
    if _painter is None or _painter.look is not theme.current():
        _painter = TokenPainter(theme.current())
    return _painter


def tree_width(round_: Round) -> float:
    """Returns the width of a small tree, px."""
    return max(depths(round_), default=0) * LEVEL + 2 * NODE


def tree_spots(round_: Round, box: QRectF) -> list[QPointF]:
    """Returns the place of each node: leaves evenly from top to bottom, a parent in the middle of its children."""
    parents = round_.parents or ()
    heights: list[list[float]] = [[] for _ in parents]
    leaves = [node for node in branches(parents, -1) if node not in parents]
    pitch = min(box.height() / max(len(leaves) - 1, 1), 2.6 * NODE)
    top = box.center().y() - pitch * (len(leaves) - 1) / 2
    spots = [QPointF()] * len(parents)
    for node, level in reversed(list(enumerate(depths(round_)))):
        below = heights[node] or [top + pitch * leaves.index(node)]
        y = (min(below) + max(below)) / 2
        spots[node] = QPointF(box.left() + NODE + level * LEVEL, y)
        if parents[node] >= 0:
            heights[parents[node]].append(y)
    return spots


class Swatch(QWidget):
    """A kind of token, drawn as such a token that says its name."""

    def __init__(self, kind: Kind, parent: QWidget) -> None:
        super().__init__(parent)
        self._piece = RoundToken(kind, kind, 0)
        self.setToolTip(MEANINGS[kind])
        self._resize()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._resize()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        token_painter().draw_token(painter, QRectF(self.rect()), self._piece)
        painter.end()

    def _resize(self) -> None:
        self.setFixedSize(round(token_painter().width(self._piece.text)), round(token_painter().token_height))


class Legend(QWidget):
    """The kinds of tokens; in several lines if narrow. refused: whether refused tokens are explained."""

    def __init__(self, refused: bool = True, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Legend")
        self._swatches = {kind: Swatch(kind, self) for kind in MEANINGS}
        self._flow = FlowLayout(self, GAP - 2)
        self._flow.setContentsMargins(0, 1, 0, 1)
        for swatch in self._swatches.values():
            self._flow.addWidget(swatch)
        self.set_refused(refused)

    def set_refused(self, refused: bool) -> None:
        """Sets whether refused tokens are shown, and so explained."""
        self._swatches["refused"].setVisible(refused)
        shown = [swatch for swatch in self._swatches.values() if not swatch.isHidden()]
        self.setAccessibleDescription("\n".join(swatch.toolTip() for swatch in shown))
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        widths = [swatch.width() for swatch in self._swatches.values() if not swatch.isHidden()]
        width = sum(widths) + (GAP - 2) * (len(widths) - 1)
        return QSize(width, self.heightForWidth(width))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setMinimumHeight(self.heightForWidth(self.width()))
