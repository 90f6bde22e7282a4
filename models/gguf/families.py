"""The llama, qwen2, qwen3 and gemma3 families of GGUF in mlx-lm's words: which tensor becomes which, and the config.

Anything that would change what the model computes and that is not understood here (experts, partial RoPE, biases where
mlx-lm has none) is refused by name, never dropped. Keys: ggml's docs/gguf.md "LLM"; tensors: gguf-py's constants.py and
llama.cpp's convert_hf_to_gguf.py; configs: mlx_lm/models/{llama,qwen2,qwen3,gemma3_text}.py.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from models.gguf.gguf_reader import GgufFile
from models.gguf.tensor_storage import Part

_DAMAGED = "the file is damaged, download it again"
_OTHER_VERSION = "use an MLX version of this model"

# GGUF's name within a block -> mlx-lm's, and the size that tells its shape.
_COMMON = {
    "attn_norm.weight": ("input_layernorm.weight", "hidden"),
    "attn_q.weight": ("self_attn.q_proj.weight", "queries hidden"),
    "attn_k.weight": ("self_attn.k_proj.weight", "keys hidden"),
    "attn_v.weight": ("self_attn.v_proj.weight", "keys hidden"),
    "attn_output.weight": ("self_attn.o_proj.weight", "hidden queries"),
    "ffn_norm.weight": ("post_attention_layernorm.weight", "hidden"),
    "ffn_gate.weight": ("mlp.gate_proj.weight", "wide hidden"),
    "ffn_up.weight": ("mlp.up_proj.weight", "wide hidden"),
    "ffn_down.weight": ("mlp.down_proj.weight", "hidden wide"),
}
_BIASES = {
    "attn_q.bias": ("self_attn.q_proj.bias", "queries"),
    "attn_k.bias": ("self_attn.k_proj.bias", "keys"),
    "attn_v.bias": ("self_attn.v_proj.bias", "keys"),
}
_HEAD_NORMS = {
    "attn_q_norm.weight": ("self_attn.q_norm.weight", "head"),
    "attn_k_norm.weight": ("self_attn.k_norm.weight", "head"),
}
_FOUR_NORMS = {
    "post_attention_norm.weight": ("post_attention_layernorm.weight", "hidden"),
    "ffn_norm.weight": ("pre_feedforward_layernorm.weight", "hidden"),
    "post_ffw_norm.weight": ("post_feedforward_layernorm.weight", "hidden"),
}


@dataclass(frozen=True)
class Family:
    """The properties of a family of models.

    interleaved: llama.cpp's converter has reordered the rows of q and k. norms_plus_one: it has added 1 to the norms.
    wide_range: activations leave f16, so that the folder has to be in bf16.
    """

    model_type: str
    architecture: str
    block: Mapping[str, tuple[str, str]] = field(repr=False)
    interleaved: bool = False
    norms_plus_one: bool = False
    wide_range: bool = False
    rope_base: float = 10000.0


FAMILIES = {
    "llama": Family("llama", "LlamaForCausalLM", _COMMON, interleaved=True),
    "qwen2": Family("qwen2", "Qwen2ForCausalLM", _COMMON | _BIASES),
    "qwen3": Family("qwen3", "Qwen3ForCausalLM", _COMMON | _HEAD_NORMS),
    "gemma3": Family(
        *("gemma3_text", "Gemma3ForCausalLM", _COMMON | _HEAD_NORMS | _FOUR_NORMS),
        norms_plus_one=True,
        wide_range=True,
        rope_base=1_000_000.0,
    ),
}
_GEMMA_PATTERN = 6  # every sixth layer sees everything; llama.cpp's llm_load_hparams has it fixed
_GEMMA_27B_LAYERS = 62
# Of RoPE scaling "llama3", whose factor is the largest number of `rope_freqs.weight`.
# All of Meta's models have these (their config.json).
_LOW, _HIGH, _ORIGINAL = 1.0, 4.0, 8192


@dataclass(frozen=True)
class Shape:
    """The sizes of a model (numbers of values, heads, layers, tokens), and its family."""

    family: Family
    name: str
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    tied: bool


def read_shape(gguf: GgufFile) -> Shape:
    """Returns the model's sizes. Raises ModelError unless mlx-lm's model of that family computes it as it is."""
    name = gguf.get("general.architecture", str)
    if name not in FAMILIES:
        what = f"the architecture {name[:40]!r} is not imported, only {', '.join(FAMILIES)}"
        raise gguf.unfit(what, f"{_OTHER_VERSION} (mlx_lm.convert makes one)")
    embedding = gguf.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise gguf.unfit("lacks the tensor 'token_embd.weight'", "use a file that holds a whole model")
    hidden, heads = count(gguf, name, "embedding_length"), count(gguf, name, "attention.head_count")
    shape = Shape(
        family=FAMILIES[name],
        name=name,
        layers=count(gguf, name, "block_count"),
        hidden=hidden,
        feed_forward=count(gguf, name, "feed_forward_length"),
        heads=heads,
        kv_heads=count(gguf, name, "attention.head_count_kv", heads),
        head_width=count(gguf, name, "attention.key_length", max(1, hidden // heads)),
        vocabulary=embedding.shape[0],
        tied="output.weight" not in gguf.tensors,
    )
    _refuse_what_differs(gguf, shape)
    return shape


def parts(gguf: GgufFile, shape: Shape) -> list[Part]:
    """Returns every tensor with its place in MLX. Raises ModelError for a missing, extra or misshapen one."""
    wanted = _wanted(shape)
    for part in wanted:
        info = gguf.tensors.get(part.name)
        if info is None:
            raise gguf.unfit(f"lacks the tensor {part.name!r}", "use a file that holds a whole model")
        if info.shape != part.shape:
            raise gguf.unfit(f"tensor {part.name!r} is {info.shape}, not {part.shape}", _DAMAGED)
        if len(part.shape) == 1 and info.type.name not in ("F32", "F16", "BF16"):
            raise gguf.unfit(f"tensor {part.name!r} is a vector in {info.type.name}", "use a file with F32 norms")
    read = {part.name for part in wanted} | ({"rope_freqs.weight"} if shape.name == "llama" else set())
    extra = sorted(gguf.tensors.keys() - read)
    if extra:
        what = f"tensor {extra[0][:60]!r} is not part of a plain {shape.name} and cannot be imported yet"
        raise gguf.unfit(what, _OTHER_VERSION)
    return wanted


def make_config(gguf: GgufFile, shape: Shape) -> dict[str, object]:
    """Returns config.json as mlx-lm reads it, without the quantization. Raises ModelError if a number is missing."""
    name, family = shape.name, shape.family
    base = gguf.get(f"{name}.rope.freq_base", float, family.rope_base)
    if not 1 <= base < 1e12:
        raise gguf.unfit(f"its RoPE has the base {base}", _DAMAGED)
    epsilon = gguf.get(f"{name}.attention.layer_norm_rms_epsilon", float)
    if not 0 < epsilon < 1:
        raise gguf.unfit(f"its norms have the epsilon {epsilon}", _DAMAGED)
    scaling = _rope_scaling(gguf, name, shape.head_width, base)
    config: dict[str, object] = {
        "architectures": [family.architecture],
        "model_type": family.model_type,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "intermediate_size": shape.feed_forward,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "hidden_act": "silu",
        "rms_norm_eps": shortest(epsilon),
        "rope_theta": shortest(base),
        "max_position_embeddings": count(gguf, name, "context_length"),
        "vocab_size": shape.vocabulary,
        "tie_word_embeddings": shape.tied,
        "attention_bias": False,
        "mlp_bias": False,
    }
    config |= {"rope_scaling": scaling} if scaling else {}
    return config | (_gemma(gguf, shape) if name == "gemma3" else {})


def count(gguf: GgufFile, name: str, key: str, default: int | None = None) -> int:
    """Returns the positive number `name.key` of the metadata. Raises ModelError where it is none."""
    value = gguf.get(f"{name}.{key}", int, default)
    if not 1 <= value < 1 << 31:
        raise gguf.unfit(f"{name}.{key} is {value}", _DAMAGED)
    return value


def shortest(value: float) -> float:
    """Returns the shortest decimal that is the same f32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def _gemma(gguf: GgufFile, shape: Shape) -> dict[str, object]:
    """Windows and scores. GGUF does not say what the scores are divided by: the width of a head, but for the 27B model
    (llama.cpp's llama-model.cpp knows it by its layers too)."""
    pattern = count(gguf, shape.name, "attention.sliding_window_pattern", _GEMMA_PATTERN)
    if pattern > shape.layers:
        raise gguf.unfit(f"sees everything in every {pattern}th layer and has {shape.layers}", _OTHER_VERSION)
    large = shape.layers == _GEMMA_27B_LAYERS
    return {
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": shape.hidden // shape.heads if large else shape.head_width,
        "sliding_window": count(gguf, shape.name, "attention.sliding_window"),
        "sliding_window_pattern": pattern,
        "rope_local_base_freq": shortest(gguf.get(f"{shape.name}.rope.freq_base_swa", float, 10000.0)),
    }


