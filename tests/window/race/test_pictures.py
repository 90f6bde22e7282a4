"""What is made of a race: a picture of its end, and animations that say what the window says. Drawn by a process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PySide6.QtWidgets import QApplication, QFileDialog

from app.cli import main
from app.race.document import RaceDocument, RaceError, race_json
from app.race.drawing import ANIMATIONS, command, draw
from app.race.frames import HOLD_MS, plan
from app.window.look import DARK, LIGHT, Look
from app.window.race.inks import SAME, Inks, sparse
from app.window.race.pictures import PNG_HEIGHTS, PNG_SCALE, PNG_WIDTH, Film, film, packed, staged, still
from app.window.race.window import RaceWindow
from tests.race.made import race, simple, steady
from tests.window.control.waiting import until

PLAIN_TOKENS, OTHER_TOKENS = range(12), (*range(5), *range(17, 24))
APART = race([(steady(0, 1, PLAIN_TOKENS, 1, 0.04), steady(1, 1, OTHER_TOKENS, 3, 0.06))])  # of few frames
END_S = 0.48


def image(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def frames(data: bytes) -> list[Image.Image]:
    """Every frame as it is seen."""
    shown = image(data)
    found = []
    for number in range(getattr(shown, "n_frames", 1)):
        shown.seek(number)
        found.append(shown.convert("RGB"))
    return found


def duration_ms(data: bytes) -> int:
    shown, whole = image(data), 0
    for number in range(getattr(shown, "n_frames", 1)):
        shown.seek(number)
        shown.load()
        whole += round(shown.info["duration"])
    return whole


def has(shown: Image.Image, colour: str) -> bool:
    """Whether a pixel has exactly this colour, "#rrggbb"."""
    wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)], np.uint8)
    return bool((np.asarray(shown) == wanted).all(-1).any())


# --- what is drawn ----------------------------------------------------------------------------


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=lambda look: look.scheme)
def test_a_picture_shows_the_end_sharp_and_in_the_colours_of_the_look(app: QApplication, look: Look) -> None:
    data = still(APART, look)
    shown = image(data).convert("RGB")
    assert shown.width == PNG_WIDTH * PNG_SCALE
    assert image(data).info["dpi"] == pytest.approx((144, 144), abs=0.1)
    for colour in (look.background, look.raised, *look.tints.values(), look.warning):
        assert has(shown, colour)
    assert not has(image(still(simple(), look)).convert("RGB"), look.warning)


@pytest.fixture(scope="module")
def made(app: QApplication) -> Film:
    return film(APART, LIGHT)


def test_a_film_runs_from_nothing_to_the_end_and_stays_there(made: Film) -> None:
    moments = plan(END_S).frames
    assert sum(made.stays_ms) == sum(moment.stays_ms for moment in moments)
    assert made.stays_ms[-1] >= HOLD_MS
    assert 4 < len(made.frames) < len(moments)
    first, last = (np.asarray(made.frames[at].convert("RGB")) for at in (0, -1))
    assert [has(made.frames[at].convert("RGB"), LIGHT.warning) for at in (0, -1)] == [False, True]
    assert (first != last).any(-1).mean() > 0.01


@pytest.mark.parametrize("ending", ANIMATIONS)
def test_every_kind_of_file_shows_the_film_frame_by_frame(made: Film, ending: str) -> None:
    data = packed(made, ending)
    found = frames(data)
    assert len(found) == len(made.frames)
    assert duration_ms(data) == sum(made.stays_ms)
    for mine, theirs in zip(made.frames, found, strict=True):
        assert np.array_equal(np.asarray(mine.convert("RGB")), np.asarray(theirs))
    assert image(data).info.get("loop", 0) == 0
    assert len(data) < 400_000


# --- colours ----------------------------------------------------------------------------------


def test_common_colours_stay_what_they_are_and_rare_ones_go_to_the_nearest() -> None:
    pixels = np.full((8, 8, 3), 255, np.uint8)
    pixels[:2] = (10, 20, 30)
    pixels[7, 7] = (12, 20, 30)
    shown = np.asarray(Inks(pixels, 2).image(pixels).convert("RGB"))
    assert np.array_equal(shown[:7], pixels[:7])
    assert tuple(shown[7, 7]) == (10, 20, 30)


def test_what_stays_from_frame_to_frame_is_left_out() -> None:
    pixels = [np.full((4, 4, 3), 255, np.uint8) for _ in range(2)]
    pixels[1][0, 0] = (0, 0, 0)
    inks = Inks(np.concatenate(pixels), 2)
    first, second = (np.asarray(one) for one in sparse([inks.image(one) for one in pixels]))
    assert (first != SAME).all()
    assert (second == SAME).sum() == 15


# --- asked for --------------------------------------------------------------------------------


def test_the_terminal_has_pictures_drawn_with_no_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    kept, png, gif = (tmp_path / name for name in ("race.json", "race.png", "race.gif"))
    kept.write_bytes(race_json(APART))
    assert main(["race", "--replay", str(kept), "--png", str(png), "--animation", str(gif)]) == 0
    assert image(png.read_bytes()).format == "PNG"
    assert len(frames(gif.read_bytes())) > 4
    assert "texts differ after 5 tokens" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["race.gif", "race.json", "race.png"]


def test_what_cannot_be_written_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(RaceError, match=r"race\.png cannot be written"):
        draw(APART, tmp_path / "no folder" / "race.png", None, "light", lambda _: None)


def test_a_race_that_is_none_is_not_drawn(tmp_path: Path) -> None:
    words = command(tmp_path / "race.png", None, "dark")
    done = subprocess.run(words, input=b"{}", capture_output=True, env=os.environ, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == "redline: this is no race saved by Redline: choose another file\n"
    assert not list(tmp_path.iterdir())


def exported(window: RaceWindow, path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    window.show_race(APART)
    window.controls.save_asked.emit(kind)


def test_the_window_exports_while_it_goes_on(
    window: RaceWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "race.png"
    exported(window, path, "apng", monkeypatch)
    assert window.line.stop.isVisible()
    window.seek(0.5)  # nothing waits for it
    until(lambda: not window.exporter.busy, 60)
    assert window.line.text.text() == "“race.png” is written."
    assert len(frames(path.read_bytes())) > 4


def test_an_export_that_is_cancelled_leaves_the_file_that_was_there(
    window: RaceWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "race.gif"
    path.write_bytes(b"old")
    exported(window, path, "gif", monkeypatch)
    window.line.stop.click()
    until(lambda: not window.exporter.busy)
    assert window.line.text.text() == "Nothing was saved."
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_export_that_cannot_start_says_why(
    window: RaceWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    exported(window, tmp_path / "race.png", "png", monkeypatch)
    until(lambda: not window.exporter.busy)
    assert window.line.text.text().startswith("The picture could not be drawn")


def test_as_large_as_texts_need(app: QApplication) -> None:
    """Within bounds, whatever is said."""
    boards = [staged(document, LIGHT, PNG_WIDTH, PNG_HEIGHTS) for document in (simple(), wordy())]
    assert PNG_HEIGHTS[0] <= boards[0].height() < boards[1].height() == PNG_HEIGHTS[1]
    for board in boards:
        board.close()


def wordy() -> RaceDocument:
    return race([(steady(0, 1, range(600), 1, 0.01), steady(1, 1, range(600), 3, 0.01))])
