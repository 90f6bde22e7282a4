"""The benchmark's picture: the right size, nothing empty, and its numbers are the document's."""

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image

from app.bench import bench_document, plot
from app.bench.bench_document import BenchDocument
from app.bench.verdicts import ALL
from app.inference import pair_loader
from tests.app.bench.bench_runs import document_of, plain_and, row
from tests.app.command import Redline


def some() -> BenchDocument:
    speeds = {"qa": [1.0, 1.2, 1.6], "rag": [2.0, 2.2, 2.4]}
    rows = plain_and({(name, length): speeds for name in ("eagle3", "lookup") for length in ("auto", 2)})
    rows += [
        row("mlx-lm", None, 0, 0.9, peer=True, round_s={}),
        row("mlx-lm", None, 100, 0.8, category="rag", peer=True),
    ]
    rows += [row("eagle3", "auto", 0, 9.0, temperature=1.0), row("eagle3", "auto", 0, 8.0, exact=True)]
    return document_of(rows)


def _place(title: str) -> int:
    return ("Speed-up", "Acceptance", "Time", "Never").index(title.split(" ")[0].rstrip("?"))


@pytest.fixture(scope="module")
def drawn() -> bytes:
    return plot.render_png(some())


def test_the_picture_is_white_and_as_wide_as_a_page_wants(drawn: bytes) -> None:
    image = Image.open(io.BytesIO(drawn))
    assert image.format == "PNG"
    assert image.size == tuple(round(inches * plot.DPI) for inches in plot.SIZE_IN) == (1664, 1536)
    pixels = image.convert("RGB")
    assert pixels.getpixel((3, 3)) == (255, 255, 255)
    counts = {colour: count for count, colour in pixels.getcolors(1 << 24) or []}
    assert counts[255, 255, 255] > 0.6 * image.width * image.height
    assert counts[0, 0x9E, 0x73] > 2000  # the first drafter's bars


def test_no_axis_is_empty_and_each_says_what_it_shows() -> None:
    titled = {axis.get_title(loc="left"): axis for axis in plot.figure(some()).get_axes()}
    shares = titled.pop("")
    speeds, acceptance, rounds, losses = (titled[name] for name in sorted(titled, key=_place))
    assert len(speeds.patches) == 3 * 3  # eagle3, lookup, mlx-lm in qa, rag and all
    assert [len(line.get_xdata()) for line in acceptance.lines] == [2, 2]
    assert len(rounds.lines) == 2
    for axis in (speeds, acceptance, rounds, losses):
        assert axis.has_data()
        assert axis.get_ylabel()
    assert [sum(len(dots.get_offsets()) for dots in losses.collections)] == [2 * (6 + 1)]  # and the best lengths
    assert len(shares.patches) == 2 * 2


def test_speedups_are_medians_of_the_coolest_replies_by_category() -> None:
    found = {one.name: one for one in plot.speedup_series(plot.plotted_runs(some()))}
    assert list(found) == ["eagle3", "lookup", "mlx-lm"]
    assert found["eagle3"].points == {"qa": 1.2, "rag": 2.2, ALL: 1.8}
    assert found["eagle3"].spreads["qa"] == (1.1, pytest.approx(1.4))
    assert found["mlx-lm"].points == {"qa": 0.9, "rag": 0.8, ALL: pytest.approx(0.85)}
    assert found["eagle3"].label == "eagle3, auto"


def test_a_drafter_without_auto_is_shown_at_its_first_length() -> None:
    (one,) = plot.speedup_series(plain_and({("eagle3", 4): {"qa": [1.5]}, ("eagle3", 2): {"qa": [1.1]}}))
    assert (one.label, one.points) == ("eagle3, 4 a round", {"qa": 1.5, ALL: 1.5})


