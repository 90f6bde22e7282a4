"""What is known of a model beside its drafters: licence, size, where it lies, who shares it. No Qt."""

from __future__ import annotations

from app.models.words import ago_words
from app.window.models.shelf import Row
from app.window.models.wording import KINDS, ORIGINS, bits, joined, parameters, size


def facts_of(row: Row, now_s: float) -> list[tuple[str, str]]:
    """Names and values; what is not known is left out. now_s: since the epoch."""
    entry, here = row.entry, row.here
    found = []
    if entry is not None:
        estimated = here is None and entry.size == "estimated"
        found += [
            ("Kind", KINDS.get(entry.kind, entry.kind)),
            ("Parameters", parameters(entry.parameters_b)),
            ("Weights", bits(entry.bits)),
            ("Size", joined((size(row.size_bytes), "estimated" if estimated else ""))),
            ("Licence", entry.licence),
        ]
        if entry.kind == "target":
            smallest = f"{entry.smallest_mac_gb} GB" if entry.smallest_mac_gb else "none"
            found.append(("Smallest Mac", smallest))
    elif here is not None:
        kind = "Target" if here.kind == "model" else KINDS.get(here.kind, "")
        found += [("Kind", kind), ("Size", size(here.size_bytes))]
    if here is not None:
        used = ago_words(here.last_used_s, now_s) if here.path else ""
        found += [("From", ORIGINS.get(here.origin, here.origin)), ("Last used", used), ("Folder", here.path)]
        found.append(("Shared with", ", ".join(here.shared_with)))
    return [(name, value) for name, value in found if value]
