"""`redline predict`: it tells what the benchmark measures; replies are written once; bad input is named."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.bench.prompt_file import Question, read_questions_or_lines
from app.cli.main import main
from app.forecast.forecast_report import recommendation
from app.forecast.forecaster import Forecaster
from app.inference.pair_loader import NamedDrafter
from engine.drafters.prompt_lookup import PromptLookup
from engine.session import Session
from engine.settings import SamplingSettings
from models.drafters.eagle3 import save_eagle3
from models.drafters.medusa import save_medusa
from models.drafters.target_match import made_for
from models.forecast.forecast import Forecast, ReplyForecast, RoundTotals
from models.loader import load
from tests.app.command import Redline
from tests.programs import predicted
from tests.toys.folders import make_stranger
from tests.toys.heads import random_eagle3, random_medusa

PROMPTS = [
    {"question_id": 7, "category": "weather", "turns": ["why is the sky blue?", "and at night?"]},
    {"question_id": "x", "category": "light", "turns": ["what scatters light in the air?"]},
    {"question_id": 9, "category": "light", "turns": ["what is the sun?"]},
]
LENGTH_KEYS = {
    *("tau", "tau_interval", "speedup", "speedup_interval", "speedup_median", "drafted", "acceptance_by_position")
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all tests of this file, so that replies are written once."""
    monkeypatch.setattr("app.inference.learnt_rounds.cache_dir", lambda root=None: root or cache)
    monkeypatch.setattr("app.forecast.forecaster.cache_dir", lambda root=None: root or cache)


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, PROMPTS)) + "\n")
    return path


