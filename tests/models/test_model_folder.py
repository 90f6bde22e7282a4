"""check_folder: whole folders pass, and each way a folder can be bad is told in one line before mlx-lm sees it."""

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.errors import ModelError
from models.convert.gguf_import import import_gguf
from models.model_folder import check_folder
from models.safetensors_file import Entry, Piece, read_entries, write_entries
from tests.toys.gguf_files import tiny_llama


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pristine")
    return import_gguf(tiny_llama().write(place / "toy.gguf"), place / "toy")


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    """A folder of one's own to spoil."""
    return Path(shutil.copytree(pristine, tmp_path / "toy"))


def refusal_of(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        check_folder(path)
    assert "\n" not in str(caught.value) and "; " in str(caught.value)
    return str(caught.value)


def test_a_whole_folder_passes_and_is_described(folder: Path) -> None:
    found = check_folder(folder)
    assert (found.model_type, found.context_length, found.rows) == ("llama", 128, 264)
    assert found.eos_token_ids == (1,) and found.weights == (folder / "model.safetensors",)
    assert found.weights_bytes == sum(entry.size_bytes for entry in read_entries(found.weights[0]).values())
    assert (len(found.vocabulary), found.vocabulary["<tool>"], found.vocabulary["hel"]) == (261, 2, 260)


def test_generation_config_has_the_last_word_on_what_ends_a_reply(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 1]}')
    assert check_folder(folder).eos_token_ids == (2, 1)  # config.json names 1
    (folder / "generation_config.json").write_text("{}")
    assert check_folder(folder).eos_token_ids == (1,)


def test_sizes_are_found_in_the_text_part_of_a_config(folder: Path) -> None:
    text = {"max_position_embeddings": 77, "vocab_size": 300, "eos_token_id": 2}
    (folder / "config.json").write_text(json.dumps({"model_type": "multi", "text_config": text}))
    found = check_folder(folder)
    assert (found.context_length, found.rows, found.eos_token_ids) == (77, 300, (2,))


def no_file(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def file(name: str, content: str | bytes) -> Callable[[Path], None]:
    raw = content.encode() if isinstance(content, str) else content

    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(raw)

    return spoil


def cut_to(name: str, left: int) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, left)


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def in_gguf(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model.gguf")


def directory(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").mkdir()


def pipe(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return spoil


def index(**shards: str) -> Callable[[Path], None]:
    names = {name.replace("__", "."): shard for name, shard in shards.items()}
    return file("model.safetensors.index.json", json.dumps({"weight_map": names}))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (shutil.rmtree, "no such model folder"),
        (no_file("config.json"), "has no config.json"),
        (file("config.json", "{"), "config.json: not valid JSON"),
        (file("config.json", "[" * 100_000), "config.json: not valid JSON"),
        (file("config.json", "[]"), "holds a JSON list"),
        (file("config.json", "{}"), "has no model_type"),
        (file("config.json", '{"model_type": 3}'), "has no model_type"),
        (file("config.json", '{"model_type": "x", "model_file": "x.py"}'), "Python code of its own"),
        (pipe("config.json"), "config.json: is a pipe or a device"),
        (pipe("added_tokens.json"), "added_tokens.json: is a pipe or a device"),
        (lambda folder: (folder / "/".join("a" * 40)).mkdir(parents=True), "nested more than 16 levels deep"),
        (no_file("model.safetensors"), "has no model*.safetensors"),
        (pickled, "are a pickle, which can run code"),
        (in_gguf, "import the GGUF file first"),
        (cut_to("model.safetensors", 7), "cut short or not a safetensors"),
        (cut_to("model.safetensors", 500), "cut short or not a safetensors"),
        (cut_to("model.safetensors", 40_000), "cut short or not a safetensors file (incomplete"),
        (file("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid 1"), "not a safetensors file"),
        (no_file("tokenizer.json"), "tokenizer.json: no such file"),
        (directory, "tokenizer.json: no such file"),
        (cut_to("tokenizer.json", 900), "tokenizer.json: not valid JSON"),
        (file("tokenizer.json", '{"model": {}}'), "has no vocabulary"),
        (file("tokenizer.json", '{"model": {"vocab": {}}}'), "has an empty vocabulary"),
        (file("tokenizer.json", '{"model": {"vocab": {"a": -1}}}'), "the token 'a' no usable id"),
        (file("tokenizer.json", '{"model": {"vocab": {"a": 99999999999}}}'), "the token 'a' no usable id"),
        (file("tokenizer.json", '{"model": {"vocab": {"a": 0}}, "added_tokens": [7]}'), "added tokens of an unknown"),
        (file("tokenizer.json", '{"model": {"vocab": {"a": 0}}, "added_tokens": [{}]}'), "no usable id"),
        (file("model.safetensors.index.json", "{}"), "has no weight_map"),
        (index(a="model-00002-of-00002.safetensors"), "'model-00002-of-00002.safetensors' are missing"),
        (index(a="../model.safetensors"), "are missing"),
        (index(lm_head__weight="model.safetensors"), "lacks the tensor 'lm_head.weight'"),
    ],
)
def test_each_fault_is_named(folder: Path, spoil: Callable[[Path], None], reason: str) -> None:
    spoil(folder)
    assert reason in refusal_of(folder)


def test_shards_pass_when_all_are_there(folder: Path) -> None:
    write_entries(folder / "model-2.safetensors", [], [])
    index(model__norm__weight="model.safetensors")(folder)
    assert len(check_folder(folder).weights) == 2


def test_a_gguf_file_in_place_of_a_folder_is_named(tmp_path: Path) -> None:
    assert "import it first" in refusal_of(tiny_llama().write(tmp_path / "toy.gguf"))


def header(**tensors: object) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def spot(start: int, stop: int, shape: object = (2,), dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (struct.pack("<Q", 2**63) + b"{}", "its header would have 9223372036854775808 bytes"),
        (struct.pack("<Q", 2) + b"{]", "invalid JSON"),
        (header(a=spot(0, 8, dtype="F99")) + bytes(8), "unknown variant `F99`"),
        (header(a=spot(0, 12)) + bytes(12), "invalid shape"),
        (header(a=spot(0, 8), b=spot(4, 12)) + bytes(12), "invalid offset"),
        (header(a=spot(0, 8, shape=[2**40, 2**40])) + bytes(8), "overflow"),
        (header(a=spot(0, 8)) + bytes(9), "not fully covered"),
    ],
)
def test_each_lie_of_a_safetensors_header_is_refusal_of(folder: Path, content: bytes, reason: str) -> None:
    (folder / "model.safetensors").write_bytes(content)
    said = refusal_of(folder)
    assert "cut short or not a safetensors file" in said and reason in said


