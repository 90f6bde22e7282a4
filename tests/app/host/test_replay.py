"""A recording in place of a model: played whole, in time, again, from the middle, and without MLX."""

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from app import protocol as p
from app.host.recording_player import RecordingPlayer, tokens_of
from tests.app.host.process import RECORDED, HostProcess, asked, of_kind
from tests.app.host.streams import stream_of

ANSWERS = [p.decode_answer(line) for line in RECORDED.read_bytes().splitlines()]
HI = asked("Hi")


def play_reply(player: RecordingPlayer, number: int = 1, said: tuple[int, ...] = ()) -> list[p.AnyAnswer]:
    request = p.Reply(id=number, messages=HI, sampling=p.SamplingSettings(), continuation_ids=said)
    return list(player.reply(request, Event()))


def recording_of(number: int) -> list[p.AnyAnswer]:
    return [answer for answer in ANSWERS if getattr(answer, "id", None) == number]


def test_replies_are_played_in_turn_with_the_ids_of_the_requests() -> None:
    player = RecordingPlayer(ANSWERS, 0)
    for number, original in ((7, 2), (8, 3), (9, 2)):
        assert play_reply(player, number) == [structs.replace(answer, id=number) for answer in recording_of(original)]


def test_a_reply_continues_with_the_recording_that_begins_alike() -> None:
    player = RecordingPlayer(ANSWERS, 0)
    whole = recording_of(3)
    ids = tokens_of(whole)
    told = of_kind(whole, p.RoundDone)
    for at in (len(told[0].round.tokens), sum(len(t.round.tokens) for t in told[:4])):
        rest = play_reply(player, 3, ids[:at])
        assert tokens_of(rest) == ids[at:]
        assert [t.round.texts for t in of_kind(rest, p.RoundDone)] == [t.round.texts for t in told][
            -len(of_kind(rest, p.RoundDone)) :
        ]
        assert of_kind(rest, p.ReplyDone)[0].finished.tokens == len(ids) - at
        times = [t.round.time_s for t in of_kind(rest, p.RoundDone)]
        assert times == sorted(times)
        assert times[0] < told[-1].round.time_s
    first, second = ids[: len(ids) // 2], ids[len(ids) // 2 :]
    for cut in range(len(first), len(first) + 4):  # inside rounds too
        assert tokens_of(play_reply(player, 3, ids[:cut])) == ids[cut:]
    assert second


def test_a_stopped_replay_ends_as_cancelled() -> None:
    stop = Event()
    answers: list[p.AnyAnswer] = []
    for answer in RecordingPlayer(ANSWERS, 0).reply(
        p.Reply(id=1, messages=HI, sampling=p.SamplingSettings(seed=5)), stop
    ):
        answers.append(answer)
        if len(of_kind(answers, p.RoundDone)) == 3:
            stop.set()
    end = answers[-1]
    assert isinstance(end, p.ReplyDone)
    assert (end.finished.reason, end.finished.tokens, end.seed) == ("cancelled", len(tokens_of(answers)), 5)
    assert len(of_kind(answers, p.RoundDone)) == 3


class SteppedStop(Event):
    """A stop that never comes. Whoever waits for it goes on at once, so much later."""

    now_s = 100.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return False


@pytest.mark.parametrize("speed", [0.5, 4.0])
def test_speed_scales_the_recorded_times(monkeypatch: pytest.MonkeyPatch, speed: float) -> None:
    stop, answers = SteppedStop(), stream_of(ANSWERS, tokens=200, per_second=400.0)
    monkeypatch.setattr("app.host.recording_player.time", SimpleNamespace(monotonic=lambda: stop.now_s))
    request = p.Reply(id=1, messages=HI, sampling=p.SamplingSettings())
    for answer in RecordingPlayer(answers, speed).reply(request, stop):
        at_s = answer.round.time_s if isinstance(answer, p.RoundDone) else 0.5
        assert stop.now_s - 100.0 == pytest.approx(at_s / speed)


def test_loads_are_played_with_the_pair_that_is_asked_for() -> None:
    player = RecordingPlayer(ANSWERS, 0)
    loaded = list(player.load(p.Load(id=4, pair=p.Pair(target="mine", context=100))))
    assert [type(answer) for answer in loaded] == [p.Loading, p.Loading, p.Loading, p.Loaded]
    assert all(answer.id == 4 for answer in loaded)  # type: ignore[union-attr]
    assert of_kind(loaded, p.Loaded)[0].pair == p.Pair(target="mine", context=100)
    assert of_kind(loaded, p.Loaded)[0].speculation == "on"
    assert next(iter(player.count(p.Count(id=5, messages=HI), Event()))) == p.Counted(id=5, tokens=5, context=100)
    plain = of_kind(player.load(p.Load(id=6, pair=p.Pair(drafter="none"))), p.Loaded)[0]
    assert (plain.drafter, plain.speculation) == ("none", "off")


def test_a_recording_without_a_load_answers_one_and_plays_failures() -> None:
    fell = [p.FellBack(id=5, reason="why"), p.Failed(id=5, kind="X", message="broke")]
    refused: list[p.AnyAnswer] = [p.Loading(id=4, message="l"), p.Failed(id=4, kind="ModelError", message="no")]
    assert of_kind(RecordingPlayer(fell, 0).load(p.Load(id=1, pair=p.Pair())), p.Loaded)[0].speculation == "on"
    assert play_reply(RecordingPlayer(fell, 0), 9) == [structs.replace(answer, id=9) for answer in fell]
    assert [type(a) for a in RecordingPlayer([*refused, *ANSWERS], 0).load(p.Load(id=1, pair=p.Pair()))] == [
        p.Loading,
        p.Failed,
    ]


def test_a_recording_that_was_cut_off_fails_where_it_ends() -> None:
    cut = recording_of(2)[:5]
    assert play_reply(RecordingPlayer(cut, 0), 2)[:5] == cut
    assert of_kind(play_reply(RecordingPlayer(cut, 0)), p.Failed)[0].kind == "RecordingEnds"


@pytest.mark.slow
def test_a_file_that_is_not_a_recording_is_refused_in_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(RECORDED.read_bytes()[:300])
    for arguments, said in (
        (["--replay", bad], "line 4: not an answer from a host"),
        (["--replay", tmp_path / "none"], "cannot be read"),
        (["--record", tmp_path / "no" / "file"], "cannot be written"),
        (["--replay", RECORDED, "--speed", "-1"], "speed is -1.0"),
        (["--sing"], "unrecognized arguments"),
    ):
        with HostProcess(*arguments) as host:
            assert host.wait() == 2
            assert host.rest() == []
        assert said in host.said()
        assert "Traceback" not in host.said()
        assert host.said().count("\n") == 1


def test_a_replaying_host_is_a_host_and_never_imports_mlx(tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    with HostProcess("--replay", RECORDED, "--speed", "0", "--record", copy) as host:
        answers: list[Any] = [host.ready()]
        host.send(p.Load(id=1, pair=p.Pair(drafter="eagle3")))
        answers += host.until(p.Loaded)
        host.send(p.Reply(id=2, messages=HI, sampling=p.SamplingSettings()), p.Stop(id=9))
        answers += host.until(p.ReplyDone)
        host.send(p.Reply(id=3, messages=HI, sampling=p.SamplingSettings()))
        answers += host.until(p.ReplyDone)
        assert answers[1:] == ANSWERS[1:]
        maps = Path(f"/proc/{host.process.pid}/maps")
        assert not maps.exists() or "mlx" not in maps.read_text()
        assert host.quit() == 0
    again = [p.decode_answer(line) for line in copy.read_bytes().splitlines()]
    assert again[1:] == ANSWERS[1:]
    assert of_kind(again, p.PrefillProgress)
