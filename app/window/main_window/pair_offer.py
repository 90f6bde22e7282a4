"""The offer of the first start: the best pair for this computer, its download, and the way into the chat and a race."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from app.duration_text import duration_words
from app.protocol import Pair
from app.window.common.layouts import STRETCH, row
from app.window.common.widgets import style, wrapped
from app.window.models.downloads import Download
from app.window.models.known_models import MACHINE, RECOMMENDED, KnownModels, ModelRow
from app.window.models.model_text import sentence, size, speedup, status

CONNECTION_BITS_PER_S = 100e6  # that a download is estimated with


def best_pair(known: KnownModels) -> ModelRow | None:
    """Returns the recommended target, if it has a drafter."""
    return next((one for one in known.rows({}) if one.section == RECOMMENDED and one.best_drafter), None)


class PairOffer(QWidget):
    """Hidden until there is something to offer. download_asked(target, drafter), use_asked(Pair), race_asked().

    accepted: whether its download was begun. step: what `act` does: download, use or race; "" for nothing.
    """

    download_asked = Signal(str, str)
    use_asked = Signal(object)
    race_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text, self.button = wrapped(role="body"), QPushButton()
        self.offered: ModelRow | None = None
        self.accepted, self.step = False, ""
        style(self.button, role="primary")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.text)
        column.addLayout(row(self.button, STRETCH))
        self.button.clicked.connect(self.act)
        self.hide()

    def show_state(self, known: KnownModels, downloads: Mapping[str, Download], pair: Pair) -> None:
        """Shows how far the offer has come. pair: of the open conversation."""
        self.offered = self.offered or best_pair(known)
        if (offer := self.offered) is None:
            return
        parts = (offer.key, offer.best_drafter)
        running = [downloads[name] for name in parts if name in downloads]
        if running:
            stopped = next((one for one in running if not one.live), None)
            shown = stopped or running[0]
            said = sentence(shown.message or status(shown)) if stopped else f"{status(shown)}. You can chat meanwhile."
            self._show(f"{known.title(shown.repo)}: {said}", "Resume" if stopped else "", "download")
        elif not all(map(known.is_here, parts)):
            self._show(
                offer_text(offer), f"Download{' Both' if offer.missing_drafter else ''}{_total(offer)}", "download"
            )
        elif (pair.target, pair.drafter) != parts:
            self._show(f"{offer.title} and its drafter {offer.drafter} are here.", f"Use {offer.title}", "use")
        else:
            with_drafter = f"{offer.title} with {offer.drafter}"
            self._show(f"This chat uses {with_drafter}. See how much sooner it replies.", "Race It", "race")

    def _show(self, text: str, button: str, step: str) -> None:
        self.step = step if button else ""
        self.text.setText(text)
        self.button.setText(button)
        self.button.setAccessibleDescription(text)
        self.button.setVisible(bool(button))
        self.show()

    def act(self) -> None:
        """Takes the next step."""
        if (offer := self.offered) is None:
            return
        if self.step == "download":
            self.accepted = True
            self.download_asked.emit(offer.key, offer.best_drafter)
        elif self.step == "use":
            self.use_asked.emit(Pair(target=offer.key, drafter=offer.best_drafter))
        elif self.step == "race":
            self.race_asked.emit()


def offer_text(offer: ModelRow) -> str:
    """Returns what is offered; a speed-up only as somebody measured it, with the source."""
    text = f"Recommended for {MACHINE}: {offer.title} with the drafter {offer.drafter}.{_download_time(offer)}"
    if offer.measured:
        first = offer.measured[0]
        return f"{text} Measured by others: {speedup(offer.measured)} as fast ({first.on}; {first.source})."
    return f"{text} No speed-up of this pair has been published. Race it to see."


def _download_time(offer: ModelRow) -> str:
    total_bytes = _total_bytes(offer)
    took = "" if total_bytes is None else duration_words(total_bytes * 8 / CONNECTION_BITS_PER_S)
    return f" The download takes about {took} at 100 Mbit/s." if took else ""


def _total_bytes(offer: ModelRow) -> int | None:
    """Returns the size of all that is to be downloaded; None as long as a part of it is unknown."""
    missing_bytes = offer.missing_bytes if offer.missing_drafter else 0
    return None if offer.size_bytes is None or missing_bytes is None else offer.size_bytes + missing_bytes


def _total(offer: ModelRow) -> str:
    total_bytes = _total_bytes(offer)
    return "" if total_bytes is None else f" ({size(total_bytes)})"
