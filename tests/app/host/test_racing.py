"""A race in the host: run, stopped, recorded and replayed; the loaded pair is as good as before."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest

from app import protocol as p
from app.host.model_worker import ModelWorker
from app.host.recording_player import RecordingPlayer
from app.protocol.race_messages import PLAIN, Side
from app.race.race_document import RaceDocumentBuilder
from engine.errors import UsageError
from tests.app.host.process import HostProcess, asked, of_kind, pair

SAMPLING = p.SamplingSettings(max_tokens=12, draft_length=3)


def race_of(folder: Path | str, runs: int = 2, sampling: p.SamplingSettings = SAMPLING) -> p.Race:
    return p.Race(
        id=9, prompt="Hi there", sampling=sampling, sides=(PLAIN, Side(drafter=str(folder), draft_length=3)), runs=runs
    )


def texts(answers: list[p.AnyAnswer]) -> str:
    return "".join("".join(told.round.texts) for told in of_kind(answers, p.RoundDone))


def replied(worker: ModelWorker) -> str:
    return texts(list(worker.reply(p.Reply(id=1, messages=asked("Hi there"), sampling=SAMPLING), Event())))


def test_a_race_leaves_the_pair_as_it_was(worker: ModelWorker, toy_drafter_folder: Path) -> None:
    before = replied(worker)
    answers = list(worker.race(race_of(toy_drafter_folder), Event()))
    assert answers[-1] == p.RaceDone(id=9, pairs=2)
    assert [receipt.receipt.divergence for receipt in of_kind(answers, p.PairCompared)] == [None, None]
    run = "".join("".join(one.round.texts) for one in of_kind(answers, p.RunPart)[0].rounds)
    assert run == before
    assert replied(worker) == before


def test_a_drafter_that_is_not_loaded_is_opened_for_the_race_alone(worker: ModelWorker) -> None:
    answers = list(worker.race(race_of("lookup"), Event()))
    lined_up = of_kind(answers, p.RaceReady)[0]
    assert [one.name for one in lined_up.sides] == ["", "lookup"]
    assert answers[-1] == p.RaceDone(id=9, pairs=2)
    told = of_kind(list(worker.reply(p.Reply(id=1, messages=asked("Hi"), sampling=SAMPLING), Event())), p.RoundDone)
    assert any(one.round.drafted for one in told)


@pytest.mark.parametrize("sides", [(), (PLAIN,), (PLAIN, Side(drafter="lookup", draft_length=99))])
def test_invalid_sides_are_refused(worker: ModelWorker, sides: tuple[Side, ...]) -> None:
    with pytest.raises(UsageError):
        list(worker.race(p.Race(id=9, prompt="Hi", sampling=SAMPLING, sides=sides, runs=1), Event()))


def test_a_race_that_breaks_off_leaves_the_pair_as_it_was(worker: ModelWorker, toy_drafter_folder: Path) -> None:
    before = replied(worker)
    answers = worker.race(race_of(toy_drafter_folder), Event())
    while not isinstance(next(answers), p.RunPart):
        pass
    answers.close()  # type: ignore[attr-defined]  # a generator
    assert replied(worker) == before


# --- recorded and replayed --------------------------------------------------------------------


@pytest.mark.slow
def test_a_race_is_stopped_in_the_middle(tmp_path: Path, toy_folder: Path, toy_drafter_folder: Path) -> None:
    """In a host that records it, and that races again afterwards."""
    path = tmp_path / "answers.jsonl"
    with HostProcess("--record", path) as host:
        host.ready().send(p.Load(id=1, pair=pair(toy_folder, toy_drafter_folder)))
        host.until(p.Loaded)
        long = race_of(toy_drafter_folder, 50, p.SamplingSettings(max_tokens=400))
        host.send(p.Race(id=2, prompt=long.prompt, sampling=long.sampling, sides=long.sides, runs=long.runs))
        host.until(p.RunPart)
        host.send(p.Stop(id=2))
        host.until(p.RaceDone)
        host.send(race_of(toy_drafter_folder))
        host.until(p.RaceDone)
        host.quit()
    ends = of_kind([p.decode_answer(line) for line in path.read_bytes().splitlines()], p.RaceDone)
    assert ends[0].stopped
    assert ends[0].pairs < 50
    assert not ends[1].stopped


@pytest.fixture
def recorded(worker: ModelWorker, toy_drafter_folder: Path, tmp_path: Path) -> Path:
    """A recording of a race and a reply."""
    path = tmp_path / "answers.jsonl"
    race = worker.race(race_of(toy_drafter_folder), Event())
    reply = worker.reply(p.Reply(id=10, messages=asked("Hi there"), sampling=SAMPLING), Event())
    path.write_bytes(b"".join(map(p.encode_line, (*race, *reply))))
    return path


def test_a_recorded_race_is_played_to_whoever_races(recorded: Path) -> None:
    replay = RecordingPlayer.read(recorded, 0)
    whole = [list(replay.race(race_of("lookup"), Event())) for _ in range(2)][1]
    assert {answer.id for answer in whole if not isinstance(answer, p.RoundDone)} == {9}  # type: ignore[union-attr]
    gathering = RaceDocumentBuilder(race_of("lookup"))
    for answer in whole:
        gathering.hear(answer)
    document = gathering.document()
    assert document is not None
    assert document.pairs == 2
    reply = list(replay.reply(p.Reply(id=3, messages=asked("Hi"), sampling=SAMPLING), Event()))
    assert texts(reply)


class StopAtOnce(Event):
    """A stop that comes as soon as anybody waits for it."""

    def wait(self, _: float | None = None) -> bool:
        self.set()
        return True


def test_a_replayed_race_can_be_stopped(recorded: Path) -> None:
    answers = list(RecordingPlayer.read(recorded, 1e-9).race(race_of("lookup"), StopAtOnce()))  # else it takes years
    assert isinstance(answers[-1], p.RaceDone)
    assert answers[-1].stopped


def test_a_recording_without_a_race_says_so() -> None:
    with pytest.raises(UsageError, match="holds no race"):
        list(RecordingPlayer([], 0).race(race_of("lookup"), Event()))


@pytest.mark.slow
def test_a_race_with_no_model_fails_and_the_next_request_is_answered() -> None:
    with HostProcess() as host:
        host.ready().send(race_of("lookup"), p.Load(id=2, pair=p.Pair(target="nowhere")))
        first, second = of_kind(host.until(p.Failed) + host.until(p.Failed), p.Failed)
        assert (first.id, first.kind) == (9, "NotLoaded")
        assert second.id == 2


def test_progress_says_which_run_of_which_side_goes_on(worker: ModelWorker, toy_drafter_folder: Path) -> None:
    told = of_kind(list(worker.race(race_of(toy_drafter_folder), Event())), p.RaceProgress)
    turns = list(dict.fromkeys((one.run, one.side) for one in told if one.run))
    assert turns == [(1, 0), (1, 1), (2, 1), (2, 0)]
    assert {one.message for one in told if one.run} == {"run 1 of 2", "run 2 of 2"}
