"""The benchmark's exact-verify, and its drafter of random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from app.bench.contestants import random_drafter
from app.cli.main import main
from engine.audit import fingerprints
from engine.drafters.eagle3 import Eagle3
from models.loader import load
from tests.toys.folders import roomy_copy


@pytest.fixture(scope="module")
def words(toy_folder: Path, toy_drafter_folder: Path) -> list[str]:
    options = ["--draft-length", "3", "--draft-length", "auto", "--temperature", "0", "--temperature", "1"]
    few = ["--acceptance", "coupled", "--limit", "1", "--max-tokens", "20"]
    return ["bench", "--target", str(toy_folder), "--drafter", str(toy_drafter_folder), *options, *few, "--exact"]


@pytest.mark.slow
def test_everyone_decodes_in_exact_verify_too_to_the_last_bit(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.json"
    assert main([*words, "--random", "--json", str(file)]) == 0
    value = json.loads(file.read_text())
    ways = ["drafter 3", "drafter auto", "random 3", "random auto"]
    names = ["none", *(f"{name}{mode}" for name in ways for mode in ("", " exact"))]
    assert value["contestants"] == [names[0], "none exact", *names[1:]]
    exact = [run for run in value["runs"] if run["exact"]]
    assert len(exact) == 2 * 5
    assert all(run["same_bits"] and run["matches_plain"] and run["drafter"].endswith("exact") for run in exact)
    assert all(run["same_bits"] is None for run in value["runs"] if not run["exact"])
    widths = {(run["tokens"] - run["accepted"], run["rounds"]) for run in exact if run["proposer"] == "none"}
    assert widths == {(20, 20)}
    assert sum(run["accepted"] for run in exact if run["proposer"] == "drafter") > 10
    out = capsys.readouterr().out
    assert "8 of 8 replies have plain decoding's logits to the last bit" in out
    assert "drafter exact" in out


def test_a_bit_that_differs_is_a_failure(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it is the fingerprint of a pass with a draft that is off by one."""
    original = fingerprints.row_checksums
    seen: list[int] = []

    def off(logits: mx.array) -> mx.array:
        seen.append(logits.shape[0])
        return original(logits) + (logits.shape[0] > 1)

    monkeypatch.setattr(fingerprints, "row_checksums", off)
    short = [*words[:5], "--draft-length", "3", "--limit", "1", "--max-tokens", "12", "--exact"]
    assert main(short) == 1
    assert max(seen) > 1
    out = capsys.readouterr().out
    assert "drafter exact, question 1, T 0: same text, but not the same bits" in out
    assert "0 of 1 replies have plain decoding's logits to the last bit" in out


def test_random_weights_are_the_same_each_time_and_fit(toy_folder: Path) -> None:
    def weights() -> Any:
        found = random_drafter(load(toy_folder))
        assert isinstance(found.drafter, Eagle3)
        assert found.name == "random"
        return found.drafter.head.lm_head.weight

    assert mx.array_equal(weights(), weights())


def test_a_long_prompt_is_measured_for_off_the_grid(toy_folder: Path, tmp_path: Path) -> None:
    """Costs behind more context are measured when a long prompt comes, which may be right behind an exact reply."""
    target, prompts, file = roomy_copy(toy_folder, tmp_path / "target"), tmp_path / "long.jsonl", tmp_path / "out.json"
    prompts.write_text(json.dumps({"question_id": 1, "category": "long", "turns": ["why is the sky blue? " * 20]}))
    few = ["--drafter", "lookup", "--draft-length", "auto", "--max-tokens", "6", "--exact", "--json", str(file)]
    assert main(["bench", str(prompts), "--target", str(target), *few]) == 0
    runs = json.loads(file.read_text())["runs"]
    assert all(run["prompt_tokens"] > 128 and run["matches_plain"] for run in runs)
