"""What a formula draws as lines: tall delimiters, arrows, braces and strokes."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainterPath, QPainterPathStroker

LINE = 0.05  # em, the thickness of lines
DRAWN_DELIMITERS = frozenset("()[]{}|‖⟨⟩⌊⌋⌈⌉/\\⟦⟧")


def stroke(points: Sequence[QPointF], thickness: float) -> QPainterPath:
    """Returns the outline of lines through points."""
    path = QPainterPath(points[0])
    for point in points[1:]:
        path.lineTo(point)
    return _outline(path, thickness)


def _outline(path: QPainterPath, thickness: float) -> QPainterPath:
    stroker = QPainterPathStroker()
    stroker.setWidth(max(1.0, thickness))
    return stroker.createStroke(path)


def strokes(lines: Sequence[Sequence[QPointF]], thickness: float) -> QPainterPath:
    """Returns the outline of several lines."""
    path = QPainterPath()
    for points in lines:
        path.addPath(stroke(points, thickness))
    return path


def wide_mark(mark: str, place: QRectF, under: bool) -> list[list[QPointF]]:
    """Returns the lines of a mark that fills `place`: an arrow, a brace, a stroke."""
    left, right, top, bottom = place.left(), place.right(), place.top(), place.bottom()
    middle, y = place.center().x(), place.center().y()
    outer, inner = (bottom, top) if under else (top, bottom)  # farther from the body, nearer to it
    lines = {
        "line": [(left, y), (right, y)],
        "strike": [(left, y), (right, y)],
        "cancel": [(left, bottom), (right, top)],
        "bcancel": [(left, top), (right, bottom)],
        "bracket": [(left, inner), (left, outer), (right, outer), (right, inner)],
        "group": [(left, inner), (left + 2, outer), (right - 2, outer), (right, inner)],
        "brace": [
            (left, inner),
            (left + 2, y),
            (middle - 3, y),
            (middle, outer),
            (middle + 3, y),
            (right - 2, y),
            (right, inner),
        ],
        "hat": [(left, inner), (middle, outer), (right, inner)],
        "check": [(left, outer), (middle, inner), (right, outer)],
        "tilde": [(left, inner), (left + place.width() / 4, outer), (right - place.width() / 4, inner), (right, outer)],
        "angle": [(right, top), (left, bottom), (right, bottom)],
    }
    if mark == "xcancel":
        return [*wide_mark("cancel", place, under), *wide_mark("bcancel", place, under)]
    return [[QPointF(*point) for point in lines[mark]]] if mark in lines else _arrow_lines(mark, place)


def _arrow_lines(mark: str, place: QRectF) -> list[list[QPointF]]:
    """Returns the lines of an arrow from the left to the right of `place`."""
    left, right, y, half = place.left(), place.right(), place.center().y(), place.height() / 2
    double = mark in "⇒⇐⇔=⇌⇋⇄"
    shafts = (y - 0.45 * half, y + 0.45 * half) if double else (y,)
    lines = [[QPointF(left, at), QPointF(right, at)] for at in shafts]
    heads: list[tuple[float, float, float, int]] = []  # tip, height, direction, parts: 1 upper, 2 lower, 3 both
    if mark in "→⇒↔⇔↦↪↠":
        heads.append((right, y, -1, 3))
    if mark in "←⇐↔⇔↩↞":
        heads.append((left, y, 1, 3))
    if mark in "⇀⇁⇌⇄⇋":
        lower = mark in "⇁⇋"
        heads.append((right, shafts[-1 if mark == "⇋" else 0], -1, 3 if mark == "⇄" else 2 if lower else 1))
    if mark in "↼↽⇌⇄⇋":
        lower = mark in "↽⇌"
        heads.append((left, shafts[0 if mark == "⇋" else -1], 1, 3 if mark == "⇄" else 2 if lower else 1))
    if mark in "↠↞":
        tip, at, way, parts = heads[0]
        heads.append((tip + way * half, at, way, parts))
    for tip, at, way, parts in heads:
        for part, sign in ((1, -1), (2, 1)):
            lines += [[QPointF(tip + way * 1.2 * half, at + sign * half), QPointF(tip, at)]] if parts & part else []
    if mark == "↦":
        lines.append([QPointF(left, y - half), QPointF(left, y + half)])
    if mark in "↩↪":
        x, way = (right, 1) if mark == "↩" else (left, -1)
        lines.append([QPointF(x, y), QPointF(x + way * half / 2, y - half / 2), QPointF(x, y - half)])
    return lines


def delimiter_path(text: str, place: QRectF, em: float) -> QPainterPath:
    """Returns a tall delimiter within `place`."""
    left, right, top, bottom, middle = place.left(), place.right(), place.top(), place.bottom(), place.center().y()
    if text in ")]}⟩⌋⌉⟧":  # as its counterpart, mirrored
        left, right = right, left
    path = QPainterPath(QPointF(right, top))
    if text in "()":
        path.cubicTo(left, top + 0.25 * (bottom - top), left, bottom - 0.25 * (bottom - top), right, bottom)
    elif text in "{}":
        centre, turn = (left + right) / 2, min(0.3 * em, (bottom - top) / 6)
        path.quadTo(centre, top, centre, top + turn)
        path.lineTo(centre, middle - turn)
        path.quadTo(centre, middle, left, middle)
        path.quadTo(centre, middle, centre, middle + turn)
        path.lineTo(centre, bottom - turn)
        path.quadTo(centre, bottom, right, bottom)
    elif text in "⟨⟩":
        path.lineTo(left, middle)
        path.lineTo(right, bottom)
    elif text in "/\\":
        path = QPainterPath(QPointF(right if text == "/" else left, top))
        path.lineTo(left if text == "/" else right, bottom)
    elif text in "|‖":
        for x in (left, right) if text == "‖" else ((left + right) / 2,):
            path.moveTo(x, top)
            path.lineTo(x, bottom)
    else:
        path.moveTo(left if text in "⌊⌋" else right, top)
        path.lineTo(left, top)
        path.lineTo(left, bottom)
        if text not in "⌈⌉":
            path.lineTo(right, bottom)
        if text in "⟦⟧":
            path.moveTo((left + right) / 2, top)
            path.lineTo((left + right) / 2, bottom)
    return _outline(path, 1.3 * LINE * em)