def _refuse_what_differs(gguf: GgufFile, shape: Shape) -> None:
    name = shape.name
    if gguf.get(f"{name}.expert_count", int, 0):
        raise gguf.unfit("a mixture of experts is not imported yet", _OTHER_VERSION)
    if shape.heads % shape.kv_heads or shape.head_width % 2:
        what = f"{shape.heads} heads, {shape.kv_heads} key heads of {shape.head_width} do not go together"
        raise gguf.unfit(what, _DAMAGED)
    if name == "qwen2" and shape.heads * shape.head_width != shape.hidden:
        raise gguf.unfit(f"{shape.heads} heads of {shape.head_width} are not the width {shape.hidden}", _DAMAGED)
    if gguf.get(f"{name}.attention.value_length", int, shape.head_width) != shape.head_width:
        raise gguf.unfit("its keys and values differ in width, which is not imported yet", _OTHER_VERSION)
    if gguf.get(f"{name}.rope.dimension_count", int, shape.head_width) != shape.head_width:
        raise gguf.unfit("it rotates a part of each head only, which is not imported yet", _OTHER_VERSION)
    if name != "gemma3" and gguf.get(f"{name}.attention.sliding_window", int, 0):
        raise gguf.unfit("its attention has a sliding window, which is not imported yet", _OTHER_VERSION)
    if gguf.get(f"{name}.final_logit_softcapping", float, 0.0) or gguf.get(f"{name}.logit_scale", float, 0.0):
        raise gguf.unfit("its logits are scaled, which is not imported yet", _OTHER_VERSION)
    if shape.layers > len(gguf.tensors):
        raise gguf.unfit(f"claims {shape.layers} layers and has {len(gguf.tensors)} tensors", "download it again")


