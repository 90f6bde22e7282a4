"""A small GGUF writer and a tiny random llama in GGUF, written from the format's description, not from our reader."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}

TYPE_CODES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8}
TYPE_CODES |= {"Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "BF16": 30}
_BLOCKS = {"Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34)}
_BLOCKS |= {"Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210)}
# Of each quantized type: where the f16 scale stands, what it is for values of about 1, and where an f16 minimum stands,
# in scales.
_SCALES = {"Q4_0": (0, 1 / 5, None, 0.0), "Q4_1": (0, 1 / 5, 2, -7.5), "Q5_0": (0, 1 / 9, None, 0.0)}
_SCALES |= {"Q5_1": (0, 1 / 9, 2, -15.5), "Q8_0": (0, 1 / 74, None, 0.0)}
_SCALES |= {"Q4_K": (0, 1 / 150, 2, 7.5), "Q5_K": (0, 1 / 300, 2, 15.0), "Q6_K": (208, 1 / 1400, None, 0.0)}


@dataclass(frozen=True)
class ToyTensor:
    """Shape slowest dimension first; `code` is ggml's number of the type; `offset` overrides the place in the data."""

    name: str
    code: int
    shape: tuple[int, ...]
    data: bytes
    offset: int | None = None


@dataclass(frozen=True)
class ToyGguf:
    """Everything in a file: metadata values come with their type code, arrays as (ARRAY, (item code, items))."""

    metadata: Mapping[str, tuple[int, object]]
    tensors: tuple[ToyTensor, ...]
    version: int = 3
    alignment: int = 32

    def with_metadata(self, **changes: tuple[int, object] | None) -> "ToyGguf":
        """A copy with keys changed (write "__" for the dot), or dropped where the change is None."""
        merged = {**self.metadata, **{key.replace("__", "."): value for key, value in changes.items()}}
        return replace(self, metadata={key: value for key, value in merged.items() if value is not None})

    def with_tensors(self, *tensors: ToyTensor, without: str = "") -> "ToyGguf":
        """A copy with tensors put in place of those of the same name, or added; `without` drops one."""
        merged = {tensor.name: tensor for tensor in (*self.tensors, *tensors) if tensor.name != without}
        return replace(self, tensors=tuple(merged.values()))

    def to_bytes(self) -> bytes:
        head = b"GGUF" + struct.pack("<IQQ", self.version, len(self.tensors), len(self.metadata))
        for key, (code, value) in self.metadata.items():
            head += _text(key) + struct.pack("<I", code) + _value(code, value)
        data = b""
        for tensor in self.tensors:
            offset = len(data) if tensor.offset is None else tensor.offset
            head += _text(tensor.name) + struct.pack("<I", len(tensor.shape))
            head += b"".join(struct.pack("<Q", side) for side in reversed(tensor.shape))
            head += struct.pack("<IQ", tensor.code, offset)
            data += tensor.data + bytes(-len(tensor.data) % self.alignment)
        return head + bytes(-len(head) % self.alignment) + data

    def write(self, path: Path) -> Path:
        path.write_bytes(self.to_bytes())
        return path


