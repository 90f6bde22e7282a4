"""What is kept to know a prompt and a model again tells others from them, and them from nobody."""

import json
import shutil
from pathlib import Path

import pytest

from app.inference import digests, environment
from app.inference.options import Options
from models.loader import load
from models.model_folder import check_folder


@pytest.fixture
def folder(toy_folder: Path, tmp_path: Path) -> Path:
    """A copy to change, under another name."""
    return Path(shutil.copytree(toy_folder, tmp_path / "copy"))


def digest(folder: Path) -> str:
    return digests.of_model(check_folder(folder))


def test_a_copy_elsewhere_is_the_same_model(toy_folder: Path, folder: Path) -> None:
    assert digest(folder) == digest(toy_folder) and len(digest(folder)) == 16


def test_other_weights_are_another_model(toy_folder: Path, folder: Path) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")  # of the tensors: the header stays
    path.write_bytes(data[:start] + bytes(byte ^ 1 for byte in data[start:]))
    assert digest(folder) != digest(toy_folder)


def test_another_configuration_is_another_model(toy_folder: Path, folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rope_theta": 12345.0}))
    assert digest(folder) != digest(toy_folder)


def test_files_that_are_gone_by_now_have_no_digest(folder: Path) -> None:
    checked = check_folder(folder)
    (folder / "model.safetensors").unlink()
    assert digests.of_model(checked) == ""


def test_prompts_are_told_apart_by_their_ids_and_order() -> None:
    some = [[1, 2, 3], [1, 3, 2], [1, 2], [1, 2, 3, 0], [258], [2, 1]]
    assert len({digests.of_prompt(prompt) for prompt in some}) == len(some)
    assert digests.of_prompt((1, 2, 3)) == digests.of_prompt([1, 2, 3])


def test_a_head_in_the_folder_of_its_target_leaves_the_digest_of_the_target(
    toy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = load(toy_folder)
    monkeypatch.setattr(environment, "drafter_folders", lambda *_: [toy_folder])
    monkeypatch.setattr(digests, "of_files", lambda *_: "of all files")
    monkeypatch.setattr(digests, "of_model", lambda _: "of the target")
    assert environment.weights(Options(), target) == {target.name: "of the target"}
