"""Will it fit: the verdict in words, a bar of the memory it takes, what would make it fit, and how much by context."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.window.fonts import font
from app.window.icons import pixmap
from app.window.look import GAP, LIGHT, Look, mix
from app.window.models.documents import Fits
from app.window.models.shelf import LOOKUP, MACHINE, Row, Shelf
from app.window.models.wording import BADGES, ICONS, ROOMS, automatic, bits, joined, sentence, size
from app.window.shell.styles import faint_style, wear
from app.window.shell.widgets import wrapped
from models.sizes import memory_words

LEVELS = {"good": "fits", "tight": "tight", "refused": "too large"}
BY_SIZE = "Judged by its size alone, with its drafter and a short context; exactly once it is here."
BAR = 10  # px


class Account(NamedTuple):
    """What is said of a model's memory. parts: (what, bytes) of it, most_bytes: what there is, None if unknown."""

    room: str
    said: str
    remedies: tuple[str, ...] = ()
    parts: tuple[tuple[str, int], ...] = ()
    most_bytes: int | None = None
    contexts: tuple[tuple[str, str, str], ...] = ()


def account(row: Row, shelf: Shelf) -> Account | None:
    """Of a model that is here by what its own files say, of another by its size; None where nothing can be said."""
    fits = shelf.fits.get(row.here.name) if row.here else None
    if fits is not None:
        return _exactly(fits, row, shelf)
    if row.here is not None:
        why = shelf.unfit.get(row.here.name, "")
        return Account("", sentence(why) or "Being worked out…") if row.usable else None
    return _by_size(row, shelf)


def _exactly(fits: Fits, row: Row, shelf: Shelf) -> Account:
    rest = max(0, fits.needed_bytes - fits.weights_bytes - fits.cache_bytes)
    parts = (("Weights", fits.weights_bytes), ("Keys and values", fits.cache_bytes), ("Working memory", rest))
    said = sentence(fits.said)
    if automatic(fits.drafter) not in ("", LOOKUP, "none"):
        said += " Its drafter is counted in."
    if fits.context < fits.wanted:
        said += f" It was made for {fits.wanted:,} tokens; a chat gets {fits.context:,}."
    contexts = tuple((f"{one.context:,}", memory_words(one.needed_bytes), one.level) for one in fits.contexts)
    remedies = [sentence(remedy) for remedy in fits.remedies]
    if fits.level == "refused":
        remedies += _instead(row, shelf)
    return Account(ROOMS[fits.level], said, tuple(remedies), parts, fits.most_bytes, contexts)


def _by_size(row: Row, shelf: Shelf) -> Account | None:
    entry, machine = row.entry, shelf.machine
    if entry is None or machine is None or entry.kind != "target" or not entry.size_bytes:
        return None
    most_bytes = machine.for_models_bytes
    if row.room != "no":
        return Account(row.room, BY_SIZE, (), (("Weights", entry.size_bytes),), most_bytes)
    most = memory_words(most_bytes)
    weights = memory_words(entry.size_bytes)
    said = f"Its weights alone take {weights}, and a model may take {most} of the memory of {MACHINE}."
    remedies = _instead(row, shelf)
    if entry.smallest_mac_gb:
        remedies.append(f"A Mac with {entry.smallest_mac_gb} GB of memory can run this one.")
    return Account("no", said, tuple(remedies), (("Weights", entry.size_bytes),), most_bytes)


def _instead(row: Row, shelf: Shelf) -> list[str]:
    """Another model, which fits."""
    other = shelf.smaller(row.entry.family if row.entry else "")
    return [f"{other.name} fits: {joined((bits(other.bits), size(other.size_bytes)))}."] if other else []


