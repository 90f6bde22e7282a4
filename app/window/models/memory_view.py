"""Whether a model fits into memory: the verdict, a bar of what it takes, remedies, and the memory by context."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.palette import mix
from app.protocol.model_documents import MemoryFit
from app.window.common import theme
from app.window.common.appearance import GAP, Appearance
from app.window.common.widgets import Glyph, label, style, wrapped
from app.window.models.catalogue_view import LOOKUP, MACHINE, Row, Shelf
from app.window.models.model_text import BADGES, ICONS, ROOMS, automatic, bits, joined, sentence, size
from models.size_text import memory_words

LEVELS = {"good": "fits", "tight": "tight", "refused": "too large"}
BY_SIZE = "Estimated from its size, with its drafter and a short context. Exact once it is downloaded."
BAR = 10  # px


class Account(NamedTuple):
    """The memory of a model, to show. parts: (what, bytes). most_bytes: what a model may take, None if unknown."""

    room: str
    text: str
    remedies: tuple[str, ...] = ()
    parts: tuple[tuple[str, int], ...] = ()
    most_bytes: int | None = None
    contexts: tuple[tuple[str, str, str], ...] = ()


def account(row: Row, shelf: Shelf) -> Account | None:
    """Returns the memory of a model: exact for one on this computer, else by its size; None where unknown."""
    fits = shelf.fits.get(row.here.name) if row.here else None
    if fits is not None:
        return _exactly(fits, row, shelf)
    if row.here is not None:
        why = shelf.unfit.get(row.here.name, "")
        return Account("", sentence(why) or "Calculating…") if row.usable else None
    return _by_size(row, shelf)


def _exactly(fits: MemoryFit, row: Row, shelf: Shelf) -> Account:
    rest = max(0, fits.needed_bytes - fits.weights_bytes - fits.cache_bytes)
    parts = (("Weights", fits.weights_bytes), ("Keys and values", fits.cache_bytes), ("Working memory", rest))
    text = sentence(fits.reason)
    if automatic(fits.drafter) not in ("", LOOKUP, "none"):
        text += " Includes the drafter."
    if fits.context < fits.wanted:
        text += f" Supports {fits.wanted:,} tokens; chats use {fits.context:,}."
    contexts = tuple((f"{one.context:,}", memory_words(one.needed_bytes), one.level) for one in fits.contexts)
    remedies = [sentence(remedy) for remedy in fits.remedies]
    if fits.level == "refused":
        remedies += _instead(row, shelf)
    return Account(ROOMS[fits.level], text, tuple(remedies), parts, fits.most_bytes, contexts)


def _by_size(row: Row, shelf: Shelf) -> Account | None:
    entry, machine = row.entry, shelf.machine
    if entry is None or machine is None or entry.kind != "target" or not entry.size_bytes:
        return None
    most_bytes = machine.for_models_bytes
    if row.room != "no":
        return Account(row.room, BY_SIZE, (), (("Weights", entry.size_bytes),), most_bytes)
    most = memory_words(most_bytes)
    weights = memory_words(entry.size_bytes)
    text = f"The weights alone take {weights}. Models can use {most} of the memory of {MACHINE}."
    remedies = _instead(row, shelf)
    if entry.smallest_mac_gb:
        remedies.append(f"Requires a Mac with {entry.smallest_mac_gb} GB of memory.")
    return Account("no", text, tuple(remedies), (("Weights", entry.size_bytes),), most_bytes)


def _instead(row: Row, shelf: Shelf) -> list[str]:
    """Suggests another model that fits."""
    other = shelf.smaller(row.entry.family if row.entry else "")
    return [f"{other.name} fits: {joined((bits(other.bits), size(other.size_bytes)))}."] if other else []


class MemoryBar(QWidget):
    """The parts of the memory side by side, and a line where it ends."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: tuple[tuple[str, int], ...] = ()
        self._most_bytes = 0
        self.setFixedHeight(BAR + 8)
        self.setAccessibleName("Memory")

    def show_parts(self, parts: tuple[tuple[str, int], ...], most_bytes: int) -> None:
        self._parts, self._most_bytes = parts, most_bytes
        sizes = ", ".join(f"{name} {memory_words(size_bytes)}" for name, size_bytes in parts)
        self.setAccessibleDescription(f"{sizes}, of {memory_words(most_bytes)}")
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, BAR + 8)

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        total = sum(size_bytes for _, size_bytes in self._parts)
        scale = self.width() / max(1, total, self._most_bytes)
        room = QRectF(0, 4, self._most_bytes * scale, BAR)
        painter.setBrush(QColor(look.hairline))
        painter.drawRoundedRect(room, BAR / 2, BAR / 2)
        left, over = 0.0, total > self._most_bytes
        for place, (_, size_bytes) in enumerate(self._parts):
            wide = size_bytes * scale
            painter.setBrush(QColor(part_colour(look, place, over)))
            painter.drawRoundedRect(QRectF(left, 4, max(2.0, wide - 1), BAR), 3, 3)
            left += wide
        if over:
            painter.setBrush(QColor(look.text))
            painter.drawRect(QRectF(room.right() - 1, 0, 2, BAR + 8))
        painter.end()


