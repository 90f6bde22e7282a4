"""EAGLE-3 folders: what is saved loads again, and others' layouts give the same numbers."""

import dataclasses
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.errors import ModelError, PairError
from engine.target.model_layout import unembed
from models.drafters import kind_of
from models.drafters.eagle3 import FILES as EAGLE3_FILES
from models.drafters.eagle3 import save_eagle3
from models.drafters.target_match import shape_of
from models.loader import Loaded
from models.safetensors_file import read_entries
from tests.models.drafters.head_folders import (
    Change,
    are_same,
    changed_tensors,
    config_of,
    edit,
    names_in,
    no_tensor,
    null,
    quantized_where,
    tensors_of,
    write_config,
)
from tests.toys.heads import VARIANTS, random_eagle3

# --- whole folders --------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_saved_loads_again(variant: str, head_target: Loaded, tmp_path: Path) -> None:
    head = random_eagle3(3, **VARIANTS[variant])
    save_eagle3(tmp_path / "head", head, {})
    again = EAGLE3_FILES.load_head(tmp_path / "head", head_target)
    assert are_same(again, head)
    assert dataclasses.replace(again.config, rope_scaling=None) == dataclasses.replace(head.config, rope_scaling=None)
    assert (again.config.rope_scaling or {}).items() >= (head.config.rope_scaling or {}).items()


def test_a_parallel_head_offers_no_trees(head_target: Loaded, tmp_path: Path) -> None:
    """P-EAGLE drafts its tokens in one pass, so the policy must not plan branches."""
    for is_parallel, changes in (False, {}), (True, {"mask_id": 5, "own_embedding": True}):
        path = tmp_path / str(is_parallel)
        save_eagle3(path, random_eagle3(3, **changes), {})
        if is_parallel:
            edit(path, speculators_model_type="peagle", mask_token_id=5)
        traits = kind_of(path).files.load(path, head_target, True).drafter.traits
        assert traits.one_pass == is_parallel and traits.branches != is_parallel


def test_weights_are_stored_in_16_bits_and_computed_with_as_the_target_computes(
    head_target: Loaded, tmp_path: Path
) -> None:
    head = random_eagle3()
    head.fc.weight = 1.0003 * head.fc.weight  # which 16 bits round
    save_eagle3(tmp_path, head, {})
    stored = {entry.dtype for entry in read_entries(tmp_path / "model.safetensors").values()}
    assert stored == {"F16", "I64", "BOOL"}
    again = EAGLE3_FILES.load_head(tmp_path, head_target)
    assert again.fc.weight.dtype == mx.float32
    assert are_same(again, head, 1e-2) and not are_same(again, head)


