"""The parts of the benchmark by themselves: who runs when, how speeds compare, what the peer told."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.bench import benchmark
from app.bench.contestants import UNKNOWN, RedlineContestant, RoundBuilder, leave_out, mlx_lm_contestants
from app.bench.prompt_file import Question
from app.inference import measured_reply
from app.inference.loaded_pair import LoadedPair
from app.inference.measured_reply import Reply
from app.inference.pair_loader import NamedDrafter
from engine import metrics
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import ContextError, UsageError
from engine.events import Finished, PromptProgress, Round
from engine.session import Session
from engine.settings import SamplingSettings
from models.loader import load


@dataclass
class Diary:
    """A contestant that notes when it ran, and answers with plain decoding."""

    ours: RedlineContestant
    name: str
    log: list[tuple[str, tuple[int, ...]]]
    proposer: str = "none"
    draft_length: None = None
    drafter: None = None
    exact: bool = False
    peer: bool = False

    def reply(self, prompt: Sequence[int], settings: SamplingSettings, learns: bool = False) -> Reply:
        self.log.append((self.name, tuple(prompt)))
        return self.ours.reply(prompt, settings)

    def rule(self, settings: SamplingSettings) -> str:
        return "greedy"


@pytest.fixture
def pair(toy_folder: Path) -> LoadedPair:
    loaded = load(toy_folder)
    return LoadedPair(loaded, Session(loaded.model, loaded.tokenizer, 256))


@pytest.fixture
def session(pair: LoadedPair) -> Session:
    return pair.session


def test_every_reply_starts_from_nothing(pair: LoadedPair) -> None:
    drafting = pair.with_drafter(NamedDrafter("lookup", PromptLookup()))
    settings = SamplingSettings(max_tokens=20, draft_length=3)
    prompt = [5, 6, 7, 8, 9]
    replies = [Reply.of(prompt, measured_reply.begin_reply(drafting, prompt, settings)) for _ in range(2)]
    assert [reply.metrics.reused_tokens for reply in replies] == [0, 0]
    assert [r.drafted for r in replies[0].rounds] == [r.drafted for r in replies[1].rounds]


def test_runs_alternate_and_prompts_are_shared(pair: LoadedPair, session: Session) -> None:
    log: list[tuple[str, tuple[int, ...]]] = []
    plain = RedlineContestant("none", pair)
    games = benchmark.Benchmark(
        session, [Diary(plain, name, log) for name in ("none", "a", "b")], [SamplingSettings(max_tokens=3)], turns=None
    )
    asked = [Question(i, "c", ("first?", "second?")) for i in range(2)]
    assert games.replies(asked) == 12
    assert len(list(games.run(asked))) == 4
    heats = [log[i : i + 3] for i in range(0, 12, 3)]
    assert ["".join(name[0] for name, _ in heat) for heat in heats] == ["nab", "abn", "bna", "nab"]
    assert all(len({prompt for _, prompt in heat}) == 1 for heat in heats)
    assert len(heats[1][0][1]) > len(heats[0][0][1])


def test_a_prompt_past_the_context_is_told_before_the_runs(session: Session) -> None:
    games = benchmark.Benchmark(session, [], [SamplingSettings()])
    with pytest.raises(ContextError, match=r"question 3 has \d+ tokens, too many for a context of 256"):
        games.check([Question(3, "c", ("sky " * 300,))])


def test_every_turn_that_is_used_is_checked_before_the_runs(session: Session) -> None:
    asked = [Question(3, "c", ("sky", "\ud800"))]
    benchmark.Benchmark(session, [], [SamplingSettings()], turns=1).check(asked)
    with pytest.raises(UsageError, match="not Unicode text"):
        benchmark.Benchmark(session, [], [SamplingSettings()], turns=None).check(asked)


@pytest.mark.slow
def test_a_later_turn_past_the_context_is_left_out(pair: LoadedPair, session: Session) -> None:
    told: list[str] = []
    plain = RedlineContestant("none", pair)
    games = benchmark.Benchmark(session, [plain], [SamplingSettings(max_tokens=2)], turns=None, notice=told.append)
    assert len(list(games.run([Question(3, "c", ("hello?", "sky " * 300))]))) == 1
    assert told == ["question 3: skipped from turn 2, which does not fit the context"]


# --- definitions ------------------------------------------------------------------------------------------------


def _reply(lengths: Sequence[int], drafted: int, seconds: float = 1.0) -> Reply:
    rounds = [
        Round(i, tuple(range(n)), (0,) * drafted, n - 1, (), (), drafted + 1, (i + 1) * seconds)
        for i, n in enumerate(lengths)
    ]
    return Reply.of([1, 2], [PromptProgress(2, 2, 0, 0.0), *rounds, Finished("length", sum(lengths), 9.0)])


def test_the_time_of_a_round_is_a_median_by_draft_length_without_the_first_and_the_last() -> None:
    times = [(0, 9.0), (0, 9.1), (2, 9.3), (0, 9.4), (0, 9.9), (2, 10.2), (2, 20.0)]
    rounds = [Round(i, (0,), (0,) * drafted, 0, (), (), drafted + 1, at) for i, (drafted, at) in enumerate(times)]
    assert measured_reply.round_seconds(rounds) == pytest.approx({"0": 0.1, "2": 0.25})


def test_speedups_leave_the_tokens_of_the_first_pass_out() -> None:
    plain, other = _reply([1] * 11, 0, seconds=1.0), _reply([5, 3, 1, 2], 4, seconds=1.5)
    assert metrics.decode_speedup(plain.metrics, other.metrics) == pytest.approx(6 / 4.5)
    assert metrics.total_speedup(plain.metrics, other.metrics) == pytest.approx(11 / 6.0)
    assert metrics.decode_speedup(plain.metrics, _reply([5], 4).metrics) is None


def test_the_peer_is_put_back_into_its_rounds() -> None:
    """Draft length 2, 7 tokens at most: kept 1 of 2, 2 of 2, 0 of 2, and at the end 1 of the 1 there was room for."""
    rounds = RoundBuilder(2, 7)
    drafted = [True, False, True, True, False, False, True]
    for time_s, (token, from_draft) in enumerate(zip(range(50, 57), drafted, strict=True)):
        rounds.add(token, str(token), from_draft, float(time_s))
    rounds.close(9.0)
    assert [r.tokens for r in rounds.rounds] == [(50, 51), (52, 53, 54), (55,), (56,)]
    assert [r.accepted for r in rounds.rounds] == [1, 2, 0, 1]
    assert [r.drafted for r in rounds.rounds] == [(50, UNKNOWN), (52, 53), (UNKNOWN, UNKNOWN), (56,)]
    assert [r.time_s for r in rounds.rounds] == [1.0, 4.0, 5.0, 9.0]


def test_the_peer_draws_the_same_for_the_same_seed(toy_folder: Path) -> None:
    (peer,) = mlx_lm_contestants(load(toy_folder), {}, 2, 256, print)
    texts = [
        peer.reply([5, 6, 7], SamplingSettings(temperature=1, seed=seed, max_tokens=12)).tokens for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_who_is_left_out_goes_by_name() -> None:
    everyone: list[Any] = [SimpleNamespace(name=name) for name in ("none", "lookup auto", "random auto", "random 4")]
    left = [one.name for one in leave_out(everyone, ["random ?", "look*"])]
    assert left == ["none", "random auto"]
    assert leave_out(everyone, []) == everyone
    assert leave_out(everyone, ["*"]) == everyone[:1]  # the others are held against it
    for nobody in ("none", "eagle3 4"):
        with pytest.raises(UsageError, match="choose from lookup auto, random auto, random 4"):
            leave_out(everyone, [nobody])
