"""EAGLE-3 folders that are damaged, of another kind or for another target: each is refused in a line that says why."""

from __future__ import annotations

import dataclasses
import os
import shutil
import stat
from pathlib import Path

import mlx.core as mx
import pytest

from engine.errors import ModelError, PairError
from engine.target.cached_model import CachedModel
from models.drafters.eagle3_folder import load_eagle3
from models.loader import Loaded, load
from tests.models.drafters.head_folders import (
    Change,
    cut,
    drop,
    edit,
    in_layer,
    null,
    pickled,
    put,
    refuse_fault,
    refuse_misfit,
    retensor,
    said,
    same,
)
from tests.toys.architectures import build
from tests.toys.heads import random_eagle3


def halved(tensors: dict[str, mx.array]) -> None:
    tensors["lm_head.weight"] = tensors["lm_head.weight"][:12]


FAULTS: dict[str, tuple[Change, str]] = {
    "no folder": (shutil.rmtree, "no such model folder"),
    "no config": (lambda path: (path / "config.json").unlink(), "has no config.json"),
    "damaged config": (lambda path: (path / "config.json").write_text("{"), "not valid JSON"),
    "pickle": (pickled, "are a pickle, which can run code and is never loaded; choose a safetensors version"),
    "no weights": (lambda path: (path / "model.safetensors").unlink(), "has no model*.safetensors"),
    "cut file": (cut(3000), "cut short or not a safetensors"),
    "empty file": (cut(0), "cut short or not a safetensors"),
    "missing tensor": (drop("layers.0.hidden_norm.weight"), "lacks the tensor 'layers.0.hidden_norm.weight'"),
    "missing fc": (drop("fc.weight"), "lacks the tensor 'fc.weight'"),
    "wrong shape": (retensor(halved), "'lm_head.weight' is (12, 32), not (24, 32)"),
    "stored as integers": (put("norm.weight", mx.ones(32, mx.int32)), "stored as int32, not float32"),
    "unknown tensor": (put("layers.1.mlp.up_proj.weight", mx.ones(3)), "unknown tensor 'layers.1.mlp.up_proj.weight'"),
    "no ids": (drop("d2t"), "lacks the tensor 'd2t' for 24 of 64 tokens"),
    "ids of another size": (put("d2t", mx.zeros(23, mx.int64)), "'d2t' is I64 (23,), not integers (24,)"),
    "ids as floats": (put("d2t", mx.zeros(24)), "'d2t' is F32 (24,), not integers"),
    "ids out of range": (put("d2t", mx.array([0] * 23 + [41])), "does not name 24 of 64 tokens in order"),
    "ids below 0": (put("d2t", mx.array([-1] + [0] * 23)), "does not name 24 of 64 tokens in order"),
    "ids not increasing": (put("d2t", mx.array([5, 4] + [6] * 22)), "does not name 24 of 64 tokens in order"),
    "ids that are no offsets": (put("d2t", mx.arange(40, 64)), "does not name 24 of 64 tokens in order"),
    "ids that t2d denies": (put("t2d", mx.zeros(64, mx.bool_)), "'d2t' and 't2d' contradict each other"),
    "t2d of another size": (put("t2d", mx.zeros(63, mx.bool_)), "'d2t' and 't2d' contradict each other"),
    "size of nonsense": (in_layer(hidden_size="32"), "has hidden_size '32', not a whole number above 0"),
    "no size": (in_layer(intermediate_size=None), "lacks intermediate_size"),
    "null for a size": (lambda path: null(path, "intermediate_size"), "lacks intermediate_size"),
    "layer is no object": (said(transformer_layer_config=[1]), "not an object"),
    "layers of nonsense": (said(eagle_aux_hidden_state_layer_ids=[1, -1]), "not a list of whole numbers"),
    "flag of nonsense": (said(norm_before_residual="yes"), "not true or false"),
    "eps of nonsense": (in_layer(rms_norm_eps=-1), "not a number above 0"),
    "heads that don't share": (in_layer(num_key_value_heads=3), "not a divisor of 4"),
    "odd heads": (in_layer(head_dim=7), "not an even number"),
    "huge heads": (in_layer(head_dim=2**40), "describes an unknown kind of head"),
    "two layers": (in_layer(num_hidden_layers=2), "lacks the tensor 'layers.1.input_layernorm.weight'"),
    "more layers than tensors": (in_layer(num_hidden_layers=10**9), "not at most the"),
    "another layer": (in_layer(model_type="gpt2"), "with a gpt2 layer"),
    "another activation": (in_layer(hidden_act="gelu"), "an activation other than SiLU"),
    "biases": (in_layer(mlp_bias=True), "biases in its feed-forward part"),
    "window without a size": (in_layer(layer_types=["sliding_attention"]), "lacks sliding_window"),
    "kinds of layers of nonsense": (in_layer(layer_types=["x", "y"]), "not a list of 1 kinds of attention"),
    "part of a head": (in_layer(partial_rotary_factor=0.5), "partly rotated heads"),
    "part of a head, anew": (in_layer(rope_parameters={"partial_rotary_factor": 0.5}), "partly rotated heads"),
    "no middle layers": (said(eagle_config={"use_aux_hidden_state": False}), "no sight of the target's middle layers"),
    "rope of nonsense": (in_layer(rope_scaling={"rope_type": "x"}), "describes an unknown kind of head"),
    "norm of queries alone": (
        put("layers.0.self_attn.q_norm.weight", mx.ones(6)),
        "lacks the tensor 'layers.0.self_attn.k_norm.weight'",
    ),
    "norm that is promised": (said(norm_before_fc=True), "lacks the tensor 'input_norm.weight'"),
    "no output matrix for some tokens": (drop("lm_head.weight"), "lacks the tensor 'lm_head.weight'"),
    "narrow embedding": (put("embed_tokens.weight", mx.ones((64, 16))), "is (64, 16), not (64, 32)"),
    "short embedding": (put("embed_tokens.weight", mx.ones((60, 32))), "is (60, 32), not (64, 32)"),
}
MISFITS: dict[str, tuple[Change, str]] = {
    "deeper target": (
        said(eagle_aux_hidden_state_layer_ids=[0, 1, 4]),
        "different number of layers (reads layer 4; target has 3)",
    ),
    "fewer states": (
        said(eagle_aux_hidden_state_layer_ids=[0, 1]),
        "different hidden size (96 numbers a token; target has 64",
    ),
    "another width": (in_layer(hidden_size=48), "different hidden size (48 numbers a token; target has 32)"),
    "more tokens": (in_layer(vocab_size=65), "different vocabulary size (65; target has 64)"),
    "other tokens": (
        said(redline={"target": {"name": "Other", "vocabulary_sha256": "ab"}}),
        "different tokenizer (made for Other, not for target)",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named(eagle3_folder: Path, head_target: Loaded, fault: str) -> None:
    refuse_fault(load_eagle3, eagle3_folder, head_target, FAULTS[fault])


@pytest.mark.parametrize("misfit", MISFITS)
def test_a_head_of_another_target_is_refused_with_the_reason(
    eagle3_folder: Path, head_target: Loaded, misfit: str
) -> None:
    refuse_misfit(load_eagle3, eagle3_folder, head_target, MISFITS[misfit])


def test_a_target_too_shallow_for_the_usual_layers_is_a_misfit(eagle3_folder: Path, toy_folder: Path) -> None:
    edit(eagle3_folder, eagle_aux_hidden_state_layer_ids=None)
    with pytest.raises(PairError, match="the target has 2 layers"):
        load_eagle3(eagle3_folder, load(toy_folder))


def test_a_target_whose_states_cannot_be_read_is_refused(eagle3_folder: Path, head_target: Loaded) -> None:
    edit(eagle3_folder, eagle_aux_hidden_state_layer_ids=[0, 1, 2])
    network = build("nanbeige")
    with pytest.raises(ModelError, match="one vector a token"):
        load_eagle3(eagle3_folder, dataclasses.replace(head_target, network=network, model=CachedModel(network)))


def test_a_link_that_leaves_the_folder_and_a_file_that_cannot_be_read_are_refused(
    eagle3_folder: Path, head_target: Loaded, tmp_path: Path
) -> None:
    (eagle3_folder / "model.safetensors").rename(tmp_path / "elsewhere")
    (eagle3_folder / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="links to a place outside"):
        load_eagle3(eagle3_folder, head_target)
    (eagle3_folder / "model.safetensors").unlink()
    shutil.copy(tmp_path / "elsewhere", eagle3_folder / "model.safetensors")
    (eagle3_folder / "model.safetensors").chmod(0)
    if os.geteuid() != 0:  # root reads everything
        with pytest.raises(ModelError, match="cannot be read"):
            load_eagle3(eagle3_folder, head_target)
    (eagle3_folder / "model.safetensors").chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert same(load_eagle3(eagle3_folder, head_target), random_eagle3())