def test_acceptance_is_of_the_longest_fixed_length() -> None:
    rows = [
        row("eagle3", length, 0, 1.0, reached=[80, 40, 9], kept=kept)
        for length, kept in (("auto", [80, 40, 0]), (2, [40, 10, 9]))
    ]
    rows.append(row("eagle3", 2, 1, 1.0, reached=[20], kept=[20]))
    (one,) = plot.acceptance_series(rows)
    assert one.points == {"1": 0.6, "2": 0.25}
    one_a_round = row("eagle3", 1, 0, 1.0, reached=[40], kept=[20])
    for told in (rows[:1], [rows[0], one_a_round]):
        (auto,) = plot.acceptance_series(told)
        assert (auto.label, auto.points) == ("eagle3, auto", {"1": 1.0, "2": 1.0})
    (one,) = plot.acceptance_series([one_a_round])
    assert (one.label, one.points) == ("eagle3, 1 a round", {"1": 0.5})


def test_rounds_are_in_plain_steps_of_the_same_prompt() -> None:
    """A machine that was half as fast for one prompt was so for plain decoding too."""
    rows = [row("none", None, 0, 1.0), row("none", None, 1, 1.0, round_s={"0": 0.2})]
    rows += [row("eagle3", "auto", 0, 1.0), row("eagle3", "auto", 1, 1.0, round_s={"2": 0.32})]
    (one,) = plot.round_prices(rows, 9)
    assert one.points == {"2": pytest.approx(1.6)}


def test_lengths_chosen_are_shares_of_autos_rounds() -> None:
    rows = [row("eagle3", "auto", 0, 1.0), row("eagle3", "auto", 1, 1.0, drafts={"2": 3}), row("eagle3", 2, 0, 1.0)]
    (one,) = plot.chosen_lengths(rows)
    assert one.points == {"0": 0.5, "2": 0.5}


def test_losses_are_one_number_a_prompt_and_name_the_best_length() -> None:
    eagle, lookup = plot.loss_strips(plot.plotted_runs(some()))
    assert eagle.values == [1.0, 1.2, 1.6, 2.0, 2.2, 2.4]
    assert (eagle.middle, eagle.best) == (pytest.approx(1.8), pytest.approx(1.8))
    assert lookup.name == "lookup"


@pytest.mark.parametrize("rows", [[], [row("none", None, 0, 1.0)], [row("eagle3", 0, 0, None, reached=[], kept=[])]])
def test_a_document_with_nothing_in_it_is_drawn_too(rows: list[Any]) -> None:
    assert len(plot.figure(document_of(rows)).get_axes()) == 5


# --- from the command line -----------------------------------------------------------------------------------------


def test_a_document_is_shown_and_drawn_again_without_a_model(
    drawn: bytes, tmp_path: Path, redline: Redline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_loader, "open_target", lambda options: pytest.fail("nothing should be loaded"))
    kept, picture = tmp_path / "kept.json", tmp_path / "again.png"
    bench_document.write_document(kept, some())
    done = redline("bench", "--from", kept, "--plot", picture)
    assert done.code == 0 and picture.read_bytes() == drawn
    assert all(said in done.out for said in ("eagle3 auto", "best fixed", "toy in x"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "missing.json"], "No such file"),
        (["--from", "other.json"], "not a document of this version of redline bench"),
        (["--from", "older.json"], "not a document of this version of redline bench"),
        (["--from", "other.json", "--json", "out.json"], "--from measures nothing"),
        (["--resume"], "add --json FILE"),
        (["--plot", "no/such/folder/x.png"], "give --plot a file"),
        (["--repeats", "0"], "repeats is 0"),
    ],
)
def test_what_cannot_be_drawn_is_a_usage_error(
    arguments: list[str], message: str, tmp_path: Path, redline: Redline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.json").write_text("{}")
    Path("older.json").write_text(json.dumps(msgspec.to_builtins(some()) | {"version": 0}))
    done = redline("bench", *arguments)
    assert done.code == 2 and message in done.complaint