def _wanted(shape: Shape) -> list[Part]:
    """Returns every part with the shape it must have, in the order a forward pass meets them."""
    family = shape.family
    sides = {"hidden": shape.hidden, "wide": shape.feed_forward, "head": shape.head_width}
    sides |= {"queries": shape.heads * shape.head_width, "keys": shape.kv_heads * shape.head_width}
    interleaved = {"attn_q.weight": shape.heads, "attn_k.weight": shape.kv_heads} if family.interleaved else {}
    less = 1.0 if family.norms_plus_one else 0.0
    matrix = (shape.vocabulary, shape.hidden)
    wanted = [Part("token_embd.weight", "model.embed_tokens.weight", matrix)]
    for layer in range(shape.layers):
        for name, (target, size) in family.block.items():
            wanted.append(
                Part(
                    *(f"blk.{layer}.{name}", f"model.layers.{layer}.{target}"),
                    shape=tuple(sides[side] for side in size.split()),
                    heads=interleaved.get(name),
                    less=less if "norm" in name else 0.0,
                )
            )
    wanted.append(Part("output_norm.weight", "model.norm.weight", (shape.hidden,), less=less))
    return wanted if shape.tied else [*wanted, Part("output.weight", "lm_head.weight", matrix)]


def _rope_scaling(gguf: GgufFile, name: str, width: int, base: float) -> dict[str, object] | None:
    """Returns config.json's "rope_scaling" as mlx_lm/models/rope_utils.py reads it, None if there is none.

    Linear scaling is in the metadata. Llama 3.1 and later have a tensor `rope_freqs.weight` instead, what each
    frequency is divided by; it is taken for the "llama3" rule only where it is what that rule gives.
    Raises ModelError for what mlx-lm may do otherwise.
    """
    kind = gguf.get(f"{name}.rope.scaling.type", str, "none")
    if "rope_freqs.weight" in gguf.tensors:
        if kind != "none":
            raise gguf.unfit(f"has RoPE scaling {kind[:40]!r} and frequencies of its own as well", _OTHER_VERSION)
        return _llama3(gguf, width, base)
    if kind == "linear":
        factor = gguf.get(f"{name}.rope.scaling.factor", float)
        if not 1 <= factor < 1e6:
            raise gguf.unfit(f"its RoPE is scaled by {factor}", _DAMAGED)
        return {"type": "linear", "factor": shortest(factor)}
    if kind != "none" or gguf.get(f"{name}.rope.scale_linear", float, 1.0) != 1.0:
        raise gguf.unfit(f"RoPE scaling {kind[:40]!r} is not imported yet", _OTHER_VERSION)
    return None


def _llama3_divisors(width: int, base: float, factor: float) -> list[float]:
    """Returns Llama 3.1's divisors of the width / 2 frequencies (transformers' _compute_llama3_parameters)."""
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
    if not 1 < factor < 1e6 or not np.allclose(found, _llama3_divisors(width, base, factor), rtol=1e-4):
        raise gguf.unfit("its RoPE frequencies follow no rule that is imported", _OTHER_VERSION)
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": _LOW,
        "high_freq_factor": _HIGH,
        "original_max_position_embeddings": _ORIGINAL,
    }
