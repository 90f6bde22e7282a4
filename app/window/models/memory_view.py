"""Whether a model fits into memory: the verdict, a bar of what it needs, remedies, and the memory by context."""

from typing import NamedTuple

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from app.model_words import bits, joined, size
from app.palette import mix
from app.protocol.model_documents import MemoryFit
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.layouts import STRETCH, clear, column, row
from app.window.common.sentence import sentence
from app.window.common.widgets import Glyph, draw_bar, label, style, wrapped
from app.window.models.known_models import BADGES, FITS, ICONS, LOOKUP, MACHINE, TONES, KnownModels, ModelRow, automatic
from models.catalogue.search import smallest_mac_gb
from models.size_text import memory_words

LEVELS = {"good": "fits", "tight": "tight", "refused": "too large"}
BY_SIZE = "Estimated from its size, with its drafter and a short context. Exact once it is downloaded."
BAR_HEIGHT = 10  # px


class MemoryNeed(NamedTuple):
    """The memory that a model needs. fit: as of ModelRow. parts: (what, bytes). limit_bytes: what a model may take,
    None if unknown. contexts: (tokens, memory, verdict) in words."""

    fit: str
    text: str
    remedies: tuple[str, ...] = ()
    parts: tuple[tuple[str, int], ...] = ()
    limit_bytes: int | None = None
    contexts: tuple[tuple[str, str, str], ...] = ()


def memory_need(row: ModelRow, known: KnownModels) -> MemoryNeed | None:
    """Returns the memory that a model needs: exact if it is on this computer, else by its size; None if unknown."""
    if row.here is None:
        return _estimate(row, known)
    fit = known.fits.get(row.here.name)
    if fit is not None:
        return _exact(fit, row, known)
    failure = known.fit_failures.get(row.here.name, "")
    return MemoryNeed("", sentence(failure) or "Calculating…") if row.usable else None


def _exact(fit: MemoryFit, row: ModelRow, known: KnownModels) -> MemoryNeed:
    rest = max(0, fit.needed_bytes - fit.weights_bytes - fit.cache_bytes)
    parts = (("Weights", fit.weights_bytes), ("Keys and values", fit.cache_bytes), ("Working memory", rest))
    text = sentence(fit.reason)
    if automatic(fit.drafter) not in ("", LOOKUP, "none"):
        text += " Includes the drafter."
    if fit.context < fit.wanted:
        text += f" Supports {fit.wanted:,} tokens; chats use {fit.context:,}."
    contexts = tuple((f"{one.context:,}", memory_words(one.needed_bytes), LEVELS[one.level]) for one in fit.contexts)
    remedies = [sentence(remedy) for remedy in fit.remedies]
    if fit.level == "refused":
        remedies += _alternative(row, known)
    return MemoryNeed(FITS[fit.level], text, tuple(remedies), parts, fit.most_bytes, contexts)


def _estimate(row: ModelRow, known: KnownModels) -> MemoryNeed | None:
    target = row.target
    if target is None:
        return None
    limit_bytes, parts = known.machine.for_models_bytes, (("Weights", target.size_bytes),)
    if row.fit != "no":
        return MemoryNeed(row.fit, BY_SIZE, (), parts, limit_bytes)
    weights, limit = memory_words(target.size_bytes), memory_words(limit_bytes)
    text = f"The weights alone need {weights}. Models can use {limit} of {MACHINE}'s memory."
    remedies = _alternative(row, known)
    if mac_gb := smallest_mac_gb(target.size_bytes):
        remedies.append(f"Requires a Mac with {mac_gb} GB of memory.")
    return MemoryNeed("no", text, tuple(remedies), parts, limit_bytes)


def _alternative(row: ModelRow, known: KnownModels) -> list[str]:
    other = known.alternative(row.target.family if row.target else "")
    return [f"{other.name} fits: {joined((bits(other.bits), size(other.size_bytes)))}."] if other else []


