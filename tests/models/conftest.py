"""The built-in model, imported once for all tests of a run."""

from pathlib import Path

import pytest

from models.builtin import builtin_folder as import_builtin


@pytest.fixture(scope="session")
def builtin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh import of the wheel's GGUF. Tests must not change it."""
    return import_builtin(tmp_path_factory.mktemp("cache"))
