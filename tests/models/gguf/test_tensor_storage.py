"""ggml blocks against MLX affine arrays, judged by the gguf package and by a slow decoder written from the format."""

import math
import random
import struct
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from engine.errors import ModelError, UsageError
from models.gguf import tensor_storage
from models.gguf.affine_groups import AFFINE, GROUP, pack, quantize, read_back, store
from models.gguf.gguf_reader import TENSOR_TYPES, GgufFile, read_gguf
from models.gguf.tensor_storage import Part, Storage, entries_of, pieces_of, storage_of, unpermute, values_of
from models.safetensors_file import NUMPY
from models.storage_options import BITS, StorageOptions
from tests.toys.gguf_files import TYPE_CODES, ToyGguf, ToyTensor, random_tensor


def toy(tmp_path: Path, *parts: ToyTensor) -> GgufFile:
    return read_gguf(ToyGguf({}, parts).write(tmp_path / "toy.gguf"))


def part_of(gguf: GgufFile, name: str, heads: int | None = None, less: float = 0.0) -> Part:
    return Part(name, "m.weight", gguf.tensors[name].shape, heads, less)


def arrays_of(gguf: GgufFile, part: Part, how: Storage) -> dict[str, np.ndarray]:
    """The tensor's pieces put together, each as its entry announces it and each place written once."""
    entries = {entry.name: entry for entry in entries_of(part, how)}
    whole = {name: np.zeros(entry.shape, NUMPY[entry.dtype]) for name, entry in entries.items()}
    rows = dict.fromkeys(entries, 0)
    for piece in pieces_of(gguf, part, how):
        assert piece.array.dtype == whole[piece.name].dtype
        whole[piece.name][piece.row : piece.row + len(piece.array)] = piece.array
        rows[piece.name] += len(piece.array)
    assert rows == {name: entry.shape[0] for name, entry in entries.items()}
    return whole


def values_in_mlx(arrays: dict[str, np.ndarray], how: Storage) -> np.ndarray:
    """What MLX makes of it, scales in f32."""
    scales, biases = (mx.array(read_back(arrays[f"m.{kind}"], how.dtype)) for kind in ("scales", "biases"))
    words = mx.array(arrays["m.weight"])
    return np.array(mx.dequantize(words, scales, biases, group_size=how.group, bits=how.bits))


def storage_as_is(gguf: GgufFile, name: str, dtype: str) -> Storage:
    return storage_of(gguf.tensors[name], StorageOptions(), dtype)


def by_gguf(tensor: ToyTensor) -> np.ndarray:
    """The values that the gguf package finds in a tensor."""
    raw = np.frombuffer(tensor.data, np.uint8).reshape(tensor.shape[0], -1)
    return dequantize(raw, GGMLQuantizationType(tensor.code))


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_mlx_sees_the_very_values_ggml_stores(tmp_path: Path, kind: str) -> None:
    rng, data = random.Random(1), b""
    for _ in range(5 * 3):
        numbers = [rng.choice([0.0, 6e-8, -1e-6, 0.0123, -1.7, 255.0]) for _ in range(2 if kind == "Q4_1" else 1)]
        data += struct.pack(f"<{len(numbers)}e", *numbers) + rng.randbytes(32 if kind == "Q8_0" else 16)
    tensor = ToyTensor("t", TYPE_CODES[kind], (5, 96), data)
    gguf = toy(tmp_path, tensor)
    how = storage_as_is(gguf, "t", "F16")
    assert np.array_equal(values_in_mlx(arrays_of(gguf, part_of(gguf, "t"), how), how), by_gguf(tensor))


@pytest.mark.parametrize("kind", [kind.name for kind in TENSOR_TYPES.values()])
def test_every_type_has_the_values_of_the_gguf_package(tmp_path: Path, kind: str) -> None:
    """The bytes are random: every scale, minimum and sign of a block of 256 comes up. With f32 nothing is rounded."""
    tensor = random_tensor(np.random.default_rng(7), "t", kind, (6, 512), 1.0)
    gguf, wanted = toy(tmp_path, tensor), by_gguf(tensor)
    assert 0.2 < wanted.std() < 5 and (wanted > 0).any() and (wanted < 0).any()
    raw = gguf.rows("t", 0, 6)
    assert np.array_equal(values_of(gguf.tensors["t"], raw), wanted)
    how = storage_as_is(gguf, "t", "F32")
    made = arrays_of(gguf, part_of(gguf, "t"), how)
    if kind in AFFINE:
        numbers, scale, bias = AFFINE[kind].split(raw.reshape(-1, gguf.tensors["t"].type.block_bytes))
        mine = numbers * scale[:, None] + bias[:, None]
        assert np.array_equal(mine.reshape(6, 512), wanted)
        assert np.allclose(values_in_mlx(made, how), wanted, rtol=1e-6, atol=2e-6)  # MLX fuses scale and bias
    elif how.bits is None:
        assert np.array_equal(made["m.weight"], wanted)
    else:  # Q6_K: half a step of 8 bits over the range of its group
        groups = wanted.reshape(6, -1, GROUP)
        step = (groups.max(-1) - groups.min(-1)) / 255
        off = np.abs(values_in_mlx(made, how).reshape(groups.shape) - groups)
        assert how.bits == 8 and (off <= 0.501 * step[..., None] + 1e-6).all()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("group", [32, 128])