def part_colour(look: Appearance, place: int, over: bool) -> str:
    """Returns the colour of the first, second or third part."""
    return mix(look.error if over else look.accent, look.background, (0.0, 0.4, 0.65)[place])


class MemoryView(QWidget):
    """Shows an Account."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text, self.remedies = wrapped(role="body"), wrapped(role="body")
        self.bar, self.legend = MemoryBar(), wrapped(role="detail")
        self.badge, self._icon = label(role="heading"), Glyph(size=15)
        self._table, self._cells = QGridLayout(), list[QLabel]()
        self._account: Account | None = None
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(self._icon)
        head.addWidget(self.badge)
        head.addStretch(1)
        self._table.setHorizontalSpacing(3 * GAP)
        self._table.setVerticalSpacing(2)
        self._table.setColumnStretch(3, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addLayout(head)
        for widget in (self.text, self.bar, self.legend, self.remedies):
            column.addWidget(widget)
        column.addLayout(self._table)

    def show_account(self, account: Account) -> None:
        if account == self._account:
            return
        self._account = account
        self.badge.setText(BADGES[account.room])
        self.text.setText(account.text)
        self.remedies.setText("\n".join(f"\N{BULLET} {remedy}" for remedy in account.remedies))
        most, parts = account.most_bytes or 0, tuple(part for part in account.parts if part[1])
        sizes = joined([f"{name} {memory_words(size_bytes)}" for name, size_bytes in parts])
        self.legend.setText(f"{sizes} of {memory_words(most)}" if len(parts) == 1 else sizes)
        self.bar.show_parts(parts, most)
        for widget, shown in ((self.badge, account.room), (self._icon, account.room), (self.bar, parts and most)):
            widget.setVisible(bool(shown))
        self.legend.setVisible(len(parts) > 1 or (bool(parts) and account.room != "no"))
        self.remedies.setVisible(bool(account.remedies))
        self._fill(account)
        tone = {"good": "good", "tight": "warning", "no": "error"}.get(account.room, "text")
        style(self.badge, tone=tone)
        self._icon.show_shape(ICONS[account.room], tone)

    def _fill(self, account: Account) -> None:
        """Shows a line for each context."""
        for cell in self._cells:
            self._table.removeWidget(cell)
            cell.hide()
            cell.deleteLater()
        titles = (("context", "memory", ""),) if account.contexts else ()
        rows = [*titles, *((context, needed, LEVELS[level]) for context, needed, level in account.contexts)]
        self._cells = []
        for line, texts in enumerate(rows):
            for place, text in enumerate(texts):
                cell = label(text, "detail")
                side = Qt.AlignmentFlag.AlignLeft if place == 2 else Qt.AlignmentFlag.AlignRight
                self._table.addWidget(cell, line, place, side)
                self._cells.append(cell)
