"""Medusa folders: what is saved loads again, FasterDecoding's files do too, and each fault is named."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.medusa import parents_of
from engine.target.model_layout import output_rows
from models.drafters import kind_of
from models.drafters.head_folder import Fields
from models.drafters.medusa import FILES as MEDUSA_FILES
from models.drafters.medusa import save_medusa, tree_in
from models.loader import Loaded
from tests.models.drafters.head_folders import (
    are_same,
    config_of,
    edit,
    names_in,
    quantized_where,
    tensors_of,
    write_config,
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
    save_medusa(tmp_path, heads, {}, TREE)
    again, tree = MEDUSA_FILES.load_head(tmp_path, head_target), tree_in(Fields(tmp_path, config_of(tmp_path)), 3)
    assert are_same(again, heads) and tree == TREE and again.config == heads.config
    if not own_output:
        heads.tie_lm_head(output_rows(head_target.network, heads.ids))
    assert np.allclose(np.array(again(STATES)), np.array(heads(STATES)), atol=1e-5)


def test_the_layout_is_that_of_fasterdecoding(medusa_folder: Path) -> None:
    """Names from FasterDecoding/Medusa, `medusa/train/train_legacy.py` and `medusa/model/medusa_model.py`."""
    with pytest.raises(ValueError, match="precedes its parent"):
        save_medusa(medusa_folder, random_medusa(), {}, [(0, 0)])  # no tree, and nothing is saved
    assert names_in(medusa_folder) == ["config.json", "medusa_lm_head.safetensors"]
    blocks = {f"{head}.{layer}.linear.{part}" for head in range(3) for layer in range(2) for part in ("weight", "bias")}
    assert set(tensors_of(medusa_folder)) == {*blocks, "d2t", "t2d"}
    config = config_of(medusa_folder)
    sizes = {"medusa_num_heads": 3, "medusa_num_layers": 2, "draft_vocab_size": 24, "base_model_name_or_path": "target"}
    assert config.items() >= sizes.items()
    assert config["redline"]["tree"] == [list(path) for path in TREE] and config["redline"]["licence"] == "Apache-2.0"


def test_fasterdecodings_own_files_load(head_target: Loaded, tmp_path: Path) -> None:
    """No sizes, no tree and no ids in it; heads that share the output matrix, or a whole model's `medusa_head.`."""
    heads = random_medusa(1, draft_vocab_size=64, own_output=True)
    save_medusa(tmp_path / "new", heads, {}, TREE)
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
        write_config(path, **config)
        assert kind_of(path).name == "medusa"
        again, tree = MEDUSA_FILES.load_head(path, head_target), tree_in(Fields(path, config), 3)
        parents_of(tree, 3)
        assert len(tree) == 64 and again.ids.tolist() == list(range(64))
        expected = np.array(heads(STATES))
        if not own:
            expected = np.array(heads.states(STATES) @ head_target.network.lm_head.weight.T)
        assert np.allclose(np.array(again(STATES)), expected, atol=1e-5)


def test_quantized_heads_load(medusa_folder: Path, head_target: Loaded) -> None:
    """Also where config.json does not say how wide they are."""
    plain = MEDUSA_FILES.load_head(medusa_folder, head_target)
    quantized_where(lambda name, _: name.endswith("linear.weight"))(medusa_folder)
    edit(medusa_folder, hidden_size=None)
    found = MEDUSA_FILES.load_head(medusa_folder, head_target)
    assert not are_same(found, plain, 1e-5) and np.allclose(np.array(found(STATES)), np.array(plain(STATES)), atol=0.1)
