"""The pictures of a race: its end, and animations, painted by Qt without a screen and encoded by Pillow."""

import io
import os
import subprocess
import sys
from dataclasses import replace as changed
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image
from PySide6.QtWidgets import QApplication, QLabel

from app.cli.main import main
from app.palette import PALETTES, Palette
from app.protocol.race_messages import Run
from app.race import race_animation, race_text
from app.race.race_animation import Animation, common_colours, encode
from app.race.race_document import RaceDocument, RaceError, metrics_of, race_json
from app.race.race_export import export_pictures
from app.window.race.race_picture import ANIMATION_SIZE, DPI, SCALE, SIZE, RacePicture, film, picture
from engine.metrics import decode_speedup
from tests.app.race.sample_races import race, run, simple, steady

pytestmark = pytest.mark.usefixtures("app")

PLAIN_TOKENS, OTHER_TOKENS = range(12), (*range(5), *range(17, 24))
APART = race([(steady(0, 1, PLAIN_TOKENS, 1, 0.04), steady(1, 1, OTHER_TOKENS, 3, 0.06))])  # of few frames
END_S = 0.48
LIGHT = PALETTES["light"]


def image(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def frames(data: bytes) -> list[tuple[Image.Image, float]]:
    """Every frame as it is seen, and for how long in ms."""
    shown, found = image(data), []
    for number in range(getattr(shown, "n_frames", 1)):
        shown.seek(number)
        frame = shown.convert("RGB")
        found.append((frame, shown.info.get("duration", 0)))
    return found


def has(shown: Image.Image, colour: str) -> bool:
    """Whether a pixel has exactly this colour, "#rrggbb"."""
    wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)], np.uint8)
    return bool((np.asarray(shown) == wanted).all(-1).any())


# --- what is drawn ----------------------------------------------------------------------------


@pytest.mark.slow_for("dark")
@pytest.mark.parametrize("look", PALETTES.values(), ids=lambda look: look.scheme)
def test_a_picture_shows_the_end_sharp_and_in_the_colours_of_the_scheme(look: Palette) -> None:
    data = picture(APART, look.scheme)
    shown = image(data).convert("RGB")
    assert shown.width == SIZE[0] * SCALE
    assert image(data).info["dpi"] == pytest.approx((SCALE * DPI, SCALE * DPI), abs=0.1)
    for colour in (look.background, look.raised, *look.tints.values(), look.warning):
        assert has(shown, colour)
    assert not has(image(picture(simple(), look.scheme)).convert("RGB"), look.warning)


@pytest.fixture(scope="module")
def made(app: QApplication) -> Animation:
    return film(APART, "light")


def test_a_film_runs_from_nothing_to_the_end_and_stays_there(made: Animation) -> None:
    moments = race_animation.moments_of(END_S)
    assert sum(made.durations_ms) == (len(moments) - 1) * race_animation.FRAME_MS + race_animation.HOLD_MS
    assert made.durations_ms[-1] >= race_animation.HOLD_MS
    assert 4 < len(made.frames) < len(moments)
    first, last = (np.asarray(made.frames[at].convert("RGB")) for at in (0, -1))
    assert [has(made.frames[at].convert("RGB"), LIGHT.warning) for at in (0, -1)] == [False, True]
    assert (first != last).any(-1).mean() > 0.01


@pytest.mark.slow_for(".webp")
@pytest.mark.parametrize("ending", race_animation.ANIMATIONS)
def test_every_kind_of_file_shows_the_film_frame_by_frame(made: Animation, ending: str) -> None:
    data = encode(made, ending)
    found = frames(data)
    assert len(found) == len(made.frames)
    assert [round(duration) for _, duration in found] == made.durations_ms
    for mine, (theirs, _) in zip(made.frames, found, strict=True):
        assert np.array_equal(np.asarray(mine.convert("RGB")), np.asarray(theirs))
    assert image(data).info.get("loop", 0) == 0
    assert len(data) < 200_000


# --- colours ----------------------------------------------------------------------------------


