"""A race of the built-in model and its EAGLE-3 head, from terminal and window: measured, kept, replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from PySide6.QtWidgets import QApplication

from app.cli.main import main
from app.protocol.race_messages import PLAIN, Side
from app.race.race_document import open_race, race_json, read_race, tokens_of
from app.race.race_text import verdict
from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import HostProcess
from app.window.race.race_request import RaceRequest
from app.window.race.race_window import RaceWindow
from tests.app.window.conftest import app  # noqa: F401  the fixture
from tests.app.window.race.conftest import end
from tests.app.window.waiting import until

pytestmark = pytest.mark.slow
PROMPT = "Count from one to twenty in words."


def test_the_built_in_pair_is_raced_in_the_terminal_kept_and_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, png = tmp_path / "race.json", tmp_path / "race.png"
    short = ["--max-tokens", "12", "--runs", "1", "--side", "eagle3:2", "--save", str(kept), "--png", str(png)]
    assert main(["race", "--prompt", PROMPT, *short]) == 0
    said = capsys.readouterr().out
    document = open_race(kept)
    assert [run.side for run in document.runs] == [0, 1]
    plain, other = (document.run(side, 1) for side in (0, 1))
    assert len(plain.rounds) == 12 > len(other.rounds)
    assert any(one.round.accepted for one in other.rounds)
    assert verdict(document).level == "good"
    assert "texts identical over 12 tokens" in said
    with Image.open(png) as picture:
        assert picture.width > 1000
    assert main(["race", "--replay", str(kept)]) == 0
    assert capsys.readouterr().out == said
    found = json.loads(kept.read_text())["results"]
    assert found["identical"] == [True]
    assert found["speedup"]["median"] > 0


@pytest.fixture
def window(app: QApplication) -> Iterator[RaceWindow]:  # noqa: F811  the same
    engine = HostConnection(HostProcess())
    window = RaceWindow(RaceRequest(engine))
    window.still = True
    window.show()
    yield window
    end(window)
    engine.process.quit()


def test_the_built_in_pair_is_raced_in_the_window(window: RaceWindow) -> None:
    window.form.show_race(PROMPT, window.form.sampling(), (PLAIN, Side(drafter="eagle3")), 2)
    window.form.tokens.setValue(24)
    window.form.start.click()
    until(lambda: not window.request.busy, 300)
    assert window.document is not None
    assert [run.side for run in window.document.runs] == [0, 1, 1, 0]
    assert len({tokens_of(run) for run in window.document.runs}) == 1
    assert window.board is not None
    assert window.board.comparison.below.text() == "identical tokens"
    assert read_race(race_json(window.document)) == window.document
