"""Folders of block drafters and of Gemma 4's assistants: what their configs mean, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.drafters.dflash import DFlashHead
from engine.errors import ModelError, PairError
from models.drafters import dflash_folder, gemma4_assistant_folder
from models.drafters.head_folder import open_head
from models.drafters.target_match import TargetShape
from tests.models.drafters.head_folders import config_of, cut, drop, edit, pickled, put, retensor, said

ORACLES = Path(__file__).parent / "oracles"
SHAPE = TargetShape("target", 64, 4, 32, lambda points: 32 * len(points), {})
GEMMA = {"model_type": "gemma4", "text_config": {"num_hidden_layers": 4, "num_kv_shared_layers": 2}}
GEMMA["text_config"]["layer_types"] = ["sliding_attention", "full_attention"] * 2  # type: ignore[index]


@pytest.fixture
def block(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ORACLES / "dflash_2", tmp_path / "dflash"))


@pytest.fixture
def assistant(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ORACLES / "gemma4_ordered", tmp_path / "assistant"))


def opened(path: Path, target: TargetShape = SHAPE) -> DFlashHead:
    folder = open_head(path, ("model",))
    return dflash_folder._filled(folder, dflash_folder._tensors(folder), target)


def inner(**changes: Any) -> Callable[[Path], None]:
    """Changes fields of `dflash_config`."""
    return lambda path: edit(path, dflash_config=config_of(path)["dflash_config"] | changes)


# --- what a config means -----------------------------------------------------------------------


def test_taps_are_the_outputs_of_z_labs_layers_and_the_inputs_of_speculators(block: Path) -> None:
    assert opened(block).config.points == (1, 3)
    edit(block, dflash_config={"mask_token_id": 63, "block_size": 4}, aux_hidden_state_layer_ids=[1, 3])
    assert opened(block).config.points == (1, 3)
    edit(block, aux_hidden_state_layer_ids=None)
    deep = TargetShape("target", 64, 20, 32, lambda points: 64, {})
    edit(block, num_target_layers=20)
    assert opened(block, deep).config.points == (2, 18)  # evenly from the second layer to the third last
    layer = {key: value for key, value in config_of(block).items() if key not in ("dflash_config", "num_target_layers")}
    edit(block, speculators_model_type="dflash", transformer_layer_config=layer, dflash_config=None, mask_token_id=63)
    three = TargetShape("target", 64, 20, 32, lambda points: 64, {})
    assert opened(block, three).config.points == (2, 10, 17)


@pytest.mark.parametrize(
    ("changes", "causal"),
    [
        ({}, (True, False)),
        ({"is_causal": False}, (False, False)),
        ({"dflash_config": {"mask_token_id": 63, "target_layer_ids": [0, 2], "causal": True}}, (True, True)),
    ],
)
def test_causality_is_what_the_config_says_else_that_of_windows(
    block: Path, changes: dict[str, Any], causal: tuple[bool, ...]
) -> None:
    edit(block, **changes)
    assert opened(block).config.causal == causal and opened(block).config.windows == (6, None)


@pytest.mark.parametrize(
    ("name", "changes", "inputs", "proposals"),
    [
        ("dflash_0", {}, 4, 3),
        ("dspark_0", {}, 5, 4),
        ("dspark_1", {}, 4, 4),
        ("dspark_0", {"dspark_bonus_anchor": True}, 4, 3),
    ],
)
def test_block_size_counts_inputs_or_proposals(
    name: str, changes: dict[str, Any], inputs: int, proposals: int, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(ORACLES / name, tmp_path / name))
    edit(path, **changes)
    config = opened(path).config
    assert (config.block, config.longest) == (inputs, proposals)


def test_a_quantized_block_drafter_loads(block: Path) -> None:
    def quantize(tensors: dict[str, mx.array]) -> None:
        for name in [name for name, value in tensors.items() if name.endswith("_proj.weight") and value.shape[1] == 32]:
            parts = mx.quantize(tensors.pop(name), group_size=32, bits=8)
            tensors.update(
                {
                    name.replace("weight", end): part
                    for end, part in zip(("weight", "scales", "biases"), parts, strict=True)
                }
            )

    plain = opened(block).layers[0].self_attn.q_proj.weight
    mx.eval(plain)  # the file is written again
    retensor(quantize)(block)
    found = opened(block).layers[0].self_attn.q_proj
    whole = mx.dequantize(found.weight, found.scales, found.biases, group_size=32, bits=8)
    assert mx.allclose(whole, plain, atol=0.02)


# --- what is refused ---------------------------------------------------------------------------

FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pickle": (pickled, "are a pickle, which can run code and is never loaded"),
    "cut file": (cut(3000), "cut short or not a safetensors"),
    "missing tensor": (drop("hidden_norm.weight"), "lacks the tensor 'hidden_norm.weight'"),
    "missing fc": (drop("fc.weight"), "lacks the tensor 'fc.weight' of a block drafter"),
    "wrong shape": (put("norm.weight", mx.ones(31)), "'norm.weight' is (31,), not (32,)"),
    "unknown tensor": (put("layers.7.norm.weight", mx.ones(3)), "unknown tensor 'layers.7.norm.weight'"),
    "no mask": (inner(mask_token_id=None), "lacks mask_token_id"),
    "mask beyond the vocabulary": (inner(mask_token_id=64), "has mask_token_id '64', not a token below 64"),
    "endless layers": (said(num_hidden_layers=10**9), "not at most the"),
    "block of nonsense": (inner(block_size=-1), "has block_size '-1'"),
    "window of nonsense": (said(sliding_window=0), "has sliding_window '0'"),
    "sinks": (inner(attention_sink_bias=True), "does not support block drafters with attention sinks"),
    "another activation": (said(hidden_act="gelu"), "an activation other than SiLU"),
    "rotated in part": (said(partial_rotary_factor=0.5), "partly rotated heads"),
    "recurrent": (inner(markov_head_type="rnn"), "a recurrent Markov part"),
    "reranked": (inner(lilicorr_layers=2), "a reranker"),
    "rope of nonsense": (said(rope_scaling={"rope_type": "x"}, rope_parameters=None), "describes an unknown kind"),
}
MISFITS: dict[str, tuple[Callable[[Path], None], str]] = {
    "another depth": (said(num_target_layers=5), "different number of layers (made for 5; target has 4)"),
    "deeper taps": (inner(target_layer_ids=[0, 9]), "different number of layers (reads layer 10; target has 4)"),
    "fewer states": (inner(target_layer_ids=[1]), "different hidden size (64 numbers a token; target has 32"),
    "more tokens": (said(vocab_size=65), "different vocabulary size (65; target has 64)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_in_one_line(block: Path, fault: str) -> None:
    spoil, reason = FAULTS[fault]
    spoil(block)
    with pytest.raises(ModelError) as caught:
        opened(block)
    assert reason in str(caught.value) and str(block) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("misfit", MISFITS)
def test_a_drafter_of_another_target_is_refused_with_the_reason(block: Path, misfit: str) -> None:
    spoil, reason = MISFITS[misfit]
    spoil(block)
    with pytest.raises(PairError) as caught:
        opened(block)
    assert reason in str(caught.value)


# --- Gemma 4's assistants ----------------------------------------------------------------------


def test_an_assistant_reads_the_last_layers_with_keys_and_values_of_their_own(assistant: Path) -> None:
    folder = open_head(assistant, ("model",))
    head = gemma4_assistant_folder._filled(folder, SHAPE)
    assert gemma4_assistant_folder.kv_layers(folder, GEMMA, head) == {"sliding_attention": 0, "full_attention": 1}
    with pytest.raises(PairError, match="made for Gemma 4, not for a llama model"):
        gemma4_assistant_folder.kv_layers(folder, {"model_type": "llama"}, head)
    text = {"num_hidden_layers": 2, "num_kv_shared_layers": 0, "layer_types": ["sliding_attention"] * 2}
    with pytest.raises(PairError, match="no layer of the kind full_attention"):
        gemma4_assistant_folder.kv_layers(folder, {"model_type": "gemma4", "text_config": text}, head)


ASSISTANT_FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing tensor": (drop("pre_projection.weight"), "lacks the tensor 'pre_projection.weight'"),
    "ordering as floats": (put("model.norm.weight", mx.ones(16, mx.int32)), "stored as int32, not float32"),
    "clusters that do not divide": (said(num_centroids=7), "not a divisor of 64"),
    "another width": (said(backbone_hidden_size=48), "different hidden size (48 numbers a token; target has 32)"),
    "no sizes": (said(text_config={}), "lacks hidden_size"),
    "endless layers": (
        lambda path: edit(path, text_config=config_of(path)["text_config"] | {"num_hidden_layers": 10**9}),
        "not at most the",
    ),
}


@pytest.mark.parametrize("fault", ASSISTANT_FAULTS)
def test_each_fault_of_an_assistant_is_named(assistant: Path, fault: str) -> None:
    spoil, reason = ASSISTANT_FAULTS[fault]
    spoil(assistant)
    with pytest.raises((ModelError, PairError)) as caught:
        gemma4_assistant_folder._filled(open_head(assistant, ("model",)), SHAPE)
    assert reason in str(caught.value) and "\n" not in str(caught.value)


def test_an_ordering_that_names_a_token_twice_is_refused(assistant: Path) -> None:
    put("masked_embedding.token_ordering", mx.zeros(64, mx.int64))(assistant)
    folder = open_head(assistant, ("model",))
    head = gemma4_assistant_folder._filled(folder, SHAPE)
    with pytest.raises(ModelError, match="does not name every token once"):
        gemma4_assistant_folder._check_ordering(folder, head)
