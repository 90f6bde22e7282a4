"""llama-family GGUF in mlx-lm's words: the config, and which tensor becomes which.

Anything that would change what the model computes and that is not understood here (experts, partial or frequency-
scaled RoPE, biases) is refused by name, never dropped. Keys: ggml's docs/gguf.md "LLM"; config: mlx_lm/models/llama.py.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from models.gguf import GgufFile
from models.gguf_weights import AFFINE, GROUP

_DAMAGED = "the file is damaged, download it again"

_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True)
class LlamaShape:
    """The sizes a llama has, in units of one (values, heads, layers, tokens)."""

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    tied: bool


@dataclass(frozen=True)
class Part:
    """One tensor to convert: GGUF's `name`, MLX's `base` without ".weight", and heads where rows are permuted."""

    name: str
    base: str
    heads: int | None = None


def read_shape(gguf: GgufFile) -> LlamaShape:
    """The model's sizes. Raises ModelError unless it is a llama that mlx-lm's llama.py computes as it is."""
    architecture = gguf.get("general.architecture", str)
    if architecture != "llama":
        to_do = "use an MLX version of this model (mlx_lm.convert makes one)"
        raise gguf.unfit(f"the architecture {architecture[:40]!r} is not imported yet, only llama", to_do)
    hidden, heads = _count(gguf, "embedding_length"), _count(gguf, "attention.head_count")
    embedding = gguf.tensors.get("token_embd.weight")
    if embedding is None:
        raise gguf.unfit("lacks the tensor 'token_embd.weight'", "use a file that holds a whole model")
    shape = LlamaShape(
        layers=_count(gguf, "block_count"),
        hidden=hidden,
        feed_forward=_count(gguf, "feed_forward_length"),
        heads=heads,
        kv_heads=_count(gguf, "attention.head_count_kv", heads),
        head_width=_count(gguf, "attention.key_length", hidden // heads),
        vocabulary=embedding.shape[0],
        tied="output.weight" not in gguf.tensors,
    )
    _refuse_what_differs(gguf, shape)
    return shape


def parts(gguf: GgufFile, shape: LlamaShape) -> list[Part]:
    """Every tensor of the file with its place in MLX. Raises ModelError on a missing, extra or misshapen one."""
    wanted = _wanted(shape)
    for part, size in wanted:
        info = gguf.tensors.get(part.name)
        if info is None:
            raise gguf.unfit(f"lacks the tensor {part.name!r}", "use a file that holds a whole model")
        if info.shape != size:
            raise gguf.unfit(f"tensor {part.name!r} is {info.shape}, not {size}", _DAMAGED)
        if len(size) == 1 and info.type.name in AFFINE:
            raise gguf.unfit(f"tensor {part.name!r} is a vector in {info.type.name}", "use a file with F32 norms")
    extra = sorted(gguf.tensors.keys() - {part.name for part, _ in wanted})
    if extra:
        what = f"tensor {extra[0][:60]!r} is not part of a plain llama and cannot be imported yet"
        raise gguf.unfit(what, "use an MLX version of this model")
    return [part for part, _ in wanted]


def make_config(gguf: GgufFile, shape: LlamaShape, pieces: list[Part]) -> dict[str, object]:
    """config.json as mlx-lm reads it. Raises ModelError where the metadata lacks a needed number."""
    rope_scaling = _rope_scaling(gguf)
    config: dict[str, object] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "intermediate_size": shape.feed_forward,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "hidden_act": "silu",
        "rms_norm_eps": _shortest(gguf.get("llama.attention.layer_norm_rms_epsilon", float)),
        "rope_theta": _shortest(gguf.get("llama.rope.freq_base", float, 10000.0)),
        "max_position_embeddings": _count(gguf, "context_length"),
        "vocab_size": shape.vocabulary,
        "tie_word_embeddings": shape.tied,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "float16",
    }
    config |= {"rope_scaling": rope_scaling} if rope_scaling else {}
    return config | _quantization(gguf, pieces)


def _count(gguf: GgufFile, key: str, default: int | None = None) -> int:
    value = gguf.get(f"llama.{key}", int, default)
    if value < 1:
        raise gguf.unfit(f"llama.{key} is {value}", _DAMAGED)
    return value


def _refuse_what_differs(gguf: GgufFile, shape: LlamaShape) -> None:
    to_do = "use an MLX version of this model"
    if gguf.get("llama.expert_count", int, 0):
        raise gguf.unfit("a mixture of experts is not imported yet", to_do)
    if shape.heads % shape.kv_heads or shape.head_width % 2:
        what = f"{shape.heads} heads, {shape.kv_heads} key heads of {shape.head_width} do not go together"
        raise gguf.unfit(what, _DAMAGED)
    if gguf.get("llama.attention.value_length", int, shape.head_width) != shape.head_width:
        raise gguf.unfit("its keys and values differ in width, which is not imported yet", to_do)
    if gguf.get("llama.rope.dimension_count", int, shape.head_width) != shape.head_width:
        raise gguf.unfit("it rotates a part of each head only, which is not imported yet", to_do)
    if shape.layers > len(gguf.tensors):
        raise gguf.unfit(f"claims {shape.layers} layers and has {len(gguf.tensors)} tensors", "download it again")


def _wanted(shape: LlamaShape) -> list[tuple[Part, tuple[int, ...]]]:
    """Every part with the shape it must have, in the order a forward pass meets them."""
    hidden, wide = shape.hidden, shape.feed_forward
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    sizes: dict[str, tuple[int, ...]] = {
        "attn_norm": (hidden,),
        "attn_q": (queries, hidden),
        "attn_k": (keys, hidden),
        "attn_v": (keys, hidden),
        "attn_output": (hidden, queries),
        "ffn_norm": (hidden,),
        "ffn_gate": (wide, hidden),
        "ffn_up": (wide, hidden),
        "ffn_down": (hidden, wide),
    }
    permuted = {"attn_q": shape.heads, "attn_k": shape.kv_heads}
    wanted: list[tuple[Part, tuple[int, ...]]]
    wanted = [(Part("token_embd.weight", "model.embed_tokens"), (shape.vocabulary, hidden))]
    for layer in range(shape.layers):
        for name, size in sizes.items():
            base = f"model.layers.{layer}.{_BLOCK[name]}"
            wanted.append((Part(f"blk.{layer}.{name}.weight", base, permuted.get(name)), size))
    wanted.append((Part("output_norm.weight", "model.norm"), (hidden,)))
    if not shape.tied:
        wanted.append((Part("output.weight", "lm_head"), (shape.vocabulary, hidden)))
    return wanted


def _rope_scaling(gguf: GgufFile) -> dict[str, object] | None:
    kind = gguf.get("llama.rope.scaling.type", str, "none")
    if kind == "linear":
        return {"type": "linear", "factor": _shortest(gguf.get("llama.rope.scaling.factor", float))}
    if kind != "none" or gguf.get("llama.rope.scale_linear", float, 1.0) != 1.0:
        raise gguf.unfit(f"RoPE scaling {kind[:40]!r} is not imported yet", "use an MLX version of this model")
    return None


def _quantization(gguf: GgufFile, pieces: list[Part]) -> dict[str, object]:
    """mlx-lm's "quantization": the commonest width for all, an entry for each part of another width."""
    kinds = {part.base: gguf.tensors[part.name].type.name for part in pieces}
    bits = {base: AFFINE[kind].bits for base, kind in kinds.items() if kind in AFFINE}
    if not bits:
        return {}
    common = Counter(bits.values()).most_common(1)[0][0]
    others = {base: {"group_size": GROUP, "bits": width} for base, width in bits.items() if width != common}
    return {"quantization": {"group_size": GROUP, "bits": common, **others}}


def _shortest(value: float) -> float:
    """The shortest decimal that is the same f32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))
