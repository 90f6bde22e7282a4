"""What lies at a path, what it is called here, and that nothing leaves the folder of models or its own folder."""

import os
import shutil
from pathlib import Path

import mlx.core as mx
import pytest

from engine.errors import ModelError, UsageError
from models.convert.model_import import check_name, import_model, inspect
from models.model_folder import check_folder
from models.storage_options import StorageOptions
from tests.toys.gguf_files import U16, ToyGguf, tiny_llama


@pytest.fixture
def mlx_folder(toy_folder: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(toy_folder, tmp_path / "owner" / "My model"))
    weights = mx.load(str(folder / "model.safetensors"))
    assert isinstance(weights, dict)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    return folder


def split(whole: ToyGguf, place: Path, count: int = 3) -> list[Path]:
    """The model in several files, as gguf-split makes them: metadata in the first."""
    paths, step = [], -(-len(whole.tensors) // count)
    for number in range(count):
        about = {"split.no": (U16, number), "split.count": (U16, count)}
        metadata = {**(whole.metadata if number == 0 else {}), **about}
        part = ToyGguf(metadata, whole.tensors[number * step : (number + 1) * step])
        paths.append(part.write(place / f"toy-{number + 1:05d}-of-{count:05d}.gguf"))
    return paths


def test_each_kind_is_known_by_what_it_is(mlx_folder: Path, toy_folder: Path, tmp_path: Path) -> None:
    source = tiny_llama().write(tmp_path / "Toy model.Q4_1.gguf")
    assert (inspect(source).kind, inspect(source).name) == ("gguf", "Toy-model.Q4_1")
    assert (inspect(mlx_folder).kind, inspect(mlx_folder).name) == ("mlx", "My-model")
    assert inspect(toy_folder).kind == "huggingface"
    (tmp_path / "studio").mkdir()
    only = tiny_llama().write(tmp_path / "studio" / "a.gguf")
    assert inspect(tmp_path / "studio").path == only
    snapshot = tmp_path / "hub" / "models--o--Name-4bit" / "snapshots" / ("0" * 40)
    shutil.copytree(mlx_folder, snapshot)
    assert inspect(snapshot).name == "Name-4bit"
    tiny_llama().write(tmp_path / "studio" / "b.gguf")
    with pytest.raises(ModelError, match="contains 2 GGUF models"):
        inspect(tmp_path / "studio")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("absent", None, "no such file or folder; check the path"),
        ("a.safetensors", b"\x00" * 16, "is weights only"),
        ("a.bin", b"PK\x03\x04", "is not a GGUF file"),
        ("empty", b"", "is not a GGUF file"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, name: str, content: bytes | None, reason: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=reason):
        inspect(tmp_path / name)


def test_a_split_model_reads_as_one(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    paths = split(tiny_llama(), tmp_path / "parts")
    found = inspect(tmp_path / "parts")
    assert (found.path, found.name) == (paths[0], "toy")
    made = import_model(found, tmp_path / "models" / "toy", StorageOptions())
    whole = import_model(
        inspect(tiny_llama().write(tmp_path / "whole.gguf")), tmp_path / "models" / "whole", StorageOptions()
    )
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (made / name).read_bytes() == (whole / name).read_bytes()
    paths[1].unlink()
    shutil.rmtree(made)
    with pytest.raises(ModelError, match=r"toy-00002-of-00003.gguf: no such file"):
        import_model(found, made, StorageOptions())
    shutil.copy(paths[2], paths[1])
    with pytest.raises(ModelError, match="does not belong to the split model beside it"):
        import_model(found, made, StorageOptions())


def test_an_mlx_folder_stays_where_it_is(mlx_folder: Path, tmp_path: Path) -> None:
    linked = import_model(inspect(mlx_folder), tmp_path / "models" / "mine", StorageOptions())
    assert linked.is_symlink() and linked.samefile(mlx_folder) and check_folder(linked).model_type == "llama"
    assert import_model(inspect(mlx_folder), linked, StorageOptions()) == linked
    with pytest.raises(ModelError, match="is a link to another folder"):
        import_model(inspect(mlx_folder), linked, StorageOptions(4, 32))
    other = Path(shutil.copytree(mlx_folder, tmp_path / "other"))
    with pytest.raises(ModelError, match="another model has this name"):
        import_model(inspect(other), linked, StorageOptions())
    assert linked.samefile(mlx_folder)
    copied = import_model(inspect(mlx_folder), tmp_path / "models" / "copy", StorageOptions(), convert=True)
    assert not copied.is_symlink() and check_folder(copied).model_type == "llama"


def test_a_name_that_could_leave_or_hide_in_the_folder_of_models_is_refused() -> None:
    for name in ("..", ".", "../x", "a/b", "/tmp/x", ".hidden", "", "a\x00b", "a--b", "x" * 300, "é"):
        with pytest.raises(UsageError, match="cannot name a model"):
            check_name(name)


def test_a_link_that_leaves_the_folder_is_refused(mlx_folder: Path, tmp_path: Path) -> None:
    """transformers reads `additional_chat_templates/*.jinja`, and what they say ends in the prompt."""
    (tmp_path / "secret").write_text("password")
    inner = mlx_folder / "additional_chat_templates"
    inner.mkdir()
    (inner / "tool_use.jinja").symlink_to(tmp_path / "secret")
    with pytest.raises(ModelError, match="links to a place outside the model folder"):
        inspect(mlx_folder)
    (mlx_folder / "notes").symlink_to(tmp_path / "secret")
    (inner / "tool_use.jinja").unlink()
    with pytest.raises(ModelError, match="links to a place outside the model folder"):
        inspect(mlx_folder)
    (mlx_folder / "notes").unlink()
    (inner / "tool_use.jinja").symlink_to("../config.json")
    assert inspect(mlx_folder).kind == "mlx"
    (mlx_folder / "round").symlink_to(mlx_folder)
    assert inspect(mlx_folder).kind == "mlx"
    os.mkfifo(mlx_folder / "pipe")
    with pytest.raises(ModelError, match="is a pipe or a device"):
        inspect(mlx_folder)
