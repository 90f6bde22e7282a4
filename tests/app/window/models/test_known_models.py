"""Which models are listed in which section, and what their rows say."""

from pathlib import Path

import msgspec
import pytest

from app.model_words import KINDS, TIMES, speedup
from app.protocol.model_documents import InstalledModels, MemoryFit, PairVerdicts
from app.window.models.downloads import Download
from app.window.models.known_models import DOWNLOADING, FITTING, HERE, MORE, RECOMMENDED, KnownModels, ModelRow
from app.window.models.model_details import _facts
from app.window.models.model_list import description, facts
from models import drafters
from models.catalogue.entries import read_catalogue
from tests.app.window.models.fake_models import EAGLE, LARGE, QWEN, SMALL, FakeModels, model, pair

MEASURED, UNMEASURED = (f"mlx-community/{name}-4bit" for name in ("Qwen2.5-32B-Instruct", "Qwen3-30B-A3B"))
LLAMA = "mlx-community/Meta-Llama-3.1-8B-Instruct-4bit"


def known_by(fake: FakeModels) -> KnownModels:
    known = KnownModels(fake.machine, read_catalogue())
    known.receive_list(msgspec.json.decode((fake.folder / "list.json").read_bytes(), type=InstalledModels))
    known.receive_pairs(msgspec.json.decode((fake.folder / "pairs.json").read_bytes(), type=PairVerdicts))
    return known


def rows(fake: FakeModels, search: str = "", only_fitting: bool = True, **downloads: Download) -> dict[str, ModelRow]:
    """Returns the rows by key."""
    listed = known_by(fake).rows({one.repo: one for one in downloads.values()}, search, only_fitting)
    found = {row.key: row for row in listed}
    assert len(found) == len(listed), "a model has two rows"
    return found


@pytest.fixture
def fake(tmp_path: Path) -> FakeModels:
    return FakeModels(tmp_path)


def test_the_built_in_model_is_always_listed(fake: FakeModels) -> None:
    fake.take("builtin")
    row = next(iter(rows(fake).values()))
    assert (row.key, row.section, row.title, row.usable) == ("builtin", HERE, "SmolLM2-135M-Instruct", True)


def test_every_model_is_in_one_section(fake: FakeModels) -> None:
    fake.put(model(QWEN, 4.62))
    fake.put(model(SMALL, 0.1, "unknown", complete=False, total_bytes=351_000_000, trouble="250 MB are missing"))
    fake.put(model("x/y", 1.0, "gguf", origin="lm-studio", complete=False, trouble="is GGUF"))
    found = rows(fake, large=Download(LARGE))
    expected = {LARGE: DOWNLOADING, SMALL: DOWNLOADING, QWEN: HERE, "builtin": HERE, "x/y in LM Studio": HERE}
    assert {key: found[key].section for key in expected} == expected
    paused = found[SMALL].download
    assert paused is not None and (paused.state, paused.done_bytes) == ("paused", 100_000_000)
    assert not found["x/y in LM Studio"].usable
    assert any(row.section == RECOMMENDED for row in found.values())


def test_a_model_of_lm_studio_stays_listed_while_the_hubs_is_downloaded(fake: FakeModels) -> None:
    """It is another one, even of the same name."""
    fake.put(model(QWEN, 4.62, origin="lm-studio"))
    found = rows(fake, qwen=Download(QWEN))
    assert (found[QWEN].section, found[f"{QWEN} in LM Studio"].section) == (DOWNLOADING, HERE)


def test_a_speed_up_is_shown_only_if_it_was_measured_for_this_pair(fake: FakeModels) -> None:
    found, catalogue = rows(fake), read_catalogue()
    (one,) = (one for one in catalogue.measured if one.target == MEASURED)
    assert catalogue.speedups(MEASURED, one.drafter) == (one,)
    assert catalogue.speedups(MEASURED, EAGLE) == ()
    assert speedup(found[MEASURED].measured) == f"2.43{TIMES}"
    assert f"speed-up 2.43{TIMES}" in description(found[MEASURED])
    assert speedup(found[UNMEASURED].measured) == ""
    assert "speed-up" not in description(found[UNMEASURED])
    assert speedup(rows(fake, "llama 3.1 8b")[LLAMA].measured) == ""  # measured with another than the best drafter


def test_a_row_shows_what_the_model_is_good_at_its_size_and_the_best_drafter(fake: FakeModels) -> None:
    row = rows(fake, "qwen3 8b")[QWEN]
    assert facts(row) == "4.62 GB · 4-bit · reasoning and many languages · Qwen3 8B EAGLE-3"
    assert row.missing_drafter == EAGLE
    fake.put(model(SMALL, 0.35))
    row = rows(fake, "qwen3 8b")[QWEN]
    assert (row.drafter, row.missing_drafter) == ("Qwen3 0.6B", "")  # one that is here comes first


