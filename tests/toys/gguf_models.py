"""Tiny random models of the four families as GGUF, wide enough for blocks of 256, and what they compute, in doubles.

Written from the formats' and the models' descriptions, not from the importer: names and metadata from ggml's
docs/gguf.md, the forward passes from the models' papers and transformers' modelling files.
"""

from collections.abc import Sequence

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from tests.toys.gguf_files import ARRAY, BOOL, F32, I32, STRING, U32, ToyGguf, ToyTensor, byte_vocabulary, random_tensor

FAMILIES = ("llama", "qwen2", "qwen3", "gemma3")
KINDS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
HIDDEN, WIDE, HEADS, KV_HEADS, WIDTH, ROWS, LAYERS = 256, 256, 4, 2, 64, 272, 4
WINDOW, PATTERN = 4, 2
EPSILON = 1e-5
BASES = {"llama": 10000.0, "qwen2": 1e6, "qwen3": 1e6, "gemma3": 1e6}


def tiny(family: str, kinds: Sequence[str] = KINDS, seed: int = 0, tied: bool = True) -> ToyGguf:
    """Four layers of width 256; the matrices take turns in being of `kinds`."""
    rng, turn = np.random.default_rng(seed), iter(kinds)

    def matrix(name: str, shape: tuple[int, int], size: float) -> ToyTensor:
        nonlocal turn
        kind = next(turn, None)
        if kind is None:
            turn = iter(kinds)
            kind = next(turn)
        return random_tensor(rng, name, kind, shape, size)

    def vector(name: str, count: int) -> ToyTensor:
        around = 1.0 if name.endswith("weight") else 0.0
        tensor = random_tensor(rng, name, "F32", (count,), 0.2)
        numbers = np.frombuffer(tensor.data, "<f4") + np.float32(around)
        return ToyTensor(name, 0, (count,), numbers.astype("<f2").astype("<f4").tobytes())

    tensors = [matrix("token_embd.weight", (ROWS, HIDDEN), 0.5)]
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        tensors += [matrix(block + name, shape, 0.05) for name, shape in _matrices().items()]
        tensors += [vector(block + name, count) for name, count in _vectors(family).items()]
    tensors.append(vector("output_norm.weight", HIDDEN))
    if not tied:
        tensors.append(matrix("output.weight", (ROWS, HIDDEN), 0.5))
    return ToyGguf(_metadata(family), tuple(tensors))


def _matrices() -> dict[str, tuple[int, int]]:
    queries, keys = HEADS * WIDTH, KV_HEADS * WIDTH
    return {
        "attn_q.weight": (queries, HIDDEN),
        "attn_k.weight": (keys, HIDDEN),
        "attn_v.weight": (keys, HIDDEN),
        "attn_output.weight": (HIDDEN, queries),
        "ffn_gate.weight": (WIDE, HIDDEN),
        "ffn_up.weight": (WIDE, HIDDEN),
        "ffn_down.weight": (HIDDEN, WIDE),
    }


def _vectors(family: str) -> dict[str, int]:
    found = {"attn_norm.weight": HIDDEN, "ffn_norm.weight": HIDDEN}
    if family == "qwen2":
        found |= {"attn_q.bias": HEADS * WIDTH, "attn_k.bias": KV_HEADS * WIDTH, "attn_v.bias": KV_HEADS * WIDTH}
    if family in ("qwen3", "gemma3"):
        found |= {"attn_q_norm.weight": WIDTH, "attn_k_norm.weight": WIDTH}
    if family == "gemma3":
        found |= {"post_attention_norm.weight": HIDDEN, "post_ffw_norm.weight": HIDDEN}
    return found


def _metadata(family: str) -> dict[str, tuple[int, object]]:
    numbers = {
        "block_count": LAYERS,
        "context_length": 128,
        "embedding_length": HIDDEN,
        "feed_forward_length": WIDE,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
    }
    if family in ("qwen3", "gemma3"):
        numbers |= {"attention.key_length": WIDTH, "attention.value_length": WIDTH}
    if family == "gemma3":
        numbers |= {"attention.sliding_window": WINDOW, "attention.sliding_window_pattern": PATTERN}
    return {
        "general.architecture": (STRING, family),
        **{f"{family}.{key}": (U32, number) for key, number in numbers.items()},
        f"{family}.attention.layer_norm_rms_epsilon": (F32, EPSILON),
        f"{family}.rope.freq_base": (F32, BASES[family]),
        **(pieces() if family == "gemma3" else letters(family)),
    }


def letters(family: str) -> dict[str, tuple[int, object]]:
    """A byte-level tokenizer of 261 tokens."""
    tokens, types, merges = byte_vocabulary()
    return {
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, "llama-bpe" if family == "llama" else "qwen2"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, types)),
        "tokenizer.ggml.merges": (ARRAY, (STRING, merges)),
        "tokenizer.ggml.bos_token_id": (U32, 0),
        "tokenizer.ggml.eos_token_id": (U32, 1),
    }


