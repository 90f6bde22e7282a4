"""The built-in model, imported once for all tests of a run, and a toy target with heads for it."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from engine.target.cached_model import CachedModel
from models.builtin import builtin_folder as import_builtin
from models.drafters.eagle3 import save_eagle3
from models.drafters.medusa import save_medusa
from models.drafters.target_match import made_for
from models.loader import Loaded, load
from tests.toys.architectures import build
from tests.toys.heads import random_eagle3, random_medusa


@pytest.fixture(scope="session")
def builtin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh import of the wheel's GGUF. Tests must not change it."""
    return import_builtin(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def folder(toy_folder: Path, tmp_path: Path) -> Path:
    """A copy of the toy, to spoil."""
    return Path(shutil.copytree(toy_folder, tmp_path / "model"))


@pytest.fixture(scope="session")
def head_target(toy_folder: Path) -> Loaded:
    """Three layers and 64 tokens, under the tokenizer of another toy."""
    network = build("llama")
    return dataclasses.replace(load(toy_folder), network=network, model=CachedModel(network))


@pytest.fixture(scope="session")
def _eagle3(head_target: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("heads") / "eagle3"
    about = {"target": made_for(head_target), "licence": "Apache-2.0"}
    save_eagle3(path, random_eagle3(), about)
    return path


@pytest.fixture
def eagle3_folder(_eagle3: Path, tmp_path: Path) -> Path:
    """A head for `head_target`, to spoil."""
    return Path(shutil.copytree(_eagle3, tmp_path / "eagle3"))


@pytest.fixture(scope="session")
def _medusa(head_target: Loaded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("heads") / "medusa"
    about = {"target": made_for(head_target), "licence": "Apache-2.0"}
    save_medusa(path, random_medusa(), about, [(0,), (0, 0), (1,), (0, 0, 0), (0, 1)])
    return path


@pytest.fixture
def medusa_folder(_medusa: Path, tmp_path: Path) -> Path:
    """Heads that share `head_target`'s output matrix, to spoil."""
    return Path(shutil.copytree(_medusa, tmp_path / "medusa"))
