"""The benchmark: its document says what the tokens say, its questions are checked, its failures are failures."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from app import measure
from app.bench import document, tournament
from app.bench.contestants import Ours
from app.bench.peer import UNKNOWN, Rounds, enter_peer
from app.bench.questions import Question, read_questions
from app.cli import main
from app.measure import Reply, ideal_speedup
from engine import acceptance
from engine.acceptance import Verdict
from engine.costs import Costs
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import ContextError, UsageError
from engine.events import Finished, PromptProgress, Round
from engine.policy import FixedLength
from engine.receipt import first_difference
from engine.sampling import Sampling
from engine.session import Session
from engine.settings import Settings
from models.load import load

RUN_KEYS = {
    *("question_id", "category", "drafter", "acceptance_rule", "temperature", "seed", "token_ids", "tokens", "ttft_s"),
    *("decode_s", "tokens_per_s", "rounds", "drafted", "accepted", "acceptance_rate", "mean_acceptance_length"),
    *("matches_plain", "first_difference"),
}
SUMMARY_KEYS = {
    *("drafter", "acceptance_rule", "temperature", "tokens_per_s", "speedup", "speedup_ideal"),
    *("mean_acceptance_length", "acceptance_rate", "identical"),
}
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
    law = ["--temperature", "0", "--temperature", "0.8", "--acceptance", "coupled", "--draft-length", "3"]
    several = ["--peer", "mlx-lm", "--turns", "all", "--limit", "2", "--max-tokens", "24", "--json", str(file)]
    assert main(["bench", str(prompts), "--target", str(toy_folder), *drafters, *law, *several]) == 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_the_document_has_the_keys_it_promises(measured: dict[str, Any]) -> None:
    assert measured.keys() >= {"environment", "runs", "summary"}
    assert all(run.keys() >= RUN_KEYS for run in measured["runs"])
    assert all(row.keys() >= SUMMARY_KEYS for row in measured["summary"])
    assert measured["environment"]["target"] == "target"


def test_everyone_answers_every_turn_at_every_temperature(measured: dict[str, Any]) -> None:
    names = ["none", "lookup", "drafter", "mlx-lm", "mlx-lm+draft"]
    expected = {(name, t, *turn) for name in names for t in (0.0, 0.8) for turn in ((7, 0), (7, 1), ("x", 0))}
    found = [(run["drafter"], run["temperature"], run["question_id"], run["turn"]) for run in measured["runs"]]
    assert len(found) == len(expected)
    assert set(found) == expected
    assert [row["drafter"] for row in measured["summary"]] == 2 * names


def test_numbers_follow_from_the_tokens(measured: dict[str, Any]) -> None:
    for run in measured["runs"]:
        assert run["tokens"] == len(run["token_ids"]) <= 24
        assert run["tokens_per_s"] == pytest.approx((run["tokens"] - 1) / run["decode_s"])
        assert run["mean_acceptance_length"] == run["tokens"] / run["rounds"]
        assert run["acceptance_rate"] == (run["accepted"] / run["drafted"] if run["drafted"] else None)
        assert run["tokens"] - run["rounds"] <= run["accepted"] <= run["tokens"]
        assert 0 < run["ttft_s"] <= run["total_s"]


def test_matches_plain_is_what_the_tokens_say(measured: dict[str, Any]) -> None:
    plain = {_key(run): run["token_ids"] for run in measured["runs"] if run["drafter"] == "none"}
    for run in measured["runs"]:
        place = first_difference(plain[_key(run)], run["token_ids"])
        if run["drafter"].startswith("mlx-lm") and run["temperature"]:
            assert run["matches_plain"] is None
        else:
            assert run["matches_plain"] is (place is None)
            assert run["matches_plain"]
        assert run["first_difference"] is None


def test_rules_are_named(measured: dict[str, Any]) -> None:
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
    assert (plain["speedup"], plain["speedup_total"], plain["speedup_ideal"], plain["identical"]) == (1, 1, 1, True)


def test_a_drafter_that_is_often_right_is_accepted(measured: dict[str, Any]) -> None:
    """Else the other tests would compare plain decoding with itself."""
    rates = {(row["drafter"], row["temperature"]): row["mean_acceptance_length"] for row in measured["summary"]}
    assert rates["drafter", 0.0] > 1.5
    assert rates["mlx-lm+draft", 0.0] == pytest.approx(rates["drafter", 0.0])


def test_ideal_speedups_follow_from_the_costs(measured: dict[str, Any]) -> None:
    for run in measured["runs"]:
        if run["drafter"].startswith("mlx-lm"):
            assert run["costs"] is None
            assert run["speedup_ideal"] is None
        else:
            assert {"1", "2"} <= run["costs"]["pass_s"].keys()
            assert run["speedup_ideal"] is None or run["speedup_ideal"] > 0


def test_the_table_says_it_all(
    toy_folder: Path, prompts: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["bench", str(prompts), "--target", str(toy_folder), "--limit", "1", "--max-tokens", "8"]) == 0
    out, err = capsys.readouterr()
    assert "1 prompt, at most 8 tokens each, draft length auto" in out
    assert "1 of 1 replies are identical to plain decoding, token by token" in out
    assert "lookup" in out
    assert "warming up" in err
    assert max(map(len, out.splitlines())) <= 100


def test_a_wrong_acceptance_fails(
    toy_folder: Path, toy_drafter_folder: Path, prompts: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep_all(choices: mx.array, draft: mx.array) -> Verdict:
        tokens = mx.concatenate([draft.astype(mx.int32), choices[-1:].astype(mx.int32)])
        return Verdict(mx.array(draft.size, mx.int32), tokens)

    monkeypatch.setattr(acceptance, "match", keep_all)
    file = prompts.with_name("wrong.json")
    arguments = ["--target", str(toy_folder), "--drafter", str(toy_drafter_folder), "--draft-length", "4"]
    arguments += ["--limit", "1", "--max-tokens", "40", "--json", str(file)]
    assert main(["bench", str(prompts), *arguments]) == 1
    found = json.loads(file.read_text())
    wrong, row = found["runs"][1], found["summary"][1]
    assert wrong["drafter"] == row["drafter"] == "drafter"
    assert (row["identical"], row["differences"], row["near_ties"]) == (False, 1, 0)
    assert wrong["matches_plain"] is False
    assert wrong["first_difference"]["near_tie"] is False
    assert wrong["first_difference"]["gap_ulps"] > 100
    assert "1 of 1 replies differ from plain decoding, and not by rounding" in capsys.readouterr().out


# --- the tournament, without a model that matters ---------------------------------------------------------------


@dataclass
class Diary:
    """A contestant that notes when it ran, and answers with plain decoding."""

    ours: Ours
    name: str
    log: list[tuple[str, tuple[int, ...]]]
    drafter: None = None
    peer: bool = False

    def reply(self, prompt: Sequence[int], settings: Settings) -> Reply:
        self.log.append((self.name, tuple(prompt)))
        return self.ours.reply(prompt, settings)

    def rule(self, settings: Settings) -> str:
        return "greedy"


@pytest.fixture
def session(toy_folder: Path) -> Session:
    loaded = load(toy_folder)
    return Session(loaded.model, loaded.tokenizer, 256)


def test_every_reply_starts_from_nothing(session: Session) -> None:
    drafter = PromptLookup()
    replies = [
        measure.measure_reply(session, [5, 6, 7, 8, 9], Settings(max_tokens=20), drafter, FixedLength(3))
        for _ in range(2)
    ]
    assert [reply.metrics.reused_tokens for reply in replies] == [0, 0]
    assert [r.drafted for r in replies[0].rounds] == [r.drafted for r in replies[1].rounds]


def test_runs_alternate_and_prompts_are_shared(session: Session) -> None:
    log: list[tuple[str, tuple[int, ...]]] = []
    plain = Ours("none", session, None, lambda: FixedLength(0))
    games = tournament.Tournament(
        session, [Diary(plain, name, log) for name in ("none", "a", "b")], [Settings(max_tokens=3)], turns=None
    )
    asked = [Question(i, "c", ("first?", "second?")) for i in range(2)]
    assert games.replies(asked) == 12
    assert len(list(games.play(asked))) == 4
    heats = [log[i : i + 3] for i in range(0, 12, 3)]
    assert ["".join(name[0] for name, _ in heat) for heat in heats] == ["nab", "abn", "bna", "nab"]
    assert all(len({prompt for _, prompt in heat}) == 1 for heat in heats)
    assert len(heats[1][0][1]) > len(heats[0][0][1])


def test_a_prompt_past_the_context_is_told_before_the_runs(session: Session) -> None:
    games = tournament.Tournament(session, [], [Settings()])
    with pytest.raises(ContextError, match=r"question 3 has \d+ tokens and the context holds 256"):
        games.check([Question(3, "c", ("sky " * 300,))])


def test_a_later_turn_past_the_context_is_left_out(session: Session) -> None:
    told: list[str] = []
    plain = Ours("none", session, None, lambda: FixedLength(0))
    games = tournament.Tournament(session, [plain], [Settings(max_tokens=2)], turns=None, notice=told.append)
    assert len(list(games.play([Question(3, "c", ("hello?", "sky " * 300))]))) == 1
    assert told == ["question 3: left out from turn 2 on, which the context cannot hold"]


# --- definitions ------------------------------------------------------------------------------------------------


def _reply(lengths: Sequence[int], drafted: int, seconds: float = 1.0) -> Reply:
    rounds = [
        Round(i, tuple(range(n)), (0,) * drafted, n - 1, (), (), drafted + 1, (i + 1) * seconds)
        for i, n in enumerate(lengths)
    ]
    return Reply.of([1, 2], [PromptProgress(2, 2, 0, 0.0), *rounds, Finished("length", sum(lengths), 9.0)])


def test_the_ideal_is_tau_over_the_cost_of_a_round() -> None:
    costs = Costs(verify=((1, 2.0), (5, 3.0)), draft=((0, 0.0), (4, 0.5)))
    reply = _reply([5, 3, 1, 2], drafted=4)  # the first round is left out: tau is 2
    assert ideal_speedup(costs, reply.rounds) == pytest.approx(2 / ((3.0 + 0.5) / 2.0))
    assert ideal_speedup(costs, _reply([1, 1, 1], drafted=0).rounds) == 1
    assert ideal_speedup(costs, reply.rounds[:1]) is None


def test_speedups_leave_the_tokens_of_the_first_pass_out() -> None:
    plain, other = _reply([1] * 11, 0, seconds=1.0), _reply([5, 3, 1, 2], 4, seconds=1.5)
    assert measure.decode_speedup(plain.metrics, other.metrics) == pytest.approx(6 / 4.5)
    assert measure.total_speedup(plain.metrics, other.metrics) == pytest.approx(11 / 6.0)
    assert measure.decode_speedup(plain.metrics, _reply([5], 4).metrics) is None


def test_costs_are_measured_at_the_widths_that_occurred() -> None:
    assert tournament.usual_widths(_reply([1, 1, 1], 0)) == [1, 2]
    assert tournament.usual_widths(_reply([1, 1, 1], 4)) == [1, 2, 5]


def test_the_peer_is_put_back_into_its_rounds() -> None:
    """Draft length 2, 7 tokens at most: kept 1 of 2, 2 of 2, 0 of 2, and at the end 1 of the 1 there was room for."""
    rounds = Rounds(2, 7)
    drafted = [True, False, True, True, False, False, True]
    for time_s, (token, from_draft) in enumerate(zip(range(50, 57), drafted, strict=True)):
        rounds.add(token, str(token), from_draft, float(time_s))
    rounds.close(9.0)
    assert [r.tokens for r in rounds.told] == [(50, 51), (52, 53, 54), (55,), (56,)]
    assert [r.accepted for r in rounds.told] == [1, 2, 0, 1]
    assert [r.drafted for r in rounds.told] == [(50, UNKNOWN), (52, 53), (UNKNOWN, UNKNOWN), (56,)]
    assert [r.time_s for r in rounds.told] == [1.0, 4.0, 5.0, 9.0]


def test_the_peer_draws_the_same_for_the_same_seed(toy_folder: Path) -> None:
    (peer,) = enter_peer(load(toy_folder), [], 2, 256, print)
    texts = [
        peer.reply([5, 6, 7], Settings(Sampling(temperature=1, seed=seed), max_tokens=12)).tokens for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


# --- input and output -------------------------------------------------------------------------------------------


def test_our_own_prompts_are_a_dozen() -> None:
    own = read_questions(None)
    assert len(own) == 12
    assert len(read_questions(None, 5)) == 5
    assert len({question.category for question in own}) == 12


_GOOD = '{"question_id": 1, "category": "a", "turns": ["b"]}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no question"),
        ("\n \n", "holds no question"),
        (f"{_GOOD}\n{{", "line 2: not JSON"),
        ("[1]", "line 1: not a JSON object"),
        ("[" * 100_000, "line 1: not JSON"),
        (f"\n\n{_GOOD[:-1]}, \n", "line 3: not JSON"),
        ('{"category": "a", "turns": ["b"]}', "line 1: question_id is missing"),
        ('{"question_id": true, "category": "a", "turns": ["b"]}', "line 1: question_id is true"),
        ('{"question_id": 1, "turns": ["b"]}', "line 1: category is missing"),
        ('{"question_id": 1, "category": "a"}', "line 1: turns is missing"),
        ('{"question_id": 1, "category": "a", "turns": []}', r"line 1: turns is \[\]"),
        ('{"question_id": 1, "category": "a", "turns": "b"}', 'line 1: turns is "b"'),
        ('{"question_id": 1, "category": "a", "turns": ["b", " "]}', "line 1: turns is"),
        (f"{_GOOD}\n{_GOOD}", "line 2: question_id 1 stands there twice"),
    ],
)
def test_a_malformed_prompt_file_is_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as error:
        read_questions(path)
    assert "\n" not in str(error.value)


def test_a_prompt_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing", "binary", "."):
        with pytest.raises(UsageError, match=r"cannot be read|is not text"):
            read_questions(tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "0"], "limit is 0"),
        (["--peer", "mlx-lm", "--stop", "x"], "--peer mlx-lm knows no stop strings"),
        (["--json", "/nowhere/at/all.json"], "cannot be written"),
        (["--drafter", "/no/such/folder"], "neither none nor lookup"),
        (["--temperature", "-1"], "temperature is -1"),
    ],
)
def test_nonsense_is_refused(
    arguments: list[str], message: str, toy_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--target", str(toy_folder), *arguments]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_document_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    document.write(path, {"a": 1.5})
    with pytest.raises(ValueError, match="Out of range"):
        document.write(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1.5}
    assert list(tmp_path.iterdir()) == [path]


def test_ctrl_c_keeps_what_was_measured(
    toy_folder: Path, prompts: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = prompts.with_name("cut.json")
    original, asked = tournament.Tournament._heat, []

    def stop_at_the_second(self: Any, prompt: list[int], settings: Settings, what: str) -> dict[str, Reply]:
        asked.append(what)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return original(self, prompt, settings, what)

    monkeypatch.setattr(tournament.Tournament, "_heat", stop_at_the_second)
    arguments = ["--target", str(toy_folder), "--max-tokens", "4", "--draft-length", "2", "--json", str(file)]
    assert main(["bench", str(prompts), *arguments]) == 130
    found = json.loads(file.read_text())
    assert found["interrupted"]
    assert {run["question_id"] for run in found["runs"]} == {7}


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["question_id"], run["turn"], run["temperature"]