def test_common_colours_stay_what_they_are_and_rare_ones_go_to_the_nearest() -> None:
    pixels = np.full((8, 8, 3), 255, np.uint8)
    pixels[:2] = (10, 20, 30)
    pixels[7, 7] = (12, 20, 30)
    made = Image.fromarray(pixels)
    shown = np.asarray(made.quantize(palette=common_colours([made], 2), dither=0).convert("RGB"))
    assert np.array_equal(shown[:7], pixels[:7])
    assert tuple(shown[7, 7]) == (10, 20, 30)


# --- asked for --------------------------------------------------------------------------------


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_cannot_be_written_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(RaceError, match=r"^race\.png cannot be written"):
        export_pictures(APART, tmp_path / "no folder" / "race.png", None, "light", print)


@pytest.mark.slow
def test_a_race_that_is_none_is_not_drawn(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "app.window.race.race_picture", "--png", str(tmp_path / "race.png")]
    done = subprocess.run(words, input=b"{}", capture_output=True, env=os.environ, check=False)
    assert done.returncode == 1
    assert done.stderr.decode() == "redline: this is not a race saved by Redline: choose another file\n"
    assert not list(tmp_path.iterdir())


def test_a_picture_is_as_large_as_its_texts_need_within_bounds() -> None:
    boards = [RacePicture(document, "light", SIZE, 1.0).board for document in (simple(), wordy())]
    assert SIZE[1] <= boards[0].height() < boards[1].height() == SIZE[2]
    assert boards[0].hidden_px() == 0 < boards[1].hidden_px()


@pytest.mark.parametrize("size", [SIZE, ANIMATION_SIZE])
def test_all_of_a_race_with_short_texts_is_in_its_picture(size: tuple[int, int, int]) -> None:
    board = RacePicture(APART, "dark", size, 1.0).board
    for shown in board.findChildren(QLabel):
        assert shown.hasHeightForWidth() is False or shown.height() >= shown.heightForWidth(shown.width()), shown.text()
    assert board.hidden_px() == 0


def test_a_moment_looks_the_same_whatever_was_drawn_before() -> None:
    drawn = RacePicture(APART, "light", SIZE, 1.0)
    moments = (0.1, 0.3, END_S)
    forward = [drawn.draw(time_s).tobytes() for time_s in moments]
    back = [drawn.draw(time_s).tobytes() for time_s in reversed(moments)]
    assert forward == back[::-1]


def test_every_number_of_a_picture_is_of_the_pair_that_it_shows() -> None:
    """The pairs are 1.3, 1.5 and 2 times as fast; which decodes how fast is ordered otherwise."""
    pairs = []
    for number, (first_s, step_s) in enumerate(((0.5, 0.4), (0.2, 0.44), (0.35, 0.3)), 1):
        rounds = [(first_s + step_s * place, range(3 * place, 3 * place + 3)) for place in range(4)]
        pairs.append((steady(0, number, range(12), 1, 0.2), run(1, number, rounds, drafts=True)))
    document = race(pairs)
    found, board = document.results, RacePicture(document, "light", SIZE, 1.0).board
    clocks = [pane.clock_s for pane in board.replay.at(board.replay.end_s).panes]
    assert board.comparison.total.text() == race_text.speedup(clocks[0] / clocks[1])
    decoding = decode_speedup(*(metrics_of(track.run) for track in board.replay.tracks))
    assert found.decode is not None and found.decode.median != decoding
    assert board.comparison.decode.text() == race_text.speedup(decoding)


def test_any_text_is_drawn() -> None:
    words = ("\u202eback", "日本語", "x" * 400, "\t\x1b[31m", "é\u0301", "\n\n", "سماء", "👩\u200d👧", "")
    assert picture(race([(worded(0, words), worded(1, words))]), "light")


def worded(side: int, words: tuple[str, ...]) -> Run:
    """A run of tokens with these texts."""
    made_up = steady(side, 1, range(len(words)), 1, 0.1)
    told = tuple(
        replace(one, round=changed(one.round, texts=(word,))) for one, word in zip(made_up.rounds, words, strict=True)
    )
    return replace(made_up, rounds=told)


def wordy() -> RaceDocument:
    return race([(steady(0, 1, range(600), 1, 0.01), steady(1, 1, range(600), 3, 0.01))])
