"""RoPE scaling as a GGUF says it, in the words of mlx_lm/models/rope_utils.py.

Linear scaling is in the metadata. Llama 3.1 and later have a tensor `rope_freqs.weight` instead, what each frequency is
divided by; it is taken for the "llama3" rule only where it is what that rule gives.
"""

import math

import numpy as np

from models.gguf.gguf_reader import GgufFile

_OTHER_VERSION = "use an MLX version of this model"
# Of "llama3"; the factor is the tensor's largest. All of Meta's models have these (their config.json).
_LOW, _HIGH, _ORIGINAL = 1.0, 4.0, 8192


def rope_scaling(gguf: GgufFile, name: str, width: int, base: float) -> dict[str, object] | None:
    """config.json's "rope_scaling", None where there is none. Raises ModelError for what mlx-lm may do otherwise."""
    kind = gguf.get(f"{name}.rope.scaling.type", str, "none")
    if "rope_freqs.weight" in gguf.tensors:
        if kind != "none":
            raise gguf.unfit(f"has RoPE scaling {kind[:40]!r} and frequencies of its own as well", _OTHER_VERSION)
        return _llama3(gguf, width, base)
    if kind == "linear":
        factor = gguf.get(f"{name}.rope.scaling.factor", float)
        if not 1 <= factor < 1e6:
            raise gguf.unfit(f"its RoPE is scaled by {factor}", "the file is damaged, download it again")
        return {"type": "linear", "factor": float(str(np.float32(factor)))}
    if kind != "none" or gguf.get(f"{name}.rope.scale_linear", float, 1.0) != 1.0:
        raise gguf.unfit(f"RoPE scaling {kind[:40]!r} is not imported yet", _OTHER_VERSION)
    return None


def llama3_divisors(width: int, base: float, factor: float) -> list[float]:
    """What Llama 3.1's rule divides each of the width / 2 frequencies by (transformers' _compute_llama3_parameters)."""
    divisors = []
    for place in range(0, width, 2):
        turns = _ORIGINAL / (2 * math.pi * base ** (place / width))  # of this frequency in the original context
        if turns >= _HIGH:
            divisors.append(1.0)
        elif turns <= _LOW:
            divisors.append(factor)
        else:
            smooth = (turns - _LOW) / (_HIGH - _LOW)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return divisors


def _llama3(gguf: GgufFile, width: int, base: float) -> dict[str, object] | None:
    info = gguf.tensors["rope_freqs.weight"]
    if info.shape != (width // 2,) or info.type.name != "F32":
        raise gguf.unfit(f"tensor 'rope_freqs.weight' is {info.type.name} {info.shape}", _OTHER_VERSION)
    found = gguf.raw(info.name).view("<f4").astype(float)
    factor = float(found.max())
    if np.array_equal(found, np.ones(width // 2)):
        return None
    if not 1 < factor < 1e6 or not np.allclose(found, llama3_divisors(width, base, factor), rtol=1e-4):
        raise gguf.unfit("its RoPE frequencies follow no rule that is imported", _OTHER_VERSION)
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": _LOW,
        "high_freq_factor": _HIGH,
        "original_max_position_embeddings": _ORIGINAL,
    }
