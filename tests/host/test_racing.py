"""A race with the host: asked for, told, stopped, recorded and replayed; the loaded pair is as good as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Timer

import pytest

from app.host.model_worker import ModelWorker
from app.host.recording_player import Replay
from app.protocol import (
    AnyAnswer,
    Failed,
    Load,
    Loaded,
    Pair,
    PairCompared,
    Race,
    RaceDone,
    RaceProgress,
    RaceReady,
    Reply,
    ReplyDone,
    RoundDone,
    RunPart,
    SamplingSettings,
    Stop,
    decode_answer,
)
from app.protocol.race_messages import PLAIN, Side
from app.race.race_document import RaceDocumentBuilder
from engine.errors import UsageError
from tests.host.process import HostProcess, asked, of_kind, pair

SAMPLING = SamplingSettings(max_tokens=12, draft_length=3)


def race_of(folder: Path | str, runs: int = 2, sampling: SamplingSettings = SAMPLING) -> Race:
    return Race(
        id=9, prompt="Hi there", sampling=sampling, sides=(PLAIN, Side(drafter=str(folder), draft_length=3)), runs=runs
    )


def texts(answers: list[AnyAnswer]) -> str:
    return "".join("".join(told.round.texts) for told in of_kind(answers, RoundDone))


def replied(room: ModelWorker) -> str:
    return texts(list(room.reply(Reply(id=1, messages=asked("Hi there"), sampling=SAMPLING), Event())))


def test_a_race_leaves_the_pair_as_it_was(room: ModelWorker, toy_drafter_folder: Path) -> None:
    before = replied(room)
    answers = list(room.race(race_of(toy_drafter_folder), Event()))
    assert answers[-1] == RaceDone(id=9, pairs=2)
    assert [receipt.receipt.divergence for receipt in of_kind(answers, PairCompared)] == [None, None]
    run = "".join("".join(one.round.texts) for one in of_kind(answers, RunPart)[0].rounds)
    assert run == before
    assert replied(room) == before


def test_a_drafter_that_is_not_loaded_is_opened_for_the_race_alone(room: ModelWorker) -> None:
    answers = list(room.race(race_of("lookup"), Event()))
    lined_up = of_kind(answers, RaceReady)[0]
    assert [one.name for one in lined_up.contestants] == ["", "lookup"]
    assert answers[-1] == RaceDone(id=9, pairs=2)
    told = of_kind(list(room.reply(Reply(id=1, messages=asked("Hi"), sampling=SAMPLING), Event())), RoundDone)
    assert any(one.round.drafted for one in told)


@pytest.mark.parametrize("sides", [(), (PLAIN,), (PLAIN, Side(drafter="lookup", draft_length=99))])
def test_nonsense_is_refused(room: ModelWorker, sides: tuple[Side, ...]) -> None:
    with pytest.raises(UsageError):
        list(room.race(Race(id=9, prompt="Hi", sampling=SAMPLING, sides=sides, runs=1), Event()))


def test_a_race_that_breaks_off_leaves_the_pair_as_it_was(room: ModelWorker, toy_drafter_folder: Path) -> None:
    before = replied(room)
    answers = room.race(race_of(toy_drafter_folder), Event())
    while not isinstance(next(answers), RunPart):
        pass
    answers.close()  # type: ignore[attr-defined]  # a generator
    assert replied(room) == before


# --- as a process -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, toy_folder: Path, toy_drafter_folder: Path) -> Iterator[Path]:
    """A recording of a load, a race that was stopped, a race, and a reply."""
    path = tmp_path_factory.mktemp("recording") / "answers.jsonl"
    with HostProcess("--record", path) as host:
        host.ready().send(Load(id=1, pair=pair(toy_folder, toy_drafter_folder)))
        host.until(Loaded)
        long = race_of(toy_drafter_folder, 50, SamplingSettings(max_tokens=400))
        host.send(Race(id=2, prompt=long.prompt, sampling=long.sampling, sides=long.sides, runs=long.runs))
        host.until(RunPart)
        host.send(Stop(id=2))
        host.until(RaceDone)
        host.send(race_of(toy_drafter_folder))
        host.until(RaceDone)
        host.send(Reply(id=10, messages=asked("Hi there"), sampling=SAMPLING))
        host.until(ReplyDone)
        host.quit()
    yield path


@pytest.mark.slow
def test_a_race_is_stopped_in_the_middle(recorded: Path) -> None:
    answers = [decode_answer(line) for line in recorded.read_bytes().splitlines()]
    ends = of_kind(answers, RaceDone)
    assert ends[0].stopped
    assert ends[0].pairs < 50
    assert not ends[1].stopped


def test_a_recorded_race_is_played_to_whoever_races(recorded: Path) -> None:
    replay = Replay.read(recorded, 0)
    whole = [list(replay.race(race_of("lookup"), Event())) for _ in range(2)][1]
    assert {answer.id for answer in whole if not isinstance(answer, RoundDone)} == {9}  # type: ignore[union-attr]
    gathering = RaceDocumentBuilder(race_of("lookup"))
    for answer in whole:
        gathering.hear(answer)
    document = gathering.document()
    assert document is not None
    assert document.pairs == 2
    reply = list(replay.reply(Reply(id=3, messages=asked("Hi"), sampling=SAMPLING), Event()))
    assert texts(reply)


def test_a_played_race_stops_too(recorded: Path) -> None:
    stop = Event()
    replay = Replay.read(recorded, 0.001)  # a thousand times as slow
    Timer(0.1, stop.set).start()
    answers = list(replay.race(race_of("lookup"), stop))
    assert isinstance(answers[-1], RaceDone)
    assert answers[-1].stopped


def test_a_recording_without_a_race_says_so() -> None:
    with pytest.raises(UsageError, match="holds no race"):
        list(Replay([], 0).race(race_of("lookup"), Event()))


def test_a_race_with_no_model_fails_and_the_next_request_is_answered() -> None:
    with HostProcess() as host:
        host.ready().send(race_of("lookup"), Load(id=2, pair=Pair(target="nowhere")))
        first, second = of_kind(host.until(Failed) + host.until(Failed), Failed)
        assert (first.id, first.kind) == (9, "NotLoaded")
        assert second.id == 2


def test_progress_says_which_run_of_which_side_goes_on(room: ModelWorker, toy_drafter_folder: Path) -> None:
    told = of_kind(list(room.race(race_of(toy_drafter_folder), Event())), RaceProgress)
    turns = list(dict.fromkeys((one.run, one.side) for one in told if one.run))
    assert turns == [(1, 0), (1, 1), (2, 1), (2, 0)]
    assert {one.message for one in told if one.run} == {"run 1 of 2", "run 2 of 2"}