def predict(folder: Path, *words: object) -> dict[str, Any]:
    file = folder / "predicted.json"
    assert main(["predict", *map(str, words), "--max-tokens", "32", "--json", str(file)]) == 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_the_document_has_the_keys_it_promises(
    toy_folder: Path, toy_drafter_folder: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samplings = ["--temperature", "0", "--temperature", "0.8", "--top-p", "0.9"]
    found = predict(tmp_path, toy_folder, toy_drafter_folder, "--prompts", prompts, *samplings)
    assert (found["drafter"], found["prompts"], found["tree"]) == ("drafter", 3, False)
    told = [(one["temperature"], one["acceptance_rule"]) for one in found["forecasts"]]
    assert told == [(0, "greedy"), (0.8, "rejection"), (0.8, "coupled")]
    for one in found["forecasts"]:
        assert [length["draft_length"] for length in one["lengths"]] == list(range(1, 9))
        assert all(length.keys() >= LENGTH_KEYS for length in (*one["lengths"], one["auto"]))
        assert [(part["category"], part["prompts"]) for part in one["categories"]] == [("weather", 1), ("light", 2)]
        assert sum(part["tokens"] for part in one["categories"]) == one["tokens"]
        assert 6 <= len(one["lengths"][-1]["acceptance_by_position"]) <= 8  # no round may have got to the last
        tau = [length["tau"] for length in one["lengths"]]
        assert 1.2 < tau[0] <= 2 and tau[0] < tau[3]
        assert all(low <= length["tau"] <= high for length in one["lengths"] for low, high in [length["tau_interval"]])
    rejection, coupled = found["forecasts"][1:]
    assert rejection["lengths"][3]["tau"] > coupled["lengths"][3]["tau"]
    out = capsys.readouterr().out
    assert "drafter · 3 prompts, 96 tokens" in out
    assert max(len(line) for line in out.splitlines() if not line.startswith("T 0")) <= 100


@pytest.mark.slow
@pytest.mark.parametrize("drafter", ["draft", "lookup", "several"])
def test_tau_at_temperature_0_is_what_the_benchmark_measures(
    drafter: str, toy_folder: Path, toy_drafter_folder: Path, prompts: Path, tmp_path: Path
) -> None:
    specs = {"draft": str(toy_drafter_folder), "lookup": "lookup", "several": f"lookup+{toy_drafter_folder}"}
    found = predict(tmp_path, toy_folder, specs[drafter], "--prompts", prompts)["forecasts"][0]
    file, lengths = tmp_path / "bench.json", ["--draft-length", "3"]
    words = ["--target", str(toy_folder), "--drafter", specs[drafter], *lengths, "--max-tokens", "32"]
    assert main(["bench", str(prompts), *words, "--json", str(file)]) == 0
    _, fixed = json.loads(file.read_text())["summary"]
    assert found["lengths"][2]["tau"] == pytest.approx(fixed["mean_acceptance_length"], abs=1e-9)


@pytest.mark.slow
def test_prediction_is_held_against_measurement(
    toy_folder: Path, toy_drafter_folder: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, samplings = tmp_path / "held.json", ["--temperature", "0", "--temperature", "1"]
    words = ["--target", str(toy_folder), "--drafter", str(toy_drafter_folder), "--max-tokens", "24", *samplings]
    code = predicted.main([str(prompts), *words, "--draft-length", "3", "--draft-length", "auto", "--json", str(file)])
    lines = json.loads(file.read_text())
    told = [(line["temperature"], line["acceptance_rule"], line["draft_length"]) for line in lines]
    rules = [(0, "greedy"), (1, "rejection"), (1, "coupled")]
    assert told == [(*rule, length) for rule in rules for length in (3, "auto")]
    assert lines[0]["tau_predicted"] == pytest.approx(lines[0]["tau_measured"])
    assert all(line["tau_predicted"] == pytest.approx(line["tau_measured"], rel=0.5) for line in lines)
    assert lines[0]["tau_measured"] > 1.2
    out = capsys.readouterr().out
    assert code == int(f"{len(lines)} of {len(lines)} within" not in out)


@pytest.mark.slow
def test_a_second_prediction_writes_nothing_and_says_the_same(
    toy_folder: Path, toy_drafter_folder: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [toy_folder, toy_drafter_folder, "--prompts", prompts, "--temperature", 0.8, "--top-p", 0.9]
    first = predict(tmp_path, *words)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the target wrote again")

    monkeypatch.setattr(Session, "continue_tokens", refuse)
    assert predict(tmp_path, *words) == first


@pytest.mark.slow
def test_ctrl_c_keeps_the_replies_that_are_written(
    toy_folder: Path, prompts: Path, tmp_path: Path, redline: Redline, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["predict", str(toy_folder), "lookup", "--prompts", str(prompts), "--max-tokens", "8"]
    words += ["--cache-dir", str(tmp_path)]
    original, written = Session.continue_tokens, []

    def stop_at_the_third(self: Session, *given: Any, **named: Any) -> Any:
        written.append(given)
        if len(written) == 3:
            raise KeyboardInterrupt
        return original(self, *given, **named)

    monkeypatch.setattr(Session, "continue_tokens", stop_at_the_third)
    done = redline(*words)
    assert done.code == 130 and "stopped; 2 of 3 replies are kept" in done.err
    assert redline(*words).code == 0
    assert len(written) == 4


def forecaster(toy_folder: Path, root: Path, context: int = 256) -> Forecaster:
    target = load(toy_folder)
    session = Session(target.model, target.tokenizer, context)
    return Forecaster(target, NamedDrafter("lookup", PromptLookup()), session, root)


QUESTIONS = [Question(number, "", (words,)) for number, words in enumerate(("why?", "what for?", "when?"))]
SIX = SamplingSettings(max_tokens=6)


def test_replies_that_are_damaged_are_written_again(toy_folder: Path, tmp_path: Path) -> None:
    one = forecaster(toy_folder, tmp_path)
    expected = one.forecast(QUESTIONS, SIX, ["rejection"])[0].rates
    files = sorted((tmp_path / "predict").iterdir())
    assert len(files) == 3 and one.missing_replies(QUESTIONS, [SIX]) == 0
    files[0].write_bytes(b"[99999]")
    files[1].write_bytes(files[1].read_bytes()[:4])
    assert forecaster(toy_folder, tmp_path).missing_replies(QUESTIONS, [SIX]) == 2
    assert forecaster(toy_folder, tmp_path).forecast(QUESTIONS, SIX, ["rejection"])[0].rates == expected
    assert one.missing_replies(QUESTIONS, [SIX]) == 0


def test_other_settings_have_other_replies(toy_folder: Path, tmp_path: Path) -> None:
    one = forecaster(toy_folder, tmp_path)
    one.forecast(QUESTIONS[:1], SIX, ["rejection"])
    others = [replace(SIX, max_tokens=7), replace(SIX, temperature=1), replace(SIX, acceptance="coupled")]
    assert [one.missing_replies(QUESTIONS[:1], [other]) for other in (SIX, *others)] == [0, 1, 1, 0]
    assert forecaster(toy_folder, tmp_path, 128).missing_replies(QUESTIONS[:1], [SIX]) == 1


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(toy_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "predict").write_text("a file in its place")
    one = forecaster(toy_folder, tmp_path)
    assert one.forecast(QUESTIONS, SIX, ["rejection"])[0].tokens == 18
    assert one.missing_replies(QUESTIONS, [SIX]) == 3


def test_old_replies_are_cleared_away(toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.forecast.forecaster.MAX_FILES", 2)
    forecaster(toy_folder, tmp_path).forecast(QUESTIONS, SIX, ["rejection"])
    assert len(list((tmp_path / "predict").iterdir())) == 2


# --- what is asked ------------------------------------------------------------------------------------------------


def test_prompts_are_read_in_both_forms(tmp_path: Path, prompts: Path) -> None:
    assert read_questions_or_lines(prompts)[0] == Question(7, "weather", ("why is the sky blue?", "and at night?"))
    plain = tmp_path / "plain.txt"
    plain.write_text("why?\n\n  what for?\n{ is no JSON\n")
    with pytest.raises(Exception, match="line 4: begins like JSON"):
        read_questions_or_lines(plain)
    plain.write_text("why?\n\n  what for?\nwhen?")
    found = [(one.id, one.category, one.turns) for one in read_questions_or_lines(plain, limit=2, every=2)]
    assert found == [(1, "prompts", ("why?",)), (3, "prompts", ("when?",))]
    assert len(read_questions_or_lines(None)) == 12


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["missing", "lookup"], 1, "missing"),
        (["{toy}", "missing"], 2, "unknown drafter 'missing': give"),
        (["{toy}", "none"], 2, "drafter is none, which drafts nothing"),
        (["{toy}", "{other}"], 1, "different tokenizer (only "),
        (["{toy}", "lookup", "--prompts", "{tmp}/missing"], 2, "cannot be read"),
        (["{toy}", "lookup", "--prompts", "{tmp}/binary"], 2, "is not text"),
        (["{toy}", "lookup", "--prompts", "{tmp}/empty"], 2, "holds no prompt"),
        (["{toy}", "lookup", "--prompts", "{tmp}/broken"], 2, "line 2: Input data was truncated"),
        (["{toy}", "lookup", "--prompts", "{tmp}/long"], 1, "question 1 has"),
        (["{toy}", "lookup", "--limit", "0"], 2, "limit is 0"),
        (["{toy}", "lookup", "--json", "{tmp}"], 2, "cannot be written"),
        (["{toy}", "lookup", "--acceptance", "maybe"], 2, "invalid choice"),
    ],
)
def test_bad_input_is_named_in_one_line(
    words: list[str], code: int, message: str, toy_folder: Path, tmp_path: Path, redline: Redline
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty").write_text("\n\n")
    (tmp_path / "broken").write_text(json.dumps(PROMPTS[0]) + "\n{\n")
    (tmp_path / "long").write_text("sky " * 2000)
    if "{other}" in words:
        make_stranger(tmp_path / "other")
    places = {"{toy}": str(toy_folder), "{tmp}": str(tmp_path), "{other}": str(tmp_path / "other")}
    said = [re.sub(r"\{\w+\}", lambda found: places[found.group()], word) for word in words]
    done = redline("predict", *said)
    assert done.code == code and done.out == ""
    assert done.complaint.startswith("redline: ") and message in done.complaint


@pytest.mark.slow
def test_trees_are_forecast_if_their_distribution_is_known(
    toy_folder: Path, prompts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = load(toy_folder)
    about, rows = {"target": made_for(target)}, target.model.vocabulary
    eagle3 = random_eagle3(vocab_size=rows, draft_vocab_size=40, taps=(0, 1, 2))
    save_eagle3(tmp_path / "eagle3", eagle3, about)
    tree = [(0,), (1,), (0, 0)]
    save_medusa(tmp_path / "medusa", random_medusa(vocabulary=rows, draft_vocab_size=40), about, tree)
    words = ["--tree", "--prompts", prompts, "--limit", 1, "--temperature", 1]
    found = predict(tmp_path, toy_folder, tmp_path / "eagle3", *words)
    assert "coupled sampling only" in capsys.readouterr().err
    assert found["tree"]
    assert [one["acceptance_rule"] for one in found["forecasts"]] == ["coupled"]
    assert [length["draft_length"] for length in found["forecasts"][0]["lengths"]] == [1, 3, 7, 15, 31]
    rejection = ["--acceptance", "rejection"]
    found = predict(tmp_path, toy_folder, tmp_path / "medusa", *words, *rejection)
    assert [one["acceptance_rule"] for one in found["forecasts"]] == ["rejection"]
    asked = ["--tree", "--temperature", "1", "--limit", "1", "--max-tokens", "8", *rejection]
    assert main(["predict", str(toy_folder), str(tmp_path / "eagle3"), *asked]) == 2
    assert "trees cannot be forecast with rejection sampling" in capsys.readouterr().err


# --- Forecasts of replies put together: rates, intervals, the best length and the recommendation


def forecast(prompts: int, lengths: tuple[int | None, ...] = (0, 1, 2, None), seed: int = 0) -> Forecast:
    """Length 1 is 1.5 tokens a round of 1.2 plain passes, more or less; length 2 is slower than plain."""
    chance = np.random.default_rng(seed)
    replies = []
    for number in range(prompts):
        rounds = 100 / (1.5 + chance.normal(0, 0.1))
        one = RoundTotals(100, rounds, rounds, 1.2 * rounds, 100.0, np.array([rounds]), np.array([100 - rounds]))
        two = RoundTotals(100, 60.0, 120.0, 110.0, 100.0, np.array([60.0, 30]), np.array([30.0, 10]))
        plain = RoundTotals(100, 100.0, 0.0, 100.0, 100.0, np.zeros(0), np.zeros(0))
        totals = {0: plain, 1: one, 2: two, None: one}
        replies.append(ReplyForecast("ab"[number % 2], {length: totals[length] for length in lengths}))
    return Forecast(SamplingSettings(), tuple(replies))


def test_the_best_length_is_the_fastest_and_plain_where_none_is() -> None:
    found = forecast(10)
    assert found.best == 1
    assert found.rates[1].speedup == pytest.approx(1.25, abs=0.1)
    assert found.rates[2].acceptance_by_position == [0.5, pytest.approx(1 / 3)]
    assert recommendation(found).startswith("T 0: draft length 1 is best, 1.2")
    none = forecast(10, (0, 2, None))
    assert none.best == 0
    assert "no fixed draft length is faster than plain decoding, 0.91x" in recommendation(none)


def test_intervals_are_those_of_drawing_other_prompts() -> None:
    """As wide as the mean of so many prompts is unsure, and 95 % of them hold the truth."""
    widths, hits = [], 0
    for seed in range(60):
        interval = forecast(40, seed=seed).rates[1].tau_interval
        assert interval is not None
        low, high = interval
        widths.append(high - low)
        hits += low < 1.5 - 0.01 / 1.5 < high  # of a ratio of sums: the harmonic mean
    assert np.mean(widths) == pytest.approx(2 * 1.96 * 0.1 / 40**0.5, rel=0.15)
    assert hits >= 51
    assert forecast(2).rates[1].tau_interval is None


def test_categories_are_separate() -> None:
    found = forecast(9)
    assert [len(part.replies) for part in found.categories.values()] == [5, 4]
    rounds = [part.tokens / part.rates[1].tau for part in found.categories.values()]
    assert sum(rounds) == pytest.approx(found.tokens / found.rates[1].tau)
