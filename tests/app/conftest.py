"""Costs that a test measures are its own. Exported replies to verify."""

from pathlib import Path

import pytest

from tests.app.receipts.exports import write_export


@pytest.fixture(autouse=True)
def own_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.inference.calibration.cache_dir", lambda root=None: root or tmp_path / "cache")


@pytest.fixture(scope="session")
def export(toy_folder: Path, toy_drafter_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of toy models; not to be changed."""
    return write_export(toy_folder, toy_drafter_folder, tmp_path_factory.mktemp("export"))


@pytest.fixture
def chat(export: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    path = tmp_path / "chat.json"
    path.write_bytes(export.read_bytes())
    return path
