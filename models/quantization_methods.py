"""Weights that other programs quantized: what config.json calls the method, and which forms would be read wrongly.

mlx-lm 0.32.2 reads its own formats, and a few of others (`load_model` in `mlx_lm/utils.py`): AWQ as AutoAWQ's GEMM
kernel has it, compressed-tensors' packed integers of 4 bits, NVIDIA's NVFP4, and FP8 in the families whose `sanitize`
multiplies the scales in. It believes the name of the method, so what differs within a method is looked at here.
"""

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]

# As people call them.
_CALLED = {
    "awq": "AWQ",
    "gptq": "GPTQ",
    "fp8": "FP8",
    "fbgemm_fp8": "FBGEMM FP8",
    "modelopt": "NVIDIA ModelOpt",
    "auto-round": "AutoRound",
    "hqq": "HQQ",
    "aqlm": "AQLM",
    "quanto": "Quanto",
    "eetq": "EETQ",
    "vptq": "VPTQ",
    "bitnet": "BitNet",
    "mxfp4": "MXFP4",
    "mxfp8": "MXFP8",
}
WHAT_TO_DO = "choose a version in 16 bits or one made for MLX, or convert the model that it was made from"
# Names of tensors that only quantized weights have.
_MARKS = (
    "qweight",
    "qzeros",
    "g_idx",
    "weight_packed",
    "weight_scale",
    "weight_scale_inv",
    "absmax",
    "quant_map",
    "SCB",
)


def method_of(config: Config) -> str | None:
    """Returns how another program quantized the weights, as people call it and with its bits; None where config.json
    names no method."""
    found = _settings(config)
    method = found.get("quant_method")
    if not isinstance(method, str) or not method:
        return None
    called, bits, kind = _CALLED.get(method, method[:40]), _bits(found), found.get("format", found.get("quant_algo"))
    said = [f"{bits} bits"] if bits else []
    said += [str(kind)[:40]] if isinstance(kind, str) else []
    said += ["reordered groups"] if found.get("desc_act") is True else []
    return f"{called} ({', '.join(said)})" if said else called


def why_misread(config: Config, names: frozenset[str]) -> str | None:
    """Returns why mlx-lm would read the quantized weights as other numbers, None where nothing is known against it.
    names: of the tensors."""
    found = _settings(config)
    method = found.get("quant_method")
    if not any(name.rpartition(".")[2] in _MARKS for name in names):
        return None  # trained in a quantized form, and saved in a plain one
    if method == "gptq":
        return "mlx-lm reads its groups in another order"
    if method == "awq" and str(found.get("version") or "gemm").lower() != "gemm":
        return f"in the layout {str(found['version'])[:20]!r}, of which mlx-lm reads only 'gemm'"
    if method == "compressed-tensors" and found.get("format") == "pack-quantized" and _is_not_int4(found):
        return "of which mlx-lm reads only symmetric integers of 4 bits in groups"
    return None


def _settings(config: Config) -> Config:
    text = config.get("text_config")
    parts = (config, text) if isinstance(text, dict) else (config,)
    if any("quantization" in part for part in parts):
        return {}  # MLX's own
    for part in parts:
        found = part.get("quantization_config")
        if isinstance(found, dict):
            inner = found.get("quantization")  # where ModelOpt nests them
            return {**inner, **found} if isinstance(inner, dict) else found
    return {}


def _bits(found: Config) -> int | None:
    if found.get("load_in_4bit") or found.get("load_in_8bit"):
        return 4 if found.get("load_in_4bit") else 8
    weights = [group["weights"].get("num_bits") for group in _groups(found)]
    return next((bits for bits in (found.get("bits"), found.get("w_bit"), *weights) if type(bits) is int), None)


def _groups(found: Config) -> list[Config]:
    groups = found.get("config_groups")
    values = groups.values() if isinstance(groups, dict) else ()
    return [group for group in values if isinstance(group, dict) and isinstance(group.get("weights"), dict)]


def _is_not_int4(found: Config) -> bool:
    return any(
        weights.get("num_bits") != 4 or weights.get("symmetric") is False or weights.get("type", "int") != "int"
        for weights in (group["weights"] for group in _groups(found))
    )