class MemoryBar(QWidget):
    """The parts of the memory side by side, and a line where the memory ends."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: tuple[tuple[str, int], ...] = ()
        self._limit_bytes = 0
        self.setFixedHeight(BAR_HEIGHT + 8)
        self.setAccessibleName("Memory")

    def show_parts(self, parts: tuple[tuple[str, int], ...], limit_bytes: int) -> None:
        """Shows at most three parts, as (what, bytes)."""
        self._parts, self._limit_bytes = parts, limit_bytes
        sizes = ", ".join(f"{name} {memory_words(size_bytes)}" for name, size_bytes in parts)
        self.setAccessibleDescription(f"{sizes}, of {memory_words(limit_bytes)}")
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, BAR_HEIGHT + 8)

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        total = sum(size_bytes for _, size_bytes in self._parts)
        scale, over = self.width() / max(1, total, self._limit_bytes), total > self._limit_bytes
        end = self._limit_bytes * scale
        draw_bar(painter, QRectF(0, 4, end, BAR_HEIGHT), 0, look.hairline, look.hairline)
        left = 0.0
        for (_, size_bytes), lightness in zip(self._parts, (0.0, 0.4, 0.65), strict=False):
            width = size_bytes * scale
            painter.setBrush(QColor(mix(look.error if over else look.accent, look.background, lightness)))
            painter.drawRoundedRect(QRectF(left, 4, max(2.0, width - 1), BAR_HEIGHT), 3, 3)
            left += width
        if over:
            painter.fillRect(QRectF(end - 1, 0, 2, BAR_HEIGHT + 8), QColor(look.text))
        painter.end()


class MemoryView(QWidget):
    """Shows the memory that a model needs."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text, self.remedies, self.legend = wrapped(role="body"), wrapped(role="body"), wrapped(role="detail")
        self.bar, self.badge, self._glyph = MemoryBar(), label(role="heading"), Glyph(size=15)
        self._contexts = QGridLayout()
        self._contexts.setHorizontalSpacing(3 * GAP)
        self._contexts.setVerticalSpacing(2)
        self._contexts.setColumnStretch(3, 1)
        self._need: MemoryNeed | None = None
        head = row(self._glyph, self.badge, STRETCH, gap=6)
        column(head, self.text, self.bar, self.legend, self.remedies, self._contexts, on=self, gap=6)

    def show_need(self, need: MemoryNeed) -> None:
        """Shows the memory that a model needs."""
        if need == self._need:
            return
        self._need = need
        limit, parts = need.limit_bytes or 0, tuple(part for part in need.parts if part[1])
        sizes = joined([f"{name} {memory_words(size_bytes)}" for name, size_bytes in parts])
        self.badge.setText(BADGES[need.fit])
        style(self.badge, tone=TONES[need.fit])
        self._glyph.show_shape(ICONS[need.fit], TONES[need.fit])
        self.text.setText(need.text)
        self.bar.show_parts(parts, limit)
        self.legend.setText(f"{sizes} of {memory_words(limit)}" if len(parts) == 1 else sizes)
        self.remedies.setText("\n".join(f"\N{BULLET} {remedy}" for remedy in need.remedies))
        self.badge.setVisible(bool(need.fit))
        self._glyph.setVisible(bool(need.fit))
        self.bar.setVisible(bool(parts and limit))
        self.legend.setVisible(len(parts) > 1 or (bool(parts) and need.fit != "no"))
        self.remedies.setVisible(bool(need.remedies))
        clear(self._contexts)
        titles = (("context", "memory", ""),) if need.contexts else ()
        for line, texts in enumerate((*titles, *need.contexts)):
            for place, text in enumerate(texts):
                side = Qt.AlignmentFlag.AlignLeft if place == 2 else Qt.AlignmentFlag.AlignRight
                self._contexts.addWidget(label(text, "detail"), line, place, side)
