"""Entries of the catalogue by words, kind and size of Mac."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from models.catalogue.entries import Catalogue, CatalogueKind, Entry, Target
from models.catalogue.mac_memory import room

Kind = CatalogueKind | Literal["target"]
_BETWEEN = re.compile(r"[\s/_-]+")
_LETTERS = 3  # of a word that may stand for a longer one
KINDS: tuple[str, ...] = ("target", *get_args(CatalogueKind))


def search(
    catalogue: Catalogue, words: Sequence[str] = (), kind: str | None = None, memory_bytes: int | None = None
) -> list[Entry]:
    """Entries that every one of `words` names, in the catalogue's order.

    A word is one of a name's own, or begins one if it has three letters or more: 8b is not 8bit. kind: one of KINDS.
    memory_bytes: of a Mac that they must fit; a drafter whose size is not known does not count as too large.
    """
    found = [entry for entry in catalogue.listed if _is(entry, kind) and _has(entry, words)]
    return [entry for entry in found if memory_bytes is None or room(entry.size_bytes or 0, memory_bytes) != "no"]


def _is(entry: Entry, kind: str | None) -> bool:
    """Small targets are drafters too, of the kind draft."""
    return kind is None or (kind == "target" and isinstance(entry, Target)) or kind == entry.kind


def _has(entry: Entry, words: Sequence[str]) -> bool:
    names = [entry.repository, entry.name, entry.kind, entry.licence]
    if isinstance(entry, Target):
        names += [entry.family, entry.architecture]
    text = " ".join(names).casefold()
    own = set(_BETWEEN.split(text))
    return all(_names(word.casefold(), own, text) for word in words)


def _names(word: str, own: set[str], text: str) -> bool:
    if _BETWEEN.search(word):
        return word in text
    return word in own or (len(word) >= _LETTERS and any(one.startswith(word) for one in own))
