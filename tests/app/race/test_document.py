"""The document of a race: read as it was written, hostile ones refused in a line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.race.race_document import RaceDocument, RaceError, open_race, race_json, read_race, write_file
from app.race.race_text import names, read_side, verdict, write_side
from engine.errors import UsageError
from tests.app.race.sample_races import LINED_UP, RACE, races, simple


@settings(max_examples=40, deadline=None)
@given(races())
def test_a_race_is_read_as_it_was_written(document: RaceDocument) -> None:
    assert read_race(race_json(document)) == document


def test_what_readers_want_to_know_is_in_the_file() -> None:
    found = json.loads(race_json(simple(parts_at=3, pairs=2)))
    assert found["results"]["speedup_total"] == pytest.approx({"median": 2.0, "least": 2.0, "most": 2.0, "shown": 2.0})
    assert found["results"]["identical"] == [False, False]
    assert [run["side"] for run in found["runs"]] == [0, 1, 1, 0]


def broken(path: tuple[Any, ...], value: Any) -> bytes:
    """A sound race, but for one place."""
    found = json.loads(race_json(simple(parts_at=3, pairs=2)))
    place = found
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(found).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a race saved by Redline"),
        (b"[" * 100_000, "not a race saved by Redline"),
        (b'{"format": "redline conversation", "version": 1}', "not a race saved by Redline"),
        (broken(("version",), 2), "newer Redline (version 2)"),
        (broken(("prompt",), ...), "prompt"),
        (broken(("runs", 0), ...), "its runs are not in pairs"),
        (broken(("runs",), []), "length >= 2"),
        (broken(("runs", 0, "number"), 7), "its runs are not in pairs"),
        (broken(("runs", 0, "side"), 2), "its runs are not in pairs"),
        (broken(("runs", 0, "rounds"), []), "has no tokens"),
        (broken(("runs", 0, "rounds", 1, "round", "time_s"), 0.01), "impossible times"),
        (broken(("runs", 0, "rounds", 11, "round", "time_s"), 1e8), "impossible times"),
        (broken(("runs", 0, "rounds", 1, "round", "time_s"), "soon"), "Expected `float`"),
        (broken(("runs", 0, "rounds", 1, "round", "index"), 0), "in the place of 1"),
        (broken(("runs", 1, "rounds", 0, "round", "accepted"), 9), "accepted more than was drafted"),
        (broken(("runs", 1, "rounds", 0, "round", "texts"), []), "parts do not fit together"),
        (broken(("runs", 1, "rounds", 0, "round", "parents"), [5, 5]), "whose tree is not a tree"),
        (broken(("sides",), []), "length 2"),
        (broken(("sides", 0, "side", "draft_length"), 10**9), "impossible draft length"),
        (broken(("sampling", "temperature"), -1), "impossible settings"),
        (broken(("receipts", 1), ...), "its receipts are not those of its runs"),
        (broken(("receipts", 0, "divergence"), None), "does not say what the runs do"),
        (broken(("receipts", 0, "divergence", "tokens"), [1]), "does not say what the runs do"),
        (broken(("receipts", 0, "divergence", "texts"), ["a", None]), "does not say what the runs do"),
    ],
)
def test_a_hostile_race_is_refused_in_a_line(data: bytes, message: str) -> None:
    with pytest.raises(RaceError) as caught:
        read_race(data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_damaged_race_is_read_or_refused_and_nothing_worse(data: st.DataObject) -> None:
    sound = race_json(simple(parts_at=3))
    start = data.draw(st.integers(0, len(sound)))
    end = data.draw(st.integers(start, min(len(sound), start + 40)))
    filled = data.draw(st.binary(max_size=12))
    try:
        read_race(sound[:start] + filled + sound[end:])
    except RaceError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(RaceError, match="there is no file"):
        open_race(path)


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "race.json"
    write_file(path, b"old")

    def full(path: Path, content: bytes) -> None:
        path.write_bytes(content[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("models.durable_files.write_file", full)
    with pytest.raises(RaceError, match="No space left on device"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["race.json"]


def test_the_race_that_is_kept_for_the_pictures_is_sound_and_small() -> None:
    document = open_race(RACE)
    assert RACE.stat().st_size < 120_000
    assert document.pairs == 3
    assert verdict(document).level == "good"
    assert document.results.total is not None


# --- sides and words --------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["none", "eagle3:4", "lookup+eagle3", "eagle3:16:tree:coupled", "dir:with:colons:2"])
def test_a_side_is_written_as_it_is_read(text: str) -> None:
    assert write_side(read_side(text)) == text


def test_a_side_says_all_of_it() -> None:
    side = read_side("eagle3:8:tree:coupled")
    assert (side.drafter, side.draft_length, side.tree, side.acceptance) == ("eagle3", 8, True, "coupled")
    assert read_side("lookup:auto").draft_length is None
    assert read_side("eagle3:0").plain
    with pytest.raises(UsageError, match="names no drafter"):
        read_side(":4")


def test_sides_that_are_called_the_same_are_told_apart() -> None:
    plain, lookup = LINED_UP
    assert names((plain, lookup)) == ("Plain decoding", "Prompt lookup")
    assert names((lookup, lookup)) == (
        "Prompt lookup, draft length auto, rejection acceptance (A)",
        "Prompt lookup, draft length auto, rejection acceptance (B)",
    )


@pytest.mark.parametrize(
    ("parts_at", "receipts", "level", "said"),
    [
        (None, {}, "good", "texts identical over 12 tokens in both pairs of runs"),
        (5, {}, "warning", "texts differ after 5 tokens in both pairs of runs: a near-tie, gap 1 ULPs"),
        (5, {"near_tie": False}, "error", "a failure, no rounding explains it"),
        (5, {"promised": False}, "info", "keeps the distribution, not the text"),
    ],
)
def test_the_verdict_is_the_worst_that_a_receipt_says(
    parts_at: int | None, receipts: dict[str, bool], level: str, said: str
) -> None:
    found = verdict(simple(parts_at, pairs=2, **receipts))
    assert found.level == level
    assert said in found.text
    assert ("identical" in found.text) == (level == "good")
