"""A real child against a hub on loopback: got, listed, paused and gone on with; and the window stays light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.protocol.model_documents import InstalledModels
from app.window.models.command_queue import CommandQueue
from app.window.models.downloads import DownloadQueue
from tests.models.hub.held import Repo
from tests.models.hub.loopback import loopback
from tests.models.hub.tiny import NAME, tiny
from tests.window.waiting import until


@pytest.fixture
def repo() -> Repo:
    return tiny()


@pytest.mark.slow
def test_a_model_is_paused_gone_on_with_and_listed(
    app: QApplication, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loopback(repo) as hub:
        hub.allowed_bytes = 200_000
        for name, value in (("HF_ENDPOINT", hub.endpoint), ("HF_HUB_CACHE", str(tmp_path / "hub")), ("HOME", tmp_path)):
            monkeypatch.setenv(name, str(value))
        pulls = DownloadQueue()
        pulls.get(NAME)
        until(lambda: pulls.downloads[NAME].done_bytes > 0)
        pulls.pause(NAME)
        until(lambda: pulls.downloads[NAME].state == "paused")
        kept = pulls.downloads[NAME].done_bytes
        hub.allowed_bytes = None
        hub.go.set()
        pulls.get(NAME)
        until(lambda: NAME not in pulls.downloads or pulls.downloads[NAME].state == "failed")
        assert NAME not in pulls.downloads
        assert 0 < kept < sum(map(len, repo.files.values()))
        found: list[InstalledModels] = []
        asker = CommandQueue()
        asker.ask(("list",), InstalledModels, found.append, pytest.fail)
        until(lambda: found)
    assert [(one.name, one.complete) for one in found[0].models if one.origin == "hub"] == [(NAME, True)]


def test_the_page_imports_neither_mlx_nor_the_hubs_library() -> None:
    heavy = "{'mlx.core', 'mlx_lm', 'huggingface_hub', 'httpx2', 'numpy', 'transformers', 'rich'}"
    modules = "app.window.models.models_window, app.window.main_window.secondary_windows"
    code = f"import sys, {modules}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
