"""Heads rotate positions as transformers does, from the same configuration: `tests.programs.rotary_references`."""

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.backend.mlx_lm_imports import KVCache
from engine.rotary_embedding import RotationByLength, rotary_embedding

_FILE: dict[str, Any] = json.loads((Path(__file__).parent / "rotary_references.json").read_text())
HEAD, ROWS = _FILE["head"], _FILE["rows"]


def rope_of(row: dict[str, Any]) -> Any:
    rope = row["rope_parameters"]
    module = rotary_embedding(HEAD, rope["rope_theta"], False, rope, _FILE["longest"])
    rotation = RotationByLength([module])
    rotation.follow(row["length"], [])
    return module


def rotated(row: dict[str, Any], heads: np.ndarray, position: int) -> np.ndarray:
    """What the frequencies of a row make of heads (n, width) at positions from `position` on."""
    angles = np.arange(position, position + len(heads))[:, None] * np.array(row["frequencies"])
    cos, sin = row["factor"] * np.cos(angles), row["factor"] * np.sin(angles)
    left, right = np.split(heads, 2, axis=-1)
    return np.concatenate([left * cos - right * sin, left * sin + right * cos], -1)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['rope_parameters']['rope_type']}-{row['length']}")
def test_positions_are_rotated_as_transformers_does(row: dict[str, Any]) -> None:
    heads = np.random.default_rng(0).normal(size=(5, HEAD))
    found = rope_of(row)(mx.array(heads, mx.float32)[None, None], offset=100)
    assert np.abs(np.array(found)[0, 0] - rotated(row, heads, 100)).max() < 1e-4


def test_keys_of_a_head_are_turned_where_the_text_grows_long_and_turned_back() -> None:
    short, long = (row for row in ROWS if row["rope_parameters"].get("factor") == 2.0)
    heads = np.random.default_rng(0).normal(size=(5, HEAD))
    cache, module = KVCache(), rope_of(short)
    rotation = RotationByLength([module])
    keys = mx.array(heads, mx.float32)[None, None]
    cache.update_and_fetch(module(keys), keys)
    for row in (long, short):
        rotation.follow(row["length"], [cache])
        assert np.abs(np.array(cache.keys)[0, 0, :5] - rotated(row, heads, 0)).max() < 1e-4
