"""Names of models mean the same to every command, wherever they are: built in, installed, imported or converted."""

from pathlib import Path

import pytest

from app.inference.options import Options
from app.inference.pair_resolution import drafter_folder, drafter_folders, target_folder
from engine.errors import ModelError, UsageError
from models.builtin import is_builtin
from models.model_folder import check_folder
from models.paths import models_dir, name_of
from tests.app.command import Redline


@pytest.fixture
def root(toy_folder: Path, tmp_path: Path) -> Path:
    """Another cache of Redline, with an imported model."""
    folder = models_dir(tmp_path / "cache") / "mine"
    folder.parent.mkdir(parents=True)
    folder.symlink_to(toy_folder)
    return tmp_path / "cache"


def test_a_drafter_is_found_in_the_cache_that_is_given(root: Path, toy_folder: Path) -> None:
    target = check_folder(toy_folder)
    assert drafter_folders("lookup+mine", target, root) == [models_dir(root) / "mine"]
    with pytest.raises(UsageError, match="unknown drafter 'mine'"):
        drafter_folder("mine")


@pytest.mark.slow
def test_the_built_in_model_drafts(tmp_path: Path) -> None:
    assert is_builtin(drafter_folder("builtin", tmp_path))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("minne", "mine"), ("buildin", "builtin"), ("lookop", "lookup"), ("eagle33", "eagle3")],
)
def test_a_misspelled_drafter_suggests_whatever_is_here(root: Path, name: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {meant}"):
        drafter_folder(name, root)


@pytest.mark.parametrize(("name", "meant"), [("minne", "mine"), ("builtn", "builtin")])
def test_a_misspelled_target_suggests_whatever_is_here(root: Path, name: str, meant: str) -> None:
    with pytest.raises(ModelError, match=f"did you mean {meant}"):
        target_folder(Options(name, cache_root=root))


@pytest.mark.parametrize("words", [("fits",), ("pairs",), ("import",), ("convert",), ("remove", "--yes")])
def test_every_command_suggests_the_name_of_an_imported_model(
    words: tuple[str, ...], root: Path, models: Redline
) -> None:
    command, *options = words
    done = models(command, "minne", *options, "--cache-dir", root)
    assert done.code == 1 and done.only_line.endswith("did you mean mine?\n")


def test_an_installed_model_is_converted_by_its_name(root: Path, models: Redline) -> None:
    assert models("convert", "mine", "--name", "other", "--cache-dir", root).code == 0
    assert check_folder(models_dir(root) / "other").vocabulary == check_folder(models_dir(root) / "mine").vocabulary


def test_a_snapshot_is_called_as_its_repository_is() -> None:
    snapshot = Path("hub/models--mlx-community--Qwen3-8B-4bit/snapshots") / ("a" * 40)
    assert name_of(snapshot) == "Qwen3-8B-4bit"
