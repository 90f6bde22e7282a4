"""Finds out which way of reading a head is right, where its files leave it open: once on this machine, by a trial.

A wrong norm, layer or slot is silent: the text stays the target's, and acceptance collapses. Sources disagree about
some of them (before or after the final norm, the input or the output of a layer, whether the first slot proposes). So
the target answers one prompt greedily with each variant, and the one whose drafts were accepted most often is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from engine.backend import raise_if_machine_lost
from engine.errors import ModelError
from models.drafters.drafter_kind import join_notes
from models.kept_files import KeptFiles
from models.paths import cache_dir

if TYPE_CHECKING:
    from engine.drafters import Drafter
    from engine.events import Round
    from models.drafters.drafter_kind import LoadedDrafter, Variants
    from models.loader import Loaded

TOKENS = 64  # of the answer that each variant drafts along
DRAFT_LENGTH = 2
_PROMPT = "Count from one to twenty in words, then describe a walk through a small town in the morning."
_MIN_DRAFTED = 30  # tokens, for a trial to tell variants apart
_MOST_TRIALS = 200  # kept
_MARGIN = 0.1  # by how much another variant must be accepted more often than the one that sources recommend

_Rate = Annotated[float, msgspec.Meta(ge=0, le=1)]


def choose_variant(found: LoadedDrafter, folder: Path, target: Loaded, cache_root: Path | None = None) -> LoadedDrafter:
    """Returns `found` with the variant that was accepted most often for `target`, and says so where it is not the
    first.

    folder: of the head. The trial empties the target's cache. Its result is kept in the cache folder, and used again
    while head and target are the same. Raises ModelError where a variant cannot be run.
    """
    if len(found.variants) < 2:
        return found
    key, names = _trial_key(folder, target.folder.path), list(found.variants)
    kept_rates = _kept_rates(key, cache_root)
    rates = list(kept_rates.values())
    if list(kept_rates) != names:
        rates = try_variants(found.variants, target)
        if not rates:
            return found
        _trials(cache_root).write(key, msgspec.json.encode(dict(zip(names, rates, strict=True))))
    best = _best(rates)
    if best == 0:
        return found
    kept, usual = names[best], names[0]
    target.model.forget_taps(found.drafter.needs.taps, found.drafter.needs.latest_only)
    note = f"uses {kept}: {rates[best]:.0%} of its drafts were accepted in a trial, {rates[0]:.0%} with {usual}"
    return replace(found, drafter=found.variants[kept](), note=join_notes(found.note, note))


def try_variants(variants: Variants, target: Loaded) -> list[float]:
    """Returns which share of the tokens that each variant drafts along one answer is accepted, 0 for one that cannot
    run; nothing where the answer is too short to tell. Only the first variant's layer taps stay
    on the target. Raises ModelError where the first variant cannot run."""
    rates, first = [], None
    for make in variants.values():
        try:
            drafter = make()
            rounds = _answer(drafter, target)
            accepted, drafted = sum(one.accepted for one in rounds), sum(len(one.drafted) for one in rounds)
            first = first or drafter.needs
            if drafter.needs.taps != first.taps:
                target.model.forget_taps(drafter.needs.taps, drafter.needs.latest_only)
        except Exception as error:  # broad: a wrong reading may fail anywhere in MLX
            raise_if_machine_lost(error)
            target.model.cache.reset()
            if first is None:
                raise ModelError(f"the drafter cannot run ({error}): choose another drafter") from error
            accepted, drafted = 0, _MIN_DRAFTED
        if drafted < _MIN_DRAFTED:
            return []
        rates.append(accepted / drafted)
    return rates


def _answer(drafter: Drafter, target: Loaded) -> list[Round]:
    """Returns the rounds in which the target answers the prompt greedily. Empties the target's cache."""
    from engine.events import Round
    from engine.policy.fixed import FixedLength
    from engine.session import Prompt, Session
    from engine.settings import SamplingSettings

    prompt = Prompt(target.tokenizer.chat([{"role": "user", "content": _PROMPT}]))
    session = Session(target.model, target.tokenizer, len(prompt.ids) + TOKENS + DRAFT_LENGTH + 1)
    try:
        settings, policy = SamplingSettings(max_tokens=TOKENS), FixedLength(DRAFT_LENGTH)
        return [one for one in session.continue_tokens(prompt, settings, drafter, policy) if isinstance(one, Round)]
    finally:
        session.forget()


def best_rate(folder: Path, target: Path, cache_root: Path | None = None) -> float:
    """Returns how much of the kept variant's drafts was accepted when the drafter in `folder` was tried for the model
    in `target`, 0 if it was not."""
    try:
        rates = list(_kept_rates(_trial_key(folder, target), cache_root).values())
    except OSError:
        return 0.0
    return rates[_best(rates)] if rates else 0.0


def _best(rates: Sequence[float]) -> int:
    """Returns the number of the variant to keep."""
    return max(range(len(rates)), key=lambda number: rates[number] + (_MARGIN if number == 0 else 0.0))


# --- what earlier trials found -----------------------------------------------------------------


def _trial_key(folder: Path, target: Path) -> str:
    """Returns what stands for this drafter and this target: their configs, and names, sizes and times of their weights.
    Raises OSError."""
    digest = hashlib.sha256()
    for path in (folder, target):
        digest.update((path / "config.json").read_bytes())
        for file in sorted(path.rglob("*.safetensors")):
            stat = file.stat()
            digest.update(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _kept_rates(key: str, cache_root: Path | None) -> dict[str, float]:
    """Returns the rate of each variant in an earlier trial, by name and in order; empty without one. A damaged file
    counts as none."""
    with suppress(ValueError):  # msgspec's errors are ValueErrors
        return msgspec.json.decode(_trials(cache_root).read(key) or b"{}", type=dict[str, _Rate])
    return {}


def _trials(cache_root: Path | None) -> KeptFiles:
    return KeptFiles(cache_dir(cache_root) / "trials", _MOST_TRIALS)
