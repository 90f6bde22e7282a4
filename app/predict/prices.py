"""What rounds cost here, kept: as the policy goes by it at temperature 0, and measured under the law asked about above.

Drawing takes time of its own: noise over the whole vocabulary for each row. Behind more context passes are dearer: see
`app.calibration`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from app import calibration, pair
from app.calibration import MILESTONES, Calibration
from app.predict.kept import Kept
from engine.choice import Chooser
from engine.costs import WIDTHS, Costs, measure
from engine.settings import Settings
from models.predict.prices import Prices


class PriceList:
    """Of one pair under one law. Measuring empties the caches. calibration: of the pair at temperature 0.

    notice: told what is measured, where nothing is kept.
    """

    def __init__(
        self, calibration: Calibration, settings: Settings, notice: Callable[[str], None] = lambda text: None
    ) -> None:
        self._calibration, self._settings, self._notice = calibration, settings, notice
        self._target, self._drafter = calibration.target, calibration.drafter
        self._found: dict[int, Costs] = {}

    @property
    def _greedy(self) -> bool:
        return self._settings.sampling.greedy

    def behind(self, context: int) -> Prices:
        """Prices of rounds behind about `context` tokens."""
        return Prices(self._calibration.draw(context, self._behind))

    def forget(self) -> None:
        """Measure everything again: the machine was busy, or is another now."""
        self._found = {}
        self._calibration.forget()
        for milestone in MILESTONES:
            self._kept(milestone).path.unlink(missing_ok=True)

    def _kept(self, milestone: int) -> Kept[Costs]:
        law = f"{self._settings.rule} {replace(self._settings.sampling, seed=0)!r}"
        key = calibration.key_of(self._target, self._drafter, milestone)
        return Kept(self._calibration.root, ("prices", *key, law), Costs)

    def _behind(self, milestone: int) -> Costs:
        if milestone not in self._found:
            self._found[milestone] = self._at_zero(milestone) if self._greedy else self._under_law(milestone)
        return self._found[milestone]

    def _at_zero(self, milestone: int) -> Costs:
        """At temperature 0, those that the policy goes by."""
        if not self._calibration.has(milestone):
            self._tell(milestone, "at temperature 0")
        return self._calibration.behind(milestone)

    def _under_law(self, milestone: int) -> Costs:
        kept = self._kept(milestone)
        found = kept.get("")
        if found is None or not calibration.is_sound(found, len(self._drafter.parts)):
            self._tell(milestone, f"under {self._settings.rule} sampling")
            found = self._measure(milestone)
            kept.put("", found)
        return found

    def _tell(self, milestone: int, law: str) -> None:
        self._notice(f"measuring what a pass costs here behind {milestone} tokens, {law}, once for this pair")

    def _measure(self, milestone: int) -> Costs:
        target = self._target.model
        chooser = Chooser(self._settings.sampling, self._settings.rule, target.vocabulary)
        widths = pair.TREE_WIDTHS if self._drafter.branches else WIDTHS
        return measure(target, chooser, self._drafter.drafter, widths, milestone)
