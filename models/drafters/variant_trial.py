"""Which way of reading a head is right, where its files leave it open: tried on this machine, once, and remembered.

A wrong norm, layer or slot is silent: the text stays the target's, and acceptance collapses. Sources disagree about
some of them (before or after the final norm, the input or the output of a layer, whether the first slot proposes). So
the target answers one prompt greedily with each variant, and the one whose drafts were accepted most often is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.backend import raise_if_machine_lost
from engine.errors import ModelError
from models.drafters.drafter_kind import join_notes
from models.drafters.trial_results import keep_rates, kept_rates, trial_key

if TYPE_CHECKING:
    from engine.drafters import Drafter, Needs
    from engine.events import Round
    from models.drafters.drafter_kind import LoadedDrafter
    from models.loader import Loaded

TOKENS = 64  # of the answer that each variant drafts along
DRAFT_LENGTH = 2
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
    key = f"{trial_key(folder, target.folder.path)}{purpose and ' '}{purpose}"
    names = [variant.name for variant in variants]
    rates = kept_rates(key, names, cache_root)
    if rates is None:
        rates = try_variants(variants, target)
        if rates is not None:
            keep_rates(key, names, rates, cache_root)
    return rates


def try_variants(variants: Sequence[Variant], target: Loaded) -> list[float] | None:
    """Returns which share of the tokens that each variant drafts along one answer is accepted, 0 for one that cannot
    run; None where the answer is too short to tell. Only the first variant's layer taps stay on the target. Raises
    ModelError where the first variant cannot run."""
    rates = []
    kept: Needs | None = None
    prompt = target.tokenizer.chat([{"role": "user", "content": _PROMPT}])
    for number, variant in enumerate(variants):
        try:
            drafter = variant.make()
            kept = kept or drafter.needs
            rounds = drafted_along(drafter, target, prompt, TOKENS, DRAFT_LENGTH)
            accepted, drafted = sum(one.accepted for one in rounds), sum(len(one.drafted) for one in rounds)
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


def drafted_along(
    drafter: Drafter,
    target: Loaded,
    prompt: Sequence[int],
    tokens: int,
    length: int,
    pause: Callable[[], None] = lambda: None,
) -> list[Round]:
    """Returns the rounds in which the target answers a prompt greedily, in so many tokens, with drafts of `length`.
    pause: called between layers and passes; may raise to break off. Empties the target's cache."""
    from engine.events import Round
    from engine.policy.fixed import FixedLength
    from engine.session import Prompt, Session
    from engine.settings import SamplingSettings
    from engine.target.cached_model import calling

    session, policy = Session(target.model, target.tokenizer, len(prompt) + tokens + length + 1), FixedLength(length)
    try:
        events = session.continue_tokens(
            Prompt(prompt), SamplingSettings(max_tokens=tokens), drafter, policy, cancelled=calling(pause)
        )
        return [event for event in events if isinstance(event, Round)]
    finally:
        session.forget()


def best_rate(folder: Path, target: Path, cache_root: Path | None = None) -> float:
    """Returns how much of the kept variant's drafts was accepted when the drafter in `folder` was tried for the model
    in `target`, 0 if it was not."""
    try:
        rates = kept_rates(trial_key(folder, target), None, cache_root)
    except OSError:
        return 0.0
    return rates[_best(rates)] if rates else 0.0


def _best(rates: Sequence[float]) -> int:
    """Returns the number of the variant to keep."""
    return max(range(len(rates)), key=lambda number: rates[number] + (_CLEARLY if number == 0 else 0.0))
