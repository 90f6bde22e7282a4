"""Folders of block drafters and of Gemma 4's assistants: what their configs mean, and what is refused."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.errors import ModelError, PairError
from engine.target.model_layout import embed, output_rows
from models.drafters.dflash import FILES as DFLASH_FILES
from models.drafters.gemma4_assistant import FILES, _check_ordering, kv_layers
from models.drafters.head_folder import Fields, HeadFolder
from models.drafters.target_match import TargetShape
from models.loader import Loaded
from tests.models.drafters.head_folders import SHAPE, config_of, edit, open_block, quantized_where, tensor
from tests.models.drafters.oracle_heads import GEMMA, ORACLES

# --- what a config means -----------------------------------------------------------------------


def test_taps_are_the_outputs_of_z_labs_layers_and_the_inputs_of_speculators(block_folder: Path) -> None:
    assert open_block(block_folder).config.taps == (1, 3)
    edit(block_folder, dflash_config={"mask_token_id": 63, "block_size": 4}, aux_hidden_state_layer_ids=[1, 3])
    assert open_block(block_folder).config.taps == (1, 3)
    edit(block_folder, aux_hidden_state_layer_ids=None)
    deep = TargetShape("target", 64, 20, 32, lambda points: 64, {})
    edit(block_folder, num_target_layers=20)
    assert open_block(block_folder, deep).config.taps == (2, 18)  # evenly from the second layer to the third last
    config = config_of(block_folder)
    layer = {key: value for key, value in config.items() if key not in ("dflash_config", "num_target_layers")}
    speculators = {"speculators_model_type": "dflash", "transformer_layer_config": layer, "mask_token_id": 63}
    edit(block_folder, **speculators, dflash_config=None)
    assert open_block(block_folder, deep).config.taps == (2, 10, 17)


@pytest.mark.parametrize(
    ("changes", "causal"),
    [
        ({}, (True, False)),
        ({"is_causal": False}, (False, False)),
        ({"dflash_config": {"mask_token_id": 63, "target_layer_ids": [0, 2], "causal": True}}, (True, True)),
    ],
)
def test_causality_is_what_the_config_says_else_that_of_windows(
    block_folder: Path, changes: dict[str, Any], causal: tuple[bool, ...]
) -> None:
    edit(block_folder, **changes)
    assert open_block(block_folder).config.causal == causal and open_block(block_folder).config.windows == (6, None)


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
    config = open_block(path).config
    assert (config.block, config.block - (not config.from_anchor)) == (inputs, proposals)


def test_a_quantized_block_drafter_loads(block_folder: Path) -> None:
    plain = open_block(block_folder).layers[0].self_attn.q_proj.weight
    mx.eval(plain)  # the file is written again
    quantized_where(lambda name, value: name.endswith("_proj.weight") and value.shape[1] == 32)(block_folder)
    found = open_block(block_folder).layers[0].self_attn.q_proj
    whole = mx.dequantize(found.weight, found.scales, found.biases, group_size=32, bits=8)
    assert mx.allclose(whole, plain, atol=0.02)


def test_an_output_matrix_that_was_trained_further_is_a_block_drafters_own(target: Loaded) -> None:
    rows = output_rows(target.network, mx.arange(target.model.vocabulary))
    trained = rows + 0.2 * mx.std(rows) * mx.random.normal(rows.shape, key=mx.random.key(1))
    embedding = embed(target.network)(mx.arange(target.model.vocabulary))
    for output, own in ((rows, set()), (rows.astype(mx.bfloat16), set()), (trained, {"lm_head.weight"})):
        tensors = {"lm_head.weight": output, "embed_tokens.weight": embedding}
        folder = HeadFolder(Path(), Fields(Path(), {}), tensors)
        assert set(DFLASH_FILES.named(folder, target)) == own


# --- Gemma 4's assistants ----------------------------------------------------------------------


def test_an_assistant_reads_the_last_layers_with_keys_and_values_of_their_own(assistant_folder: Path) -> None:
    folder = assistant_folder
    head = FILES.build(folder, replace(SHAPE, config=GEMMA))
    assert kv_layers(folder, GEMMA, head) == {"sliding_attention": 0, "full_attention": 1}
    with pytest.raises(PairError, match="made for Gemma 4, not for a llama model"):
        kv_layers(folder, {"model_type": "llama"}, head)
    text = {"num_hidden_layers": 2, "num_kv_shared_layers": 0, "layer_types": ["sliding_attention"] * 2}
    with pytest.raises(PairError, match="no layer of the kind full_attention"):
        kv_layers(folder, {"model_type": "gemma4", "text_config": text}, head)


def test_an_ordering_that_names_a_token_twice_is_refused(assistant_folder: Path) -> None:
    tensor("masked_embedding.token_ordering", mx.zeros(64, mx.int64))(assistant_folder)
    head = FILES.build(assistant_folder, replace(SHAPE, config=GEMMA))
    with pytest.raises(ModelError, match="does not name every token once"):
        _check_ordering(assistant_folder, head)
