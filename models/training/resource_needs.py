"""Estimates the disk and memory that a fit needs, before it begins.

These are bounds from sizes, not measurements: what the target, a batch that it writes, a pass that it reads, and a step
of training hold at most at the same time.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from engine.backend.mlx_lm_imports import make_prompt_cache
from engine.errors import FitError
from models.size_text import memory_words
from models.training.training_plan import MIN_BATCH_TOKENS, MachineRates, TrainingKind, TrainingPlan

CACHE_BYTES = 1024**3 // 4  # of freed buffers that MLX may keep while a fit runs
_PROCESS_BYTES = 400 * 1024**2  # Python, MLX, mlx-lm and the tokenizer
_KV_STEP = 256  # tokens by which mlx-lm's caches grow
_SPARE_DISK_BYTES = 200 * 1024**2
_TOKEN_BYTES = 4  # of a conversation, in memory and on disk
_CONVERSATION_BYTES = 512  # in memory, beside its tokens
MAX_ROWS = 32
_PREFILL = 8 * 512


@dataclass(frozen=True)
class NetworkSizes:
    """The sizes of a target and of the drafter that is trained for it, in tokens, numbers or bytes, as the names say.

    loading_bytes: beside the weights, while they are made of what is stored. kv_bytes: of one text of up to `_KV_STEP`
    tokens. states: numbers of a token, features and normed state. columns: of the distribution that is learnt. trained:
    parameters. frozen_bytes: of what the drafter has beside them and does not share with the target. layers: that
    training goes through. inner: the widest activation.
    """

    weights_bytes: int
    loading_bytes: int
    kv_bytes: int
    vocabulary: int
    states: int
    hidden: int
    inner: int
    heads: int
    columns: int
    trained: int
    frozen_bytes: int
    layers: int


@dataclass(frozen=True)
class ResourceNeeds:
    """The bytes of memory and disk that a fit takes at most. states_bytes: of disk, for hidden states."""

    memory_bytes: int
    disk_bytes: int
    states_bytes: int


@dataclass(frozen=True)
class FreeResources:
    """The free bytes of the disk, and those of the memory, in all and free; None where the system does not say."""

    disk_bytes: int
    memory_bytes: int | None
    free_bytes: int | None


def kv_bytes(network: Any) -> int:
    """Returns the bytes of a cache of up to `_KV_STEP` tokens, from a pass that is never evaluated."""
    cache = make_prompt_cache(network)
    network(mx.zeros((1, 1), mx.int32), cache=cache)
    return sum(int(entry.nbytes) for entry in cache if entry is not None)


def writing_bytes(sizes: NetworkSizes, rows: int, tokens: int) -> int:
    """Returns the bytes of writing `rows` texts of `tokens` tokens side by side: of caches, which are copied when they
    grow or a text ends, of logits, and of the passes over prompts."""
    caches = 3 * rows * sizes.kv_bytes * math.ceil(tokens / _KV_STEP)
    prefill = _PREFILL * 4 * (4 * sizes.hidden + 3 * sizes.inner) + 8 * sizes.heads * 512 * 512 * 4 * 2
    return caches + 8 * rows * sizes.vocabulary * 4 + prefill


def rows_within(sizes: NetworkSizes, tokens: int, free_bytes: int | None) -> int:
    """Returns how many texts can be written side by side in half of the free memory."""
    if free_bytes is None:
        return MAX_ROWS // 2
    rows = MAX_ROWS
    while rows > 1 and writing_bytes(sizes, rows, tokens) > free_bytes / 2:
        rows //= 2
    return rows


def batch_within(sizes: NetworkSizes, plan: TrainingPlan, free: FreeResources) -> int:
    """Returns how many tokens to train on at a time: as many as `plan` says, or a half, a quarter and so on, where that
    makes the fit small enough for the free memory, or else for the machine."""
    free_bytes = None if free.free_bytes is None else free.free_bytes + sizes.weights_bytes  # which are loaded already
    tried = [tokens for n in range(4) if (tokens := plan.batch_tokens >> n) >= MIN_BATCH_TOKENS]
    for most_bytes in (free_bytes, free.memory_bytes):
        for tokens in tried:
            if most_bytes is None or working_bytes(sizes, replace(plan, batch_tokens=tokens)) <= most_bytes:
                return tokens
    return tried[-1]


def training_bytes(sizes: NetworkSizes, kind: TrainingKind, plan_tokens: int, longest: int, depths: int) -> int:
    """Returns the bytes of a training step: weights, the frozen ones too, gradients and moments, old and new; what is
    kept of every layer and depth for the backward pass; and the logits and distributions."""
    optimiser = 28 * sizes.trained
    attention = 0 if kind == "medusa" else 4 * sizes.heads * longest
    kept = sizes.layers * depths * (16 * sizes.hidden + 6 * sizes.inner + attention)
    distributions = sizes.columns * (2 + 4 * depths)
    return sizes.frozen_bytes + optimiser + 4 * plan_tokens * (kept + distributions + 3 * sizes.states)


def working_bytes(sizes: NetworkSizes, plan: TrainingPlan, unsaved_bytes: int = 0) -> int:
    """Returns the memory of the stage that takes most, without the corpus. unsaved_bytes: of the states of a shard."""
    longest = plan.prompt_tokens + plan.reply_tokens
    batch = max(plan.batch_tokens, longest)
    read = longest * 4 * (4 * sizes.states + 4 * sizes.inner + sizes.heads * longest) + 3 * 64 * 1024**2
    stages = (
        sizes.loading_bytes,
        writing_bytes(sizes, plan.rows, longest),
        read + unsaved_bytes,
        read + training_bytes(sizes, plan.kind, batch, longest, plan.depths),
    )
    return _PROCESS_BYTES + CACHE_BYTES + sizes.weights_bytes + max(stages)


def estimate_needs(sizes: NetworkSizes, plan: TrainingPlan, rates: MachineRates) -> ResourceNeeds:
    """Returns bounds for `plan`, whose prompts and replies are about as long as `rates` says."""
    tokens = most_tokens(plan, rates)
    states = tokens * sizes.states * 2
    shard = int(plan.shard * rates.conversation_tokens * sizes.states * 2 * 2) if plan.stored else 0
    corpus = tokens * _TOKEN_BYTES + plan.conversations * _CONVERSATION_BYTES
    drafter = sizes.trained * 4 + (sizes.weights_bytes if plan.kind == "draft" else 0)
    disk = tokens * _TOKEN_BYTES + (states if plan.stored else 0) + 2 * 12 * sizes.trained + drafter
    return ResourceNeeds(working_bytes(sizes, plan, shard) + corpus, disk + _SPARE_DISK_BYTES, states)


def most_tokens(plan: TrainingPlan, rates: MachineRates) -> int:
    """Returns the tokens of all conversations. The shorter the replies are, the more prompts go with them."""
    replies = plan.tokens or plan.conversations * plan.reply_tokens
    return int(replies + plan.conversations * rates.prompt_tokens)


def check_disk(needed: ResourceNeeds, free: FreeResources) -> None:
    """Raises FitError if the disk has too little space."""
    if needed.disk_bytes > free.disk_bytes:
        raise FitError(
            f"the fit needs {memory_words(needed.disk_bytes)} of disk space, but only "
            f"{memory_words(free.disk_bytes)} is free: free some, give --out on another disk, or fewer minutes"
        )


def check_memory(needed_bytes: int, free: FreeResources) -> None:
    """Raises FitError if the machine has too little memory."""
    if free.memory_bytes is not None and needed_bytes > free.memory_bytes:
        raise FitError(
            f"the fit may need {memory_words(needed_bytes)} of memory, but this machine has only "
            f"{memory_words(free.memory_bytes)}: choose a smaller target, --kind medusa, or fewer --reply-tokens"
        )