def test_quantizing_anew_is_half_a_step_off_at_most(bits: int, group: int) -> None:
    values = np.random.default_rng(bits).normal(size=(3, 256)).astype(np.float32)
    values[0, :group] = 0.25  # a group of one value
    numbers, scales, biases = quantize(values, bits, group, "F32")
    found = mx.dequantize(mx.array(pack(numbers, bits)), mx.array(scales), mx.array(biases), group, bits)
    grouped = values.reshape(3, -1, group)
    step = (grouped.max(-1) - grouped.min(-1)) / (2**bits - 1)
    off = np.abs(np.array(found).reshape(grouped.shape) - grouped)
    assert (off <= 0.501 * step[..., None] + 1e-6).all() and off[0, 0].max() == 0


def test_bf16_is_rounded_as_mlx_rounds_it() -> None:
    values = np.array([0, -0.0, 1, 1.00390625, 1.01171875, -3.14159, 1e-40, 3.4e38, math.inf, -math.inf], np.float32)
    values = np.concatenate([values, np.random.default_rng(0).normal(size=4000).astype(np.float32)])
    wanted = np.array(mx.array(values).astype(mx.bfloat16).view(mx.uint16))
    assert np.array_equal(store(values, "BF16"), wanted)
    assert np.isnan(read_back(store(np.array([math.nan], np.float32), "BF16"), "BF16")).all()


@pytest.mark.parametrize("kind", ["F16", "Q4_1", "Q6_K"])
def test_pieces_of_a_few_rows_are_the_whole_tensor(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf = toy(tmp_path, random_tensor(np.random.default_rng(3), "t", kind, (64, 256), 1.0))
    part, how = part_of(gguf, "t", heads=4), storage_as_is(gguf, "t", "F16")
    at_once = arrays_of(gguf, part, how)
    monkeypatch.setattr(tensor_storage, "_CHUNK_VALUES", 20 * 256)  # a head has 16 rows: one head at a time
    assert len(list(pieces_of(gguf, part, how))) == 4 * len(at_once)
    assert all(np.array_equal(array, at_once[name]) for name, array in arrays_of(gguf, part, how).items())


def test_options_decide_how_matrices_are_stored_and_vectors_stay_plain(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    sizes = {"q4": ("Q4_0", (8, 256)), "q6": ("Q6_K", (8, 256)), "odd": ("F32", (8, 33)), "v": ("F32", (64,))}
    gguf = toy(tmp_path, *(random_tensor(rng, name, kind, size, 1.0) for name, (kind, size) in sizes.items()))

    def bits(options: StorageOptions) -> dict[str, tuple[int | None, int]]:
        how = {name: storage_of(info, options, "F16") for name, info in gguf.tensors.items()}
        return {name: (one.bits, one.group) for name, one in how.items()}

    plain = (None, 32)
    assert bits(StorageOptions()) == {"q4": (4, 32), "q6": (8, 32), "odd": plain, "v": plain}
    assert bits(StorageOptions(bits=16)) == dict.fromkeys(sizes, plain)
    assert bits(StorageOptions(bits=3, group=128)) == {"q4": (3, 128), "q6": (3, 128), "odd": plain, "v": plain}
    for nonsense in ({"bits": 7}, {"group": 48}, {"dtype": "float8"}):
        with pytest.raises(UsageError, match="choose one of"):
            StorageOptions(**nonsense)  # type: ignore[arg-type]


def test_what_a_converter_has_added_to_norms_is_taken_off(tmp_path: Path) -> None:
    gguf = toy(tmp_path, ToyTensor("v", 0, (2,), struct.pack("<2f", 1.5, -0.25)))
    made = arrays_of(gguf, part_of(gguf, "v", less=1.0), Storage("F32"))
    assert made["m.weight"].tolist() == [0.5, -1.25]


@pytest.mark.parametrize(
    ("kind", "data", "how"),
    [
        ("F32", struct.pack("<32f", math.nan, *[0.0] * 31), None),
        ("F32", struct.pack("<32f", 1e6, *[0.0] * 31), None),  # past f16
        ("Q4_1", struct.pack("<ee", 1.0, math.inf) + bytes(16), None),
        ("Q8_0", struct.pack("<e", 600.0) + bytes(32), None),  # 128 x 600 is past f16: it cannot be stored exactly
        ("F32", struct.pack("<32f", math.inf, *[0.0] * 31), Storage("F16", 4, 32, again=True)),
        ("F32", struct.pack("<32f", 3e6, *[0.0] * 31), Storage("F16", 4, 32, again=True)),
    ],
)
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, kind: str, data: bytes, how: Storage | None) -> None:
    gguf = toy(tmp_path, ToyTensor("t", TYPE_CODES[kind], (1, 32), data))
    with pytest.raises(ModelError, match="tensor 't' holds infinities or NaN"):
        list(pieces_of(gguf, part_of(gguf, "t"), how or storage_as_is(gguf, "t", "F16")))


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
    gguf = toy(tmp_path, random_tensor(np.random.default_rng(6), "t", "Q4_1", (32, 64), 1.0))
    how = storage_as_is(gguf, "t", "F16")
    plain, moved = (arrays_of(gguf, part_of(gguf, "t", heads), how) for heads in (None, 2))
    assert np.array_equal(values_in_mlx(moved, how), unpermute(values_in_mlx(plain, how), 2))
    assert not np.array_equal(moved["m.weight"], plain["m.weight"])


def test_a_file_that_is_cut_while_it_is_read_is_a_model_error(tmp_path: Path) -> None:
    gguf = toy(tmp_path, random_tensor(np.random.default_rng(6), "t", "Q4_1", (32, 64), 1.0))
    with gguf.path.open("r+b") as file:
        file.truncate(gguf.path.stat().st_size - 500)
    with pytest.raises(ModelError, match="was cut while it was read"):
        list(pieces_of(gguf, part_of(gguf, "t"), storage_as_is(gguf, "t", "F16")))
