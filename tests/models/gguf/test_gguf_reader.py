"""The GGUF reader: what it reads, and that no damage gets past it or out of it as anything but a ModelError."""

import random
import struct
from pathlib import Path

import pytest

from engine.errors import ModelError
from models.gguf.gguf_reader import read_gguf
from tests.toys.gguf_files import ARRAY, BOOL, F32, F64, I8, I64, STRING, U8, U16, U32, U64, ToyGguf, ToyTensor

VECTOR = ToyTensor("v", 0, (4,), struct.pack("<4f", 1, 2, 3, 4))
MATRIX = ToyTensor("m", 8, (2, 64), bytes(range(136)))
SMALL = ToyGguf({"a.text": (STRING, "héllo"), "a.list": (ARRAY, (U16, [1, 2]))}, (VECTOR, MATRIX))


def refusal_of(tmp_path: Path, content: bytes) -> str:
    """The one-line message that `content` is refused with."""
    path = tmp_path / "toy.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read_gguf(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message


@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_metadata_reads_back(tmp_path: Path, version: int) -> None:
    nested = (ARRAY, [(STRING, ["x", "y"]), (BOOL, [True, False]), (U8, [])])
    toy = ToyGguf(
        {
            "small": (I8, -3),
            "large": (U64, 2**64 - 1),
            "signed": (I64, -(2**63)),
            "single": (F32, 0.5),
            "double": (F64, 0.1),
            "yes": (BOOL, True),
            "text": (STRING, "snow ☃"),
            "nested": (ARRAY, nested),
        },
        (VECTOR,),
        version,
    )
    found = read_gguf(toy.write(tmp_path / "toy.gguf")).metadata
    assert dict(found) == {
        "small": -3,
        "large": 2**64 - 1,
        "signed": -(2**63),
        "single": 0.5,
        "double": 0.1,
        "yes": True,
        "text": "snow ☃",
        "nested": (("x", "y"), (True, False), ()),
    }
    assert found["yes"] is True


@pytest.mark.parametrize("alignment", [1, 8, 32, 256])
def test_tensors_are_found_at_every_alignment(tmp_path: Path, alignment: int) -> None:
    toy = ToyGguf({"general.alignment": (U32, alignment)}, (VECTOR, MATRIX), alignment=alignment)
    gguf = read_gguf(toy.write(tmp_path / "toy.gguf"))
    assert gguf.raw("v").view("<f4").tolist() == [1, 2, 3, 4]
    assert gguf.raw("m").tobytes() == MATRIX.data
    assert gguf.tensors["m"].shape == (2, 64)
    assert not gguf.raw("v").flags.writeable


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = SMALL.to_bytes()
    end = len(whole) - (-len(MATRIX.data) % 32)  # the padding after the last tensor may go
    for length in range(end):
        message = refusal_of(tmp_path, whole[:length])
        assert "cut short" in message or "too many" in message, (length, message)
    (tmp_path / "toy.gguf").write_bytes(whole[:end])
    assert read_gguf(tmp_path / "toy.gguf").raw("m").tobytes() == MATRIX.data


def bytes_with(old: bytes, new: bytes) -> bytes:
    whole = SMALL.to_bytes()
    assert whole.count(old) == 1 and len(old) == len(new)
    return whole.replace(old, new)


