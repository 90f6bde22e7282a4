"""What the controller tells the window beside the records: notices and the state of speculation. Frozen, no Qt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Level = Literal["info", "warning", "error"]
SpeculationState = Literal["loading", "on", "off", "unsupported", "fell back", "host down", "unloaded"]
Action = tuple[str, Callable[[], object]]

LONGEST_TITLE = 48  # characters


@dataclass(frozen=True)
class Notice:
    """Something that happened, in a sentence or two, and what can be done about it: (label, what it does)."""

    level: Level
    text: str
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Speculating:
    """Whether replies are drafted for, and why not. target, drafter: names for people, "" while none is loaded.
    said: the reason, what the engine is busy with, or ""."""

    state: SpeculationState
    target: str = ""
    drafter: str = ""
    said: str = ""


def title_of(text: str) -> str:
    """What to call a conversation by its first question: the first line that says something, cut at a word."""
    lines = (" ".join(line.lstrip("#>-*` \t").split()) for line in text.splitlines())
    line = next((line for line in lines if line), "")
    if len(line) <= LONGEST_TITLE:
        return line
    head, space, _ = line[:LONGEST_TITLE].rpartition(" ")
    return f"{head if space else line[: LONGEST_TITLE - 1]}…".replace(",…", "…")
