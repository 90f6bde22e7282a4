"""Medusa folders: what is saved loads again, FasterDecoding's files do too, and each fault is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.medusa import parents_of
from engine.target.model_layout import output_rows
from models.drafters import kind_of
from models.drafters.medusa_folder import load_medusa, save_medusa
from models.loader import Loaded
from models.safetensors_file import read_entries
from tests.models.drafters.head_folders import (
    Change,
    config_of,
    cut,
    drop,
    edit,
    names_in,
    pickled,
    put,
    refuse_fault,
    refuse_misfit,
    retensor,
    said,
    same,
    tensors_of,
)
from tests.toys.heads import random_medusa

TREE = [(0,), (0, 0), (1,), (0, 0, 0), (0, 1)]
STATES = mx.random.normal((4, 32), key=mx.random.key(3))


@pytest.mark.parametrize("own_output", [True, False])
@pytest.mark.parametrize("draft_vocab_size", [24, 64])
def test_what_is_saved_loads_again(
    own_output: bool, draft_vocab_size: int, head_target: Loaded, tmp_path: Path
) -> None:
    heads = random_medusa(5, own_output=own_output, draft_vocab_size=draft_vocab_size)
    save_medusa(tmp_path, heads, {}, TREE, mx.float32)
    again, tree = load_medusa(tmp_path, head_target)
    assert same(again, heads) and tree == TREE and again.config == heads.config
    if not own_output:
        heads.tie_lm_head(output_rows(head_target.network, heads.ids))
    assert np.allclose(np.array(again(STATES)), np.array(heads(STATES)), atol=1e-5)


def test_weights_are_stored_as_asked_and_computed_with_as_the_target_computes(
    head_target: Loaded, tmp_path: Path
) -> None:
    save_medusa(tmp_path, random_medusa(), {}, TREE)
    entries = read_entries(tmp_path / "medusa_lm_head.safetensors")
    assert {entry.dtype for entry in entries.values()} == {"F16", "I64", "BOOL"}
    again, _ = load_medusa(tmp_path, head_target)
    assert again(STATES).dtype == mx.float32
    assert same(again, random_medusa(), 1e-3) and not same(again, random_medusa())


def test_the_layout_is_that_of_fasterdecoding(medusa_folder: Path) -> None:
    """Names from FasterDecoding/Medusa, `medusa/train/train_legacy.py` and `medusa/model/medusa_model.py`."""
    assert names_in(medusa_folder) == ["config.json", "medusa_lm_head.safetensors"]
    blocks = {f"{head}.{layer}.linear.{part}" for head in range(3) for layer in range(2) for part in ("weight", "bias")}
    assert set(tensors_of(medusa_folder)) == {*blocks, "d2t", "t2d"}
    config = config_of(medusa_folder)
    sizes = {"medusa_num_heads": 3, "medusa_num_layers": 2, "draft_vocab_size": 24, "base_model_name_or_path": "target"}
    assert config.items() >= sizes.items()
    assert config["redline"]["tree"] == [list(path) for path in TREE] and config["redline"]["licence"] == "Apache-2.0"


def test_a_tree_that_is_none_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="precedes its parent"):
        save_medusa(tmp_path, random_medusa(), {}, [(0, 0)])
    assert names_in(tmp_path) == []


def test_fasterdecodings_own_files_load(head_target: Loaded, tmp_path: Path) -> None:
    """No sizes, no tree and no ids in it; heads that share the output matrix, or a whole model's `medusa_head.`."""
    heads = random_medusa(1, draft_vocab_size=64, own_output=True)
    save_medusa(tmp_path / "new", heads, {}, TREE, mx.float32)
    whole = tensors_of(tmp_path / "new")
    config = {"medusa_num_heads": 3, "medusa_num_layers": 2, "base_model_name_or_path": "lmsys/vicuna-7b-v1.3"}
    for name, prefix, own in (
        ("medusa_lm_head", "", False),
        ("medusa_lm_head", "", True),
        ("model", "medusa_head.", True),
    ):
        path = tmp_path / f"{name}{own}"
        path.mkdir()
        kept = {f"{prefix}{key}": value for key, value in whole.items() if own or "linear" in key}
        mx.save_safetensors(str(path / f"{name}.safetensors"), kept)
        (path / "config.json").write_text(json.dumps(config))
        assert kind_of(path).name == "medusa"
        again, tree = load_medusa(path, head_target)
        parents_of(tree, 3)
        assert len(tree) == 64 and again.ids.tolist() == list(range(64))
        expected = np.array(heads(STATES))
        if not own:
            expected = np.array(heads.states(STATES) @ head_target.network.lm_head.weight.T)
        assert np.allclose(np.array(again(STATES)), expected, atol=1e-5)


