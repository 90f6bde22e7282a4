"""Draws the tokens of a round and its tree: a tint and a second cue for each kind."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from app.palette import mix
from app.window.common import theme
from app.window.common.appearance import Appearance
from app.window.inspector.round_tokens import Piece, depths
from engine.events import Round

PADDING = 4.0  # px, left and right of a piece's text
APART = 2.0  # px, between pieces
NODE = 2.2  # px, half a node of a small tree
LEVEL = 7.0  # px, from one level of a tree to the next
KNOWN_WIDTHS = 20_000


class TokenPainter:
    """Fonts, pens and measures of one appearance."""

    def __init__(self, look: Appearance) -> None:
        self.look = look
        self.token_font, self.small_font = look.font(12), look.font(11)
        self.token_metrics, self.small_metrics = QFontMetricsF(self.token_font), QFontMetricsF(self.small_font)
        self.text, self.faint, self.hairline = QColor(look.text), QColor(look.faint), QColor(look.hairline)
        self.background, self.accent = QColor(look.background), QColor(look.accent)
        self.tints: dict[str, QColor] = {kind: QColor(tint) for kind, tint in look.tints.items()}
        self.hues = {kind: QColor(hue) for kind, hue in look.hues.items()}
        self._solid = QPen(self.text, 1.4)
        self._dotted = QPen(self.text, 1.6, Qt.PenStyle.CustomDashLine, Qt.PenCapStyle.FlatCap)
        self._dotted.setDashPattern([1.0, 1.2])
        self._struck = QPen(self.faint, 1.0)
        self._branch = QPen(QColor(mix(look.faint, look.background, 0.5)), 1.0)
        self._path = QPen(self.hues["accepted"], 1.8)
        self._widths: dict[str, float] = {}

    @property
    def piece_height(self) -> float:
        return self.token_metrics.height() + 3

    def width(self, text: str) -> float:
        """Returns the width of a token that shows `text`, px."""
        width = self._widths.get(text)
        if width is None:
            if len(self._widths) >= KNOWN_WIDTHS:
                self._widths.clear()
            width = self._widths[text] = self.token_metrics.horizontalAdvance(text) + 2 * PADDING
        return width

    def draw_piece(self, painter: QPainter, box: QRectF, piece: Piece) -> None:
        """Draws a token over all of `box`. The painter's font must be `token_font`."""
        tint = self.tints.get(piece.kind)
        if tint is not None:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(tint)
            painter.drawRoundedRect(box, 3, 3)
        painter.setPen(self.faint if piece.kind == "refused" else self.text)
        baseline = box.top() + (box.height() + self.token_metrics.ascent() - self.token_metrics.descent()) / 2
        painter.drawText(QPointF(box.left() + PADDING, baseline), piece.text)
        self._draw_cue(painter, box, piece, baseline)

    def draw_tree(self, painter: QPainter, box: QRectF, round_: Round) -> None:
        """Draws the draft as a small tree that grows to the right: the accepted path in its hue, the rest in grey."""
        spots = tree_spots(round_, box)
        kept = set(round_.path[: round_.accepted])
        root = QPointF(box.left() + NODE, _middle([spot.y() for spot in spots], box))
        for taken in (False, True):
            painter.setPen(self._path if taken else self._branch)
            for node, parent in enumerate(round_.parents or ()):
                if (node in kept) == taken:
                    painter.drawLine(spots[parent] if parent >= 0 else root, spots[node])
        painter.setPen(Qt.PenStyle.NoPen)
        for node, spot in enumerate(spots):
            painter.setBrush(self.hues["accepted"] if node in kept else self.faint)
            size = NODE if node in kept else NODE * 0.6
            painter.drawEllipse(spot, size, size)
        painter.setBrush(self.text)
        painter.drawEllipse(root, NODE * 0.8, NODE * 0.8)

    def _draw_cue(self, painter: QPainter, box: QRectF, piece: Piece, baseline: float) -> None:
        left, right = box.left() + PADDING, box.right() - PADDING
        if piece.kind in ("corrected", "bonus"):
            painter.setPen(self._solid if piece.kind == "corrected" else self._dotted)
            painter.drawLine(QPointF(left, box.bottom() - 2), QPointF(right, box.bottom() - 2))
        elif piece.kind == "refused":
            painter.setPen(self._struck)
            middle = baseline - self.token_metrics.xHeight() / 2
            painter.drawLine(QPointF(left - 1, middle), QPointF(right + 1, middle))


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
    leaf_of = {node: i for i, node in enumerate(_leaves(parents))}
    pitch = min(box.height() / max(len(leaf_of) - 1, 1), 2.6 * NODE)
    top = box.center().y() - pitch * (len(leaf_of) - 1) / 2
    spots = [QPointF()] * len(parents)
    for node, level in reversed(list(enumerate(depths(round_)))):
        below = heights[node]
        y = (min(below) + max(below)) / 2 if below else top + pitch * leaf_of[node]
        spots[node] = QPointF(box.left() + NODE + level * LEVEL, y)
        if parents[node] >= 0:
            heights[parents[node]].append(y)
    return spots


def _leaves(parents: Sequence[int]) -> list[int]:
    """Returns the nodes without children, in the order of a walk through the tree."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        children.setdefault(parent, []).append(node)
    found, waiting = [], list(reversed(children.get(-1, ())))
    while waiting:
        node = waiting.pop()
        below = children.get(node, ())
        if not below:
            found.append(node)
        waiting.extend(reversed(below))
    return found


def _middle(heights: Sequence[float], box: QRectF) -> float:
    return (min(heights) + max(heights)) / 2 if heights else box.center().y()
