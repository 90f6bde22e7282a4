"""A race of the built-in model and its EAGLE-3 head, in the terminal: measured, kept, replayed."""

import json
from pathlib import Path

import pytest
from PIL import Image

from app.cli.main import main
from app.race.race_document import open_race
from app.race.race_text import verdict
from tests.app.window.conftest import app  # noqa: F401  the fixture

PROMPT = "Count from one to twenty in words."


@pytest.mark.slow
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
