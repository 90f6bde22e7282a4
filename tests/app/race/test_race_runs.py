"""A race as it is held: order, warm-up, what is told, stopping, and what receipts are made of."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.inference import memory_check, pair_loader
from app.inference.loaded_pair import LoadedPair, open_target
from app.inference.options import Options
from app.protocol import (
    LONGEST_LINE,
    AnyAnswer,
    PairCompared,
    Race,
    RaceDone,
    RaceProgress,
    RaceReady,
    RunPart,
    SamplingSettings,
    encode_line,
)
from app.protocol.race_messages import PLAIN, Server, Side, run_letters
from app.race import race_runs, race_text
from app.race.race_document import RaceDocumentBuilder, race_json, read_race
from app.race.race_page import race_page
from app.race.race_runs import RaceOptions, RaceRuns, level
from engine.errors import ModelError, UsageError
from models.drafters.pair_footprint import pair_footprint
from models.memory.memory_verdict import AvailableMemory
from tests.app.race.sample_races import simple
from tests.app.remote.toy_servers import END, TEXT, delta, honest, serving

DRAFTED = Side(drafter="lookup", draft_length=2)


@pytest.fixture(scope="module")
def loaded(toy_folder: Path) -> LoadedPair:
    return open_target(Options(target=str(toy_folder)))


@pytest.fixture
def pair(loaded: LoadedPair) -> Iterator[LoadedPair]:
    yield loaded
    loaded.session.forget()


def asked(*sides: Side, runs: int = 3, temperature: float = 0.0) -> RaceOptions:
    base = Options(sampling=SamplingSettings(temperature=temperature, max_tokens=8, seed=4))
    return RaceOptions(5, "why?", base, level(sides or (PLAIN, DRAFTED)), runs)


def held(pair: LoadedPair, wanted: RaceOptions, stop: Callable[[], bool] = lambda: False) -> list[AnyAnswer]:
    return list(RaceRuns(pair, wanted, stop).answers())


def of(answers: list[AnyAnswer], kind: type[Any]) -> list[Any]:
    return [answer for answer in answers if isinstance(answer, kind)]


def gathered(answers: list[AnyAnswer], wanted: RaceOptions) -> RaceDocumentBuilder:
    sampling = SamplingSettings(max_tokens=8)
    builder = RaceDocumentBuilder(
        Race(id=5, prompt=wanted.prompt, sampling=sampling, sides=wanted.sides, runs=wanted.runs)
    )
    for answer in answers:
        builder.hear(answer)
    return builder


def test_both_sides_are_warmed_up_and_then_alternate(pair: LoadedPair, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths, taught = list[int](), list[bool]()
    begin = race_runs.begin_reply  # type: ignore[attr-defined]

    def noting(pair: LoadedPair, prompt: Any, settings: Any, *more: Any, learns: bool) -> Any:
        lengths.append(settings.max_tokens)
        taught.append(learns)
        return begin(pair, prompt, settings, *more, learns=learns)

    monkeypatch.setattr(race_runs, "begin_reply", noting)
    monkeypatch.setattr("app.inference.measured_reply.WARM_UP_TOKENS", 2)
    answers = held(pair, asked())
    assert lengths == [2, 2, 8, 8, 8, 8, 8, 8]
    assert taught == [True, True, *[False] * 6]  # draft length auto begins each run with the same knowledge
    assert [(ran.run, "AB"[ran.side]) for ran in of(answers, RunPart)] == [
        *((1, "A"), (1, "B"), (2, "B"), (2, "A"), (3, "A"), (3, "B"))
    ]
    kinds = [type(answer) for answer in answers if not isinstance(answer, RaceProgress)]
    assert kinds == [RaceReady, *[RunPart, RunPart, PairCompared] * 3, RaceDone]


def test_every_run_pays_for_its_prompt_and_says_the_same(pair: LoadedPair) -> None:
    wanted = asked()
    document = gathered(held(pair, wanted), wanted).document()
    assert document is not None
    assert len({run.prompt_tokens for run in document.runs}) == 1
    assert document.runs[0].prompt_tokens > 1
    assert [receipt.divergence for receipt in document.receipts] == [None] * 3
    assert all(receipt.promised for receipt in document.receipts)
    assert all(len(one.drafted_texts) == len(one.round.drafted) for run in document.runs for one in run.rounds)


def test_long_runs_are_told_in_parts(pair: LoadedPair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_runs, "ROUNDS_A_LINE", 3)
    wanted = asked(runs=1)
    answers = held(pair, wanted)
    parts = [ran for ran in of(answers, RunPart) if ran.side == 0]
    assert [len(part.rounds) for part in parts] == [3, 3, 2]
    assert [part.finished is not None for part in parts] == [False, False, True]
    assert all(len(encode_line(part)) < LONGEST_LINE for part in parts)
    document = gathered(answers, wanted).document()
    assert document is not None
    assert [one.round.index for one in document.run(0, 1).rounds] == list(range(8))


def test_a_stop_ends_it_soon_and_leaves_whole_pairs(pair: LoadedPair) -> None:
    answers: list[AnyAnswer] = []

    def stop() -> bool:  # in the middle of the third run
        return len(of(answers, RunPart)) >= 2 and isinstance(answers[-1], RaceProgress)

    wanted = asked()
    for answer in RaceRuns(pair, wanted, stop).answers():
        answers.append(answer)
    assert answers[-1] == RaceDone(id=5, pairs=1, stopped=True)
    assert len(of(answers, RunPart)) == 2
    document = gathered(answers, wanted).document()
    assert document is not None
    assert document.pairs == 1


def test_a_stop_before_the_first_pair_leaves_nothing(pair: LoadedPair) -> None:
    wanted = asked()
    answers = held(pair, wanted, lambda: True)
    assert answers[-1] == RaceDone(id=5, pairs=0, stopped=True)
    assert gathered(answers, wanted).document() is None


def test_plain_draws_by_the_rule_of_the_side_it_is_held_against() -> None:
    coupled = Side(drafter="lookup", acceptance="coupled")
    assert [side.acceptance for side in level((PLAIN, coupled))] == ["coupled", "coupled"]
    assert [side.acceptance for side in level((Side(drafter="lookup"), coupled))] == ["rejection", "coupled"]


def test_the_same_text_is_promised_where_both_are_coupled_and_not_otherwise(pair: LoadedPair) -> None:
    coupled = Side(drafter="lookup", draft_length=2, acceptance="coupled")
    for sides, promised in (((PLAIN, coupled), True), ((DRAFTED, coupled), False), ((PLAIN, DRAFTED), False)):
        receipts = of(held(pair, asked(*sides, runs=1, temperature=1.0)), PairCompared)
        assert [one.receipt.promised for one in receipts] == [promised]
        if promised:
            assert receipts[0].receipt.divergence is None


@pytest.mark.parametrize(
    ("sides", "runs", "message"),
    [
        ((PLAIN,), 1, "between 2 sides"),
        ((PLAIN, DRAFTED), 0, "runs is 0"),
        ((PLAIN, DRAFTED), 100, "runs is 100"),
        ((PLAIN, Side(drafter="lookup", draft_length=33)), 1, "draft-length is 33"),
    ],
)
def test_nonsense_is_refused_before_anything_is_opened(sides: tuple[Side, ...], runs: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        asked(*sides, runs=runs)


def test_drafters_that_do_not_fit_together_are_refused_before_they_are_opened(
    pair: LoadedPair, toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone would: a machine that has room for the target and one more copy of it."""
    other = shutil.copytree(toy_folder, tmp_path / "other")
    sides = (Side(drafter=str(toy_folder), draft_length=2), Side(drafter=str(other), draft_length=3))
    one = pair_footprint(pair.target.folder, [toy_folder])(pair.session.context).total
    monkeypatch.setattr(memory_check, "this_room", lambda: AvailableMemory(int(one / 0.9) + 1))
    monkeypatch.setattr(pair_loader, "open_drafter", lambda *_: pytest.fail("opened"))
    with pytest.raises(ModelError, match="does not fit"):
        held(pair, asked(*sides))


