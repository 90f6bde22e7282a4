"""Whether a pair fits into memory, checked before anything is loaded, and how long a context this machine allows."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from app.inference.cluster import group_of
from app.inference.machine import memory, memory_is_short
from app.inference.options import Options
from app.inference.pair_resolution import drafter_folders
from engine import backend
from engine.errors import ModelError, RedlineError, UsageError
from models.catalogue.search import TIGHT
from models.drafters.pair_footprint import pair_footprint
from models.memory.memory_verdict import (
    KV_BITS,
    AvailableMemory,
    Footprint,
    FootprintAt,
    MemoryVerdict,
    judge_memory,
    largest_context,
)
from models.model_folder import ModelFolder
from models.paths import name_of
from models.size_text import memory_words

DEFAULT_CONTEXT = 8192


def this_room() -> AvailableMemory:
    """Returns the memory of this machine."""
    return AvailableMemory(*memory(), backend.wired_bytes())


def declared_context(folder: ModelFolder, requested: int | None) -> int:
    """Returns the requested context in tokens, or the one the model declares. Raises UsageError for more than that."""
    declared = folder.context_length
    if requested and declared and requested > declared:
        raise UsageError(
            f"context is {requested}, but {name_of(folder.path)} was made for at most {declared} tokens: "
            f"give at most {declared}"
        )
    return requested or declared or DEFAULT_CONTEXT


def check_memory(folder: ModelFolder, options: Options, all_drafters: bool = False) -> MemoryVerdict:
    """Returns how the target in `folder` and the largest drafter of `options` fit, and with how long a context: the
    requested one, else the longest that leaves other programs their share. all_drafters: whether all of them must fit
    at once, as in a race, and none may be one that does not load.

    Raises UsageError for a context that the model is not made for; ModelError where it does not fit, with what would.
    """
    if all_drafters:
        named = [path for spec in options.drafters for path in drafter_folders(spec, folder, options.cache_root)]
        verdict = verdict_of(folder, list(dict.fromkeys(named)), options)
    else:
        verdict = verdict_of(folder, _largest_drafter(folder, options), options)
    if verdict.level == "refused":
        raise ModelError(f"{name_of(folder.path)} does not fit: {verdict}")
    return verdict


def context_note(folder: ModelFolder, options: Options, verdict: MemoryVerdict) -> str:
    """Returns what the user should know of the context that a pair got, or ""."""
    wanted = declared_context(folder, options.context)
    if verdict.level == "tight" or verdict.context >= wanted:
        return str(verdict) if verdict.level == "tight" else ""
    most = memory_words(this_room().most)
    return f"the context is limited to {verdict.context:,} of the model's {wanted:,} tokens so that it fits in {most}"


def kept_conversations_bytes(needed: int, kept: int) -> int:
    """Returns how many bytes of conversations may be kept beside a pair that needs `needed` bytes at its full context,
    where `kept` are kept now: what other programs do not want, and at most half of what is free; nothing while the
    system is short of memory."""
    if memory_is_short():
        return 0
    room = this_room()
    left = int(TIGHT * room.most) - needed
    if room.free is not None:
        left = min(left, kept + room.free // 2)
    return max(0, left)


def fits_beside(pair_at: FootprintAt, contexts: Sequence[int], context: int, kept: int) -> bool:
    """Returns whether memory allows another reply, of `context` tokens with its prompt, beside those of `contexts`,
    where `kept` are the bytes of conversations that are kept and would make room. One alone always fits: its pair would
    not have been loaded otherwise. pair_at: the memory of the pair by the length of the context."""
    if not contexts:
        return True
    room, footprint = this_room(), pair_at(context)
    caches = sum(pair_at(one).cache for one in [*contexts, context])
    needed = footprint.process + footprint.weights + footprint.working + caches
    free = room.most if room.free is None else room.free + kept
    return not memory_is_short() and needed <= TIGHT * room.most and footprint.cache <= free


def verdict_of(folder: ModelFolder, drafters: Sequence[Path], options: Options) -> MemoryVerdict:
    """Returns whether a target and drafters fit at the requested context, else at the longest that fits easily, else at
    all. Raises UsageError, and ModelError for what would not load."""
    room, context = this_room(), declared_context(folder, options.context)
    group = group_of(options.hosts)
    taken = pair_footprint(folder, drafters, options.kv_bits, group)

    def with_fewer_bits(context: int) -> Footprint:
        try:
            return pair_footprint(folder, drafters, min(options.kv_bits or KV_BITS, KV_BITS), group)(context)
        except RedlineError:  # heads too narrow for it
            return taken(context)

    if not options.context:
        easily = largest_context(taken, context, int(TIGHT * room.most))
        context = easily or largest_context(taken, context, room.most) or context
    return judge_memory(taken, context, room, with_fewer_bits)


def _largest_drafter(folder: ModelFolder, options: Options) -> list[Path]:
    """Returns the folders of the drafter that takes most memory. One that cannot be loaded counts as nothing here, and
    is reported when it is loaded."""
    found: dict[int, list[Path]] = {0: []}
    for spec in options.drafters:
        with suppress(RedlineError):
            folders = drafter_folders(spec, folder, options.cache_root)
            found[pair_footprint(folder, folders, options.kv_bits, group_of(options.hosts))(1).total] = folders
    return found[max(found)]
