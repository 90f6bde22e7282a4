"""Which drafters go with a target: those that are here and serve it or do not, and those that can be got for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.window.fonts import font
from app.window.icons import pixmap
from app.window.look import GAP, LIGHT, Look
from app.window.models.documents import Entry, Measured, Paired
from app.window.models.shelf import Row, Shelf
from app.window.models.wording import KINDS, TIMES, joined, sentence, size
from app.window.shell.styles import controls_style, faint_style, wear
from app.window.shell.widgets import wrapped

State = Literal["serves", "misfit", "absent", "unloadable"]
PICTURES: dict[State, str] = {
    "serves": "check",
    "misfit": "close",
    "absent": "download",
    "unloadable": "unsupported",
}
SAID: dict[State, str] = {
    "serves": "Serves it",
    "misfit": "Does not serve it",
    "absent": "Not here yet",
    "unloadable": "Cannot be loaded",
}
MISFITS = 3  # shown at first; most models that are here are no drafters of this one
NONE_KNOWN = "No drafter is known for it; prompt lookup drafts for every model, and needs nothing."
LOOKUP_TOO = "Prompt lookup drafts for every model, and needs nothing."


class Offer(NamedTuple):
    """A drafter for the target that is shown. name: as --drafter takes it, or the repository to get."""

    name: str
    title: str
    kind: str
    state: State
    why: str
    measured: tuple[Measured, ...] = ()


def offers(row: Row, shelf: Shelf) -> list[Offer]:
    """For a target; those that serve it first, then what can be got for it, then the others. None for a drafter."""
    found = [*_here(row, shelf), *_elsewhere(row, shelf)]
    order: tuple[State, ...] = ("serves", "absent", "unloadable", "misfit")
    return sorted(found, key=lambda offer: order.index(offer.state))


def _here(row: Row, shelf: Shelf) -> Iterator[Offer]:
    judged = shelf.judged.get(row.here.name) if row.usable and row.here else None
    for pair in judged.pairs if judged else ():
        yield _offer(pair, shelf, shelf.measured(row.key, pair.drafter))


def _offer(pair: Paired, shelf: Shelf, measured: tuple[Measured, ...]) -> Offer:
    why = sentence("; ".join((pair.why, *pair.notes)))
    kind = KINDS.get(pair.kind or "", "")
    return Offer(pair.drafter, shelf.title(pair.drafter), kind, "serves" if pair.fits else "misfit", why, measured)


def _elsewhere(row: Row, shelf: Shelf) -> Iterator[Offer]:
    entry = row.entry
    if entry is None or entry.kind != "target" or row.download is not None:
        return
    for drafter in shelf.drafters_of(entry):
        if row.usable and shelf.is_here(drafter.repository):
            continue  # judged already
        yield _known(drafter, shelf, shelf.measured(entry.repository, drafter.repository))


def _known(drafter: Entry, shelf: Shelf, measured: tuple[Measured, ...]) -> Offer:
    kind = KINDS.get("draft" if drafter.kind == "target" else drafter.kind, drafter.kind)
    large = size(drafter.size_bytes, drafter.size == "estimated")
    if drafter.trouble:
        return Offer(drafter.repository, drafter.name, kind, "unloadable", sentence(drafter.trouble), measured)
    if shelf.is_here(drafter.repository):
        return Offer(drafter.repository, drafter.name, kind, "serves", "Known for it, and here.", measured)
    return Offer(drafter.repository, drafter.name, kind, "absent", sentence(joined(("known for it", large))), measured)


class OfferRow(QWidget):
    """One drafter. asked(str): it is to be got, or used."""

    asked = Signal(str)

    def __init__(self, offer: Offer, deed: str, parent: QWidget | None = None) -> None:
        """deed: what its button says, "" for no button."""
        super().__init__(parent)
        self.offer = offer
        self._picture, self.title, self.said = QLabel(), wrapped(joined((offer.title, offer.kind))), wrapped()
        speeds = (f"{one.speedup:g}{TIMES} as fast, measured on {one.on} ({one.source})." for one in offer.measured)
        self.said.setText("\n".join((f"{SAID[offer.state]}. {offer.why}", *speeds)))
        self._picture.setAccessibleName(SAID[offer.state])
        self.button = QPushButton(deed)
        self.button.setAccessibleName(f"{deed}: {offer.title}")
        self.button.clicked.connect(lambda: self.asked.emit(offer.name))
        texts = QVBoxLayout()
        texts.setSpacing(1)
        texts.addWidget(self.title)
        texts.addWidget(self.said)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 3, 0, 3)
        row.setSpacing(GAP)
        row.addWidget(self._picture, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(texts, 1)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.button.setVisible(bool(deed))  # a part of this by now: before, it would be a window of its own

    def set_look(self, look: Look) -> None:
        colour = {"serves": look.good, "absent": look.accent}.get(self.offer.state, look.faint)
        self._picture.setPixmap(pixmap(PICTURES[self.offer.state], colour, look.px(16), self.devicePixelRatioF()))
        self.title.setFont(font(look, 13, QFont.Weight.Medium))
        wear(self.title, f"color: {look.text};")
        wear(self.said, faint_style(look, 12))
        wear(self.button, controls_style(look))


class Drafting(QWidget):
    """The drafters of one target. got(str), used(str): of a drafter, by its name."""

    got = Signal(str)
    used = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.auto, self.more = wrapped(), QPushButton()
        self.rows: list[OfferRow] = []
        self._look: Look = LIGHT
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

    def show_offers(self, found: list[Offer], said: str, here: bool, fits: bool, under_way: set[str]) -> None:
        """said: what the automatic choice is. here, fits: of the target. under_way: what is being downloaded."""
        shown = (tuple(found), said, here, fits, frozenset(under_way))
        if shown == self._shown:
            return
        self._shown = shown
        self.auto.setText(said or (LOOKUP_TOO if found else NONE_KNOWN))
        for row in self.rows:
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self.rows = []
        for offer in found:
            deeds = {"serves": "Use with This" if here else "", "absent": "Get"}
            deed = deeds.get(offer.state, "") if fits and offer.name not in under_way else ""
            row = OfferRow(offer, deed)
            row.asked.connect(self.used if offer.state == "serves" else self.got)
            self._column.addWidget(row)
            self.rows.append(row)
        rest = [row for row in self.rows if row.offer.state == "misfit"][MISFITS:]
        for row in rest:
            row.hide()
        self.more.setText(f"Show {len(rest)} More That Do Not Serve It")
        self.more.setVisible(bool(rest))
        self.set_look(self._look)

    def set_look(self, look: Look) -> None:
        self._look = look
        for row in self.rows:
            row.set_look(look)
        wear(self.auto, f"color: {look.text}; font-size: {look.px(13)}px;")
        wear(self.more, controls_style(look))

    def _show_rest(self) -> None:
        for row in self.rows:
            row.show()
        self.more.hide()
