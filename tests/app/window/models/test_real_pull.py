"""A real child process with a hub on loopback: a download is paused and resumed; the window loads no MLX."""

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.window.models.downloads import DownloadQueue
from tests.app.window.waiting import until
from tests.models.hub.loopback import loopback
from tests.models.hub.tiny import NAME, tiny


@pytest.mark.slow
def test_a_real_download_is_paused_and_resumed(
    app: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loopback(repo := tiny()) as hub:
        hub.allowed_bytes = 200_000
        for name, value in (("HF_ENDPOINT", hub.endpoint), ("HF_HUB_CACHE", str(tmp_path / "hub")), ("HOME", tmp_path)):
            monkeypatch.setenv(name, str(value))
        queue = DownloadQueue()
        queue.get(NAME)
        until(lambda: queue.downloads[NAME].done_bytes > 0)
        queue.pause(NAME)
        until(lambda: queue.downloads[NAME].state == "paused")
        kept = queue.downloads[NAME].done_bytes
        assert 0 < kept < sum(map(len, repo.files.values()))
        hub.allowed_bytes = None
        hub.go.set()
        queue.get(NAME)
        until(lambda: NAME not in queue.downloads or queue.downloads[NAME].state == "failed")
        assert NAME not in queue.downloads


@pytest.mark.slow
def test_the_window_imports_neither_mlx_nor_the_library_of_the_hub() -> None:
    heavy = "{'mlx.core', 'mlx_lm', 'huggingface_hub', 'httpx2', 'numpy', 'transformers', 'rich'}"
    modules = "app.window.models.models_window, app.window.main_window.secondary_windows"
    code = f"import sys, {modules}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
