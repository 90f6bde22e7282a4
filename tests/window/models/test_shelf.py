"""Which rows stand in which section, and what they say."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from app.protocol.model_documents import CatalogueEntries, InstalledModels, MachineOverview, PairVerdicts
from app.window.models.catalogue_view import DOWNLOADING, HERE, MORE, RECOMMENDED, Row, Shelf
from app.window.models.downloads import Download
from app.window.models.model_list import facts, spoken
from app.window.models.model_text import TIMES, automatic, parameters, speedup
from tests.window.models.shop import EAGLE, LARGE, QWEN, SMALL, Shop, model, pair

FAST, SLOW = (f"mlx-community/{name}-4bit" for name in ("Qwen2.5-32B-Instruct", "Meta-Llama-3.1-8B-Instruct"))


def shelf_of(shop: Shop) -> Shelf:
    def read(name: str) -> bytes:
        return (shop.folder / f"{name}.json").read_bytes()

    entries = msgspec.json.decode(read("search"), type=CatalogueEntries).entries
    return Shelf(
        overview=msgspec.json.decode(read("overview"), type=MachineOverview),
        known={entry.repository: entry for entry in entries},
        here=msgspec.json.decode(read("list"), type=InstalledModels).models,
        judged={one.target: one for one in msgspec.json.decode(read("pairs"), type=PairVerdicts).targets},
    )


def by_key(rows: list[Row]) -> dict[str, Row]:
    found = {row.key: row for row in rows}
    assert len(found) == len(rows), "a model stands in two rows"
    return found


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_the_built_in_is_always_here(shop: Shop) -> None:
    shop.take("builtin")
    row = shelf_of(shop).rows({})[0]
    assert (row.key, row.section, row.title, row.usable) == ("builtin", HERE, "SmolLM2-135M-Instruct", True)


def test_every_model_stands_in_one_section(shop: Shop) -> None:
    shop.put(model(QWEN, 4.62))
    shop.put(model(SMALL, 0.1, "unknown", complete=False, total_bytes=351_000_000, trouble="250 MB are missing"))
    shop.put(model("x/y", 1.0, "gguf", origin="lm-studio", complete=False, trouble="is GGUF"))
    rows = by_key(shelf_of(shop).rows({LARGE: Download(LARGE)}))
    sections = {key: rows[key].section for key in (LARGE, SMALL, QWEN, "builtin", "x/y in LM Studio")}
    assert sections == {
        LARGE: DOWNLOADING,
        SMALL: DOWNLOADING,
        QWEN: HERE,
        "builtin": HERE,
        "x/y in LM Studio": HERE,
    }
    left_off = rows[SMALL].download
    assert left_off is not None and (left_off.state, left_off.done_bytes) == ("paused", 100_000_000)
    assert not rows["x/y in LM Studio"].usable
    assert any(row.section == RECOMMENDED for row in rows.values())


def test_a_speed_up_is_what_somebody_measured_or_nothing(shop: Shop) -> None:
    rows = by_key(shelf_of(shop).rows({}))
    assert speedup(rows[FAST].measured) == f"2.43{TIMES}"
    assert f"speed-up 2.43{TIMES}" in spoken(rows[FAST])
    unmeasured = rows["mlx-community/Qwen3-30B-A3B-4bit"]
    assert speedup(unmeasured.measured) == "-"
    assert "speed-up not measured" in spoken(unmeasured)


def test_a_speed_up_is_of_the_pair_that_was_measured(shop: Shop) -> None:
    shelf = shelf_of(shop)
    (one,) = shelf.known[FAST].measured
    assert shelf.measured(FAST, one.drafter) == (one,)
    assert shelf.measured(FAST, EAGLE) == ()
    assert speedup(by_key(shelf.rows({}, "llama 3.1 8b"))[SLOW].measured) == "-"  # measured with another than the best


def test_a_row_says_parameters_bits_size_and_the_best_drafter_that_loads(shop: Shop) -> None:
    row = by_key(shelf_of(shop).rows({}, "qwen3 8b"))[QWEN]
    assert facts(row) == "8.19 B · 4-bit · 4.62 GB · Qwen3 8B EAGLE-3"
    assert row.best == EAGLE
    shop.put(model(SMALL, 0.35))
    here_first = by_key(shelf_of(shop).rows({}, "qwen3 8b"))[QWEN]
    assert (here_first.drafter, here_first.best) == ("Qwen3 0.6B", "")


def test_a_target_that_is_here_says_what_auto_takes(shop: Shop) -> None:
    shop.put(model(QWEN, 4.62))
    shop.put(model(EAGLE, 1.2, "eagle3"))
    snapshot = f"/cache/models--{EAGLE.replace('/', '--')}/snapshots/1234567"
    shop.judge(QWEN, pair(EAGLE, "eagle3", True, "fits"), auto=f"lookup+{snapshot}", why="…")
    assert by_key(shelf_of(shop).rows({}))[QWEN].drafter == "Qwen3 8B EAGLE-3"


@pytest.mark.parametrize(("gb", "room"), [(16, "no"), (48, "good"), (192, "good")])
def test_what_fits_is_a_matter_of_the_machine(tmp_path: Path, gb: int, room: str) -> None:
    shelf = shelf_of(Shop(tmp_path, gb))
    wide = by_key(shelf.rows({}, only_fitting=False))
    assert wide[LARGE].room == room
    narrow = by_key(shelf.rows({}, only_fitting=True))
    assert (LARGE in narrow) == (room != "no")
    assert all(row.room != "no" for row in narrow.values())


def test_a_model_that_is_here_is_listed_though_it_does_not_fit(tmp_path: Path) -> None:
    shop = Shop(tmp_path, 16)
    shop.put(model(LARGE, 18.43))
    row = by_key(shelf_of(shop).rows({}))[LARGE]
    assert (row.section, row.room) == (HERE, "no")


@pytest.mark.parametrize(
    ("words", "found"), [("qwen3 8b", True), ("8B QW", True), ("apache qwen3-8b", True), ("8b x", False)]
)
def test_words_begin_words_of_a_name_in_any_order(shop: Shop, words: str, found: bool) -> None:
    assert (QWEN in by_key(shelf_of(shop).rows({}, words))) == found


def test_drafters_are_listed_where_they_are_looked_for(shop: Shop) -> None:
    shelf = shelf_of(shop)
    assert EAGLE not in by_key(shelf.rows({}))
    row = by_key(shelf.rows({}, "eagle3 8b"))[EAGLE]
    assert (row.section, row.room) == (MORE, "")


def test_what_would_fit_instead_is_of_the_same_family(tmp_path: Path) -> None:
    shelf = shelf_of(Shop(tmp_path, 16))
    other = shelf.smaller("Qwen3")
    assert other is not None and (other.family, other.name) == ("Qwen3", "Qwen3 8B")


def test_numbers_are_said_as_people_say_them() -> None:
    assert [parameters(number) for number in (0.596, 8.19, 30.53, 235.0)] == ["596 M", "8.19 B", "30.5 B", "235 B"]
    assert parameters(None) == ""
    assert automatic("lookup+eagle3") == "eagle3"
    assert automatic("lookup") == "lookup"
    assert automatic(None) == ""
