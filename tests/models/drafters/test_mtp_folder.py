"""Multi-token prediction heads in every layout, whole, quantized and damaged."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from engine.backend.mlx_lm_imports import KVCache
from engine.drafters.mtp import MtpForm, MtpHead
from engine.errors import ModelError, PairError
from models.convert.stored_head import stored_head
from models.drafters.mtp import FILES, write_mtp
from models.drafters.target_match import TargetShape
from models.storage_options import StorageOptions
from tests.models.drafters.head_folders import (
    SHAPE,
    changed_tensors,
    config_of,
    edit,
    open_mtp,
    quantized_where,
    tensor,
    write_config,
)
from tests.models.drafters.oracle_heads import ORACLES

TO_SPECULATORS = {
    "mtp.fc": "mtp_layers.0.input_proj",
    "mtp.norm": "mtp_layers.0.final_layernorm",
    "mtp.pre_fc_norm_hidden": "mtp_layers.0.hidden_layernorm",
    "mtp.pre_fc_norm_embedding": "mtp_layers.0.token_layernorm",
    "mtp.layers.0": "mtp_layers.0",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ORACLES / "qwen3_5_mtp", tmp_path / "head"))


def output(head: MtpHead) -> mx.array:
    mx.random.seed(1)
    hidden, embedded = mx.random.normal((1, 7, 32)), mx.random.normal((1, 7, 32))
    return head(hidden, embedded, [KVCache()])


def renamed(names: Callable[[str], str]) -> Callable[[Path], None]:
    def change(tensors: dict[str, mx.array]) -> None:
        moved = {names(name): tensors.pop(name) for name in list(tensors)}
        tensors.update(moved)

    return changed_tensors(change)


def as_speculators(name: str) -> str:
    found = next(theirs for theirs in sorted(TO_SPECULATORS, key=len, reverse=True) if name.startswith(theirs + "."))
    return name.replace(found, TO_SPECULATORS[found], 1)


def sidecar(path: Path) -> None:
    renamed(lambda name: name.removeprefix("mtp."))(path)


def speculators(path: Path) -> None:
    layer = config_of(path)["text_config"]
    renamed(as_speculators)(path)
    write_config(path, speculators_model_type="mtp", transformer_layer_config=layer)


def checkpoint(path: Path) -> None:
    """Among the weights of a target, below `language_model`, beside a vision tower's and a second head's."""
    layer = config_of(path)["text_config"]
    renamed(lambda name: f"language_model.{name}")(path)
    tensor("language_model.model.layers.0.mlp.up_proj.weight", mx.ones((4, 4)))(path)
    tensor("language_model.mtp.layers.1.mlp.up_proj.weight", mx.ones((4, 4)))(path)
    write_config(path, model_type="qwen3_5", text_config=layer)


def mtplx(path: Path) -> None:
    """A file of its own beside the target's weights, named in the target's config."""
    layer = config_of(path)["text_config"]
    (path / "model.safetensors").rename(path / "extra.safetensors")
    mx.save_safetensors(str(path / "model.safetensors"), {"model.layers.0.mlp.up_proj.weight": mx.ones((4, 4))})
    named = {"mtp_file": "extra.safetensors"}
    write_config(path, model_type="qwen3_5", text_config=layer, mlx_lm_extra_tensors=named)


LAYOUTS = {"sidecar": sidecar, "speculators": speculators, "checkpoint": checkpoint, "mtplx": mtplx}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_head_is_the_same_in_every_layout(folder: Path, layout: str) -> None:
    want = output(open_mtp(folder))
    LAYOUTS[layout](folder)
    assert mx.array_equal(output(open_mtp(folder)), want)
    assert FILES.is_within(folder)


def test_norms_that_are_whole_stay_as_they_are(folder: Path) -> None:
    """Upstream stores the norms minus one, converted sidecars do not."""

    def whole(tensors: dict[str, mx.array]) -> None:
        tensors.update({name: value + 1 for name, value in tensors.items() if value.ndim == 1})

    want = output(open_mtp(folder))
    changed_tensors(whole)(folder)
    assert mx.allclose(output(open_mtp(folder)), want, atol=1e-5)


def test_fields_that_a_sidecar_leaves_out_are_the_targets(folder: Path) -> None:
    layer, want = config_of(folder)["text_config"], output(open_mtp(folder))
    write_config(folder, model_type="qwen3_5_mtp")
    assert mx.array_equal(output(open_mtp(folder, {"model_type": "qwen3_5", "text_config": layer})), want)


@pytest.mark.parametrize(("bits", "mode"), [(8, "affine"), (4, "mxfp4")])
def test_quantized_heads_load(folder: Path, bits: int, mode: str) -> None:
    """Every matrix but `fc`, as converters leave it, near the head in full."""
    want = output(open_mtp(folder))
    mx.eval(want)  # before the file is written again
    quantized_where(lambda name, value: value.ndim == 2 and "fc" not in name and value.shape[1] % 32 == 0, bits, mode)(
        folder
    )
    found = output(open_mtp(folder))
    assert 0 < mx.mean(mx.abs(found - want)).item() < (0.02 if bits == 8 else 0.4)  # type: ignore[operator]


def test_experts_are_stacked(folder: Path) -> None:
    """Alone as Qwen3-Next has them, or all in one matrix as Qwen3.5 has them: the same layer."""
    layer = config_of(folder)["text_config"] | {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    }
    mx.random.seed(2)
    gates, ups, downs = (mx.random.normal(shape) for shape in ((4, 16, 32), (4, 16, 32), (4, 32, 16)))
    shared = {f"shared_expert.{part}": mx.random.normal((16, 32)) for part in ("gate_proj", "up_proj")}
    shared |= {"shared_expert.down_proj": mx.random.normal((32, 16)), "gate": mx.random.normal((4, 32))}
    shared["shared_expert_gate"] = mx.random.normal((1, 32))
    alone = {
        f"experts.{e}.{part}": one[e]
        for part, one in zip(("gate_proj", "up_proj", "down_proj"), (gates, ups, downs), strict=True)
        for e in range(4)
    }
    joint = {"experts.gate_up_proj": mx.concatenate([gates, ups], 1), "experts.down_proj": downs}
    outputs = []
    for number, experts in enumerate((alone, joint)):
        path = Path(shutil.copytree(folder, folder.parent / f"moe{number}"))

        def change(tensors: dict[str, mx.array], experts: dict[str, mx.array] = experts) -> None:
            for name in [name for name in tensors if ".mlp." in name]:
                del tensors[name]
            tensors.update({f"mtp.layers.0.mlp.{name}.weight": value for name, value in shared.items()})
            end = ".weight" if experts is alone else ""
            tensors.update({f"mtp.layers.0.mlp.{name}{end}": value for name, value in experts.items()})

        changed_tensors(change)(path)
        write_config(path, model_type="qwen3_5_mtp", text_config=layer)
        outputs.append(output(open_mtp(path)))
    assert mx.allclose(outputs[0], outputs[1], atol=1e-5)


@pytest.mark.parametrize("name", ["{}/model.safetensors", "../{}/model.safetensors", "\0"])
def test_a_config_names_no_file_outside_its_folder(folder: Path, tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    named = {"mtp_file": name.format(folder if name.startswith("{") else folder.name)}
    write_config(other, model_type="qwen3_5", text_config=config_of(folder)["text_config"], mlx_lm_extra_tensors=named)
    mx.save_safetensors(str(other / "model.safetensors"), {"model.norm.weight": mx.ones(4)})
    with pytest.raises(ModelError, match="holds no multi-token prediction head"):
        open_mtp(other)


def test_a_head_of_another_target_is_refused(folder: Path) -> None:
    with pytest.raises(PairError, match="different hidden size"):
        FILES.build(folder, TargetShape("t", 64, 4, 48, lambda points: 48, {}))
    with pytest.raises(PairError, match="different vocabulary size"):
        FILES.build(folder, TargetShape("t", 99, 4, 32, lambda points: 32, {}))


def test_the_footprint_counts_the_head_alone(folder: Path) -> None:
    numbers = sum(value.size for _, value in tree_flatten(open_mtp(folder).parameters()))
    checkpoint(folder)
    share = FILES.footprint(folder, 4)(100)
    assert share.weights >= 4 * numbers and share.weights < 4 * numbers + 4 * 40
    assert share.cache == 256 * 2 * 2 * 16 * 4


def contracted(path: Path, **contract: object) -> MtpHead:
    mtplx(path)
    edit(path, mtplx_mtp_contract=contract)
    return open_mtp(path)


def test_the_defaults_of_an_mtplx_contract_change_nothing(folder: Path) -> None:
    """Every pack has them. Positions are no choice: rotary embeddings look at distances."""
    want = output(open_mtp(folder))
    fields = {"base_hidden_variant": "post_norm", "hidden_variant": "post_norm", "concat_order": "embedding_hidden"}
    head = contracted(folder, **fields, mtp_position_mode="absolute", mtp_quant_bits=4, mtp_prequantized=True)
    assert head.form == replace(MtpForm(), may_cast=head.form.may_cast)
    assert mx.array_equal(output(head), want).item()


def test_what_an_mtplx_contract_changes_is_done(folder: Path) -> None:
    """The hidden state first, and what the next step reads before the norm."""
    plain = open_mtp(folder)
    head = contracted(
        folder, base_hidden_variant="pre_norm", concat_order="hidden_embedding", hidden_variant="pre_norm"
    )
    hidden, embedded = mx.random.normal((1, 3, 32)), mx.random.normal((1, 3, 32))
    assert mx.array_equal(head.read(hidden, embedded), mx.roll(plain.read(hidden, embedded), 32, -1)).item()
    assert not head.form.reads_normed
    states = output(head)
    assert mx.allclose(head.normed(states), head.norm(states)).item()
    assert not mx.allclose(head.norm(states), states, atol=0.1).item()


@pytest.mark.parametrize(
    ("contract", "reason"),
    [
        ({"hidden_variant": "mix:prev:fc:0.5"}, "mtplx contract's hidden_variant 'mix:prev:fc:0.5'"),
        ({"position_mode": "rotated"}, "mtplx contract's position_mode 'rotated'"),
        ({"concat_order": 3}, "mtplx contract's concat_order '3'"),
        ("post_norm", "has mtplx_mtp_contract 'post_norm', not an object"),
    ],
)
def test_any_other_contract_is_refused(folder: Path, contract: Any, reason: str) -> None:
    mtplx(folder)
    edit(folder, mtplx_mtp_contract=contract)
    with pytest.raises(ModelError) as caught:
        open_mtp(folder)
    assert reason in str(caught.value) and "\n" not in str(caught.value)


def test_a_head_is_stored_in_the_bits_of_converted_weights(tmp_path: Path) -> None:
    """Of a whole checkpoint only the head's tensors are taken, and they load from there."""
    source = Path(shutil.copytree(ORACLES / "qwen3_5_mtp", tmp_path / "source"))
    checkpoint(source)
    converted = tmp_path / "converted"
    converted.mkdir()
    shutil.copy(source / "config.json", converted / "config.json")
    mx.save_safetensors(str(converted / "model.safetensors"), {"model.norm.weight": mx.ones(4)})
    head = stored_head(source, StorageOptions(8, 32))
    assert head is not None
    assert "scales" in head.layer.self_attn.o_proj and "scales" not in head.fc
    write_mtp(head, converted)
    far = mx.abs(output(open_mtp(source, config_of(source))) - output(open_mtp(converted, config_of(converted))))
    assert 0 < mx.max(far).item() < 0.1
    assert FILES.is_within(converted)


def test_what_was_converted_is_not_converted_again(tmp_path: Path) -> None:
    """Norms far below 1 that are whole already would be taken for ones that are stored minus one."""
    source = tmp_path / "source"
    shutil.copytree(ORACLES / "qwen3_5_mtp", source)
    checkpoint(source)
    head = stored_head(source, StorageOptions())
    assert head is not None
    head.norm.weight = 0.1 * mx.ones(32)
    for norm in (head.layer.self_attn.q_norm, head.layer.self_attn.k_norm):
        norm.weight = mx.ones(norm.weight.shape)
    write_mtp(head, source)
    again = FILES.build(source, replace(SHAPE, config=config_of(source)))
    assert mx.array_equal(again.norm.weight, head.norm.weight).item()
