"""Folders of drafters that are damaged, hostile, of another kind or for another target: each is refused in a line that
says why, and nothing in them is run."""

import dataclasses
import os
import pickle
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.errors import ModelError, PairError
from engine.target.cached_model import CachedModel
from models.drafters import kind_of
from models.drafters.draft_model import FILES as DRAFT_MODEL_FILES
from models.drafters.eagle3 import FILES as EAGLE3_FILES
from models.drafters.gemma4_assistant import FILES as ASSISTANT_FILES
from models.drafters.medusa import FILES as MEDUSA_FILES
from models.drafters.mlp_speculator import FILES as MLP_FILES
from models.loader import Loaded, load
from models.model_folder import check_folder
from tests.models.drafters.head_folders import (
    SHAPE,
    Change,
    are_same,
    changed_tensors,
    config,
    config_of,
    cut_to,
    edit,
    no_tensor,
    open_block,
    open_mtp,
    tensor,
)
from tests.models.drafters.oracle_heads import GEMMA
from tests.toys.architectures import build
from tests.toys.heads import random_eagle3


def halved(tensors: dict[str, mx.array]) -> None:
    tensors["lm_head.weight"] = tensors["lm_head.weight"][:12]


def layer(**changes: Any) -> Change:
    return lambda path: edit(path, layer=changes)


def redline(**fields: Any) -> Change:
    return lambda path: edit(path, redline={**config_of(path)["redline"], **fields})


def dflash(**changes: Any) -> Change:
    return lambda path: edit(path, dflash_config=config_of(path)["dflash_config"] | changes)


def text_config(**changes: Any) -> Change:
    return lambda path: edit(path, text_config=config_of(path)["text_config"] | changes)


def names(old: str, new: str) -> Change:
    def change(tensors: dict[str, mx.array]) -> None:
        for name in [*tensors]:
            tensors[name.replace(old, new)] = tensors.pop(name)

    return changed_tensors(change)


def scales_of_fc(scales: mx.array) -> Change:
    """Claims that `fc` (32, 64) has 4 bits, with these scales and biases; MLX's kernels crash on sizes they lack."""
    claimed = {"mtp.fc.weight": mx.zeros((32, 8), mx.uint32), "mtp.fc.scales": scales, "mtp.fc.biases": scales}
    return changed_tensors(lambda tensors: tensors.update(claimed))


