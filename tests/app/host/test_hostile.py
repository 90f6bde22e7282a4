"""Hostile lines at hostile moments: each is answered, and the next request is answered as usual.

A replaying host is asked: reading, queueing, stopping and leaving are the same as with a model.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import protocol as p
from tests.app.host.process import RECORDED, HostProcess, asked, of_kind
from tests.app.host.test_replay import ANSWERS, stream_of


def reply(number: int, *texts: str) -> p.Reply:
    return p.Reply(id=number, messages=asked(*(texts or ("Hi",))), sampling=p.SamplingSettings())


def count(number: int) -> p.Count:
    return p.Count(id=number, messages=asked("Hi"))


@pytest.fixture(scope="module")
def quick() -> Iterator[HostProcess]:
    """A host that answers at once, for tests that leave it as it was."""
    with HostProcess("--replay", RECORDED, "--speed", "0") as host:
        yield host.ready()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[HostProcess]:
    """A host whose replies have one round at once, and the next after most of an hour."""
    file = tmp_path / "slow.jsonl"
    file.write_bytes(b"".join(map(p.encode_line, stream_of(ANSWERS, 30, 0.001))))
    with HostProcess("--replay", file) as host:
        yield host.ready()


def listens(host: HostProcess) -> None:
    """The host answers what comes next, and has nothing else to say."""
    host.send(count(77))
    assert host.next() == p.Counted(id=77, tokens=5, context=8192)


BAD = {
    "no JSON": b"hello",
    "another type": b'{"type":"Format","id":1}',
    "no type": b'{"id":1}',
    "an answer": b'{"type":"Counted","id":1,"tokens":1,"context":1}',
    "no UTF-8": b'{"type":"Count","id":1,"messages":[{"role":"user","content":"\xff\xfe"}]}',
    "every byte": bytes(b for b in range(256) if b != 10),
    "deep in an ignored field": b'{"type":"Stop","id":1,"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "a lone surrogate": b'{"type":"Count","id":1,"messages":[{"role":"user","content":"\\ud800"}]}',
    "too long": b'{"type":"Stop","id":1,"x":"' + b"y" * p.LONGEST_LINE + b'"}',
}


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_line_is_answered_and_the_next_one_obeyed(quick: HostProcess, name: str) -> None:
    quick.send_bytes(BAD[name] + b"\n")
    answer = quick.next()
    assert isinstance(answer, p.Malformed)
    assert answer.reason
    assert answer.line == BAD[name][:200].decode(errors="replace")
    listens(quick)


def test_half_lines_wait_for_their_other_half(quick: HostProcess) -> None:
    line = p.encode_line(count(5))
    for byte in line[:-1]:
        quick.send_bytes(bytes([byte]))
    quick.send_bytes(line[-1:] + p.encode_line(count(6))[:9])
    assert of_kind([quick.next()], p.Counted)[0].id == 5
    quick.send_bytes(p.encode_line(count(6))[9:])
    assert of_kind([quick.next()], p.Counted)[0].id == 6
    quick.send_bytes(b"\n\n   \n\r\n" + p.encode_line(count(7)).strip() + b"\r\n")  # empty lines, other line ends
    assert of_kind([quick.next()], p.Counted)[0].id == 7


def test_thousands_of_lines_at_once_are_all_answered_in_order(quick: HostProcess) -> None:
    quick.send_bytes(b"".join(p.encode_line(count(number)) + b"?\n" for number in range(500)))
    answers = [quick.next() for _ in range(1000)]
    assert [c.id for c in of_kind(answers, p.Counted)] == list(range(500))
    assert len(of_kind(answers, p.Malformed)) == 500


def test_stop_ends_the_reply_and_not_the_one_beside_it(slow: HostProcess) -> None:
    for number in (1, 2):
        slow.send(reply(number), reply(number + 100))
        begun = [one for _ in range(2) for one in of_kind(slow.until(p.RoundDone), p.RoundDone)]
        assert {one.id for one in begun} == {number, number + 100}
        slow.send(p.Stop(id=number))
        end = of_kind(slow.until(p.ReplyDone), p.ReplyDone)[0]
        assert (end.id, end.finished.reason) == (number, "cancelled")
        listens(slow)
        slow.send(p.Stop(id=number + 100))
        assert of_kind(slow.until(p.ReplyDone), p.ReplyDone)[0].id == number + 100


@pytest.mark.slow
def test_a_stop_sent_together_with_its_reply_ends_or_cancels_it(slow: HostProcess) -> None:
    """It may still wait or have begun: either way the end is reported."""
    for number in range(1, 20):
        slow.send(reply(number), p.Stop(id=number))
        last = slow.until(p.ReplyDone, p.Failed)[-1]
        if isinstance(last, p.Failed):
            assert (last.id, last.kind) == (number, p.CANCELLED)
        else:
            assert isinstance(last, p.ReplyDone)
            assert (last.id, last.finished.reason) == (number, "cancelled")
    listens(slow)


def test_a_count_is_answered_within_a_reply_unless_the_models_change_before_it(slow: HostProcess) -> None:
    slow.send(reply(1), count(2), p.Load(id=3, pair=p.Pair()), count(4))
    assert of_kind(slow.until(p.Counted), p.Counted)[0].id == 2
    slow.send(p.Stop(id=1))
    assert of_kind(slow.until(p.Counted, p.Failed), p.Counted)[0].id == 4


def leaves(host: HostProcess, code: int = 0) -> list[p.AnyAnswer]:
    answers = host.rest()
    assert host.wait() == code
    assert "Traceback" not in host.said()
    return answers


@pytest.mark.slow_for("15", "end1")
@pytest.mark.parametrize(
    "end",
    [
        *(b'{"type":"Count","id":3,', p.Quit(id=9), signal.SIGTERM),
        *(pytest.param(end, marks=pytest.mark.slow) for end in (b"", b"\xff\xff", signal.SIGINT)),
    ],
)
def test_leaving_ends_the_reply_and_cancels_waiting_requests(
    slow: HostProcess, end: bytes | p.Quit | signal.Signals
) -> None:
    """At the end of input, perhaps within a line; by request; by a signal."""
    slow.send(p.Parallel(id=0, replies=1), reply(1), reply(2))
    slow.until(p.RoundDone)
    if isinstance(end, bytes):
        slow.send_bytes(end)
        slow.close_input()
    elif isinstance(end, p.Quit):
        slow.send(end)
    else:
        slow.process.send_signal(end)
    answers = leaves(slow)
    assert len(of_kind(answers, p.Malformed)) == (isinstance(end, bytes) and end != b"")
    assert of_kind(answers, p.ReplyDone)[-1].finished.reason == "cancelled"
    assert [(f.id, f.kind) for f in of_kind(answers, p.Failed)] == [(2, p.CANCELLED)]


@pytest.mark.slow
def test_a_host_whose_answers_cannot_be_written_leaves() -> None:
    with HostProcess("--replay", RECORDED) as host:
        host.ready().reading.clear()
        listens(host)  # after which nobody reads, and the pipe can be closed
        assert host.process.stdout is not None
        host.process.stdout.close()
        host.send(count(1))
        assert host.wait() == 0


@pytest.mark.slow
def test_a_host_whose_answers_are_not_read_can_be_ended() -> None:
    """It leaves even while it waits for space in its pipe, as it does whatever it is busy with."""
    with HostProcess("--replay", RECORDED, "--speed", "0", grace_s=0.0) as host:
        host.ready()
        host.reading.clear()
        for number in range(400):
            host.send(reply(number))
        host.send(p.Quit(id=0))
        assert host.wait() == 0


def test_with_finish_waiting_requests_are_answered_before_leaving() -> None:
    with HostProcess("--replay", RECORDED, "--speed", "0", "--finish") as host:
        host.send(p.Load(id=1, pair=p.Pair()), reply(2), reply(3))
        host.close_input()
        answers = leaves(host.ready())
        assert [type(a) for a in answers if not isinstance(a, p.PrefillProgress | p.RoundDone)][-3:] == [
            p.Loaded,
            p.ReplyDone,
            p.ReplyDone,
        ]
