"""Folders of MLP speculators: the published names load, tied or not, and each fault is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.mlp_speculator import MlpSpeculator
from models.drafters import kind_of
from models.drafters.drafter_kind import LoadedDrafter
from models.drafters.mlp_speculator_kind import footprint, load
from models.loader import Loaded
from models.parameters import flat_parameters
from tests.engine.replies import plain_reply, reply
from tests.models.drafters.head_folders import (
    Change,
    cut,
    drop,
    pickled,
    put,
    refuse_fault,
    refuse_misfit,
    said,
)
from tests.toys.heads import random_mlp_speculator


def write(path: Path, copies: bool = False, **form: Any) -> Path:
    """Writes a folder as the checkpoints of ibm-ai-platform are. copies: tied weights are stored for each stage."""
    network = random_mlp_speculator(**form)
    config = network.config
    tensors = {f"speculator.{name}": value for name, value in flat_parameters(network).items()}
    if copies:
        for name, value in list(tensors.items()):
            tensors |= {name.replace(".0.", f".{stage}."): value for stage in (1, 2) if "proj" not in name}
        tensors["speculator.proj.2.weight"] = tensors["speculator.proj.1.weight"]
    path.mkdir()
    mx.save_safetensors(str(path / "model.safetensors"), tensors)
    fields = {
        "architectures": ["MLPSpeculatorPreTrainedModel"],
        "model_type": "mlp_speculator",
        "emb_dim": config.hidden_size,
        "inner_dim": config.inner_size,
        "n_candidates": 3,
        "n_predict": config.stages,
        "vocab_size": config.vocab_size,
        "tie_weights": config.tied,
        "scale_input": config.scale_input,
        "top_k_tokens_per_head": [4, 3, 2],
    }
    (path / "config.json").write_text(json.dumps(fields))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "speculator")


TIED = {"tied": True, "scale_input": True}


@pytest.mark.parametrize(("form", "copies"), [({}, False), ({"inner_size": 32}, False), (TIED, False), (TIED, True)])
def test_what_is_published_loads(form: dict[str, Any], copies: bool, head_target: Loaded, tmp_path: Path) -> None:
    path = write(tmp_path / "speculator", copies, **form)
    if form.get("inner_size") == 32:  # as wide as the target's state, which the configs say by 0
        said(inner_dim=0)(path)
    assert kind_of(path).name == "mlp-speculator"
    drafter = load(path, head_target, False).drafter
    wanted, state = random_mlp_speculator(**form), mx.random.normal((2, 32), key=mx.random.key(1))
    assert isinstance(drafter, MlpSpeculator) and drafter.network.config == wanted.config
    mine, theirs = (n(n.scaled(state), mx.array([3, 4]), 0)[1] for n in (drafter.network, wanted))
    assert np.allclose(np.array(mine), np.array(theirs), atol=1e-6)
    if not copies:
        assert footprint(path, 4)(100).weights == sum(value.nbytes for value in flat_parameters(wanted).values())


def test_it_drafts_for_a_target_and_the_text_stays_the_targets(folder: Path, head_target: Loaded) -> None:
    drafter = load(folder, head_target, False).drafter
    target = head_target.model
    assert reply(target, drafter, 3, tokens=20)[0] == plain_reply(head_target.network, tokens=20)


FAULTS: dict[str, tuple[Change, str]] = {
    "no folder": (shutil.rmtree, "no such model folder"),
    "damaged config": (lambda path: (path / "config.json").write_text("{"), "not valid JSON"),
    "pickle": (pickled, "are a pickle, which can run code and is never loaded; choose a safetensors version"),
    "cut file": (cut(3000), "cut short or not a safetensors"),
    "missing tensor": (drop("speculator.ln.1.bias"), "lacks the tensor 'ln.1.bias'"),
    "unknown tensor": (put("speculator.emb.3.weight", mx.ones((64, 24))), "unknown tensor 'emb.3.weight'"),
    "wrong shape": (put("speculator.proj.0.weight", mx.ones((24, 24))), "'proj.0.weight' is (24, 24), not (24, 32)"),
    "no stages": (said(n_predict=None), "lacks n_predict"),
    "stages of nonsense": (said(n_predict=10**9), "not at most 32"),
    "size of nonsense": (said(inner_dim="24"), "has inner_dim '24', not a whole number above 0"),
    "flag of nonsense": (said(tie_weights="no"), "not true or false"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault: str, folder: Path, head_target: Loaded) -> None:
    refuse_fault(_load, folder, head_target, FAULTS[fault])


MISFITS: dict[str, tuple[Change, str]] = {
    "another width": (said(emb_dim=48), "different hidden size (48 numbers a token"),
    "another vocabulary": (said(vocab_size=65), "different vocabulary size (65;"),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_one_for_another_target_is_refused(misfit: str, folder: Path, head_target: Loaded) -> None:
    refuse_misfit(_load, folder, head_target, MISFITS[misfit])


def _load(path: Path, target: Loaded) -> LoadedDrafter:
    return load(path, target, False)