class Trap:
    """Writes a file as soon as it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Path.touch, (self.path,)


def trap(name: str) -> Change:
    """Puts a pickle that runs code in place of the weights."""

    def change(path: Path) -> None:
        for file in path.glob("*.safetensors"):
            file.unlink()
        (path / name).write_bytes(pickle.dumps(Trap(path / "ran")))

    return change


def header_of(size: int) -> Change:
    """A header that claims to be this long."""
    return lambda path: (path / "model.safetensors").write_bytes(size.to_bytes(8, "little") + b"{}")


PICKLE = (trap("pytorch_model.bin"), "are a pickle, which can run code and is never loaded")
DISGUISED = (trap("model.safetensors"), "cut short or not a safetensors")
EAGLE3: dict[str, tuple[Change, str]] = {
    "no folder": (shutil.rmtree, "no such model folder"),
    "damaged config": (lambda path: (path / "config.json").write_text("{"), "not valid JSON"),
    "pickle": PICKLE,
    "no weights": (lambda path: (path / "model.safetensors").unlink(), "has no model*.safetensors"),
    "cut file": (cut_to(3000), "cut short or not a safetensors"),
    "missing tensor": (no_tensor("layers.0.hidden_norm.weight"), "lacks the tensor 'layers.0.hidden_norm.weight'"),
    "missing fc": (no_tensor("fc.weight"), "lacks the tensor 'fc.weight'"),
    "wrong shape": (changed_tensors(halved), "'lm_head.weight' is (12, 32), not (24, 32)"),
    "stored as integers": (tensor("norm.weight", mx.ones(32, mx.int32)), "stored as int32, not float32"),
    "unknown tensor": (tensor("layers.1.mlp.up_proj.weight", mx.ones(3)), "unknown tensor 'layers.1.mlp.up_proj"),
    "ids of another size": (tensor("d2t", mx.zeros(23, mx.int64)), "'d2t' is int64 (23,), not integers (24,)"),
    "ids out of range": (tensor("d2t", mx.array([0] * 23 + [41])), "does not name 24 of 64 tokens in order"),
    "ids not increasing": (tensor("d2t", mx.array([5, 4] + [6] * 22)), "does not name 24 of 64 tokens in order"),
    "ids that are no offsets": (tensor("d2t", mx.arange(40, 64)), "does not name 24 of 64 tokens in order"),
    "ids that t2d denies": (tensor("t2d", mx.zeros(64, mx.bool_)), "'d2t' and 't2d' contradict each other"),
    "size of nonsense": (layer(hidden_size="32"), "has hidden_size '32', not a whole number above 0"),
    "no size": (layer(intermediate_size=None), "lacks intermediate_size"),
    "layers of nonsense": (config(eagle_aux_hidden_state_layer_ids=[1, -1]), "not a list of whole numbers"),
    "flag of nonsense": (config(norm_before_residual="yes"), "not true or false"),
    "heads that don't share": (layer(num_key_value_heads=3), "not a divisor of 4"),
    "odd heads": (layer(head_dim=7), "not an even number"),
    "more layers than tensors": (layer(num_hidden_layers=10**9), "not at most the"),
    "another layer": (layer(model_type="gpt2"), "with a gpt2 layer"),
    "another activation": (layer(hidden_act="gelu"), "an activation other than SiLU"),
    "biases": (layer(mlp_bias=True), "biases in its feed-forward part"),
    "window without a size": (layer(layer_types=["sliding_attention"]), "lacks sliding_window"),
    "kinds of layers of nonsense": (layer(layer_types=["x", "y"]), "not a list of 1 kinds of attention"),
    "part of a head": (layer(partial_rotary_factor=0.5), "partly rotated heads"),
    "no middle layers": (config(eagle_config={"use_aux_hidden_state": False}), "no sight of the target's middle"),
    "rope of nonsense": (layer(rope_scaling={"rope_type": "x"}), "does not describe a valid drafter"),
    "norm of queries alone": (
        tensor("layers.0.self_attn.q_norm.weight", mx.ones(6)),
        "lacks the tensor 'layers.0.self_attn.k_norm.weight'",
    ),
    "norm that is promised": (config(norm_before_fc=True), "lacks the tensor 'input_norm.weight'"),
    "no output matrix for some tokens": (no_tensor("lm_head.weight"), "lacks the tensor 'lm_head.weight'"),
    "narrow embedding": (tensor("embed_tokens.weight", mx.ones((64, 16))), "is (64, 16), not (64, 32)"),
}
MEDUSA: dict[str, tuple[Change, str]] = {
    "pickle": PICKLE,
    "missing tensor": (no_tensor("2.1.linear.bias"), "lacks the tensor 'heads.2.1.linear.bias'"),
    "missing head": (config(medusa_num_heads=4), "lacks the tensor 'heads.3.0.linear.weight'"),
    "too many heads": (config(medusa_num_heads=400), "not at most 32"),
    "no heads": (config(medusa_num_heads=0), "not a whole number above 0"),
    "one more head": (config(medusa_num_heads=2), "unknown tensor 'heads.2.0.linear.bias'"),
    "one output matrix of three": (tensor("0.2.weight", mx.ones((24, 32))), "lacks the tensor 'heads.1.2.weight'"),
    "no first block": (no_tensor("0.0.linear.weight"), "lacks the tensor 'heads.0.0.linear.weight'"),
    "tree of nonsense": (redline(tree=7), "has an invalid tree"),
    "empty tree": (redline(tree=[]), "has an invalid tree"),
    "tree upside down": (redline(tree=[[0, 0], [0]]), "precedes its parent"),
    "tree deeper than the heads": (redline(tree=[[0], [0, 0], [0, 0, 0], [0, 0, 0, 0]]), "is not 1 to 3 long"),
}
MLP: dict[str, tuple[Change, str]] = {
    "pickle": PICKLE,
    "missing tensor": (no_tensor("speculator.ln.1.bias"), "lacks the tensor 'ln.1.bias'"),
    "no stages": (config(n_predict=None), "lacks n_predict"),
    "stages of nonsense": (config(n_predict=10**9), "not at most 32"),
    "size of nonsense": (config(inner_dim="24"), "has inner_dim '24', not a whole number above 0"),
}
BLOCK: dict[str, tuple[Change, str]] = {
    "pickle": PICKLE,
    "missing fc": (no_tensor("fc.weight"), "lacks the tensor 'fc.weight'"),
    "no mask": (dflash(mask_token_id=None), "lacks mask_token_id"),
    "mask beyond the vocabulary": (dflash(mask_token_id=64), "has mask_token_id '64', not a token below 64"),
    "endless layers": (config(num_hidden_layers=10**9), "not at most the"),
    "block of nonsense": (dflash(block_size=-1), "has block_size '-1'"),
    "window of nonsense": (config(sliding_window=0), "has sliding_window '0'"),
    "sinks": (dflash(attention_sink_bias=True), "does not support block drafters with attention sinks"),
    "another activation": (config(hidden_act="gelu"), "an activation other than SiLU"),
    "rotated in part": (config(partial_rotary_factor=0.5), "partly rotated heads"),
    "recurrent": (dflash(markov_head_type="rnn"), "a recurrent Markov part"),
    "reranked": (dflash(lilicorr_layers=2), "a reranker"),
    "rope of nonsense": (
        config(rope_scaling={"rope_type": "x"}, rope_parameters=None),
        "does not describe a valid drafter",
    ),
}
ASSISTANT: dict[str, tuple[Change, str]] = {
    "pickle": PICKLE,
    "disguised pickle": DISGUISED,
    "endless header": (header_of(2**62), "cut short or not a safetensors"),
    "narrow projection": (tensor("pre_projection.weight", mx.ones((16, 32))), "'pre_projection.weight' is (16, 32)"),
    "centroids of another number": (tensor("masked_embedding.centroids.weight", mx.ones((3, 16))), "is (3, 16), not"),
    "short ordering": (tensor("masked_embedding.token_ordering", mx.arange(60)), "is (60,), not (64,)"),
    "no ordering": (no_tensor("masked_embedding.token_ordering"), "lacks the tensor 'masked_embedding.token_ordering'"),
    "more of the best than clusters": (config(centroid_intermediate_top_k=10**6), "no fewer than the best of them"),
    "unknown layers": (
        text_config(layer_types=["linear_attention"] * 4),
        "a valid drafter (unknown layer_types)",
    ),
    "heads of nonsense": (text_config(num_attention_heads=10**9), "config.json"),
    "another vocabulary": (text_config(vocab_size=65), "different vocabulary size (65; target has 64)"),
    "another width": (config(backbone_hidden_size=48), "different hidden size (48 numbers a token; target has 32"),
    "ordering as floats": (tensor("model.norm.weight", mx.ones(16, mx.int32)), "stored as int32, not float32"),
    "clusters that do not divide": (config(num_centroids=7), "not a divisor of 64"),
    "no sizes": (config(text_config={}), "lacks hidden_size"),
    "endless layers": (text_config(num_hidden_layers=10**9), "not at most the"),
}
MTP: dict[str, tuple[Change, str]] = {
    "missing tensor": (no_tensor("mtp.fc.weight"), "lacks the tensor 'fc.weight'"),
    "integers": (tensor("mtp.norm.weight", mx.ones(32, mx.int32)), "stored as int32, not float32"),
    "unknown tensor": (tensor("mtp.extra.weight", mx.ones(3)), "unknown tensor 'layer.extra.weight'"),
    "scales alone": (tensor("mtp.fc.scales", mx.ones((32, 1))), "'fc.scales' has no quantized weight beside it"),
    "scales without a shape": (scales_of_fc(mx.array(1.0)), "'fc.scales' has no quantized weight beside it"),
    "scales of an odd group": (scales_of_fc(mx.ones((32, 5))), "'fc' is quantized in an unknown way (4 bits by 12.8)"),
    "no head": (names("mtp.", "model."), "holds no multi-token prediction head"),
    "pickle": (lambda path: (path / "model.safetensors").rename(path / "mtp.pt"), "no multi-token prediction head"),
    "another layer": (text_config(model_type="gpt2"), "does not support 'gpt2' layers"),
    "size of nonsense": (text_config(hidden_size="32"), "has hidden_size '32'"),
    "heads that do not fit": (text_config(head_dim=7), "'layer.self_attn.q_proj.weight' is (128, 32), not (56, 32)"),
    "endless heads": (text_config(num_attention_heads=10**12), "config.json does not describe a valid drafter"),
    "rope of nonsense": (text_config(rope_parameters={"rope_theta": "x"}), "has rope_theta 'x'"),
}
PARD: dict[str, tuple[Change, str]] = {
    "pickle": (trap("pytorch_model.bin"), "pickle"),
    "pickle, .pt": (trap("model.pt"), "pickle"),
    "disguised pickle": DISGUISED,
    "mask beyond the vocabulary": (config(pard_token=10**9), "has pard_token '1000000000', not a token below 310"),
    "mask below 0": (config(pard_token=-1), "has pard_token '-1', not a token below 310"),
    "mask of nonsense": (config(pard_token="<mask>"), "has pard_token '<mask>', not a token below 310"),
}
FAULTS = {
    "eagle3": EAGLE3,
    "medusa": MEDUSA,
    "mlp": MLP,
    "block": BLOCK,
    "assistant": ASSISTANT,
    "mtp": MTP,
    "pard": PARD,
}
OTHER = {"name": "Other", "vocabulary_sha256": "ab"}
MISFITS: dict[str, dict[str, tuple[Change, str]]] = {
    "eagle3": {
        "deeper target": (
            config(eagle_aux_hidden_state_layer_ids=[0, 1, 4]),
            "different number of layers (reads layer 4; target has 3)",
        ),
        "fewer states": (
            config(eagle_aux_hidden_state_layer_ids=[0, 1]),
            "different hidden size (96 numbers a token; target has 64",
        ),
        "another width": (layer(hidden_size=48), "different hidden size (48 numbers a token; target has 32)"),
        "more tokens": (layer(vocab_size=65), "different vocabulary size (65; target has 64)"),
        "other tokens": (
            config(redline={"target": OTHER}),
            "different tokenizer (made for Other, not for target)",
        ),
    },
    "medusa": {
        "another width": (config(hidden_size=48), "different hidden size (48 numbers a token; target has 32)"),
        "more tokens": (config(vocab_size=65), "different vocabulary size (65; target has 64)"),
        "other tokens": (
            redline(target=OTHER),
            "different tokenizer (made for Other",
        ),
    },
    "mlp": {
        "another width": (config(emb_dim=48), "different hidden size (48 numbers a token"),
        "another vocabulary": (config(vocab_size=65), "different vocabulary size (65;"),
    },
    "block": {
        "another depth": (config(num_target_layers=5), "different number of layers (made for 5; target has 4)"),
        "deeper taps": (dflash(target_layer_ids=[0, 9]), "different number of layers (reads layer 10; target has 4)"),
        "fewer states": (dflash(target_layer_ids=[1]), "different hidden size (64 numbers a token; target has 32"),
        "more tokens": (config(vocab_size=65), "different vocabulary size (65; target has 64)"),
        "other tokens": (config(redline={"target": OTHER}), "different tokenizer (made for Other"),
    },
    "mtp": {"other tokens": (config(redline={"target": OTHER}), "different tokenizer (made for Other")},
}


def openers(kind: str, request: pytest.FixtureRequest) -> list[Callable[[Path], object]]:
    """How a folder of this kind is checked and loaded."""
    target = request.getfixturevalue("target" if kind == "pard" else "head_target")
    ways: dict[str, list[Callable[[Path], object]]] = {
        "eagle3": [lambda path: EAGLE3_FILES.load_head(path, target)],
        "medusa": [lambda path: MEDUSA_FILES.load_head(path, target)],
        "mlp": [lambda path: MLP_FILES.load(path, target, False)],
        "block": [open_block],
        "assistant": [
            lambda path: ASSISTANT_FILES.build(path, dataclasses.replace(SHAPE, config=GEMMA)),
        ],
        "mtp": [open_mtp],
        "pard": [
            lambda path: kind_of(path).files.check(target.folder, path, check_folder),
            lambda path: DRAFT_MODEL_FILES.load(path, target, False),
        ],
    }
    return ways[kind]


def each(cases: dict[str, dict[str, tuple[Change, str]]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind in cases for case in cases[kind]])


@each(FAULTS)
def test_each_fault_is_named(kind: str, case: str, request: pytest.FixtureRequest) -> None:
    folder, (spoil, reason) = request.getfixturevalue(f"{kind}_folder"), FAULTS[kind][case]
    spoil(folder)
    for open_it in openers(kind, request):
        with pytest.raises((ModelError, PairError)) as caught:
            open_it(folder)
        message = str(caught.value)
        assert reason in message and str(folder) in message and "\n" not in message and "; " in message
    assert not (folder / "ran").exists()


@each(MISFITS)
def test_a_head_of_another_target_is_refused_with_the_reason(
    kind: str, case: str, request: pytest.FixtureRequest
) -> None:
    folder, (spoil, reason) = request.getfixturevalue(f"{kind}_folder"), MISFITS[kind][case]
    spoil(folder)
    with pytest.raises(PairError) as caught:
        openers(kind, request)[0](folder)
    assert reason in str(caught.value) and "choose a drafter that was made for this target" in str(caught.value)


def test_a_target_too_shallow_for_the_usual_layers_is_a_misfit(eagle3_folder: Path, toy_folder: Path) -> None:
    edit(eagle3_folder, eagle_aux_hidden_state_layer_ids=None)
    with pytest.raises(PairError, match="different number of layers"):
        EAGLE3_FILES.load_head(eagle3_folder, load(toy_folder))


def test_a_target_whose_states_cannot_be_read_is_refused(eagle3_folder: Path, head_target: Loaded) -> None:
    edit(eagle3_folder, eagle_aux_hidden_state_layer_ids=[0, 1, 2])
    network = build("nanbeige")
    with pytest.raises(ModelError, match="one vector a token"):
        EAGLE3_FILES.load_head(
            eagle3_folder, dataclasses.replace(head_target, network=network, model=CachedModel(network))
        )


def test_a_link_that_leaves_the_folder_and_a_file_that_cannot_be_read_are_refused(
    eagle3_folder: Path, head_target: Loaded, tmp_path: Path
) -> None:
    (eagle3_folder / "model.safetensors").rename(tmp_path / "elsewhere")
    (eagle3_folder / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="links to a place outside"):
        EAGLE3_FILES.load_head(eagle3_folder, head_target)
    (eagle3_folder / "model.safetensors").unlink()
    shutil.copy(tmp_path / "elsewhere", eagle3_folder / "model.safetensors")
    (eagle3_folder / "model.safetensors").chmod(0)
    if os.geteuid() != 0:  # root reads everything
        with pytest.raises(ModelError, match="cannot be read"):
            EAGLE3_FILES.load_head(eagle3_folder, head_target)
    (eagle3_folder / "model.safetensors").chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert are_same(EAGLE3_FILES.load_head(eagle3_folder, head_target), random_eagle3())
