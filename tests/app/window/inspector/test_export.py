"""Rounds as JSON and CSV."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace as replace_fields
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget

from app.protocol import RoundDone
from app.window.inspector.round_export import COLUMNS, ShareMenu, rounds_csv, rounds_json
from engine.events import Round
from tests.app.window.inspector.sample_rounds import chains, mixed

Rounds = Callable[[list[RoundDone]], str]


def test_json_gives_the_rounds_back() -> None:
    told = mixed(80)
    read = json.loads(rounds_json(told))
    assert [msgspec.convert(one, Round) for one in read] == [one.round for one in told]
    assert [tuple(one["drafted_texts"]) for one in read] == [one.drafted_texts for one in told]
    assert read[0]["origins"] == list(told[0].round.origins)


def test_csv_has_a_line_a_round_and_its_lists_are_json() -> None:
    told = mixed(80)
    lines = list(csv.DictReader(io.StringIO(rounds_csv(told))))
    assert tuple(lines[0]) == COLUMNS
    assert [int(line["accepted"]) for line in lines] == [one.round.accepted for one in told]
    assert [tuple(json.loads(line["drafted_tokens"])) for line in lines] == [one.round.drafted for one in told]
    trees = [(one.round, line) for one, line in zip(told, lines, strict=True) if line["kind"] == "tree"]
    assert all(tuple(json.loads(line["path"])) == tree.path for tree, line in trees)
    assert all(tuple(json.loads(line["parents"])) == tree.parents for tree, line in trees)
    assert {line["kind"] for line in lines} == {"chain", "tree", "plain"}


def test_no_cell_of_csv_begins_like_a_formula() -> None:
    told = chains(1)[0]
    hostile = ("=1+1", "@SUM(A1)", "+2", "-3", "\t=4", '"=5')
    texts = (*hostile, *hostile)[: len(told.round.texts)]
    told = replace_fields(
        told, round=replace(told.round, texts=texts, reason="=cmd|' /C calc'!A0"), drafted_texts=hostile[:5]
    )
    cells = next(iter(list(csv.reader(io.StringIO(rounds_csv([told]))))[1:]))
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "@", "+", "-"))]


@pytest.mark.parametrize(("name", "write"), [("rounds.CSV", rounds_csv), ("rounds.json", rounds_json)])
def test_a_file_is_csv_if_it_is_called_so_and_json_else(
    name: str, write: Rounds, app: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = mixed(5)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / name), ""))
    parent = QWidget()
    ShareMenu(list, lambda: told, parent).export()
    assert (tmp_path / name).read_text(encoding="utf-8") == write(told)
