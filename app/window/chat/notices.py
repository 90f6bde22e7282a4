"""Values that the controller reports besides records: notices and the status of speculation. Frozen; no Qt."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Level = Literal["info", "warning", "error"]
SpeculationState = Literal["loading", "on", "off", "unsupported", "fell back", "host down", "unloaded"]
Action = tuple[str, Callable[[], object]]


@dataclass(frozen=True)
class Notice:
    """Something that happened, in a sentence or two. actions: what the user can do about it, as (label, function)."""

    level: Level
    text: str
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True)
class SpeculationStatus:
    """Whether replies are drafted, and why not.

    target, drafter: display names, "" while none is loaded. detail: the reason, or what the engine is doing, or "".
    machines: how many share the target.
    """

    state: SpeculationState
    target: str = ""
    drafter: str = ""
    detail: str = ""
    machines: int = 1
