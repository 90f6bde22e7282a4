"""The benchmark: its document says what the tokens say, its questions are checked, its failures are failures."""

import json
import statistics
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from app.bench import benchmark
from app.bench.contestants import random_drafter
from app.cli.main import main
from app.inference.measured_reply import Reply
from engine import acceptance
from engine.audit import fingerprints
from engine.audit.receipt import first_difference
from engine.drafters.eagle3 import Eagle3
from models.loader import load
from tests.app.command import Redline
from tests.engine.audit.test_rounding import keep_all
from tests.toys.folders import roomy_copy

PROMPTS = [
    {"question_id": 7, "category": "weather", "turns": ["why is the sky blue?", "and at night?"]},
    {"question_id": "x", "category": "light", "turns": ["what scatters light in the air?"]},
    {"question_id": 9, "category": "light", "turns": ["what is the sun?"]},
]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, PROMPTS)) + "\n\n")
    return path


@pytest.fixture(scope="module")
def measured(toy_folder: Path, toy_drafter_folder: Path, prompts: Path) -> dict[str, Any]:
    """Everything at once: two drafters, two temperatures, the peer, all turns."""
    file = prompts.with_name("out.json")
    drafters = ["--drafter", "lookup", "--drafter", str(toy_drafter_folder), "--drafter", "none"]
    options = ["--temperature", "0", "--temperature", "0.8", "--acceptance", "coupled", "--draft-length", "3"]
    several = ["--peer", "mlx-lm", "--turns", "all", "--limit", "2", "--max-tokens", "12", "--json", str(file)]
    assert main(["bench", str(prompts), "--target", str(toy_folder), *drafters, *options, *several]) == 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_everyone_answers_every_turn_at_every_temperature(measured: dict[str, Any]) -> None:
    names = ["none", "lookup", "drafter", "mlx-lm", "mlx-lm+draft"]
    expected = {(name, t, *turn) for name in names for t in (0.0, 0.8) for turn in ((7, 0), (7, 1), ("x", 0))}
    found = [(run["drafter"], run["temperature"], run["question_id"], run["turn"]) for run in measured["runs"]]
    assert len(found) == len(expected)
    assert set(found) == expected
    assert [row["drafter"] for row in measured["summary"]] == 2 * names


def test_numbers_follow_from_the_tokens(measured: dict[str, Any]) -> None:
    for run in measured["runs"]:
        assert run["tokens"] == len(run["token_ids"]) <= 12
        assert run["tokens_per_s"] == pytest.approx((run["tokens"] - 1) / run["decode_s"])
        assert run["mean_acceptance_length"] == run["tokens"] / run["rounds"]
        assert run["acceptance_rate"] == (run["accepted"] / run["drafted"] if run["drafted"] else None)
        assert run["tokens"] - run["rounds"] <= run["accepted"] <= run["tokens"]
        assert 0 < run["ttft_s"] <= run["total_s"]


def test_matches_plain_is_what_the_tokens_say_and_rules_are_named(measured: dict[str, Any]) -> None:
    plain = {_key(run): run["token_ids"] for run in measured["runs"] if run["drafter"] == "none"}
    for run in measured["runs"]:
        place = first_difference(plain[_key(run)], run["token_ids"])
        if run["drafter"].startswith("mlx-lm") and run["temperature"]:
            assert run["matches_plain"] is None
        else:
            assert run["matches_plain"] is (place is None)
            assert run["matches_plain"]
        assert run["first_difference"] is None
    rules = {(run["drafter"], run["temperature"]): run["acceptance_rule"] for run in measured["runs"]}
    assert rules["lookup", 0.0] == rules["drafter", 0.0] == "greedy"
    assert rules["none", 0.8] == rules["drafter", 0.8] == "coupled"
    assert (rules["mlx-lm", 0.8], rules["mlx-lm+draft", 0.8]) == (None, "sample-and-match")


def test_the_summary_is_of_the_runs(measured: dict[str, Any]) -> None:
    for row in measured["summary"]:
        of = [r for r in measured["runs"] if (r["drafter"], r["temperature"]) == (row["drafter"], row["temperature"])]
        for key in ("tokens_per_s", "speedup", "speedup_total", "ttft_s"):
            assert row[key] == pytest.approx(statistics.median(r[key] for r in of))
        assert row["mean_acceptance_length"] == sum(r["tokens"] for r in of) / sum(r["rounds"] for r in of)
        assert row["runs"] == len(of) == 3
    plain = measured["summary"][0]
    assert (plain["speedup"], plain["speedup_total"], plain["identical"]) == (1, 1, True)


def test_a_drafter_that_is_often_right_is_accepted(measured: dict[str, Any]) -> None:
    """Else the other tests would compare plain decoding with itself."""
    rates = {(row["drafter"], row["temperature"]): row["mean_acceptance_length"] for row in measured["summary"]}
    assert rates["drafter", 0.0] > 1.5
    assert rates["mlx-lm+draft", 0.0] == pytest.approx(rates["drafter", 0.0])


def test_redlines_rounds_are_timed_by_draft_length(measured: dict[str, Any]) -> None:
    for run in measured["runs"]:
        timed = {} if run["drafter"].startswith("mlx-lm") else run["round_s"]
        assert run["round_s"] == timed
        assert all(seconds > 0 for seconds in timed.values()) and timed.keys() <= run["drafts"].keys()


