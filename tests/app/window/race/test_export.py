"""The window exports a race while it goes on, and cancels that."""

import io
import sys
from pathlib import Path

import pytest
from PIL import Image
from PySide6.QtWidgets import QFileDialog

from app.window.race.race_window import RaceWindow
from tests.app.race.sample_races import race, steady
from tests.app.window.waiting import until

APART = race([(steady(0, 1, range(12), 1, 0.04), steady(1, 1, (*range(5), *range(17, 24)), 3, 0.06))])  # of few frames


def export(window: RaceWindow, path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    window.show_race(APART)
    window.controls.save_asked.emit(kind)


@pytest.mark.slow
def test_the_window_exports_while_it_goes_on(
    window: RaceWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "race.png"
    export(window, path, "apng", monkeypatch)
    assert window.line.stop.isVisible()
    window.controls.seek(0.5)  # nothing waits for it
    until(lambda: not window.exporter.busy)
    assert window.line.text.text() == "Exported to “race.png”."
    assert getattr(Image.open(io.BytesIO(path.read_bytes())), "n_frames", 1) > 4


def test_an_export_that_is_cancelled_leaves_the_file_that_was_there(
    window: RaceWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "race.gif"
    path.write_bytes(b"old")
    export(window, path, "gif", monkeypatch)
    window.line.stop.click()
    until(lambda: not window.exporter.busy)
    assert window.line.text.text() == "Export cancelled."
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_export_that_cannot_start_says_why(
    window: RaceWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    export(window, tmp_path / "race.png", "png", monkeypatch)
    until(lambda: not window.exporter.busy)
    assert window.line.text.text().startswith("The picture could not be drawn")
