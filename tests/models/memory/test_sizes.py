"""Sizes from shapes: held against the arrays of models that ran."""

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from engine.cache.model_cache import ModelCache
from models.drafters.pair_footprint import pair_footprint
from models.loader import load
from models.memory.model_size import measure
from models.model_folder import check_folder
from models.parameters import weights_bytes
from tests.toys.architectures import build

CHUNK = 16


def run(name: str, tokens: int) -> tuple[ModelCache, ModelCache]:
    """A cache after one token that was never computed, and one after `tokens`, read in chunks."""
    model = build(name)
    short, long = ModelCache(model), ModelCache(model)
    model(mx.zeros((1, 1), mx.int32), cache=short.entries)
    for start in range(0, tokens, CHUNK):
        ids = mx.arange(start, min(start + CHUNK, tokens))[None] % 40
        mx.eval(model(ids, cache=long.entries))
    return short, long


@pytest.mark.slow_for("*-jamba", "40-*", "900-llama")
@pytest.mark.parametrize("name", ["llama", "gemma3_text", "mamba", "jamba", "deepseek_v3"])
@pytest.mark.parametrize("tokens", [40, 900])
def test_a_cache_takes_what_its_growth_says(name: str, tokens: int) -> None:
    short, long = run(name, tokens)
    held = sum(array.nbytes for array in long.arrays())
    said = sum(layer.bytes_at(tokens, CHUNK) for layer in short.growth())
    assert held <= said <= 1.35 * held


def test_a_model_is_measured_as_it_will_stand_in_memory(toy_folder: Path) -> None:
    found, loaded = measure(check_folder(toy_folder)), load(toy_folder)
    assert found.weights_bytes == sum(array.nbytes for _, array in tree_flatten(loaded.network.parameters()))
    assert found.weights_bytes == weights_bytes(loaded.network)
    assert found.vocabulary == loaded.model.vocabulary


def test_quantized_keys_and_values_take_less(builtin_folder: Path) -> None:
    folder = check_folder(builtin_folder)
    whole, eighth, fourth = (pair_footprint(folder, (), bits)(8192).cache for bits in (None, 8, 4))
    assert whole == 8192 * 30 * 2 * 3 * 64 * 4  # layers, keys and values, heads, numbers each, bytes
    assert fourth < eighth < whole * 0.3  # of float32: eight bits and two scales a group of 64


def test_a_draft_model_brings_weights_cache_and_vocabulary(toy_folder: Path, toy_drafter_folder: Path) -> None:
    target = check_folder(toy_folder)
    alone, both = pair_footprint(target)(256), pair_footprint(target, [toy_drafter_folder])(256)
    other = measure(check_folder(toy_drafter_folder))
    assert both.drafter.weights == other.weights_bytes and both.drafter.cache == other.share(256).cache
    assert both.total > alone.total and both.process > alone.process


def test_what_recurrent_layers_keep_of_a_verify_pass_is_counted(toy_folder: Path) -> None:
    size = measure(check_folder(toy_folder))
    assert size.recorded == 0  # a llama
    assert replace(size, recorded=100).share(512).cache == size.share(512).cache + 9 * 100
