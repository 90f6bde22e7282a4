"""Finds entries of the catalogue by words, kind and size of Mac, for models that are not downloaded yet, and recommends
targets with their drafters.

    wired    macOS lets the GPU have two thirds of the memory up to 36 GB, and three quarters of more
    needed   weights of target and drafter, a twentieth for buffers, 1 GB for a short context; or, where weights become
             32-bit floats, what is stored beside them while they do, if that is more

A long context needs more, which only the model's own config can tell.
"""

import re
from collections.abc import Sequence, Set
from typing import Literal, NamedTuple, Protocol, get_args

import msgspec

from engine.errors import UsageError
from models.catalogue.entries import Catalogue, CatalogueKind, Entry, Measured, Target

MacFit = Literal["good", "tight", "no"]
GIB = 1 << 30
MAC_SIZES_GB = (8, 16, 24, 32, 48, 64, 96, 128, 192)

_LARGE = 36 * GIB
_FOR_SYSTEM = 0.1  # of memory that only processors use
_CONTEXT_BYTES = 1 * GIB
TIGHT = 0.85  # of what may be used: beyond, a longer context or another program is felt


class StoredWeights(Protocol):
    """What an entry of the catalogue says of its weights. parameters_b: 10^9 of them."""

    @property
    def size_bytes(self) -> int | None: ...
    @property
    def parameters_b(self) -> float | None: ...


class MachineMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A machine. for_models_bytes: how much of its memory a model may take. in_float32: whether weights become 32-bit
    floats as they are loaded, as without a GPU."""

    processor: str
    memory_bytes: int
    for_models_bytes: int
    in_float32: bool = False


def mac_fit(weights_bytes: int, memory_bytes: int) -> MacFit:
    """Returns how these weights, target and drafter together, fit a Mac with this much memory."""
    return fit_within(_with_context(weights_bytes), wired_bytes(memory_bytes))


def fit_within(needed_bytes: int, limit_bytes: int) -> MacFit:
    """Returns how what a pair needs fits where a model may take this much memory."""
    share = needed_bytes / limit_bytes
    return "good" if share <= TIGHT else "tight" if share <= 1 else "no"


def needed_bytes(models: Sequence[StoredWeights], in_float32: bool) -> int:
    """Returns the memory that a target and its drafters take together. in_float32: whether their weights become 32-bit
    floats as they are loaded, as without a GPU (`models.loader`)."""
    stored = [one.size_bytes or 0 for one in models]
    if not in_float32:
        return _with_context(sum(stored))
    held = sum(map(_in_float32, models))
    return max(_with_context(held), held + max(stored, default=0))


def _in_float32(one: StoredWeights) -> int:
    """Returns the bytes of the weights as 32-bit floats; where no source has their number, of weights in 16 bits."""
    return int(one.parameters_b * 4e9) if one.parameters_b else 2 * (one.size_bytes or 0)


def _with_context(weights_bytes: int) -> int:
    return int(weights_bytes * 1.05) + _CONTEXT_BYTES


def wired_bytes(memory_bytes: int) -> int:
    """Returns the bytes of this memory that a model may take."""
    return memory_bytes * 2 // 3 if memory_bytes <= _LARGE else memory_bytes * 3 // 4


def unwired_bytes(memory_bytes: int) -> int:
    """Returns the bytes of this memory that a model may take where no GPU has a part of it: the system keeps some."""
    return int(memory_bytes * (1 - _FOR_SYSTEM))


def smallest_mac_gb(weights_bytes: int) -> int | None:
    """Returns the smallest Mac that these weights fit, tightly or better; None if not even the largest does."""
    return next((size for size in MAC_SIZES_GB if mac_fit(weights_bytes, size * GIB) != "no"), None)


def read_memory(text: str) -> int:
    """Returns the bytes of "16GB", "16 GB", "16" or "16G". Raises UsageError for anything else."""
    found = re.fullmatch(r"\s*(\d{1,4})\s*(?:g|gb|gib)?\s*", text, re.IGNORECASE)
    if not found or not int(found[1]):
        raise UsageError(f"fits is {text!r}: give a Mac's memory, such as 16GB")
    return int(found[1]) * GIB


Kind = CatalogueKind | Literal["target"]
_BETWEEN = re.compile(r"[\s/_-]+")
_LETTERS = 3  # of a word that may stand for a longer one
KINDS: tuple[str, ...] = ("target", *get_args(CatalogueKind))


def search(
    catalogue: Catalogue, words: Sequence[str] = (), kind: str | None = None, memory_bytes: int | None = None
) -> list[Entry]:
    """Returns the entries that match every one of `words`, in the catalogue's order.

    A word matches a whole word of a name, or its beginning if it has three letters or more: 8b does not match 8bit.
    kind: one of KINDS. memory_bytes: of a Mac that they must fit; a drafter of unknown size always fits.
    """
    found = [entry for entry in catalogue.listed if _is_kind(entry, kind) and _matches(entry, words)]
    return [entry for entry in found if memory_bytes is None or mac_fit(entry.size_bytes or 0, memory_bytes) != "no"]


def _is_kind(entry: Entry, kind: str | None) -> bool:
    """Whether an entry is of this kind. Targets are drafters too, of the kind draft."""
    return kind is None or (kind == "target" and isinstance(entry, Target)) or kind == entry.kind


def _matches(entry: Entry, words: Sequence[str]) -> bool:
    names = [entry.repository, entry.name, entry.kind, entry.licence]
    if isinstance(entry, Target):
        names += [entry.family, entry.architecture]
    text = " ".join(names).casefold()
    own = set(_BETWEEN.split(text))
    return all(_matches_word(word.casefold(), own, text) for word in words)


def _matches_word(word: str, own: set[str], text: str) -> bool:
    if _BETWEEN.search(word):
        return word in text
    return word in own or (len(word) >= _LETTERS and any(one.startswith(word) for one in own))


class BestPair(NamedTuple):
    """A target and its best drafter, None where prompt lookup is all there is, how both fit a machine together, and
    the speed-ups that were measured of them."""

    target: Target
    drafter: Entry | None
    fit: MacFit
    measured: tuple[Measured, ...] = ()


def recommended_pairs(catalogue: Catalogue, machine: MachineMemory, here: Set[str]) -> list[BestPair]:
    """Returns the largest target of each family that fits into the memory that a model may take, with its drafter and
    comfortably if one does; the largest first. here: the installed repositories."""
    best: dict[str, tuple[tuple[bool, float, float], BestPair]] = {}
    for target in catalogue.targets:
        pair = best_pair_of(target, catalogue, machine, here)
        rank = pair.fit == "good", target.parameters_b, target.bits
        if pair.fit != "no" and (target.family not in best or rank > best[target.family][0]):
            best[target.family] = rank, pair
    return [pair for _, pair in sorted(best.values(), key=lambda one: -one[0][1])]


def best_pair_of(target: Target, catalogue: Catalogue, machine: MachineMemory, here: Set[str]) -> BestPair:
    """Returns a target with the best drafter that loads: an installed one before one that is not."""
    known = [one for one in catalogue.drafters_of(target) if not one.trouble]
    drafter = min(known, key=lambda one: one.repository not in here, default=None)
    needed = needed_bytes([target, drafter] if drafter else [target], machine.in_float32)
    measured = catalogue.speedups(target.repository, drafter.repository) if drafter else ()
    return BestPair(target, drafter, fit_within(needed, machine.for_models_bytes), measured)