def test_a_server_races_in_an_order_that_is_drawn_and_the_first_side_runs_again(pair: LoadedPair) -> None:
    with serving(honest) as server:
        there = Side(server=Server(url=server.url))
        wanted = replace(asked(PLAIN, there), order_seed=4, pause_s=0.0)
        answers = held(pair, wanted)
    assert [one["messages"][0]["content"] for one in server.asked] == ["why?"] * len(server.asked)
    letters = "".join("AB"[part.side] for part in of(answers, RunPart) if part.finished)
    assert letters == run_letters(wanted.sides, 3, 4) and letters[0] == letters[6]
    document = gathered(answers, wanted).document()
    assert document is not None and document.has_server and document.again is not None
    assert document.sides[1].name == f"toy at 127.0.0.1:{server.server_port}"
    for number in (1, 2, 3):
        run = document.run(1, number)
        assert "".join(text for one in run.rounds for text in one.round.texts) == TEXT
        assert run.report is not None and run.report.tokens == 6
    assert document.run(0, 1).report is None
    receipt = document.receipts[0]
    assert not receipt.promised and not receipt.failed and receipt.divergence is not None
    assert "texts differ after" in race_text.verdict(document).text
    assert read_race(race_json(document)) == document
    page = race_page(document)
    assert (b"is faster" in page or b"Too close to call" in page) and b'"steps":"arrivals"' in page


def test_a_server_with_the_same_text_is_told_to_have_it(pair: LoadedPair) -> None:
    plain = of(held(pair, asked(PLAIN, DRAFTED, runs=1)), RunPart)[0]
    text = "".join(text for one in plain.rounds for text in one.round.texts)
    finish = "stop" if plain.finished.reason == "eos" else plain.finished.reason
    with serving(lambda handler: handler.stream(*map(delta, text), delta("", finish), END)) as server:
        wanted = replace(asked(PLAIN, Side(server=Server(url=server.url)), runs=1), pause_s=0.0)
        document = gathered(held(pair, wanted), wanted).document()
    assert document is not None and document.receipts[0].divergence is None
    assert race_text.verdict(document).text.startswith("texts identical over")
    assert "It does not say how many tokens it wrote." in race_text.noise(document)


def test_a_machine_that_has_become_slower_is_told() -> None:
    document = simple(pairs=2)
    first = document.runs[0]
    slower = [
        msgspec.structs.replace(one, round=replace(one.round, time_s=2 * one.round.time_s)) for one in first.rounds
    ]
    again = msgspec.structs.replace(first, number=3, rounds=tuple(slower))
    found = msgspec.structs.replace(document, again=again)
    assert found.drift == pytest.approx(0.5)
    assert "the first side had 0.50 times its speed" in race_text.noise(found)
    with pytest.raises(ValueError, match="of another side"):
        msgspec.structs.replace(document, again=msgspec.structs.replace(again, side=1)).__post_init__()


@pytest.mark.parametrize("seed", range(5))
def test_an_order_that_is_drawn_is_drawn_again_by_its_seed(seed: int) -> None:
    sides = (PLAIN, Side(server=Server(url="x")))
    assert run_letters(sides, 20, seed) == run_letters(sides, 20, seed) != run_letters(sides, 20, seed + 1)
    assert run_letters((PLAIN, DRAFTED), 3, seed) == "ABBAAB"
