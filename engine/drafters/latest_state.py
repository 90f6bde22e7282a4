"""What drafters share that read the target's latest state and remember nothing else: Medusa, MLP speculators and Gemma
4 assistants.

The row that they read is the target's last normed state at the last token that it has seen, whose logits gave the last
committed token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.cache.snapshot import Snapshot
from engine.drafters import DraftContext, Needs
from engine.target.cached_model import CachedModel
from engine.target.layer_taps import NORMED
from engine.target.target_view import TargetView


class LatestStateDrafter:
    """The bookkeeping of a drafter for `target`: everything of `Drafter` but its name, traits and `propose`.

    token_map, kv_layers: as in `Needs`. Raises what `TargetView` raises for a target that cannot show these layers.
    """

    def __init__(self, target: CachedModel, token_map: mx.array | None = None, kv_layers: tuple[int, ...] = ()) -> None:
        self.needs = Needs((NORMED,), latest_only=True, kv_layers=kv_layers, token_map=token_map)
        self.target = TargetView(target, self.needs.taps, True, kv_layers)
        self._known = 0

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        pass

    def state(self, context: DraftContext) -> mx.array | None:
        """Returns the state that gave the last committed token, (1, hidden); None before a second token, where there is
        none."""
        place = len(context.tokens) - 2
        return self.target.hidden(self.needs.taps, place, place + 1) if place >= 0 else None

    def hint(self, context: DraftContext) -> None:
        return None

    def rewind(self, length: int) -> None:
        self._known = length

    def reusable_prefix(self) -> int:
        """All that is known, if the last state of it can be read; else the target must see one token again."""
        start, end = self.target.recorded
        return self._known if start < self._known <= end else max(self._known - 1, 0)

    def snapshot(self) -> Snapshot:
        return self._known

    def restore(self, snapshot: Snapshot) -> None:
        self._known = snapshot
