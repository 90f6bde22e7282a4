"""A race as a web page: its data, and that nothing in it can be more than text."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.protocol import RoundDone
from app.race.race_document import open_race
from app.race.race_page import race_page
from app.replay_page import Lane, replay_page
from engine.events import Round
from tests.app.race.sample_races import RACE, simple
from tests.app.window.inspector.sample_rounds import CORRECTED

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE = "</script><script>alert(1)</script><!--\u2028 &amp; @data@"


def data_of(page: str) -> dict[str, Any]:
    """The data that the page plays."""
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return dict(msgspec.json.decode(found[1]))


def test_the_page_holds_the_runs_with_their_times_origins_and_probabilities() -> None:
    document = open_race(RACE)
    data = data_of(race_page(document).decode())
    assert data["prompt"] == document.prompt
    assert data["result"].startswith("Prompt lookup + EAGLE-3 is faster: 2.24")
    for side, lane in enumerate(data["lanes"]):
        rounds = document.run(side, document.results.shown).rounds
        assert [one["time_s"] for one in lane["rounds"]] == [one.round.time_s for one in rounds]
        texts = [token["text"] for one in lane["rounds"] for token in one["tokens"]]
        assert texts == [text for one in rounds for text in one.round.texts]
    origins = {token["origin"] for one in data["lanes"][1]["rounds"] for token in one["tokens"]}
    assert origins == {"accepted", "corrected", "bonus", None}  # None: of a round that drafts nothing
    assert {token["origin"] for one in data["lanes"][0]["rounds"] for token in one["tokens"]} == {None}


def test_the_tokens_of_a_tree_have_the_probabilities_of_their_own_nodes() -> None:
    round_ = Round(0, (5, 6), (1, 5, 2), 1, (0.5, 0.25), (0.1, 0.2, 0.3), 4, 0.5, texts=("a", "b"))
    tree = RoundDone(id=1, round=replace(round_, parents=(-1, -1, 1), path=(1,)), drafted_texts=("x", "a", "y"))
    (found,) = data_of(replay_page("?", [Lane("one", "", [tree])], "", ""))["lanes"][0]["rounds"]
    assert found["tokens"] == [
        {"text": "a", "thought": False, "origin": "accepted", "p": 0.5, "q": 0.2},
        {"text": "b", "thought": False, "origin": "corrected", "p": 0.25, "q": None},
    ]
    assert found["refused"] == ["x", "y"]


def test_a_corrected_token_says_why_and_the_others_do_not() -> None:
    (found,) = data_of(replay_page("?", [Lane("one", "", [CORRECTED])], "", ""))["lanes"][0]["rounds"]
    assert "why" not in found["tokens"][0]
    assert found["tokens"][1]["why"].startswith("The drafter proposed “ blue” with probability 38%.")


def test_no_text_is_more_than_text() -> None:
    round_ = Round(0, (5,), (), 0, (0.5,), (), 1, 0.5, texts=(HOSTILE,))
    page = replay_page(HOSTILE, [Lane(HOSTILE, HOSTILE, [RoundDone(id=1, round=round_)])], HOSTILE, HOSTILE)
    assert data_of(page)["lanes"][0]["rounds"][0]["tokens"][0]["text"] == HOSTILE
    assert page.count("<script") == 2 and page.count("</script>") == 2 and "<!--" not in page


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    page = race_page(simple()).decode()
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|src=|href=|url\(|@import|@(title|light|dark|data)@", page)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_browser_plays_the_page_to_its_end(tmp_path: Path) -> None:
    document = open_race(RACE)
    path = tmp_path / "race.html"
    path.write_bytes(race_page(document))
    end_s = max(run.rounds[-1].round.time_s for run in document.runs)
    budget = f"--virtual-time-budget={round(1000 * end_s) + 5000}"
    flags = ("--headless", "--no-sandbox", "--disable-gpu", budget, "--dump-dom")
    assert CHROMIUM is not None
    done = subprocess.run([CHROMIUM, *flags, path.as_uri()], capture_output=True, text=True)
    assert 'id="result" role="status" class="done"' in done.stdout
    for side in (0, 1):
        run = document.run(side, document.results.shown)
        tokens = sum(len(one.round.tokens) for one in run.rounds)
        assert f"{tokens} of {tokens} tokens, {len(run.rounds)} passes of the target" in done.stdout