def test_quantized_heads_load(medusa_folder: Path, head_target: Loaded) -> None:
    """Also where config.json does not say how wide they are."""

    def quantize(tensors: dict[str, mx.array]) -> None:
        for name in [name for name in tensors if name.endswith("linear.weight")]:
            parts = mx.quantize(tensors.pop(name), group_size=32, bits=8)
            ends = ("weight", "scales", "biases")
            tensors.update({name.replace("weight", end): part for end, part in zip(ends, parts, strict=True)})

    plain, _ = load_medusa(medusa_folder, head_target)
    retensor(quantize)(medusa_folder)
    edit(medusa_folder, hidden_size=None)
    found, _ = load_medusa(medusa_folder, head_target)
    assert not same(found, plain, 1e-5) and np.allclose(np.array(found(STATES)), np.array(plain(STATES)), atol=0.1)


def in_redline(**fields: Any) -> Change:
    return lambda path: edit(path, redline={**config_of(path)["redline"], **fields})


def narrowed(tensors: dict[str, mx.array]) -> None:
    tensors["1.0.linear.weight"] = tensors["1.0.linear.weight"][:, :16]


FAULTS: dict[str, tuple[Change, str]] = {
    "no folder": (shutil.rmtree, "no such model folder"),
    "pickle": (pickled, "are a pickle, which can run code and is never loaded; choose a safetensors version"),
    "no weights": (lambda path: (path / "medusa_lm_head.safetensors").unlink(), "has no medusa_lm_head*.safetensors"),
    "cut file": (cut(3000), "cut short or not a safetensors"),
    "missing tensor": (drop("2.1.linear.bias"), "lacks the tensor 'heads.2.1.linear.bias'"),
    "missing head": (said(medusa_num_heads=4), "lacks the tensor 'heads.3.0.linear.weight'"),
    "too many heads": (said(medusa_num_heads=400), "not at most 32"),
    "no heads": (said(medusa_num_heads=0), "not a whole number above 0"),
    "one more head": (said(medusa_num_heads=2), "unknown tensor 'heads.2.0.linear.bias'"),
    "one output matrix of three": (put("0.2.weight", mx.ones((24, 32))), "lacks the tensor 'heads.1.2.weight'"),
    "wrong shape": (retensor(narrowed), "'heads.1.0.linear.weight' is (32, 16), not (32, 32)"),
    "whole numbers for weights": (put("0.0.linear.bias", mx.ones(32, mx.int32)), "is stored as int32, not float32"),
    "no first block": (drop("0.0.linear.weight"), "lacks the tensor '0.0.linear.weight' of Medusa heads"),
    "no ids": (drop("d2t"), "lacks the tensor 'd2t' for 24 of 64 tokens"),
    "ids not increasing": (put("d2t", mx.array([5, 4] + [6] * 22)), "does not name 24 of 64 tokens in order"),
    "tree of nonsense": (in_redline(tree=7), "has an invalid tree"),
    "tree of words": (in_redline(tree=[["a"]]), "its ranks are not whole numbers"),
    "empty tree": (in_redline(tree=[]), "has an invalid tree"),
    "tree upside down": (in_redline(tree=[[0, 0], [0]]), "precedes its parent"),
    "tree deeper than the heads": (in_redline(tree=[[0], [0, 0], [0, 0, 0], [0, 0, 0, 0]]), "is not 1 to 3 long"),
}
MISFITS: dict[str, tuple[Change, str]] = {
    "another width": (said(hidden_size=48), "different hidden size (48 numbers a token; target has 32)"),
    "more tokens": (said(vocab_size=65), "different vocabulary size (65; target has 64)"),
    "other tokens": (
        in_redline(target={"name": "Other", "vocabulary_sha256": "ab"}),
        "different tokenizer (made for Other",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named(medusa_folder: Path, head_target: Loaded, fault: str) -> None:
    refuse_fault(load_medusa, medusa_folder, head_target, FAULTS[fault])


@pytest.mark.parametrize("misfit", MISFITS)
def test_heads_of_another_target_are_refused_with_the_reason(
    medusa_folder: Path, head_target: Loaded, misfit: str
) -> None:
    refuse_misfit(load_medusa, medusa_folder, head_target, MISFITS[misfit])
