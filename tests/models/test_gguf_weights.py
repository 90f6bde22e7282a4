"""ggml blocks against MLX affine arrays, judged by a slow decoder written from ggml's description."""

import math
import random
import struct
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.errors import ModelError
from models.builtin import builtin_gguf
from models.gguf import GgufFile, read_gguf
from models.gguf_weights import AFFINE, GROUP, convert, outline, unpermute
from tests.toys.gguf_files import TYPE_CODES, ToyGguf, ToyTensor, random_tensor

BLOCK_BYTES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}


def slow_decode(kind: str, data: bytes) -> list[float]:
    """Every value of a row of blocks, one at a time, in Python's doubles rounded once to f32 as ggml does."""
    values: list[float] = []
    for start in range(0, len(data), BLOCK_BYTES[kind]):
        block = data[start : start + BLOCK_BYTES[kind]]
        (scale,) = struct.unpack("<e", block[:2])
        for place in range(32):
            if kind == "Q8_0":
                values.append(scale * struct.unpack("<b", block[2 + place : 3 + place])[0])
                continue
            packed = block[len(block) - 16 + place % 16]
            nibble = packed >> 4 if place >= 16 else packed & 15
            values.append(
                scale * (nibble - 8) if kind == "Q4_0" else scale * nibble + struct.unpack("<e", block[2:4])[0]
            )
    return values


def toy(tmp_path: Path, *tensors: ToyTensor) -> GgufFile:
    return read_gguf(ToyGguf({}, tensors).write(tmp_path / "toy.gguf"))


def dequantized(kind: str, arrays: list[np.ndarray]) -> np.ndarray:
    weight, scales, biases = (mx.array(array) for array in arrays)
    scales, biases = scales.astype(mx.float32), biases.astype(mx.float32)
    return np.array(mx.dequantize(weight, scales, biases, group_size=GROUP, bits=AFFINE[kind].bits))


@pytest.mark.parametrize("kind", list(BLOCK_BYTES))
def test_mlx_sees_the_very_values_ggml_stores(tmp_path: Path, kind: str) -> None:
    rng = random.Random(1)
    data = b""
    for _ in range(5 * 3):
        numbers = [rng.choice([0.0, 6e-8, -1e-6, 0.0123, -1.7, 255.0]) for _ in range(2 if kind == "Q4_1" else 1)]
        data += struct.pack(f"<{len(numbers)}e", *numbers) + rng.randbytes(32 if kind == "Q8_0" else 16)
    gguf = toy(tmp_path, ToyTensor("t", TYPE_CODES[kind], (5, 96), data))
    found = dequantized(kind, convert(gguf, "t", None))
    assert np.array_equal(found, np.array(slow_decode(kind, data), np.float32).reshape(5, 96))


@pytest.mark.parametrize(("name", "kind"), [("token_embd.weight", "Q8_0"), ("blk.17.ffn_down.weight", "Q4_1")])
def test_mlx_sees_the_very_values_of_the_built_in_model(name: str, kind: str) -> None:
    gguf = read_gguf(builtin_gguf())
    found = dequantized(kind, [array[:40] for array in convert(gguf, name, None)])
    row_bytes = gguf.tensors[name].size_bytes // gguf.tensors[name].shape[0]
    wanted = slow_decode(kind, gguf.raw(name)[: 40 * row_bytes].tobytes())
    assert np.array_equal(found, np.array(wanted, np.float32).reshape(40, -1))
    assert float(np.abs(found).max()) > 0.01


def test_the_outline_announces_what_convert_makes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    kinds = [
        ("F32", (64,)),
        ("F32", (8, 64)),
        ("F16", (8, 64)),
        ("Q4_0", (8, 64)),
        ("Q4_1", (8, 64)),
        ("Q8_0", (8, 64)),
    ]
    odd = ToyTensor("odd", 0, (2,), struct.pack("<2f", 1.0, 0.1))
    gguf = toy(tmp_path, odd, *(random_tensor(rng, f"t{i}", kind, size, 1.0) for i, (kind, size) in enumerate(kinds)))
    names = {"<u4": "U32", "<f2": "F16", "<f4": "F32"}
    for name in gguf.tensors:
        made = [(names[array.dtype.str], array.shape) for array in convert(gguf, name, None)]
        assert [(entry.dtype, entry.shape) for entry in outline(gguf, name, "base")] == made


def test_norms_go_back_to_f16_only_if_nothing_is_lost(tmp_path: Path) -> None:
    exact = ToyTensor("exact", 0, (2,), struct.pack("<2f", 1.5, -0.25))
    tenth = ToyTensor("tenth", 0, (2,), struct.pack("<2f", 1.5, 0.1))
    gguf = toy(tmp_path, exact, tenth)
    assert convert(gguf, "exact", None)[0].dtype == np.float16
    (kept,) = convert(gguf, "tenth", None)
    assert kept.dtype == np.float32 and kept.tolist() == [1.5, np.float32(0.1)]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("F32", struct.pack("<32f", math.nan, *[0.0] * 31)),
        ("F16", struct.pack("<32e", math.inf, *[0.0] * 31)),
        ("Q4_0", struct.pack("<e", math.nan) + bytes(16)),
        ("Q4_1", struct.pack("<ee", 1.0, math.inf) + bytes(16)),
        ("Q8_0", struct.pack("<e", 600.0) + bytes(32)),  # 128 x 600 is past f16: it cannot be stored exactly
    ],
)
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, kind: str, data: bytes) -> None:
    gguf = toy(tmp_path, ToyTensor("t", TYPE_CODES[kind], (1, 32), data))
    with pytest.raises(ModelError, match="tensor 't' holds infinities or NaN"):
        convert(gguf, "t", None)


def test_unpermuted_rows_under_half_rotation_score_as_gguf_rows_under_pair_rotation() -> None:
    """q . k at positions 5 and 2, by llama.cpp's RoPE on its rows and by MLX's on ours."""
    rng = np.random.default_rng(5)
    heads, width, hidden = 3, 8, 16
    query, key = rng.normal(size=(2, heads * width, hidden))
    x, y = rng.normal(size=(2, hidden))
    angles = 10000.0 ** (-np.arange(0, width, 2) / width)

    def pairs(vector: np.ndarray, position: int) -> np.ndarray:
        spun = (vector[..., 0::2] + 1j * vector[..., 1::2]) * np.exp(1j * position * angles)
        return np.concatenate([spun.real, spun.imag], -1)

    def halves(vector: np.ndarray, position: int) -> np.ndarray:
        spun = (vector[..., : width // 2] + 1j * vector[..., width // 2 :]) * np.exp(1j * position * angles)
        return np.concatenate([spun.real, spun.imag], -1)

    wanted = (pairs((query @ x).reshape(heads, width), 5) * pairs((key @ y).reshape(heads, width), 2)).sum(-1)
    query, key = unpermute(query, heads), unpermute(key, heads)
    found = (halves((query @ x).reshape(heads, width), 5) * halves((key @ y).reshape(heads, width), 2)).sum(-1)
    assert np.allclose(found, wanted, atol=1e-12)


def test_packed_rows_and_scales_move_together(tmp_path: Path) -> None:
    tensor = random_tensor(np.random.default_rng(6), "t", "Q4_1", (32, 64), 1.0)
    gguf = toy(tmp_path, tensor)
    plain, moved = convert(gguf, "t", None), convert(gguf, "t", 2)
    assert np.array_equal(dequantized("Q4_1", moved), unpermute(dequantized("Q4_1", plain), 2))
    assert not np.array_equal(moved[0], plain[0])
