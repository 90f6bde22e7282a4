"""The drafters of a target: those on this computer, compatible or not, and those that can be downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.protocol.model_documents import CatalogueEntry, DrafterVerdict, MeasuredSpeedup
from app.window.common.appearance import GAP
from app.window.common.widgets import Glyph, wrapped
from app.window.models.catalogue_view import Row, Shelf
from app.window.models.model_text import KINDS, TIMES, joined, sentence, size

State = Literal["compatible", "incompatible", "absent", "unloadable"]
LOOKS: dict[State, tuple[str, str, str]] = {  # in the order of the list: icon, tone, words
    "compatible": ("check", "good", "Compatible"),
    "absent": ("download", "accent", "Not downloaded"),
    "unloadable": ("unsupported", "faint", "Not supported"),
    "incompatible": ("close", "faint", "Incompatible"),
}
INCOMPATIBLE_SHOWN = 3  # at first; most models on this computer are no drafters for a target
NONE_KNOWN = "No drafter is known for this model. Prompt lookup works with every model and needs no download."
LOOKUP_TOO = "Prompt lookup works with every model and needs no download."


class Offer(NamedTuple):
    """A drafter for the target that is shown. name: as --drafter takes it, or the repository to download."""

    name: str
    title: str
    kind: str
    state: State
    why: str
    measured: tuple[MeasuredSpeedup, ...] = ()


def offers(row: Row, shelf: Shelf) -> list[Offer]:
    """Returns the drafters for a target: compatible ones first, then those to download, then the others."""
    found = [*_here(row, shelf), *_elsewhere(row, shelf)]
    return sorted(found, key=lambda offer: list(LOOKS).index(offer.state))


def _here(row: Row, shelf: Shelf) -> Iterator[Offer]:
    judged = shelf.judged.get(row.here.name) if row.usable and row.here else None
    for pair in judged.pairs if judged else ():
        yield _offer(pair, shelf, shelf.measured(row.key, pair.drafter))


def _offer(pair: DrafterVerdict, shelf: Shelf, measured: tuple[MeasuredSpeedup, ...]) -> Offer:
    why = sentence("; ".join((pair.why, *pair.notes)))
    kind = KINDS.get(pair.kind or "", "")
    return Offer(
        pair.drafter, shelf.title(pair.drafter), kind, "compatible" if pair.fits else "incompatible", why, measured
    )


def _elsewhere(row: Row, shelf: Shelf) -> Iterator[Offer]:
    entry = row.entry
    if entry is None or entry.kind != "target" or row.download is not None:
        return
    for drafter in shelf.drafters_of(entry):
        if row.usable and shelf.is_here(drafter.repository):
            continue  # its verdict is known
        yield _known(drafter, shelf, shelf.measured(entry.repository, drafter.repository))


def _known(drafter: CatalogueEntry, shelf: Shelf, measured: tuple[MeasuredSpeedup, ...]) -> Offer:
    kind = KINDS.get("draft" if drafter.kind == "target" else drafter.kind, drafter.kind)
    large = size(drafter.size_bytes, drafter.size == "estimated")
    if drafter.trouble:
        return Offer(drafter.repository, drafter.name, kind, "unloadable", sentence(drafter.trouble), measured)
    if shelf.is_here(drafter.repository):
        return Offer(drafter.repository, drafter.name, kind, "compatible", "Recommended and downloaded.", measured)
    return Offer(drafter.repository, drafter.name, kind, "absent", sentence(joined(("recommended", large))), measured)


class OfferRow(QWidget):
    """One drafter. requested(str): it is to be downloaded, or used."""

    requested = Signal(str)

    def __init__(self, offer: Offer, action: str, parent: QWidget | None = None) -> None:
        """action: what its button says, "" for no button."""
        super().__init__(parent)
        self.offer = offer
        shape, tone, state = LOOKS[offer.state]
        self._glyph = Glyph(shape, tone, 16)
        self.title, self.text = wrapped(joined((offer.title, offer.kind)), role="heading"), wrapped(role="detail")
        speeds = (f"{one.speedup:g}{TIMES} plain speed, measured on {one.on} ({one.source})." for one in offer.measured)
        self.text.setText("\n".join((f"{state}. {offer.why}", *speeds)))
        self._glyph.setAccessibleName(state)
        self.button = QPushButton(action)
        self.button.setAccessibleName(f"{action} {offer.title}")
        self.button.clicked.connect(lambda: self.requested.emit(offer.name))
        texts = QVBoxLayout()
        texts.setSpacing(1)
        texts.addWidget(self.title)
        texts.addWidget(self.text)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 3, 0, 3)
        row.setSpacing(GAP)
        row.addWidget(self._glyph, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(texts, 1)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.button.setVisible(bool(action))  # a part of this by now: before, it would be a window of its own


class DrafterList(QWidget):
    """The drafters of one target. got(str), used(str): the name of a drafter to download or to use."""

    got = Signal(str)
    used = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.auto, self.more = wrapped(role="body"), QPushButton()
        self.rows: list[OfferRow] = []
        self._shown: tuple[object, ...] = ()
        self._column = QVBoxLayout()
        self._column.setSpacing(2)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self.auto)
        column.addLayout(self._column)
        column.addWidget(self.more, 0, Qt.AlignmentFlag.AlignLeft)
        self.more.clicked.connect(self._show_rest)

    def show_offers(self, found: list[Offer], note: str, here: bool, fits: bool, under_way: set[str]) -> None:
        """note: what the automatic choice is. here, fits: of the target. under_way: what is being downloaded."""
        shown = (tuple(found), note, here, fits, frozenset(under_way))
        if shown == self._shown:
            return
        self._shown = shown
        self.auto.setText(note or (LOOKUP_TOO if found else NONE_KNOWN))
        for row in self.rows:
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self.rows = []
        for offer in found:
            labels = {"compatible": "Use" if here else "", "absent": "Download"}
            action = labels.get(offer.state, "") if fits and offer.name not in under_way else ""
            row = OfferRow(offer, action)
            row.requested.connect(self.used if offer.state == "compatible" else self.got)
            self._column.addWidget(row)
            self.rows.append(row)
        rest = [row for row in self.rows if row.offer.state == "incompatible"][INCOMPATIBLE_SHOWN:]
        for row in rest:
            row.hide()
        self.more.setText(f"Show {len(rest)} More Incompatible")
        self.more.setVisible(bool(rest))

    def _show_rest(self) -> None:
        for row in self.rows:
            row.show()
        self.more.hide()