def test_the_table_says_it_all(toy_folder: Path, prompts: Path, redline: Redline) -> None:
    done = redline("bench", prompts, "--target", toy_folder, "--limit", "1", "--max-tokens", "8")
    assert done.code == 0 and "1 prompt, at most 8 tokens each, draft length auto" in done.out
    assert "1 of 1 replies are identical to plain decoding, token by token" in done.out
    assert "lookup" in done.out and "warming up" in done.err
    assert max(map(len, done.out.splitlines())) <= 100


def test_a_wrong_acceptance_fails(
    toy_folder: Path, toy_drafter_folder: Path, prompts: Path, redline: Redline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "match", keep_all)
    file = prompts.with_name("wrong.json")
    words = ["--target", toy_folder, "--drafter", toy_drafter_folder, "--draft-length", "4"]
    done = redline("bench", prompts, *words, "--limit", "1", "--max-tokens", "40", "--json", file)
    assert done.code == 1 and "1 of 1 replies differ from plain decoding by more than rounding" in done.out
    found = json.loads(file.read_text())
    wrong, row = found["runs"][1], found["summary"][1]
    assert wrong["drafter"] == row["drafter"] == "drafter"
    assert (row["identical"], row["differences"], row["near_ties"]) == (False, 1, 0)
    assert wrong["matches_plain"] is False
    assert wrong["first_difference"]["near_tie"] is False
    assert wrong["first_difference"]["gap_ulps"] > 100


def test_ctrl_c_keeps_what_was_measured(toy_folder: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = prompts.with_name("cut.json")
    original, asked = benchmark.Benchmark._replies, []

    def stop_at_the_second(self: Any, *asked_for: Any) -> dict[str, Reply]:
        asked.append(asked_for[-1])
        if len(asked) == 2:
            raise KeyboardInterrupt
        return original(self, *asked_for)

    monkeypatch.setattr(benchmark.Benchmark, "_replies", stop_at_the_second)
    arguments = ["--target", str(toy_folder), "--max-tokens", "4", "--draft-length", "2", "--json", str(file)]
    assert main(["bench", str(prompts), *arguments]) == 130
    found = json.loads(file.read_text())
    assert found["interrupted"]
    assert {run["question_id"] for run in found["runs"]} == {7}


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["question_id"], run["turn"], run["temperature"]


# --- The benchmark's exact-verify, and its drafter of random weights


@pytest.fixture(scope="module")
def words(toy_folder: Path, toy_drafter_folder: Path) -> list[str]:
    options = ["--draft-length", "3", "--draft-length", "auto", "--temperature", "0", "--temperature", "1"]
    few = ["--acceptance", "coupled", "--limit", "1", "--max-tokens", "20"]
    return ["bench", "--target", str(toy_folder), "--drafter", str(toy_drafter_folder), *options, *few, "--exact"]


@pytest.mark.slow
def test_everyone_decodes_in_exact_verify_too_to_the_last_bit(
    words: list[str], tmp_path: Path, redline: Redline
) -> None:
    file = tmp_path / "out.json"
    done = redline(*words, "--random", "--json", file)
    assert done.code == 0 and "drafter exact" in done.out
    assert "8 of 8 replies have plain decoding's logits to the last bit" in done.out
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


def test_a_bit_that_differs_is_a_failure(words: list[str], redline: Redline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is the fingerprint of a pass with a draft that is off by one."""
    original = fingerprints.row_checksums
    seen: list[int] = []

    def off(logits: mx.array) -> mx.array:
        seen.append(logits.shape[0])
        return original(logits) + (logits.shape[0] > 1)

    monkeypatch.setattr(fingerprints, "row_checksums", off)
    done = redline(*words[:5], "--draft-length", "3", "--limit", "1", "--max-tokens", "12", "--exact")
    assert done.code == 1 and max(seen) > 1
    assert "drafter exact, question 1, T 0: same text, but not the same bits" in done.out
    assert "0 of 1 replies have plain decoding's logits to the last bit" in done.out


def test_random_weights_are_the_same_each_time_and_fit(toy_folder: Path) -> None:
    def weights() -> Any:
        found = random_drafter(load(toy_folder))
        assert isinstance(found.drafter, Eagle3)
        assert found.name == "random"
        return found.drafter.head.lm_head.weight

    assert mx.array_equal(weights(), weights())


@pytest.mark.slow
def test_a_long_prompt_after_an_exact_reply_is_read_off_the_grid(toy_folder: Path, tmp_path: Path) -> None:
    target, prompts, file = roomy_copy(toy_folder, tmp_path / "target"), tmp_path / "long.jsonl", tmp_path / "out.json"
    prompts.write_text(json.dumps({"question_id": 1, "category": "long", "turns": ["why is the sky blue? " * 20]}))
    few = ["--drafter", "lookup", "--draft-length", "auto", "--max-tokens", "6", "--exact", "--json", str(file)]
    assert main(["bench", str(prompts), "--target", str(target), *few]) == 0
    runs = json.loads(file.read_text())["runs"]
    assert all(run["prompt_tokens"] > 128 and run["matches_plain"] for run in runs)