def test_an_installed_target_shows_the_drafter_of_the_automatic_choice(fake: FakeModels) -> None:
    fake.put(model(QWEN, 4.62))
    fake.put(model(EAGLE, 1.2, "eagle3"))
    snapshot = f"/cache/models--{EAGLE.replace('/', '--')}/snapshots/1234567"
    fake.judge(QWEN, pair(EAGLE, "eagle3", True, "fits"), auto=f"lookup+{snapshot}", why="…")
    assert rows(fake)[QWEN].drafter == "Qwen3 8B EAGLE-3"


def test_nothing_is_recommended_before_it_is_known_what_is_here(fake: FakeModels) -> None:
    known = KnownModels(fake.machine, read_catalogue())
    assert RECOMMENDED not in {row.section for row in known.rows({})}
    known.receive_list(InstalledModels(models=()))
    assert RECOMMENDED in {row.section for row in known.rows({})}


@pytest.mark.parametrize("gb", [16, 128])
def test_one_pair_is_recommended_and_the_others_that_fit_stand_below_it(tmp_path: Path, gb: int) -> None:
    found = list(rows(FakeModels(tmp_path, gb)).values())
    (first,) = [row for row in found if row.section == RECOMMENDED]
    others = [row for row in found if row.section == FITTING]
    assert len(others) > 5 and found.index(first) < found.index(others[0])
    assert first.fit == "good" and first.best_drafter and all(one.speedup >= 1 for one in first.measured)


def test_what_the_system_says_of_memory_counts_once_it_is_known(fake: FakeModels) -> None:
    known = known_by(fake)
    assert known.machine.for_models_bytes == 24 << 30
    fit = msgspec.json.decode((fake.folder / "fits builtin.json").read_bytes(), type=MemoryFit)
    known.receive_fit("builtin", msgspec.structs.replace(fit, most_bytes=3 << 30))
    assert known.machine.for_models_bytes == 3 << 30
    assert {row.key: row for row in known.rows({}, only_fitting=False)}[QWEN].fit == "no"


@pytest.mark.parametrize(("gb", "fit"), [(16, "no"), (48, "good")])
def test_the_memory_of_the_machine_decides_what_fits(tmp_path: Path, gb: int, fit: str) -> None:
    fake = FakeModels(tmp_path, gb)
    assert rows(fake, only_fitting=False)[LARGE].fit == fit
    fitting = rows(fake)
    assert (LARGE in fitting) == (fit != "no")
    assert all(row.fit != "no" for row in fitting.values())
    fake.put(model(LARGE, 18.43))  # an installed one is listed anyway
    assert (rows(fake)[LARGE].section, rows(fake)[LARGE].fit) == (HERE, fit)


@pytest.mark.parametrize(
    ("search", "found"), [("qwen3 8b", True), ("8B QW", True), ("apache qwen3-8b", True), ("8b x", False)]
)
def test_search_words_begin_words_of_a_name_in_any_order(fake: FakeModels, search: str, found: bool) -> None:
    assert (QWEN in rows(fake, search)) == found


def test_drafters_are_listed_only_in_a_search(fake: FakeModels) -> None:
    assert EAGLE not in rows(fake)
    row = rows(fake, "eagle3 8b")[EAGLE]
    assert (row.section, row.fit) == (MORE, "")


def test_every_kind_of_drafter_that_can_be_here_has_a_name() -> None:
    assert {kind.name for kind in drafters.KINDS} <= set(KINDS)


def test_the_alternative_to_a_model_that_is_too_large_is_of_the_same_family(tmp_path: Path) -> None:
    other = known_by(FakeModels(tmp_path, 16)).alternative("Qwen3")
    assert other is not None and (other.family, other.name) == ("Qwen3", "Qwen3 8B")


def test_a_model_whose_weights_become_32_bit_floats_is_judged_by_them(tmp_path: Path) -> None:
    """And one that the catalogue does not know not at all, until `models fits` has looked at it."""
    fake = FakeModels(tmp_path, gb=36)
    fake.put(model("x/unknown", 2.0))
    known = known_by(fake)
    known.machine = msgspec.structs.replace(known.machine, in_float32=True)
    found = {row.key: row.fit for row in known.rows({}, only_fitting=False)}
    assert (found[QWEN], found[SMALL], found["x/unknown"]) == ("no", "good", "")
    assert (rows(fake)["x/unknown"].fit, rows(fake)[QWEN].fit) == ("good", "good")


def test_the_page_of_a_model_says_what_its_architecture_was_compared_with(fake: FakeModels) -> None:
    fake.put(model(QWEN, 4.62, reference="qwen3: logits within 4e-06 of something 5.24"))
    row = rows(fake)[QWEN]
    assert ("Architecture", "qwen3: logits within 4e-06 of something 5.24") in _facts(row, 0.0)
