"""The icons of the window: strokes on a grid of 24 by 24, drawn in any colour and size."""

from functools import lru_cache

from PySide6.QtCore import QByteArray, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.window.common import theme

_PANEL = '<rect x="3.5" y="5" width="17" height="14" rx="3"/>'

# Every shape is stroked in the icon's colour; {fill} also fills it.
SHAPES: dict[str, str] = {
    "sidebar": _PANEL + '<path d="M9.5 5v14"/>',
    "inspector": _PANEL + '<path d="M14.5 5v14M17 9h1M17 12h1"/>',
    "compose": '<path d="M12.5 5H7a3 3 0 0 0-3 3v9a3 3 0 0 0 3 3h9a3 3 0 0 0 3-3v-5.5"/>'
    '<path d="M9.5 14.5l.7-3 8-8 2.3 2.3-8 8z"/>',
    "search": '<circle cx="10.5" cy="10.5" r="6"/><path d="M15 15l5 5"/>',
    "tints": '<path d="M12 3.5c3.5 4 6 6.8 6 10.2a6 6 0 0 1-12 0C6 10.3 8.5 7.5 12 3.5z"/>'
    '<path {fill} d="M6.3 13.2h11.4a5.8 5.8 0 0 1-11.4 0z"/>',
    "raw": '<path d="M8 7l-5 5 5 5M16 7l5 5-5 5"/>',
    "attach": '<path d="M20 11.5l-8.2 8.2a5 5 0 0 1-7-7l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7l-8.5 8.5'
    'a1.7 1.7 0 0 1-2.4-2.4l7.7-7.7"/>',
    "send": '<path d="M12 19V5.5M6 11.5l6-6 6 6"/>',
    "stop": '<rect {fill} x="7" y="7" width="10" height="10" rx="2"/>',
    "close": '<path d="M7 7l10 10M17 7L7 17"/>',
    "pin": '<path d="M8.5 4h7M10 4v6.5l-3 3.5h10l-3-3.5V4M12 14v6.5"/>',
    "tune": '<path d="M4 8h8.5M17.5 8H20M4 16h2.5M11.5 16H20"/><circle cx="15" cy="8" r="2.5"/>'
    '<circle cx="9" cy="16" r="2.5"/>',
    "on": '<path d="M13.5 3L5.5 13.5h6L10.5 21l8-10.5h-6z"/>',
    "off": '<circle cx="12" cy="12" r="8"/><path d="M8 12h8"/>',
    "loading": '<circle cx="12" cy="12" r="8" stroke-dasharray="3.2 3.2"/>',
    "unsupported": '<circle cx="12" cy="12" r="8"/><path d="M6.5 6.5l11 11"/>',
    "fell back": '<path d="M4 6.5h5.5l6 10H20M17 13.5l3 3-3 3"/>',
    "unloaded": '<path d="M4 18h16M12 5v8M8.5 9.5L12 13l3.5-3.5"/>',
    "host down": '<path d="M8.5 3.5h7l5 5v7l-5 5h-7l-5-5v-7z"/><path d="M9.5 9.5l5 5M14.5 9.5l-5 5"/>',
    "info": '<circle cx="12" cy="12" r="8.5"/><path d="M12 11v5.5M12 7.5v.5"/>',
    "warning": '<path d="M12 4l9 16H3zM12 10v4.5M12 17v.5"/>',
    "error": '<circle cx="12" cy="12" r="8.5"/><path d="M12 7v6M12 16v.5"/>',
    "down": '<path d="M7 10l5 5 5-5"/>',
    "up": '<path d="M7 14l5-5 5 5"/>',
    "file": '<path d="M7 3.5h6.5L18 8v12.5H7zM13.5 3.5V8H18"/>',
    "check": '<path d="M5 12.5l4.5 4.5L19 7.5"/>',
    "copy": '<rect x="8.5" y="8.5" width="11" height="11" rx="2.5"/>'
    '<path d="M15.5 8.5V7A2.5 2.5 0 0 0 13 4.5H7A2.5 2.5 0 0 0 4.5 7v6A2.5 2.5 0 0 0 7 15.5h1.5"/>',
    "plain": '<path d="M5 7V5h14v2M12 5v14M9.5 19h5"/>',
    "again": '<path d="M19 12a7 7 0 1 1-2.100-5M19 4.5V9h-4.5"/>',
    "continue": '<path d="M5 12h13M13 6.5l5.5 5.5-5.5 5.5"/>',
    "edit": '<path d="M5 19l1-4L16.5 4.5l3 3L9 18zM14 7l3 3"/>',
    "trash": '<path d="M5 7h14M9.5 7V4.5h5V7M6.5 7l1 12.5h9l1-12.5M10.5 11v5M13.5 11v5"/>',
    "left": '<path d="M14 7l-5 5 5 5"/>',
    "right": '<path d="M10 7l5 5-5 5"/>',
    "latest": '<path d="M12 5v13M6.5 12.5L12 18l5.5-5.5"/>',
    "appearance": '<circle cx="12" cy="12" r="8"/><path {fill} d="M12 4a8 8 0 0 1 0 16z"/>',
    "chat": '<path d="M4.5 5.5h15v10.5h-8.5L7 19.5V16H4.5z"/>',
    "data": '<ellipse cx="12" cy="6.5" rx="7.5" ry="3"/><path d="M4.5 6.5v11c0 1.7 3.4 3 7.5 3s7.5-1.3 '
    '7.5-3v-11M4.5 12c0 1.7 3.4 3 7.5 3s7.5-1.3 7.5-3"/>',
    "play": '<path {fill} d="M8.5 5.5v13l10-6.5z"/>',
    "pause": '<path d="M9 6v12M15 6v12"/>',
    "race": '<path d="M5 21V4M5 5c5-3 8 3 14 0v9c-6 3-9-3-14 0"/>',
    "verify": '<path d="M12 3.5l7 2.5v5.5c0 4.5-3 7.5-7 9-4-1.5-7-4.5-7-9V6zM8.5 12l2.5 2.5 4.5-5"/>',
    "download": '<path d="M12 4v10.5M7.5 10.5L12 15l4.5-4.5M5 19.5h14"/>',
    "keyboard": '<rect x="3" y="6" width="18" height="12" rx="2.5"/><path d="M7 10h.1M11 10h.1M15 10h.1'
    'M17.5 10h.1M8 14h8"/>',
}
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="{colour}" stroke-width="1.7" '
    'stroke-linecap="round" stroke-linejoin="round">{shape}</svg>'
)


