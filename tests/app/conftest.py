"""What a test's replies teach is its own. Commands, and exported replies to verify."""

from pathlib import Path

import pytest

from app.cli.main import main
from tests.app.command import Outcome, Redline
from tests.app.receipts.exports import write_export


@pytest.fixture(autouse=True)
def own_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.inference.learnt_rounds.cache_dir", lambda root=None: root or tmp_path / "cache")


@pytest.fixture
def redline(capsys: pytest.CaptureFixture[str]) -> Redline:
    """Runs a command with these words."""

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return run


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