HEAD = struct.pack("<IQQ", 3, 2, 2)
LENGTH = struct.pack("<Q", 6) + b"a.text"
ITEMS = struct.pack("<IQ", U16, 2)
SHAPE = struct.pack("<IQQIQ", 2, 64, 2, 8, 32)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"GGML" + SMALL.to_bytes()[4:], "not a GGUF file"),
        (bytes_with(HEAD, struct.pack("<IQQ", 1, 2, 2)), "version 1 is not supported"),
        (bytes_with(HEAD, struct.pack(">IQQ", 3, 2, 2)), "big-endian"),
        (bytes_with(HEAD, struct.pack("<IQQ", 3, 2**63, 2)), "too many"),
        (bytes_with(LENGTH, struct.pack("<Q", 2**64 - 1) + b"a.text"), "too many for a text"),
        (bytes_with(LENGTH, struct.pack("<Q", 2**20) + b"a.text"), "cut short in a metadata key"),
        (bytes_with(b"h\xc3\xa9llo", b"h\xc3\xc3llo"), "not UTF-8"),
        (bytes_with(ITEMS, struct.pack("<IQ", U16, 2**62)), "more than any model has"),
        (bytes_with(ITEMS, struct.pack("<IQ", U16, 2**21)), "cut short in the list 'a.list'"),
        (bytes_with(ITEMS, struct.pack("<IQ", STRING, 2**21)), "too many for the file"),
        (bytes_with(ITEMS, struct.pack("<IQ", 77, 2)), "unknown type 77"),
        (bytes_with(ITEMS, struct.pack("<IQ", BOOL, 2)).replace(b"\1\0\2\0", b"\1\2\2\0"), "neither true nor false"),
        (bytes_with(SHAPE, struct.pack("<IQQIQ", 0, 64, 2, 8, 32)), "0 dimensions"),
        (bytes_with(SHAPE, struct.pack("<IQQIQ", 5, 64, 2, 8, 32)), "5 dimensions"),
        (bytes_with(SHAPE, struct.pack("<IQQIQ", 2, 64, 0, 8, 32)), "cannot store"),
        (bytes_with(SHAPE, struct.pack("<IQQIQ", 2, 2**63, 2**63, 8, 32)), "cut short, tensor 'm'"),
        (bytes_with(SHAPE, struct.pack("<IQQIQ", 2, 64, 2, 10, 32)), "is Q2_K, which is not supported"),
        (bytes_with(SHAPE, struct.pack("<IQQIQ", 2, 64, 2, 12, 32)), "a shape (2, 64) that Q4_K cannot store"),
        (bytes_with(SHAPE, struct.pack("<IQQIQ", 2, 64, 2, 99, 32)), "unknown type 99"),
        (bytes_with(SHAPE, struct.pack("<IQQIQ", 2, 64, 2, 8, 33)), "not aligned"),
        (bytes_with(SHAPE, struct.pack("<IQQIQ", 2, 64, 2, 8, 0)), "overlaps"),
        (bytes_with(SHAPE, struct.pack("<IQQIQ", 2, 64, 2, 8, 2**64 - 32)), "cut short, tensor 'm'"),
        (ToyGguf({"general.alignment": (U32, 24)}, (VECTOR,)).to_bytes(), "not a power of two"),
        (ToyGguf({"general.alignment": (STRING, "32")}, (VECTOR,)).to_bytes(), "not a power of two"),
        (ToyGguf({}, (VECTOR, VECTOR)).to_bytes(), "appears twice"),
        (bytes_with(b"a.text", b"a.list"), "'a.list' appears twice"),
    ],
)
def test_each_false_number_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    assert reason in refusal_of(tmp_path, content)


def test_lists_nested_without_end_are_refused(tmp_path: Path) -> None:
    content = ToyGguf({"deep": (U8, 0)}, (VECTOR,)).to_bytes()
    wrapped = struct.pack("<IQ", ARRAY, 1) * 2000 + struct.pack("<IQ", U8, 0)
    key = struct.pack("<Q", 4) + b"deep"
    content = content.replace(key + struct.pack("<IB", U8, 0), key + struct.pack("<I", ARRAY) + wrapped)
    assert "nested too deeply" in refusal_of(tmp_path, content)


def spoil_bytes(rng: random.Random, content: bytes, head_bytes: int) -> bytes:
    """One to three faults, mostly in the first `head_bytes`: flipped, cut out, put in, made extreme, cut off."""
    damaged = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(min(head_bytes, len(damaged))) if rng.random() < 0.9 else rng.randrange(len(damaged))
        fault = rng.randrange(5)
        if fault == 0:
            damaged[place] = rng.randrange(256)
        elif fault == 1:
            del damaged[place : place + rng.randint(1, 40)]
        elif fault == 2:
            damaged[place:place] = rng.randbytes(rng.randint(1, 40))
        elif fault == 3:
            damaged[place : place + 8] = struct.pack(
                "<Q", rng.choice([0, 1, 2**20, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
            )
        else:
            del damaged[max(place, 1) :]
    return bytes(damaged)


def test_random_damage_is_a_model_error_or_harmless(tmp_path: Path) -> None:
    path, rng, refused = tmp_path / "toy.gguf", random.Random(0), 0
    for _ in range(100):
        content = SMALL.to_bytes()
        path.write_bytes(spoil_bytes(rng, content, len(content)))
        try:
            gguf = read_gguf(path)
        except ModelError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert all(gguf.raw(name).size == info.size_bytes for name, info in gguf.tensors.items())
    assert refused >= 30  # else the damage was too mild to prove anything


def test_typed_access_names_what_is_missing_or_of_the_wrong_kind(tmp_path: Path) -> None:
    toy = ToyGguf({"n": (U32, 7), "yes": (BOOL, True), "mixed": (ARRAY, (U8, [1]))}, (VECTOR,))
    gguf = read_gguf(toy.write(tmp_path / "toy.gguf"))
    assert gguf.get("n", int) == 7 and gguf.get("n", float) == 7.0 and gguf.get("absent", str, "d") == "d"
    with pytest.raises(ModelError, match="lacks absent"):
        gguf.get("absent", int)
    with pytest.raises(ModelError, match="yes is not of the kind int"):
        gguf.get("yes", int)
    with pytest.raises(ModelError, match="mixed is not a list of the kind str"):
        gguf.get_all("mixed", str)
    with pytest.raises(ModelError, match="lacks the list n"):
        gguf.get_all("n", int)
    with pytest.raises(ModelError, match="no such file"):
        read_gguf(tmp_path)
