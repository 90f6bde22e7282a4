"""A side of a race as it is typed: DRAFTER[:LENGTH][:tree][:RULE], for example eagle3:4, lookup+eagle3:auto:coupled."""

from __future__ import annotations

from typing import get_args

from app.protocol.race_messages import Side
from engine.errors import UsageError
from engine.settings import AcceptanceRule

_RULES = get_args(AcceptanceRule)


def read_side(text: str) -> Side:
    """Raises UsageError for what is none. What may be said of a drafter is read from the right, so that a folder may
    have colons in its name."""
    drafter, length, tree, rule = text.strip(), "auto", False, "rejection"
    while ":" in drafter:
        head, _, word = drafter.rpartition(":")
        if word == "tree":
            tree = True
        elif word in _RULES:
            rule = word
        elif word == "auto" or word.isdecimal():
            length = word
        else:
            break
        drafter = head
    if not drafter:
        raise UsageError(f"side {text!r} names no drafter: give DRAFTER[:LENGTH][:tree][:RULE], eagle3:4 for example")
    return Side(
        drafter=drafter,
        tree=tree,
        draft_length=None if length == "auto" else int(length),
        acceptance="coupled" if rule == "coupled" else "rejection",
    )


def write_side(side: Side) -> str:
    """The inverse of `read_side`, as short as can be."""
    parts = [side.drafter]
    if side.draft_length is not None:
        parts.append(str(side.draft_length))
    if side.tree:
        parts.append("tree")
    if side.acceptance != "rejection":
        parts.append(side.acceptance)
    return ":".join(parts)