def icon(name: str, tone: str = "faint", checked: str = "") -> QIcon:
    """Returns the icon `name` of SHAPES, which follows the theme.

    tone: its colour, by its name in the appearance or as #rrggbb. checked: its colour while its control is checked.
    """
    return QIcon(_ThemeIcon(name, tone, checked or tone))


class _ThemeIcon(QIconEngine):
    """Looks up the colour while it paints. colours: while its control is unchecked, and while it is checked."""

    def __init__(self, name: str, *colours: str) -> None:
        super().__init__()
        self._name, self._colours = name, colours

    def clone(self) -> QIconEngine:
        return _ThemeIcon(self._name, *self._colours)

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        tone = self._colours[state == QIcon.State.On]
        colour = tone if tone.startswith("#") else theme.current().colour(tone)
        painter.drawPixmap(rect, pixmap(self._name, colour, rect.width(), painter.device().devicePixelRatioF()))

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        drawn = QPixmap(size)
        drawn.fill(Qt.GlobalColor.transparent)
        painter = QPainter(drawn)
        self.paint(painter, drawn.rect(), mode, state)
        painter.end()
        return drawn


@lru_cache(maxsize=1024)
def pixmap(name: str, colour: str, size: int = 18, ratio: float = 2) -> QPixmap:
    """Returns the icon as a picture of `size` px, for a screen with `ratio` device pixels a px."""
    shape = SHAPES[name].replace("{fill}", f'fill="{colour}"')
    renderer = QSvgRenderer(QByteArray(_SVG.format(colour=colour, shape=shape).encode()))
    drawn = QPixmap(QSize(round(size * ratio), round(size * ratio)))
    drawn.fill(Qt.GlobalColor.transparent)
    painter = QPainter(drawn)
    renderer.render(painter, QRectF(drawn.rect()))
    painter.end()
    drawn.setDevicePixelRatio(ratio)
    return drawn