class MemoryBar(QWidget):
    """Parts of the memory beside each other, and a line where it ends."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: tuple[tuple[str, int], ...] = ()
        self._most_bytes = 0
        self._look: Look = LIGHT
        self.setFixedHeight(BAR + 8)
        self.setAccessibleName("Memory")

    def show_parts(self, parts: tuple[tuple[str, int], ...], most_bytes: int) -> None:
        self._parts, self._most_bytes = parts, most_bytes
        told = ", ".join(f"{name} {memory_words(size_bytes)}" for name, size_bytes in parts)
        self.setAccessibleDescription(f"{told}, of {memory_words(most_bytes)}")
        self.update()

    def set_look(self, look: Look) -> None:
        self._look = look
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, BAR + 8)

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = self._look, QPainter(self)
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
            painter.setBrush(QColor(ink(look, place, over)))
            painter.drawRoundedRect(QRectF(left, 4, max(2.0, wide - 1), BAR), 3, 3)
            left += wide
        if over:
            painter.setBrush(QColor(look.text))
            painter.drawRect(QRectF(room.right() - 1, 0, 2, BAR + 8))
        painter.end()


def ink(look: Look, place: int, over: bool) -> str:
    """Of the first, second and third part."""
    return mix(look.error if over else look.accent, look.background, (0.0, 0.4, 0.65)[place])


class Fitting(QWidget):
    """Shows an Account."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.said, self.remedies, self.bar, self.legend = wrapped(), wrapped(), MemoryBar(), wrapped()
        self.badge, self._icon = QLabel(), QLabel()
        self._table, self._cells = QGridLayout(), list[QLabel]()
        self._look: Look = LIGHT
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
        for widget in (self.said, self.bar, self.legend, self.remedies):
            column.addWidget(widget)
        column.addLayout(self._table)

    def show_account(self, account: Account) -> None:
        if account == self._account:
            return
        self._account = account
        self.badge.setText(BADGES[account.room])
        self.said.setText(account.said)
        self.remedies.setText("\n".join(f"\N{BULLET} {remedy}" for remedy in account.remedies))
        most, parts = account.most_bytes or 0, tuple(part for part in account.parts if part[1])
        told = joined([f"{name} {memory_words(size_bytes)}" for name, size_bytes in parts])
        self.legend.setText(f"{told} of {memory_words(most)}" if len(parts) == 1 else told)
        self.bar.show_parts(parts, most)
        for widget, shown in ((self.badge, account.room), (self._icon, account.room), (self.bar, parts and most)):
            widget.setVisible(bool(shown))
        self.legend.setVisible(len(parts) > 1 or (bool(parts) and account.room != "no"))
        self.remedies.setVisible(bool(account.remedies))
        self._fill(account)
        self.set_look(self._look)

    def set_look(self, look: Look) -> None:
        self._look = look
        room = self._account.room if self._account else ""
        colour = {"good": look.good, "tight": look.warning, "no": look.error}.get(room, look.text)
        self.badge.setFont(font(look, 13, QFont.Weight.DemiBold))
        wear(self.badge, f"color: {colour};")
        if room:
            self._icon.setPixmap(pixmap(ICONS[room], colour, look.px(15), self.devicePixelRatioF()))
        for label in (self.said, self.remedies):
            wear(label, f"color: {look.text}; font-size: {look.px(13)}px;")
        for label in (self.legend, *self._cells):
            wear(label, faint_style(look, 12))
        self.bar.set_look(look)

    def _fill(self, account: Account) -> None:
        """A line for each context."""
        for cell in self._cells:
            self._table.removeWidget(cell)
            cell.hide()
            cell.deleteLater()
        titles = (("context, tokens", "memory", ""),) if account.contexts else ()
        rows = [*titles, *((context, needed, LEVELS[level]) for context, needed, level in account.contexts)]
        self._cells = []
        for line, texts in enumerate(rows):
            for place, text in enumerate(texts):
                cell = QLabel(text)
                side = Qt.AlignmentFlag.AlignLeft if place == 2 else Qt.AlignmentFlag.AlignRight
                self._table.addWidget(cell, line, place, side)
                self._cells.append(cell)