def test_entries_read_back_as_written(tmp_path: Path) -> None:
    entries = [Entry("a", "U32", (2, 3)), Entry("b", "F16", (5,)), Entry("c", "F32", ())]
    arrays = [np.arange(6, dtype="<u4").reshape(2, 3), np.arange(5, dtype="<f2"), np.array(7, "<f4")]
    pieces = [
        Piece("b", 0, arrays[1]),
        Piece("a", 1, arrays[0][1:]),
        Piece("c", 0, arrays[2]),
        Piece("a", 0, arrays[0][:1]),
    ]
    write_entries(tmp_path / "x.safetensors", entries, pieces)
    assert list(read_entries(tmp_path / "x.safetensors").values()) == entries
    loaded = mx.load(str(tmp_path / "x.safetensors"))
    assert all(np.array_equal(np.array(loaded[e.name]), array) for e, array in zip(entries, arrays, strict=True))
    with pytest.raises(ValueError, match="announced"):
        write_entries(tmp_path / "y.safetensors", entries[:1], [Piece("a", 0, arrays[1])])
    with pytest.raises(ValueError, match="not the bytes announced"):
        write_entries(tmp_path / "y.safetensors", entries, pieces[:3])


def hub(pristine: Path, cache: Path) -> Path:
    """The same model as huggingface_hub keeps it: links from a snapshot into blobs, one blob shared by the cache."""
    repo = cache / "models--toys--toy"
    snapshot = repo / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (repo / "blobs").mkdir()
    for number, source in enumerate(sorted(pristine.iterdir())):
        shutil.copy(source, repo / "blobs" / str(number))
        (snapshot / source.name).symlink_to(Path("../../blobs") / str(number))
    (cache / "blobs" / "ab").mkdir(parents=True)
    (repo / "blobs" / "0").rename(cache / "blobs" / "ab" / "abcd")
    (repo / "blobs" / "0").symlink_to("../../blobs/ab/abcd")
    return snapshot


def test_a_hugging_face_snapshot_passes_also_through_a_link_to_it(pristine: Path, tmp_path: Path) -> None:
    snapshot = hub(pristine, tmp_path / "cache")
    assert check_folder(snapshot).rows == 264
    (tmp_path / "short").symlink_to(snapshot)
    assert check_folder(tmp_path / "short").rows == 264


def test_a_snapshot_with_a_blob_missing_is_incomplete(pristine: Path, tmp_path: Path) -> None:
    snapshot = hub(pristine, tmp_path / "cache")
    Path(os.path.realpath(snapshot / "model.safetensors")).unlink()
    assert "links to a file that is missing" in refusal_of(snapshot)


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "extra.json"])
def test_a_link_that_leaves_the_folder_is_refusal_of(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_bytes(b"{}")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "outside")
    assert "links to a place outside" in refusal_of(folder)


def test_blobs_are_no_excuse_outside_a_snapshot(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "revisions").mkdir()
    moved = folder.rename(tmp_path / "revisions" / "toy")
    (moved / "config.json").rename(tmp_path / "blobs" / "config")
    (moved / "config.json").symlink_to("../../blobs/config")
    assert "links to a place outside" in refusal_of(moved)


def test_a_link_inside_the_folder_passes_and_a_loop_does_not(folder: Path) -> None:
    (folder / "config.json").rename(folder / "real.json")
    (folder / "config.json").symlink_to("real.json")
    assert check_folder(folder).model_type == "llama"
    (folder / "loop").symlink_to("loop")
    assert "links to a file that is missing" in refusal_of(folder)