def test_the_layout_is_that_of_speculators(eagle3_folder: Path) -> None:
    """Names and meanings from vllm-project/speculators, `src/speculators/models/eagle3/config.py` and `core.py`."""
    entries, config, head = read_entries(eagle3_folder / "model.safetensors"), config_of(eagle3_folder), random_eagle3()
    layer = "layers.0."
    assert set(entries) == {
        *(f"{name}.weight" for name in ("fc", "norm", "lm_head")),
        *(f"{layer}{name}.weight" for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")),
        *(f"{layer}self_attn.{name}_proj.weight" for name in "qkvo"),
        *(f"{layer}mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
        *("d2t", "t2d"),
    }
    assert (entries["d2t"].dtype, entries["d2t"].shape) == ("I64", (24,))
    assert (entries["t2d"].dtype, entries["t2d"].shape) == ("BOOL", (64,))
    tensors = tensors_of(eagle3_folder)
    assert (mx.arange(24) + tensors["d2t"]).tolist() == head.ids.tolist()
    assert [i for i, known in enumerate(tensors["t2d"].tolist()) if known] == head.ids.tolist()
    assert config["speculators_model_type"] == config["speculators_config"]["algorithm"] == "eagle3"
    assert config["architectures"] == ["Eagle3Speculator"] and config["draft_vocab_size"] == 24
    assert config["eagle_aux_hidden_state_layer_ids"] == [0, 1, 3] and config["norm_before_residual"] is False
    assert config["speculators_config"]["verifier"]["name_or_path"] == config["redline"]["target"]["name"] == "target"
    sizes = {"hidden_size": 32, "vocab_size": 64, "num_hidden_layers": 1, "head_dim": 6, "model_type": "llama"}
    assert config["transformer_layer_config"].items() >= sizes.items()
    assert config["redline"]["licence"] == "Apache-2.0"


def test_the_biases_are_those_that_others_write(tmp_path: Path) -> None:
    """transformers' LlamaAttention has one on each of its four projections, or on none."""
    save_eagle3(tmp_path, random_eagle3(attention_bias=True), {})
    biases = {name for name in read_entries(tmp_path / "model.safetensors") if name.endswith("bias")}
    assert biases == {f"layers.0.self_attn.{name}_proj.bias" for name in "qkvo"}


def test_a_write_that_fails_says_so_and_leaves_nothing_that_loads(
    head_target: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_eagle3(tmp_path, random_eagle3(1), {})
    save_eagle3(tmp_path, random_eagle3(2), {})
    assert are_same(EAGLE3_FILES.load_head(tmp_path, head_target), random_eagle3(2))  # anew over an old one

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("models.safetensors_file.os.fsync", full)
    with pytest.raises(ModelError, match=r"could not be written \(No space left on device\); free"):
        save_eagle3(tmp_path, random_eagle3(2), {})
    assert names_in(tmp_path) == ["model.safetensors"]
    with pytest.raises(ModelError, match=r"has no config\.json"):
        EAGLE3_FILES.load_head(tmp_path, head_target)


# --- others' layouts ------------------------------------------------------------------------------


def as_safeailab(path: Path, **changes: Any) -> None:
    """SafeAILab/EAGLE, `eagle/traineagle3/config.json` and `eagle/model/cnets.py`."""
    config = config_of(path)
    flat = {**config["transformer_layer_config"], "draft_vocab_size": 24, "architectures": ["LlamaForCausalLMEagle3"]}
    write_config(path, **flat, eagle_aux_hidden_state_layer_ids=[0, 1, 3])
    edit(path, torch_dtype="float16", **changes)
    tensors = {name.replace("layers.0.", "midlayer."): value for name, value in tensors_of(path).items()}
    mx.save_safetensors(str(path / "model.safetensors"), tensors)


def test_safeailabs_names_load_to_the_same_numbers(eagle3_folder: Path, head_target: Loaded) -> None:
    as_safeailab(eagle3_folder)
    assert kind_of(eagle3_folder).name == "eagle3"
    again = EAGLE3_FILES.load_head(eagle3_folder, head_target)
    assert are_same(again, random_eagle3()) and again.config == random_eagle3().config


def test_an_index_at_the_top_is_a_layers_input_and_in_eagle_config_its_output(
    eagle3_folder: Path, head_target: Loaded
) -> None:
    """vLLM and Speculators count one way, SGLang and SpecForge the other, SafeAILab names none. The order of the list
    says nothing: NVIDIA's ModelOpt writes that of a set."""
    nested = {"eagle_aux_hidden_state_layer_ids": [2, 0, 1], "use_aux_hidden_state": True}
    as_safeailab(eagle3_folder, eagle_config=nested)
    assert EAGLE3_FILES.load_head(eagle3_folder, head_target).config.taps == (0, 1, 3)
    edit(eagle3_folder, eagle_aux_hidden_state_layer_ids=None)
    assert EAGLE3_FILES.load_head(eagle3_folder, head_target).config.taps == (1, 2, 3)
    edit(eagle3_folder, eagle_config=None)
    assert EAGLE3_FILES.load_head(eagle3_folder, head_target).config.taps == (0, 1, 2)


def test_a_list_with_no_layers_means_the_usual_ones(eagle3_folder: Path, head_target: Loaded) -> None:
    """NVIDIA's ModelOpt has an empty one where nobody chose; to vLLM it is none, wherever it stands."""
    empty: dict[str, Any] = {"eagle_aux_hidden_state_layer_ids": []}
    as_safeailab(eagle3_folder, **empty, eagle_config={**empty, "use_aux_hidden_state": True})
    assert EAGLE3_FILES.load_head(eagle3_folder, head_target).config.taps == (0, 1, 2)
    edit(eagle3_folder, eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1, 2]})
    assert EAGLE3_FILES.load_head(eagle3_folder, head_target).config.taps == (1, 2, 3)


def test_a_field_that_is_null_is_as_good_as_none(head_target: Loaded, tmp_path: Path) -> None:
    """NVIDIA's ModelOpt writes its whole template, with null for what neither of its configs says."""
    head = random_eagle3(draft_vocab_size=64, head_dim=8, num_key_value_heads=4)
    save_eagle3(tmp_path, head, {})
    null(tmp_path, "draft_vocab_size", "head_dim", "num_key_value_heads", "num_hidden_layers")
    null(tmp_path, "model_type", "hidden_act", "rms_norm_eps", "rope_theta", "rope_scaling", "layer_types")
    null(tmp_path, "attention_bias", "mlp_bias", "norm_before_residual", "norm_output", "eagle_config", "redline")
    assert are_same(EAGLE3_FILES.load_head(tmp_path, head_target), head)


def test_the_norms_of_a_head_are_those_that_it_has_tensors_for(
    eagle3_folder: Path, head_target: Loaded, tmp_path: Path
) -> None:
    edit(eagle3_folder, layer={"model_type": "qwen3"})
    assert EAGLE3_FILES.load_head(eagle3_folder, head_target).config == random_eagle3().config
    head = random_eagle3(qk_norm=True, norm_before_fc=True)
    save_eagle3(tmp_path / "normed", head, {})
    nvidias = {"norm_before_fc": None, "eagle_config": {"norm_before_fc": True}}
    edit(tmp_path / "normed", **nvidias, layer={"model_type": "llama"})
    again = EAGLE3_FILES.load_head(tmp_path / "normed", head_target)
    assert are_same(again, head) and again.config == head.config


def test_a_head_without_an_output_matrix_reads_the_targets(head_target: Loaded, tmp_path: Path) -> None:
    head = random_eagle3(draft_vocab_size=64)
    save_eagle3(tmp_path / "head", head, {})
    no_tensor("lm_head.weight")(tmp_path / "head")
    again, states = (
        EAGLE3_FILES.load_head(tmp_path / "head", head_target),
        mx.random.normal((3, 32), key=mx.random.key(3)),
    )
    head.lm_head.weight = head_target.network.lm_head.weight
    assert mx.allclose(again.logits(states, unembed(head_target.network)), head.logits(states), atol=1e-5).item()
    save_eagle3(tmp_path / "anew", again, {})
    assert are_same(EAGLE3_FILES.load_head(tmp_path / "anew", head_target), again)


def test_rope_is_read_as_either_transformers_writes_it(eagle3_folder: Path, head_target: Loaded) -> None:
    scaling = {"rope_type": "linear", "factor": 2.0}
    edit(eagle3_folder, layer={"rope_theta": None, "rope_parameters": {"rope_theta": 77.0, **scaling}})
    config = EAGLE3_FILES.load_head(eagle3_folder, head_target).config
    assert config.rope_theta == 77.0 and (config.rope_scaling or {}).items() >= scaling.items()
    edit(eagle3_folder, layer={"rope_theta": 78.0, "rope_parameters": None, "rope_scaling": scaling})
    config = EAGLE3_FILES.load_head(eagle3_folder, head_target).config
    assert config.rope_theta == 78.0 and (config.rope_scaling or {}).items() >= scaling.items()
    edit(eagle3_folder, layer={"rope_scaling": {"rope_type": "default"}})
    assert EAGLE3_FILES.load_head(eagle3_folder, head_target).config.rope_scaling is None


def test_a_copy_of_the_targets_embedding_is_passed_over_and_another_refused(
    eagle3_folder: Path, head_target: Loaded
) -> None:
    copy = head_target.network.model.embed_tokens.weight

    def brings(embedding: mx.array) -> Change:
        return changed_tensors(lambda tensors: tensors.update({"embed_tokens.weight": embedding}))

    rough = mx.dequantize(*mx.quantize(copy, 32, 4), 32, 4).astype(mx.bfloat16)
    roughest = mx.dequantize(*mx.quantize(copy, 32, 2), 32, 2)
    blank = mx.where(mx.arange(64)[:, None] == 5, 0.0, copy)
    for embedding in (copy, rough, roughest, blank):
        brings(embedding)(eagle3_folder)
        assert are_same(EAGLE3_FILES.load_head(eagle3_folder, head_target), random_eagle3())
    for embedding in (copy[::-1], mx.zeros_like(copy)):
        brings(embedding)(eagle3_folder)
        with pytest.raises(PairError, match=r"different embedding .not a copy of target's"):
            EAGLE3_FILES.load_head(eagle3_folder, head_target)
    brings(mx.concatenate([copy, copy]))(eagle3_folder)
    edit(eagle3_folder, layer={"vocab_size": 2 * len(copy)})
    with pytest.raises(PairError, match=r"different vocabulary size \(128; target has 64\)"):
        EAGLE3_FILES.load_head(eagle3_folder, head_target)


def test_a_quantized_embedding_fits_before_the_target_is_loaded_and_afterwards(
    eagle3_folder: Path, head_target: Loaded
) -> None:
    embedding = head_target.network.model.embed_tokens.weight
    changed_tensors(lambda tensors: tensors.update({"embed_tokens.weight": embedding}))(eagle3_folder)
    quantized_where(lambda name, _: name.startswith("embed_tokens"))(eagle3_folder)
    EAGLE3_FILES.build(eagle3_folder, shape_of(head_target))
    head, ids = EAGLE3_FILES.load_head(eagle3_folder, head_target), mx.arange(5)
    assert mx.allclose(head.embed_tokens(ids), embedding[ids], atol=0.02).item()
