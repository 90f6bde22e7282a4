"""What rounds cost here, kept: as the policy goes by it at temperature 0, and measured under the law asked about above.

Drawing takes time of its own: noise over the whole vocabulary for each row. Behind more context passes are dearer, so
each stretch of it (`app.calibration.BANDS`) has prices of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app import calibration, pair
from app.pair import NamedDrafter
from app.predict.kept import Kept
from engine.choice import Chooser
from engine.costs import WIDTHS, Costs, measure
from engine.settings import Settings
from models.load import Loaded
from models.predict.prices import Prices


class PriceList:
    """Of one pair under one law. Measuring empties the caches. root: of the cache, None for the user's.

    notice: told what is measured, where nothing is kept.
    """

    def __init__(
        self,
        target: Loaded,
        drafter: NamedDrafter,
        settings: Settings,
        root: Path | None = None,
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._target, self._drafter, self._settings, self._root = target, drafter, settings, root
        self._notice = notice
        self._found: dict[int, Prices] = {}

    @property
    def _greedy(self) -> bool:
        return self._settings.sampling.greedy

    def behind(self, context: int) -> Prices:
        """Prices of rounds behind about `context` tokens."""
        band = calibration.band(context)
        if band not in self._found:
            self._found[band] = self._prices(band)
        return self._found[band]

    def forget(self) -> None:
        """Measure everything again: the machine was busy, or is another now."""
        self._found = {}
        for band in calibration.BANDS:
            key = calibration.key_of(self._target, self._drafter, band)
            for path in (self._kept(band).path, calibration.costs_file(key, self._root)):
                path.unlink(missing_ok=True)

    def _kept(self, band: int) -> Kept[Costs]:
        law = f"{self._settings.rule} {replace(self._settings.sampling, seed=0)!r}"
        return Kept(self._root, ("prices", *calibration.key_of(self._target, self._drafter, band), law), Costs)

    def _prices(self, band: int) -> Prices:
        """At temperature 0 those that the policy goes by; else measured under this law."""
        if self._greedy:
            if not calibration.is_known(self._target, self._drafter, self._root, band):
                self._tell(band, "at temperature 0")
            return Prices(calibration.costs_of(self._target, self._drafter, self._root, band))
        kept = self._kept(band)
        found = kept.get("")
        if found is None or not calibration.is_sound(found, len(self._drafter.parts)):
            self._tell(band, f"under {self._settings.rule} sampling")
            found = self._measure(band)
            kept.put("", found)
        return Prices(found)

    def _tell(self, band: int, law: str) -> None:
        self._notice(f"measuring what a pass costs here behind {band} tokens, {law}, once for this pair")

    def _measure(self, band: int) -> Costs:
        target = self._target.model
        chooser = Chooser(self._settings.sampling, self._settings.rule, target.vocabulary)
        widths = pair.TREE_WIDTHS if self._drafter.branches else WIDTHS
        return measure(target, chooser, self._drafter.drafter, widths, band)
