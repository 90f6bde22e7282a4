"""Folders of drafters, each a copy to spoil, and what they are opened with."""

import shutil
from pathlib import Path

import pytest

from models.loader import Loaded, load
from tests.models.drafters.head_folders import config_of, edit, write_config, write_mlp_speculator
from tests.models.drafters.oracle_heads import ORACLES


@pytest.fixture(scope="module")
def target(toy_folder: Path) -> Loaded:
    """Loaded anew for each module, as drafters leave hooks on it."""
    return load(toy_folder)


@pytest.fixture
def block_folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ORACLES / "dflash_2", tmp_path / "dflash"))


@pytest.fixture
def assistant_folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ORACLES / "gemma4_ordered", tmp_path / "assistant"))


@pytest.fixture
def mlp_folder(tmp_path: Path) -> Path:
    return write_mlp_speculator(tmp_path / "speculator")


@pytest.fixture
def mtp_folder(tmp_path: Path) -> Path:
    """A prediction head under the config of a target."""
    path = Path(shutil.copytree(ORACLES / "qwen3_5_mtp", tmp_path / "head"))
    write_config(path, model_type="qwen3_5", text_config=config_of(path)["text_config"])
    return path


@pytest.fixture
def pard_folder(toy_drafter_folder: Path, tmp_path: Path) -> Path:
    """A draft model that drafts in parallel, for `target`."""
    path = Path(shutil.copytree(toy_drafter_folder, tmp_path / "pard"))
    edit(path, pard_token=5)
    return path
