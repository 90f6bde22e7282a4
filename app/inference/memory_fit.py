"""Whether a pair fits into memory, checked before anything is loaded, and how long a context this machine allows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.inference.machine import memory
from app.inference.options import Options
from app.inference.pair_resolution import drafter_folders
from engine import backend
from engine.errors import ModelError, RedlineError, UsageError
from models.drafters.pair_footprint import pair_footprint
from models.memory import (
    KV_BITS,
    TIGHT,
    AvailableMemory,
    FitVerdict,
    Footprint,
    FootprintAt,
    judge_fit,
    largest_context,
)
from models.model_folder import ModelFolder
from models.size_text import memory_words

DEFAULT_CONTEXT = 8192


@dataclass(frozen=True)
class FitRequest:
    """A target with these drafters, as `options` have them."""

    folder: ModelFolder
    drafters: list[Path]
    options: Options

    @property
    def taken(self) -> FootprintAt:
        """Raises ModelError for what would not load."""
        return pair_footprint(self.folder, self.drafters, self.options.kv_bits)

    def fewer_bits(self, context: int) -> Footprint:
        """With keys and values in fewer bits, where the model can have them; measured when it is wanted."""
        try:
            return pair_footprint(self.folder, self.drafters, min(self.options.kv_bits or KV_BITS, KV_BITS))(context)
        except RedlineError:  # heads too narrow for it
            return self.taken(context)


@dataclass(frozen=True)
class Fit:
    """context: tokens of prompt and reply that a conversation may have. verdict: at that context. note: what the user
    did not ask for and should know, or ""."""

    context: int
    verdict: FitVerdict
    note: str = ""


def this_room() -> AvailableMemory:
    """What this machine has."""
    total, free = memory()
    return AvailableMemory(total, free, backend.wired_bytes())


def declared_context(folder: ModelFolder, requested: int | None) -> int:
    """Returns the requested context in tokens, or the one the model declares. Raises UsageError for more than that."""
    declared = folder.context_length
    if requested and declared and requested > declared:
        raise UsageError(
            f"context is {requested}, and {folder.path.name} was made for at most {declared} tokens: "
            f"give at most {declared}"
        )
    return requested or declared or DEFAULT_CONTEXT


def fit(folder: ModelFolder, options: Options) -> Fit:
    """Whether the target in `folder` and the drafters of `options` fit, and with how long a context: as asked for, else
    the longest that leaves other programs their share.

    Raises UsageError for a context that the model is not made for; ModelError where it does not fit, with what would.
    """
    verdict = _sound(FitRequest(folder, _heaviest(folder, options), options))
    note, wanted = str(verdict) if verdict.level == "tight" else "", declared_context(folder, options.context)
    if verdict.context < wanted and not note:
        most = memory_words(this_room().most or 0)
        note = f"the context is {verdict.context:,} tokens, of {wanted:,} that the model was made for, to fit in {most}"
    return Fit(verdict.context, verdict, note)


def check_all(folder: ModelFolder, options: Options) -> None:
    """That the target fits with all drafters of `options` at once, as a race has them. Raises ModelError: what would,
    UsageError, and what naming drafters raises."""
    named = [path for spec in options.drafters for path in drafter_folders(spec, folder)]
    _sound(FitRequest(folder, list(dict.fromkeys(named)), options))


def _sound(requested: FitRequest) -> FitVerdict:
    verdict = verdict_of(requested)
    if verdict.level == "refused":
        raise ModelError(f"{requested.folder.path.name} does not fit: {verdict}")
    return verdict


def verdict_of(requested: FitRequest) -> FitVerdict:
    """At the context that was asked for, else at the longest that fits. Raises UsageError, ModelError."""
    wanted, room = declared_context(requested.folder, requested.options.context), this_room()
    context = wanted if requested.options.context else _longest(requested.taken, wanted, room)
    return judge_fit(requested.taken, context, room, requested.fewer_bits)


def _longest(taken: FootprintAt, wanted: int, room: AvailableMemory) -> int:
    """Up to `wanted` tokens: with ease if that goes, else at all; `wanted` where nothing does, for the verdict to tell
    why."""
    if room.most is None:
        return wanted
    with_ease = largest_context(taken, wanted, int(TIGHT * room.most))
    return with_ease or largest_context(taken, wanted, room.most) or wanted


def _heaviest(folder: ModelFolder, options: Options) -> list[Path]:
    """The drafters that take most. One that cannot be opened says so when it is opened, and takes nothing here."""
    found: dict[int, list[Path]] = {0: []}
    for spec in options.drafters:
        with suppress(RedlineError):
            folders = drafter_folders(spec, folder)
            found[pair_footprint(folder, folders, options.kv_bits)(1).total] = folders
    return found[max(found)]
