"""A race in the host: run, broken off, recorded and replayed; the loaded pair is as good as before."""

from pathlib import Path
from threading import Event

import pytest

from app import protocol as p
from app.host.model_worker import ModelWorker
from app.host.recording_player import RecordingPlayer
from app.protocol.race_messages import PLAIN, Side
from app.race.race_document import RaceDocumentBuilder
from tests.app.host.process import asked, of_kind

SAMPLING = p.SamplingSettings(max_tokens=12, draft_length=3)


def race_of(folder: Path | str, runs: int = 2, sampling: p.SamplingSettings = SAMPLING) -> p.Race:
    return p.Race(
        id=9, prompt="Hi there", sampling=sampling, sides=(PLAIN, Side(drafter=str(folder), draft_length=3)), runs=runs
    )


def texts(answers: list[p.AnyAnswer]) -> str:
    return "".join("".join(told.round.texts) for told in of_kind(answers, p.RoundDone))


def reply_text(worker: ModelWorker) -> str:
    return texts(list(worker.reply(p.Reply(id=1, messages=asked("Hi there"), sampling=SAMPLING), Event())))


def test_a_race_leaves_the_pair_as_it_was(worker: ModelWorker, toy_drafter_folder: Path) -> None:
    before = reply_text(worker)
    answers = list(worker.race(race_of(toy_drafter_folder), Event()))
    assert answers[-1] == p.RaceDone(id=9, pairs=2)
    assert [receipt.receipt.divergence for receipt in of_kind(answers, p.PairCompared)] == [None, None]
    run = "".join("".join(one.round.texts) for one in of_kind(answers, p.RunPart)[0].rounds)
    assert run == before
    assert reply_text(worker) == before


def test_a_drafter_that_is_not_loaded_is_opened_for_the_race_alone(worker: ModelWorker) -> None:
    answers = list(worker.race(race_of("lookup"), Event()))
    lined_up = of_kind(answers, p.RaceReady)[0]
    assert [one.name for one in lined_up.sides] == ["", "lookup"]
    assert answers[-1] == p.RaceDone(id=9, pairs=2)
    told = of_kind(list(worker.reply(p.Reply(id=1, messages=asked("Hi"), sampling=SAMPLING), Event())), p.RoundDone)
    assert any(one.round.drafted for one in told)


def test_a_race_that_breaks_off_leaves_the_pair_as_it_was(worker: ModelWorker, toy_drafter_folder: Path) -> None:
    before = reply_text(worker)
    answers = worker.race(race_of(toy_drafter_folder), Event())
    while not isinstance(next(answers), p.RunPart):
        pass
    answers.close()  # type: ignore[attr-defined]  # a generator
    assert reply_text(worker) == before


# --- recorded and replayed --------------------------------------------------------------------


@pytest.fixture
def recording(worker: ModelWorker, toy_drafter_folder: Path, tmp_path: Path) -> Path:
    """A recording of a race and a reply."""
    path = tmp_path / "answers.jsonl"
    race = worker.race(race_of(toy_drafter_folder), Event())
    reply = worker.reply(p.Reply(id=10, messages=asked("Hi there"), sampling=SAMPLING), Event())
    path.write_bytes(b"".join(map(p.encode_line, (*race, *reply))))
    return path


def test_a_recorded_race_is_played_to_whoever_races(recording: Path) -> None:
    replay = RecordingPlayer.read(recording, 0)
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


def test_a_replayed_race_can_be_stopped(recording: Path) -> None:
    answers = list(RecordingPlayer.read(recording, 1e-9).race(race_of("lookup"), StopAtOnce()))  # else it takes years
    assert isinstance(answers[-1], p.RaceDone)
    assert answers[-1].stopped