def pieces(prefix: bool = False) -> dict[str, tuple[int, object]]:
    """A SentencePiece tokenizer of 4 control tokens, 2 of a user's, 256 bytes and a few pieces with scores."""
    control, user = ["<pad>", "<eos>", "<bos>", "<unk>"], ["  ", "<tool>"]
    words = ["▁t", "he", "▁the", "▁", "t", "h", "e", "y", "th", "ey"]
    tokens = control + user + [f"<0x{byte:02X}>" for byte in range(256)] + words
    scores = [-1000.0] * 6 + [0.0] * 256 + [-float(number) for number in range(len(words))]
    return {
        "tokenizer.ggml.model": (STRING, "llama"),
        "tokenizer.ggml.pre": (STRING, "default"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
        "tokenizer.ggml.scores": (ARRAY, (F32, scores)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, [3] * 4 + [4] * 2 + [6] * 256 + [1] * len(words))),
        "tokenizer.ggml.bos_token_id": (U32, 2),
        "tokenizer.ggml.eos_token_id": (U32, 1),
        "tokenizer.ggml.unknown_token_id": (U32, 3),
        "tokenizer.ggml.add_bos_token": (BOOL, True),
        "tokenizer.ggml.add_space_prefix": (BOOL, prefix),
    }


def values(tensor: ToyTensor) -> np.ndarray:
    """A tensor's numbers as the gguf package has them, in doubles."""
    kind = GGMLQuantizationType(tensor.code)
    raw = np.frombuffer(tensor.data, np.uint8).reshape(*tensor.shape[:-1], -1)
    return dequantize(raw, kind).astype(np.float64).reshape(tensor.shape)


def logits(toy: ToyGguf, ids: Sequence[int]) -> np.ndarray:
    """Logits (tokens, rows) of a model of `tiny`, over the GGUF's own values and rows."""
    _, family = toy.metadata["general.architecture"]
    weights = {tensor.name: values(tensor) for tensor in toy.tensors}
    gemma = family == "gemma3"
    h = weights["token_embd.weight"][list(ids)]
    if gemma:
        h = h * 16.0  # the root of 256, which bf16 holds exactly
    for layer in range(LAYERS):
        w = {name.removeprefix(f"blk.{layer}."): one for name, one in weights.items()}
        mixed = _attention(str(family), w, _norm(h, w["attn_norm.weight"]), layer)
        h = h + (_norm(mixed, w["post_attention_norm.weight"]) if gemma else mixed)
        x = _norm(h, w["ffn_norm.weight"])
        gate = x @ w["ffn_gate.weight"].T
        opened = gate / (1 + np.exp(-gate)) if not gemma else _gelu(gate)
        out = opened * (x @ w["ffn_up.weight"].T) @ w["ffn_down.weight"].T
        h = h + (_norm(out, w["post_ffw_norm.weight"]) if gemma else out)
    return _norm(h, weights["output_norm.weight"]) @ weights.get("output.weight", weights["token_embd.weight"]).T


def _attention(family: str, w: dict[str, np.ndarray], x: np.ndarray, layer: int) -> np.ndarray:
    count, nothing = len(x), np.zeros(1)
    q, k, v = (x @ w[f"attn_{n}.weight"].T + w.get(f"attn_{n}.bias", nothing) for n in "qkv")
    q, k, v = (part.reshape(count, -1, WIDTH) for part in (q, k, v))
    if "attn_q_norm.weight" in w:
        q, k = _norm(q, w["attn_q_norm.weight"]), _norm(k, w["attn_k_norm.weight"])
    local = family == "gemma3" and (layer + 1) % PATTERN != 0
    q, k = (_spin(part, 10000.0 if local else BASES[family], family == "llama") for part in (q, k))
    k, v = (part.repeat(HEADS // KV_HEADS, 1) for part in (k, v))
    distance = np.arange(count)[:, None] - np.arange(count)[None]
    unseen = (distance < 0) | (local & (distance >= WINDOW))
    scores = np.where(unseen, -np.inf, np.einsum("qhd,khd->hqk", q, k) / np.sqrt(WIDTH))
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = np.einsum("hqk,khd->qhd", shares / shares.sum(-1, keepdims=True), v)
    return mixed.reshape(count, -1) @ w["attn_output.weight"].T


def _norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """GGUF's norms have Gemma's 1 in them already."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight


def _spin(x: np.ndarray, base: float, pairs: bool) -> np.ndarray:
    """RoPE over (tokens, heads, width): of neighbours, or of halves."""
    angles = np.outer(np.arange(len(x)), base ** (-np.arange(0, WIDTH, 2) / WIDTH))[:, None]
    first, second = (x[..., 0::2], x[..., 1::2]) if pairs else (x[..., : WIDTH // 2], x[..., WIDTH // 2 :])
    spun = (first + 1j * second) * np.exp(1j * angles)
    if pairs:
        return np.stack([spun.real, spun.imag], -1).reshape(x.shape)
    return np.concatenate([spun.real, spun.imag], -1)


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
