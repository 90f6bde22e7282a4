"""The short list of the installed pairs, under the status of speculation; its last entries open what has everything."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from app.model_words import DRAFTER_TITLES
from app.protocol import Pair
from app.window.main_window.secondary_windows import ModelsOpener
from app.window.models.known_models import BADGES, KnownModels, ModelRow

if TYPE_CHECKING:
    from app.window.models.model_library import ModelLibrary

LOADING = "Looking for models…"
DRAFTERS = DRAFTER_TITLES | {"none": "no drafter"}


class PairMenu(QMenu):
    """Chooses the pair of the open conversation: each model on this computer, with its best drafter and its fit."""

    def __init__(self, chip: QWidget, used: Callable[[], Pair], models: ModelsOpener, more: Sequence[QAction]) -> None:
        """chip: below which it opens. used: returns the pair of the open conversation. more: the last entries."""
        super().__init__("Models", chip)
        self.setAccessibleName("Choose models")
        self._chip, self._used, self._models, self._more = chip, used, models, more
        self._library: ModelLibrary | None = None

    def open(self) -> None:
        """Opens the list, the pair in use highlighted, and looks for models again."""
        self._library = self._models.look()
        self._fill()
        self.popup(self._chip.mapToGlobal(QPoint(0, self._chip.height() + 2)))
        used = next((action for action in self.actions() if action.isChecked()), self.actions()[0])
        self.setActiveAction(used)

    def refresh(self) -> None:
        """Takes over what was found while the list is open; the highlighted choice stays so."""
        if not self.isVisible():
            return
        active = self.activeAction()
        chosen = active.data() if active is not None else None
        self._fill()
        self.adjustSize()
        found = next((action for action in self.actions() if chosen and action.data() == chosen), None)
        if found is not None:
            self.setActiveAction(found)

    def _fill(self) -> None:
        self.clear()
        if self._library is None:
            return
        pair, known = self._used(), self._library.known
        for row in known.rows({}):
            if row.usable and row.here is not None:
                self._add(row, row.here.name, known, pair)
        if self._library.loading:
            self.addAction(LOADING).setEnabled(False)
        self.addSeparator()
        self.addActions(self._more)

    def _add(self, row: ModelRow, target: str, known: KnownModels, pair: Pair) -> None:
        """Adds a model. The pair in use stays as it is when it is chosen again."""
        used = target == pair.target
        drafter = row.drafter if not used or pair.drafter == "auto" else known.title(pair.drafter)
        name = f"{row.title} with {DRAFTERS.get(drafter, drafter)}" if drafter else row.title
        fit = BADGES[row.fit]
        text = f"{name}, {fit[:1].lower()}{fit[1:]}" if fit else name
        action = self.addAction(text.replace("&", "&&"))
        action.setData(target)
        action.setCheckable(True)
        action.setChecked(used)
        if not used:
            action.triggered.connect(lambda: self._models.use(Pair(target=target)))
