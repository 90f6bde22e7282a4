"""Readies the backend before anything imports MLX."""

from pathlib import Path

import pytest

import engine  # noqa: F401
from tests.toys.folders import make_folder


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model that loads in no time. Tests that change it work on a copy."""
    return make_folder(tmp_path_factory.mktemp("toys") / "target")


@pytest.fixture(scope="session")
def toy_drafter_folder(toy_folder: Path) -> Path:
    """A drafter for `toy_folder` that is often right."""
    return make_folder(toy_folder.with_name("drafter"), seed=1, like=toy_folder, noise=0.03)
