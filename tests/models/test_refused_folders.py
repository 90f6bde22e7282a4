"""What a folder is that cannot be loaded, and what to do about it, is said in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.errors import ModelError
from models.convert.model_import import inspect
from models.loader import assemble
from models.model_folder import check_folder
from tests.models.drafters.head_folders import edit

MATRIX = "model.layers.0.self_attn.q_proj"  # (32, 32), as AutoAWQ and GPTQ pack it


def in_place_of_a_matrix(folder: Path, **parts: mx.array) -> None:
    tensors = dict(mx.load(str(folder / "model.safetensors")))
    del tensors[f"{MATRIX}.weight"]
    mx.save_safetensors(str(folder / "model.safetensors"), tensors | {f"{MATRIX}.{k}": v for k, v in parts.items()})


def integers(*shape: int) -> mx.array:
    return mx.zeros(shape, mx.uint32)


PACKED = {"qweight": integers(32, 4), "scales": mx.ones((1, 32)), "qzeros": integers(1, 4)}
COMPRESSED = {"weight_packed": integers(32, 4), "weight_scale": mx.ones((32, 1)), "weight_shape": integers(2)}


def compressed(bits: int, symmetric: bool = True) -> dict[str, Any]:
    weights = {"num_bits": bits, "symmetric": symmetric, "type": "int", "group_size": 32}
    groups = {"group_0": {"weights": weights}}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}


@pytest.mark.parametrize(
    ("settings", "parts", "said"),
    [
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True},
            {"weight": mx.zeros((512, 1), mx.uint8), "weight.absmax": mx.ones(16)},
            r"bitsandbytes \(4 bits\)",
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_8bit": True},
            {"weight": mx.zeros((32, 32), mx.int8), "SCB": mx.ones(32)},
            r"bitsandbytes \(8 bits\)",
        ),
        ({"quant_method": "gptq", "bits": 8, "desc_act": False}, PACKED, r"GPTQ \(8 bits\)"),
        (
            {"quant_method": "gptq", "bits": 4, "desc_act": True},
            {**PACKED, "g_idx": integers(32)},
            r"GPTQ \(4 bits, reordered groups\)",
        ),
        ({"quant_method": "gptq", "bits": 4}, PACKED, r"GPTQ \(4 bits\)"),
        ({"quant_method": "awq", "bits": 8, "version": "gemm"}, PACKED, r"AWQ \(8 bits\)"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, PACKED, r"AWQ \(4 bits\), in the layout 'gemv'"),
        (compressed(4), COMPRESSED, r"compressed-tensors \(4 bits, pack-quantized\)"),
        (compressed(8), COMPRESSED, "symmetric integers of 4 bits"),
        (compressed(4, symmetric=False), COMPRESSED, "symmetric integers of 4 bits"),
        (
            {"quant_method": "compressed-tensors", "format": "float-quantized"},
            {"weight": mx.zeros((32, 32), mx.uint8), "weight_scale": mx.ones((32, 1))},
            r"compressed-tensors \(float-quantized\)",
        ),
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128]},
            {"weight": mx.zeros((32, 32), mx.uint8), "weight_scale_inv": mx.ones((1, 1))},
            "quantized with FP8",
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8"},
            {"weight": mx.zeros((32, 32), mx.uint8), "weight_scale": mx.array(1.0)},
            r"NVIDIA ModelOpt \(FP8\)",
        ),
        ({"quant_method": "hqq"}, {"W_q": integers(32, 4)}, "HQQ"),
    ],
)
def test_a_model_quantized_by_another_program_is_refused_by_the_name_of_the_method(
    folder: Path, settings: dict[str, Any], parts: dict[str, mx.array], said: str
) -> None:
    in_place_of_a_matrix(folder, **parts)
    edit(folder, quantization_config=settings)
    with pytest.raises(ModelError, match=rf"quantized with .*{said.removeprefix('quantized with ')}.*") as caught:
        assemble(check_folder(folder))
    assert "choose a version in 16 bits or one made for MLX" in str(caught.value)
    assert "\n" not in str(caught.value) and "download" not in str(caught.value)


def test_plain_weights_load_whatever_they_were_trained_in(folder: Path, toy_folder: Path) -> None:
    """Merged QLoRA models keep the settings of bitsandbytes in config.json."""
    edit(folder, quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True})
    tokens = mx.array([[1, 2, 3]])
    plain = assemble(check_folder(toy_folder))(tokens)
    assert mx.array_equal(assemble(check_folder(folder))(tokens), plain).item()


def lora(folder: Path, weights: str = "adapter_model", base: str = "base_model_name_or_path") -> None:
    (folder / "config.json").unlink()
    (folder / "model.safetensors").rename(folder / f"{weights}.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({base: "maker/base"}))


def beside(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(b"")


def original(folder: Path) -> None:
    (folder / "config.json").rename(folder / "params.json")
    (folder / "model.safetensors").rename(folder / "consolidated.safetensors")


def other_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "weights.npz")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lora, r"is an adapter \(LoRA\) for maker/base, not a model; fuse"),
        (lambda folder: lora(folder, "adapters", "model"), r"is an adapter \(LoRA\) for maker/base, not a model; fuse"),
        (beside("adapter_model.safetensors"), r"holds an adapter \(adapter_model.safetensors\).*fuse it"),
        (beside("adapter_model.bin"), r"holds an adapter \(adapter_model.bin\).*fuse it"),
        (original, "its makers' own format.*choose a version with config.json"),
        (other_weights, r"only weights\.npz, which mlx-lm does not read; choose a version"),
        (
            lambda folder: edit(folder, model_type="bert"),
            "mlx-lm does not have this architecture; choose another model",
        ),
        (lambda folder: edit(folder, num_hidden_layers=1), "tensors that mlx-lm's network of this architecture lacks"),
    ],
)
def test_what_a_folder_is_instead_of_a_model_is_said(folder: Path, change: Callable[[Path], None], said: str) -> None:
    change(folder)
    with pytest.raises(ModelError, match=said) as caught:
        assemble(check_folder(folder))
    assert "download it again" not in str(caught.value)


@pytest.mark.parametrize("change", [lora, original])
def test_an_import_says_as_well_what_a_folder_is(folder: Path, change: Callable[[Path], None]) -> None:
    change(folder)
    with pytest.raises(ModelError) as loaded:
        check_folder(folder)
    with pytest.raises(ModelError) as imported:
        inspect(folder)
    assert str(imported.value) == str(loaded.value)
