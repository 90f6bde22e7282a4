"""Costs on disk: measured once, read back as they were, measured again where anything has changed."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app import calibration, pair
from app.calibration import band, costs_of, is_known
from app.pair import NamedDrafter
from engine.costs import Costs
from engine.drafters.prompt_lookup import PromptLookup
from models.load import Loaded, load

COSTS = Costs(((1, 0.1), (2, 0.15)), ((0, 0.0), (1, 0.01)))
BOTH = Costs(COSTS.verify, COSTS.draft, (COSTS, Costs(COSTS.verify, ((0, 0.0), (1, 0.05)))))
ONE = NamedDrafter("lookup", PromptLookup())
LOOKUP = NamedDrafter("lookup+other", PromptLookup(), several=(ONE, NamedDrafter("other", PromptLookup())))


@pytest.fixture(scope="module")
def target(toy_folder: Path) -> Loaded:
    return load(toy_folder)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The contexts that were measured behind."""
    asked: list[int] = []

    def measure(target: Loaded, drafter: NamedDrafter, context: int, between: Callable[[], None]) -> Costs:
        asked.append(context)
        return BOTH

    monkeypatch.setattr(pair, "measure_costs", measure)
    return asked


def test_costs_are_measured_once_and_read_back_as_they_were(
    target: Loaded, measured: list[int], tmp_path: Path
) -> None:
    assert not is_known(target, LOOKUP, tmp_path)
    assert costs_of(target, LOOKUP, tmp_path) == BOTH
    assert is_known(target, LOOKUP, tmp_path)
    assert costs_of(target, LOOKUP, tmp_path) == BOTH
    assert measured == [64]


def test_long_contexts_are_measured_apart(target: Loaded, measured: list[int], tmp_path: Path) -> None:
    assert [band(n) for n in (0, 63, 64, 1023, 1024, 5000)] == [64, 64, 64, 64, 1024, 4096]
    for context in (10, 2000, 1500, 9000):
        costs_of(target, LOOKUP, tmp_path, context)
    assert measured == [64, 1024, 4096]


def test_other_drafters_weights_and_machines_are_measured_apart(
    target: Loaded, measured: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "head"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"1")
    head = NamedDrafter("both", PromptLookup(), several=(ONE, NamedDrafter("head", PromptLookup(), folder=folder)))
    for drafter in (LOOKUP, head):
        costs_of(target, drafter, tmp_path)
    os.utime(folder / "model.safetensors", (1, 1))
    costs_of(target, head, tmp_path)
    monkeypatch.setattr(calibration, "processor", lambda: "another")
    costs_of(target, head, tmp_path)
    assert len(measured) == 4


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"format":99,"key":[],"costs":{"verify":[[1,1.0]]}}',
        None,
        b"one member",
        b"no time",
    ],
)
def test_a_file_that_is_no_good_is_measured_again_and_replaced(
    target: Loaded, measured: list[int], tmp_path: Path, content: bytes | None
) -> None:
    costs_of(target, LOOKUP, tmp_path)
    (path,) = (tmp_path / "costs").glob("*.json")
    if content == b"one member":
        kept = json.loads(path.read_bytes())
        kept["costs"]["members"].pop()
        content = json.dumps(kept).encode()
    if content == b"no time":
        kept = json.loads(path.read_bytes())
        kept["costs"]["members"][1]["eager"] = 0.0
        content = json.dumps(kept).encode()
    path.write_bytes(path.read_bytes().replace(b"0.1", b"0.0") if content is None else content)
    assert not is_known(target, LOOKUP, tmp_path)
    assert costs_of(target, LOOKUP, tmp_path) == BOTH
    assert is_known(target, LOOKUP, tmp_path)
    assert len(measured) == 2


def test_a_folder_that_cannot_be_written_costs_a_measurement_only(
    target: Loaded, measured: list[int], tmp_path: Path
) -> None:
    (tmp_path / "costs").write_text("a file in the way")
    assert costs_of(target, LOOKUP, tmp_path) == costs_of(target, LOOKUP, tmp_path) == BOTH
    assert len(measured) == 2


def test_old_files_are_cleared_away(
    target: Loaded, measured: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MOST", 3)
    for i in range(6):
        monkeypatch.setattr(calibration, "processor", lambda i=i: f"machine {i}")
        costs_of(target, LOOKUP, tmp_path)
    assert len(list((tmp_path / "costs").iterdir())) == 3
