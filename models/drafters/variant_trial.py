"""Which way of reading a head is right, where its files leave it open: tried on this machine, once, and remembered.

A wrong norm, layer or slot is silent: the text stays the target's, and acceptance collapses. Sources disagree about
some of them (before or after the final norm, the input or the output of a layer, whether the first slot proposes). So
the target answers one prompt greedily with each variant, and the one whose drafts were accepted most often is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.backend import raise_if_machine_lost
from engine.errors import ModelError
from models.drafters.drafter_kind import join_notes
from models.durable_files import read_json_object, replace_json
from models.paths import cache_dir

if TYPE_CHECKING:
    from engine.drafters import Drafter, Needs
    from models.drafters.drafter_kind import LoadedDrafter
    from models.loader import Loaded

TOKENS = 64  # of the answer that each variant drafts along
DRAFT_LENGTH = 2
_FILE = "head-variants.json"
_PROMPT = "Count from one to twenty in words, then describe a walk through a small town in the morning."
_LEAST_DRAFTED = 30  # tokens, for a trial to tell variants apart
_CLEARLY = 0.1  # by how much another variant must be accepted more often than the one that sources recommend


@dataclass(frozen=True)
class Variant:
    """One way to read a head. name: what it does, for people. make: returns a drafter that reads it so."""

    name: str
    make: Callable[[], Drafter]


def choose_variant(found: LoadedDrafter, folder: Path, target: Loaded, cache_root: Path | None = None) -> LoadedDrafter:
    """Returns `found` with the variant that was accepted most often for `target`, and says so where it is not the
    first.

    folder: of the head. The trial empties the target's cache. Its result is kept in the cache folder, and used again
    while head and target are the same. Raises ModelError where a variant cannot be run.
    """
    if len(found.variants) < 2:
        return found
    rates = rates_of_trial(found.variants, folder, target, "", cache_root)
    if rates is None:
        return found
    best = _best(rates)
    if best == 0:
        return found
    kept, usual = found.variants[best], found.variants[0]
    target.model.forget_taps(found.drafter.needs.taps, found.drafter.needs.latest_only)
    note = (
        f"uses {kept.name}: {rates[best]:.0%} of its drafts were accepted in a trial, {rates[0]:.0%} with {usual.name}"
    )
    return replace(found, drafter=kept.make(), note=join_notes(found.note, note))


def rates_of_trial(
    variants: Sequence[Variant], folder: Path, target: Loaded, purpose: str, cache_root: Path | None = None
) -> list[float] | None:
    """Returns what `try_variants` does, from an earlier trial for the same purpose if there was one."""
    key = f"{_key(folder, target.folder.path)}{purpose and ' '}{purpose}"
    names = [variant.name for variant in variants]
    rates = _remembered(key, names, cache_root)
    if rates is None:
        rates = try_variants(variants, target)
        if rates is not None:
            _remember(key, names, rates, cache_root)
    return rates


def try_variants(variants: Sequence[Variant], target: Loaded) -> list[float] | None:
    """Returns which share of the tokens that each variant drafts along one answer is accepted, 0 for one that cannot
    run; None where the answer is too short to tell. Only the first variant's layer taps stay on the target. Raises
    ModelError where the first variant cannot run."""
    rates = []
    kept: Needs | None = None
    for number, variant in enumerate(variants):
        try:
            drafter = variant.make()
            kept = kept or drafter.needs
            accepted, drafted = _drafted_along(drafter, target)
            if drafter.needs.taps != kept.taps:
                target.model.forget_taps(drafter.needs.taps, drafter.needs.latest_only)
        except Exception as error:  # broad: a wrong reading may fail anywhere in MLX
            raise_if_machine_lost(error)
            target.model.cache.reset()
            if number == 0:
                raise ModelError(f"the drafter cannot run ({error}): choose another drafter") from error
            accepted, drafted = 0, _LEAST_DRAFTED
        if drafted < _LEAST_DRAFTED:
            return None
        rates.append(accepted / drafted)
    return rates


def _drafted_along(drafter: Drafter, target: Loaded) -> tuple[int, int]:
    """Returns how many tokens of one answer were accepted, and how many drafted."""
    from engine.events import Round
    from engine.policy.fixed import FixedLength
    from engine.session import Session
    from engine.settings import SamplingSettings

    prompt = target.tokenizer.chat([{"role": "user", "content": _PROMPT}])
    session = Session(target.model, target.tokenizer, len(prompt) + TOKENS + DRAFT_LENGTH + 1)
    try:
        settings = SamplingSettings(max_tokens=TOKENS)
        events = session.continue_tokens(prompt, settings, drafter, FixedLength(DRAFT_LENGTH))
        rounds = [event for event in events if isinstance(event, Round)]
    finally:
        session.forget()
    return sum(round_.accepted for round_ in rounds), sum(len(round_.drafted) for round_ in rounds)


def best_rate(folder: Path, target: Path, cache_root: Path | None = None) -> float:
    """Returns how much of the kept variant's drafts was accepted when the drafter in `folder` was tried for the model
    in `target`, 0 if it was not."""
    try:
        rates = _remembered(_key(folder, target), None, cache_root)
    except OSError:
        return 0.0
    return rates[_best(rates)] if rates else 0.0


def _best(rates: Sequence[float]) -> int:
    """Returns the number of the variant to keep."""
    return max(range(len(rates)), key=lambda number: rates[number] + (_CLEARLY if number == 0 else 0.0))


def _key(folder: Path, target: Path) -> str:
    """Returns what stands for this head and this target: their configs, and names, sizes and times of their weights."""
    digest = hashlib.sha256()
    for path in (folder, target):
        digest.update((path / "config.json").read_bytes())
        for file in sorted(path.rglob("*.safetensors")):
            stat = file.stat()
            digest.update(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _remembered(key: str, names: Sequence[str] | None, cache_root: Path | None) -> list[float] | None:
    """Returns the rates of an earlier trial of variants with these names, in their order, None without one. names: None
    for any. A damaged file counts as none."""
    try:
        entry = read_json_object(cache_dir(cache_root) / _FILE).get(key)
    except ModelError:
        return None
    if not isinstance(entry, dict) or not isinstance(rates := entry.get("rates"), list):
        return None
    if names is not None and entry.get("names") != list(names):
        return None
    sound = len(rates) == len(names or rates) and all(isinstance(rate, float | int) for rate in rates)
    return [float(rate) for rate in rates] if sound else None


def _remember(key: str, names: Sequence[str], rates: Sequence[float], cache_root: Path | None) -> None:
    """Adds the rates to those of other heads. A disk that refuses only costs another trial."""
    path = cache_dir(cache_root) / _FILE
    try:
        known = read_json_object(path)
    except ModelError:
        known = {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_json(path, {**known, key: {"names": list(names), "rates": list(rates)}})
    except OSError:
        return
