"""Gemma 4's assistants over the caches that a target may have: windows that slide, and quantized keys and values."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from engine.backend.mlx_lm_imports import QuantizedKVCache
from engine.cache.sliding_window import SLACK, SlidingKVCache
from engine.errors import UnsupportedCache
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.replies import PROMPT, attach, draft_context, reply
from tests.toys.architecture_common import WINDOW
from tests.toys.architectures import build
from tests.toys.block_heads import random_assistant

BITS = [None, 8]
LONG = PROMPT * (2 + (WINDOW + SLACK) // len(PROMPT))  # so that the window lets go of tokens again and again


@cache
def network() -> Any:
    """A Gemma 4 whose heads are wide enough to be quantized. As in the larger ones, no layer reads another's keys."""
    return build("gemma4_text", head_dim=32, global_head_dim=32, num_kv_shared_layers=0)


def target_of(kv_bits: int | None) -> CachedModel:
    target = CachedModel(network(), kv_bits, 32)
    sliding, full = target.cache.entries[-2:]
    assert isinstance(sliding, SlidingKVCache) and isinstance(full, QuantizedKVCache) is (kv_bits is not None)
    return target


@pytest.mark.parametrize("kv_bits", BITS)
def test_the_text_is_that_of_plain_decoding(kv_bits: int | None) -> None:
    """Of the same target with the same cache: drafts are exact, quantized keys are not."""
    sampling = SamplingSettings(temperature=0.9, top_p=0.95, repetition_penalty=1.2, seed=3)
    plain, _, _ = reply(target_of(kv_bits), sampling=sampling, tokens=24, prompt=LONG)
    ids, rounds, _ = reply(target_of(kv_bits), random_assistant(network()), 4, sampling, tokens=24, prompt=LONG)
    assert ids == plain
    assert sum(len(round_.drafted) for round_ in rounds) > 30


def test_quantized_keys_and_values_are_read_nearly_as_they_were() -> None:
    """The assistant's probabilities over 8 bits are close to those over whole numbers, and not the same."""
    drafter, found = random_assistant(network()), []
    for kv_bits in BITS:
        target = target_of(kv_bits)
        attach(drafter, target)
        target.feed(LONG[:-1])
        draft = drafter.propose(draft_context(LONG, SamplingSettings(temperature=1.0)), 1)
        found.append(np.exp(np.array(draft.logq)))
    far = np.abs(found[0] - found[1]).max()
    assert 0 < far < 0.02


def test_a_target_whose_layers_share_keys_cannot_quantize_them() -> None:
    """mlx-lm's Gemma 4 passes them on as they are stored, to layers that take whole numbers."""
    with pytest.raises(UnsupportedCache, match="cannot read a quantized cache"):
        CachedModel(build("gemma4_text", head_dim=32, global_head_dim=32), 8, 32)
