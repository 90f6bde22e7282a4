"""The offer of the first start: the best pair for this computer, its download, and the way into the chat and a race."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app.duration_text import duration_words
from app.model_words import size, speedup
from app.protocol import Pair
from app.window.common.appearance import GAP
from app.window.common.layouts import column, row
from app.window.common.sentence import sentence
from app.window.common.widgets import ProgressBar, style, wrapped
from app.window.models.downloads import Download, status
from app.window.models.known_models import MACHINE, RECOMMENDED, KnownModels, ModelRow

CONNECTION_BITS_PER_S = 100e6  # that a download is estimated with


def best_pair(known: KnownModels) -> ModelRow | None:
    """Returns the recommended target, if it has a drafter."""
    return next((one for one in known.rows({}) if one.section == RECOMMENDED and one.best_drafter), None)


class PairOffer(QFrame):
    """A card, hidden until there is something to offer. download_asked(target, drafter), use_asked(Pair), race_asked().

    title, text: what is offered, and about it. accepted: whether its download was begun. step: what `act` does:
    download, use or race; "" for nothing.
    """

    download_asked = Signal(str, str)
    use_asked = Signal(object)
    race_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, kind="card")
        self.title, self.text, self.button = wrapped(role="heading"), wrapped(role="detail"), QPushButton()
        self.bar = ProgressBar("Download Progress")
        self.offered: ModelRow | None = None
        self.accepted, self.step = False, ""
        style(self.button, role="primary")
        texts = column(self.title, self.text, self.bar, gap=4)
        row((texts, 1), (self.button, 0, Qt.AlignmentFlag.AlignVCenter), on=self, margins=(14, 12, 14, 12), gap=2 * GAP)
        self.button.clicked.connect(self.act)
        self.hide()

    def show_state(self, known: KnownModels, downloads: Mapping[str, Download], pair: Pair) -> None:
        """Shows how far the offer has come. pair: of the open conversation."""
        self.offered = self.offered or best_pair(known)
        if (offer := self.offered) is None:
            return
        parts, name = (offer.key, offer.best_drafter), f"{offer.title} with {offer.drafter}"
        running = [downloads[one] for one in parts if one in downloads]
        self.bar.setVisible(bool(running))
        if running:
            self._show_download(known, running)
        elif not all(map(known.is_here, parts)):
            both = " Both" if offer.missing_drafter else ""
            self._show(f"Recommended for {MACHINE}: {name}", offer_text(offer), f"Download{both}", "download")
        elif (pair.target, pair.drafter) != parts:
            self._show(f"{name} is ready", "Both models are downloaded.", "Use in This Chat", "use")
        else:
            self._show(f"This chat uses {name}", "See how much faster it replies.", "Race It", "race")
        self.text.setToolTip(offer.measured[0].source if self.step == "download" and offer.measured else "")

    def _show_download(self, known: KnownModels, running: list[Download]) -> None:
        """Shows the download that stopped, or else the first one. It is the last one where the other is here."""
        stopped = next((one for one in running if not one.live), None)
        shown = stopped or running[0]
        self.bar.show_share(shown.share, False)
        title = known.title(shown.repo)
        if stopped is not None:
            self._show(title, sentence(shown.message or status(shown)), "Resume", "download")
        else:
            more = f", then {known.title(running[1].repo)}" if len(running) > 1 else ""
            self._show(f"Downloading {title}{more}", f"{status(shown)}. You can chat meanwhile.", "", "")

    def _show(self, title: str, text: str, button: str, step: str) -> None:
        self.step = step
        self.title.setText(title)
        self.text.setText(text)
        self.button.setText(button)
        self.button.setAccessibleDescription(f"{title}. {text}")
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
    """Returns the size of what is offered, how long its download takes, what it is good at, and how fast it is; a
    speed-up only as somebody measured it, with the source."""
    good_at = f"Good at {offer.target.good_at}. " if offer.target and offer.target.good_at else ""
    if not offer.measured:
        unknown = "No speed-up has been published for this pair; run a race to measure it."
        return f"{good_at}{_download_size(offer)}{unknown}"
    first = offer.measured[0]
    where = urlsplit(first.source).hostname or first.source
    return f"{good_at}{_download_size(offer)}{speedup(offer.measured)} as fast on {first.on} ({where})."


def _download_size(offer: ModelRow) -> str:
    """Returns how large the download is and how long it takes; "" as long as a part of it is unknown."""
    missing_bytes = offer.missing_bytes if offer.missing_drafter else 0
    if offer.size_bytes is None or missing_bytes is None:
        return ""
    total_bytes = offer.size_bytes + missing_bytes
    took = duration_words(total_bytes * 8 / CONNECTION_BITS_PER_S)
    return f"{size(total_bytes)}, about {took} at 100 Mbit/s. "