def random_tensor(rng: np.random.Generator, name: str, kind: str, shape: tuple[int, ...], size: float) -> ToyTensor:
    """Random values of about `size` in any of the types that are read: all bits of the blocks are random but those of
    the scales of whole blocks."""
    count = int(np.prod(shape))
    if kind in ("F32", "F16", "BF16"):
        numbers = rng.normal(0, size, count).astype("<f2").astype("<f4")
        if kind == "BF16":
            return ToyTensor(name, TYPE_CODES[kind], shape, (numbers.view("<u4") >> 16).astype("<u2").tobytes())
        return ToyTensor(name, TYPE_CODES[kind], shape, numbers.astype("<f4" if kind == "F32" else "<f2").tobytes())
    values, block_bytes = _BLOCKS[kind]
    blocks = rng.integers(0, 256, (count // values, block_bytes), dtype=np.uint8)
    place, step, minimum, steps = _SCALES[kind]
    scales = (rng.uniform(0.5, 1.5, len(blocks)) * step * size).astype("<f2")
    blocks[:, place : place + 2] = scales[:, None].view(np.uint8)
    if minimum is not None:
        blocks[:, minimum : minimum + 2] = (scales * np.float16(steps))[:, None].view(np.uint8)
    return ToyTensor(name, TYPE_CODES[kind], shape, blocks.tobytes())


def tiny_llama(seed: int = 0, kind: str = "Q4_1", embedding: str = "Q8_0", tied: bool = True) -> ToyGguf:
    """Two layers of width 64, 4 heads and 2 key heads of width 16, 261 tokens, rows padded to 264."""
    rng = np.random.default_rng(seed)
    tokens, types, merges = byte_vocabulary()
    hidden, wide, keys, rows = 64, 96, 32, 264
    tensors = [random_tensor(rng, "token_embd.weight", embedding, (rows, hidden), 1.0)]
    for layer in range(2):
        sizes = {"attn_q": (hidden, hidden), "attn_k": (keys, hidden), "attn_v": (keys, hidden)}
        sizes |= {"attn_output": (hidden, hidden), "ffn_gate": (wide, hidden), "ffn_up": (wide, hidden)}
        sizes |= {"ffn_down": (hidden, wide)}
        for name, size in sizes.items():
            tensors.append(random_tensor(rng, f"blk.{layer}.{name}.weight", kind, size, 0.3))
        for name in ("attn_norm", "ffn_norm"):
            tensors.append(random_tensor(rng, f"blk.{layer}.{name}.weight", "F32", (hidden,), 1.0))
    tensors.append(random_tensor(rng, "output_norm.weight", "F32", (hidden,), 1.0))
    if not tied:
        tensors.append(random_tensor(rng, "output.weight", kind, (rows, hidden), 1.0))
    return ToyGguf(_llama_metadata(tokens, types, merges), tuple(tensors))


def _llama_metadata(tokens: list[str], types: list[int], merges: list[str]) -> dict[str, tuple[int, object]]:
    return {
        "general.architecture": (STRING, "llama"),
        "llama.block_count": (U32, 2),
        "llama.context_length": (U32, 128),
        "llama.embedding_length": (U32, 64),
        "llama.feed_forward_length": (U32, 96),
        "llama.attention.head_count": (U32, 4),
        "llama.attention.head_count_kv": (U32, 2),
        "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
        "llama.rope.freq_base": (F32, 10000.0),
        "llama.rope.dimension_count": (U32, 16),
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, "smollm"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, types)),
        "tokenizer.ggml.merges": (ARRAY, (STRING, merges)),
        "tokenizer.ggml.bos_token_id": (U32, 0),
        "tokenizer.ggml.eos_token_id": (U32, 1),
        "tokenizer.chat_template": (STRING, "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}"),
    }


def byte_vocabulary() -> tuple[list[str], list[int], list[str]]:
    """Three special tokens, GPT-2's 256 byte letters, two merged tokens; types and merges to match."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in plain] + [chr(256 + number) for number in range(256 - len(plain))]
    tokens = ["<s>", "</s>", "<tool>", *letters, "he", "hel"]
    return tokens, [3, 3, 4] + [1] * (len(tokens) - 3), ["h e", "he l"]


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(code: int, value: object) -> bytes:
    if code == STRING:
        assert isinstance(value, str)
        return _text(value)
    if code == ARRAY:
        assert isinstance(value, tuple)
        item_code, items = value
        return struct.pack("<IQ", item_code, len(items)) + _join(item_code, items)
    return struct.pack(f"<{_FORMATS[code]}", value)


def _join(code: int, items: Iterable[object]) -> bytes:
    return b"".join(_value(code, item) for item in items)
