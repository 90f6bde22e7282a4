"""The drafters for a target: those on this computer, compatible or not, and those that can be downloaded."""

from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from app.model_words import KINDS, TIMES, joined, size
from app.window.common.appearance import GAP
from app.window.common.layouts import clear, column, row
from app.window.common.sentence import sentence
from app.window.common.widgets import Glyph, wrapped
from app.window.models.known_models import KnownModels, ModelRow
from models.catalogue.entries import Entry, Measured

State = Literal["compatible", "absent", "unloadable", "incompatible"]
LOOKS: dict[State, tuple[str, str, str]] = {  # in the order of the list: icon, tone, words
    "compatible": ("check", "good", "Compatible"),
    "absent": ("download", "accent", "Not downloaded"),
    "unloadable": ("unsupported", "faint", "Not supported"),
    "incompatible": ("close", "faint", "Incompatible"),
}
INCOMPATIBLE_SHOWN = 3  # at first; most models on a computer are no drafters for a target
NONE_KNOWN = "No drafter is known for this model. Prompt lookup works with every model and needs no download."
LOOKUP_TOO = "Prompt lookup works with every model and needs no download."


class Offer(NamedTuple):
    """A drafter for a target. name: as --drafter takes it, or the repository to download."""

    name: str
    title: str
    kind: str
    state: State
    why: str
    measured: tuple[Measured, ...] = ()


def offers(target: ModelRow, known: KnownModels) -> list[Offer]:
    """Returns the drafters for a target, in the order of LOOKS."""
    found = [*_installed(target, known), *_from_catalogue(target, known)]
    return sorted(found, key=lambda offer: list(LOOKS).index(offer.state))


def _installed(target: ModelRow, known: KnownModels) -> Iterator[Offer]:
    verdicts = known.verdicts.get(target.here.name) if target.usable and target.here else None
    for pair in verdicts.pairs if verdicts else ():
        state: State = "compatible" if pair.fits else "incompatible"
        why, kind = sentence("; ".join((pair.why, *pair.notes))), KINDS.get(pair.kind or "", "")
        measured = known.catalogue.speedups(target.key, pair.drafter)
        yield Offer(pair.drafter, known.title(pair.drafter), kind, state, why, measured)


def _from_catalogue(target: ModelRow, known: KnownModels) -> Iterator[Offer]:
    if target.target is None or target.download is not None:
        return
    for drafter in known.catalogue.drafters_of(target.target):
        if target.usable and known.is_here(drafter.repository):
            continue  # it is among the installed ones
        measured = known.catalogue.speedups(target.target.repository, drafter.repository)
        yield Offer(drafter.repository, drafter.name, KINDS[drafter.kind], *_state(drafter, known), measured)


def _state(drafter: Entry, known: KnownModels) -> tuple[State, str]:
    """Returns the state of a drafter of the catalogue, and why."""
    if drafter.trouble:
        return "unloadable", sentence(drafter.trouble)
    if known.is_here(drafter.repository):
        return "compatible", "Recommended and downloaded."
    return "absent", sentence(joined(("recommended", size(drafter.size_bytes, drafter.size == "estimated"))))


class OfferRow(QWidget):
    """One drafter. action: the label of its button, "" for none. requested(str): the button was clicked."""

    requested = Signal(str)

    def __init__(self, offer: Offer, action: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.offer = offer
        shape, tone, state = LOOKS[offer.state]
        glyph = Glyph(shape, tone, 16)
        glyph.setAccessibleName(state)
        speeds = (f"{one.speedup:g}{TIMES} plain speed, measured on {one.on} ({one.source})." for one in offer.measured)
        title = wrapped(joined((offer.title, offer.kind)), role="heading")
        text = wrapped("\n".join((f"{state}. {offer.why}", *speeds)), role="detail")
        self.button = QPushButton(action)
        self.button.setAccessibleName(f"{action} {offer.title}")
        self.button.clicked.connect(lambda: self.requested.emit(offer.name))
        texts, top = column(title, text, gap=1), Qt.AlignmentFlag.AlignTop
        button = (self.button, 0, Qt.AlignmentFlag.AlignVCenter)
        row((glyph, 0, top), (texts, 1), button, on=self, margins=(0, 3, 0, 3), gap=GAP)
        self.button.setVisible(bool(action))  # not before it has a parent, as it would be a window of its own


class DrafterList(QWidget):
    """The drafters of one target. got(str), used(str): the user wants to download or to use this drafter."""

    got = Signal(str)
    used = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.auto, self.more = wrapped(role="body"), QPushButton()
        self.rows: list[OfferRow] = []
        self._shown: tuple[object, ...] = ()
        self._column = column(gap=2)
        column(self.auto, self._column, (self.more, 0, Qt.AlignmentFlag.AlignLeft), on=self, gap=4)
        self.more.clicked.connect(self._show_rest)

    def show_target(self, target: ModelRow, known: KnownModels, running: Collection[str]) -> None:
        """Shows the drafters for a target. running: the repositories that are being downloaded."""
        found, note = offers(target, known), _automatic_choice(target, known)
        actions = {"compatible": "Use" if target.usable else "", "absent": "Download"} if target.fit != "no" else {}
        labels = ["" if offer.name in running else actions.get(offer.state, "") for offer in found]
        if (found, note, labels) == self._shown:
            return
        self._shown = (found, note, labels)
        self.auto.setText(note or (LOOKUP_TOO if found else NONE_KNOWN))
        clear(self._column)
        self.rows = [OfferRow(offer, label) for offer, label in zip(found, labels, strict=True)]
        for shown in self.rows:
            shown.requested.connect(self.used if shown.offer.state == "compatible" else self.got)
            self._column.addWidget(shown)
        rest = [shown for shown in self.rows if shown.offer.state == "incompatible"][INCOMPATIBLE_SHOWN:]
        for shown in rest:
            shown.hide()
        self.more.setText(f"Show {len(rest)} More Incompatible")
        self.more.setVisible(bool(rest))

    def _show_rest(self) -> None:
        for shown in self.rows:
            shown.show()
        self.more.hide()


def _automatic_choice(target: ModelRow, known: KnownModels) -> str:
    """Returns which drafter the automatic choice takes, or why the target cannot be used; "" if that is unknown."""
    verdicts = known.verdicts.get(target.here.name) if target.here else None
    if verdicts is None:
        return ""
    if verdicts.trouble:
        return sentence(verdicts.trouble)
    return f"Automatic: {verdicts.auto_why}." if verdicts.auto else ""
