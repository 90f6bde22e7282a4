"""A tiny random target, and plans of a few conversations."""

from pathlib import Path

import pytest

from models.loader import Loaded, load


@pytest.fixture(scope="session")
def target(toy_folder: Path) -> Loaded:
    return load(toy_folder)
