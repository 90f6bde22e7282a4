"""Several replies at once through the host's loop, with toy models: each its own, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from app import protocol as p
from app.host import reply_seats
from app.host.engine_loop import NO_PLACE, TaskRunner
from app.host.model_worker import ModelWorker
from app.host.reply_seats import NO_MEMORY, SAME_PROMPT, ReplySeats
from app.inference.reply_runner import ReplyRunner
from app.task_queue import Task, TaskQueue
from engine.events import Round
from tests.app.host.process import asked, of_kind
from tests.app.host.replies import LENGTH, SAMPLINGS, ids_of

QUESTIONS = ("why is the sky blue?", "what is a drafter?", "name three colors", "why is the sky blue? again")


def requests(count: int = 4, length: int = LENGTH) -> list[p.Reply]:
    """Different questions, sampled in different ways."""
    samplings = [replace(sampling, max_tokens=length) for sampling in SAMPLINGS.values()]
    chosen = [(QUESTIONS[i % len(QUESTIONS)], samplings[i % 2]) for i in range(count)]
    return [p.Reply(id=i, messages=asked(text), sampling=sampling) for i, (text, sampling) in enumerate(chosen, 1)]


class Written:
    """The answers to requests that are carried out at once, in the order in which they come. on_answer: called with
    each."""

    def __init__(self, worker: ModelWorker, work: list[p.Reply], places: int = 4, of_program: bool = False) -> None:
        self.answers: list[p.AnyAnswer] = []
        self.tasks = TaskQueue()
        self.tasks.places = places
        self.on_answer: Callable[[p.AnyAnswer], None] = lambda _: None
        self._runner = TaskRunner(self.tasks, self.answers.append, lambda: worker)
        if of_program:
            self.tasks.admit_programs(worker.pair)
            self.tasks.end_task(Task(p.Unload(id=0), self._receive), worker.pair)
        for request in work:
            self.tasks.put(Task(request, self._receive, of_program=of_program))

    def _receive(self, answer: p.AnyAnswer) -> None:
        self.answers.append(answer)
        self.on_answer(answer)

    def run(self) -> Written:
        self.tasks.close(stop=False)
        self._runner.run()
        return self

    def of(self, number: int) -> list[p.AnyAnswer]:
        return [answer for answer in self.answers if getattr(answer, "id", 0) == number]

    def order(self) -> list[int]:
        """The requests of the rounds, in the order in which they came."""
        return [answer.id for answer in of_kind(self.answers, p.RoundDone)]


def alone(worker: ModelWorker, work: list[p.Reply]) -> dict[int, list[int]]:
    return {request.id: ids_of(Written(worker, [request]).run().answers) for request in work}


def test_each_reply_is_the_one_that_it_would_have_been_alone(worker: ModelWorker) -> None:
    work = requests(8)
    whole = alone(worker, work)
    for _ in range(2):  # the second time the seats remember the conversations
        written = Written(worker, work, places=8).run()
        assert {request.id: ids_of(written.of(request.id)) for request in work} == whole
        assert all(isinstance(written.of(request.id)[-1], p.ReplyDone) for request in work)
        order = written.order()
        assert all(set(order[order.index(number) :][:9]) != {number} for number in set(order))  # they take turns


def test_no_more_replies_are_written_than_there_are_places_and_the_others_are_told_so(worker: ModelWorker) -> None:
    work = requests(5)
    written = Written(worker, work, places=2, of_program=True).run()
    assert [one.id for one in of_kind(written.answers, p.Waiting) if one.reason == NO_PLACE] == [3, 4, 5]
    ends = [one.id for one in of_kind(written.answers, p.ReplyDone)]
    assert sorted(ends) == [1, 2, 3, 4, 5]
    writing, most = set[int](), 0
    for answer in written.answers:
        if isinstance(answer, p.RoundDone):
            writing.add(answer.id)
        elif isinstance(answer, p.ReplyDone):
            writing.discard(answer.id)
        most = max(most, len(writing))
    assert most == 2
    assert {request.id: ids_of(written.of(request.id)) for request in work} == alone(worker, work)


def test_stopping_one_leaves_the_others(worker: ModelWorker) -> None:
    work = requests(3)
    whole, written = alone(worker, work), Written(worker, work)

    def stop_second(answer: p.AnyAnswer) -> None:
        if isinstance(answer, p.RoundDone) and answer.id == 2 and answer.round.index == 1:
            written.tasks.stop(2)

    written.on_answer = stop_second
    written.run()
    end = written.of(2)[-1]
    assert isinstance(end, p.ReplyDone) and end.finished.reason == "cancelled"
    assert ids_of(written.of(2)) == whole[2][: len(ids_of(written.of(2)))]
    assert all(ids_of(written.of(number)) == whole[number] for number in (1, 3))


def test_an_error_of_one_ends_that_one_and_empties_its_caches_alone(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = requests(3)
    whole = alone(worker, work)
    work[1] = structs.replace(work[1], sampling=replace(work[1].sampling, max_tokens=LENGTH - 1, draft_length=0))
    check = ReplyRunner._check_probabilities

    def failing(runner: ReplyRunner, round_: Round) -> None:
        if runner.settings.max_tokens == LENGTH - 1 and runner._rounds == 2:
            raise RuntimeError("the device was lost")
        check(runner, round_)

    monkeypatch.setattr(ReplyRunner, "_check_probabilities", failing)
    written = Written(worker, work).run()
    end = written.of(2)[-1]
    assert isinstance(end, p.Failed) and "the device was lost" in end.message
    assert len(of_kind(written.of(2), p.RoundDone)) == 2
    assert all(ids_of(written.of(number)) == whole[number] for number in (1, 3))
    monkeypatch.undo()
    assert {request.id: ids_of(Written(worker, [request]).run().answers) for request in requests(3)} == whole


def test_loads_and_races_wait_until_no_reply_is_written_and_what_is_behind_them_waits(
    worker: ModelWorker, toy_folder: Path
) -> None:
    first, second, third = requests(3)
    assert worker.pair is not None
    written = Written(worker, [first, second])
    for request in (p.Load(id=7, pair=worker.pair), third):
        written.tasks.put(Task(request, written._receive))
    written.run()
    ends = [answer.id for answer in written.answers if isinstance(answer, p.ReplyDone | p.Loaded)]
    assert set(ends[:2]) == {1, 2} and ends[2:] == [7, 3]
    assert written.answers.index(of_kind(written.answers, p.Loaded)[0]) < written.answers.index(
        of_kind(written.of(3), p.RoundDone)[0]
    )


def test_counts_are_answered_while_replies_are_written(worker: ModelWorker) -> None:
    written = Written(worker, requests(2))
    written.tasks.put(Task(p.Count(id=9, messages=asked("how long is this?")), written._receive))
    written.run()
    kinds = [type(answer) for answer in written.answers]
    assert kinds.index(p.Counted) < kinds.index(p.ReplyDone)


def test_a_reply_waits_for_memory_says_so_and_begins_when_another_ends(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = requests(3)
    whole = alone(worker, work)
    monkeypatch.setattr(reply_seats, "fits_beside", lambda _, contexts, *more: len(contexts) < 2)
    written = Written(worker, work).run()
    assert of_kind(written.answers, p.Waiting) == [p.Waiting(id=3, reason=NO_MEMORY)]
    kinds = [(answer.id, type(answer)) for answer in written.answers if isinstance(answer, p.RequestAnswer)]
    ends = [kinds.index((number, p.ReplyDone)) for number in (1, 2)]
    assert kinds.index((3, p.RoundDone)) > min(ends)
    assert {request.id: ids_of(written.of(request.id)) for request in work} == whole


def test_a_reply_that_waits_for_memory_can_be_stopped(worker: ModelWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(worker, requests(2))
    monkeypatch.setattr(reply_seats, "fits_beside", lambda _, contexts, *more: not contexts)
    written.on_answer = lambda answer: written.tasks.stop(answer.id) and None if isinstance(answer, p.Waiting) else None
    written.run()
    end = written.of(2)[-1]
    assert isinstance(end, p.ReplyDone) and end.finished.reason == "cancelled"
    assert of_kind(written.of(2), p.RoundDone) == [] and ids_of(written.of(1))


def test_a_reply_that_fails_while_it_waits_is_forgotten(worker: ModelWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    why_wait = ReplySeats.why_wait

    def failing(seats: ReplySeats, *asked: Any) -> str:
        if seats._short_of_memory:
            raise OSError("the model's files are gone")
        return why_wait(seats, *asked)

    monkeypatch.setattr(ReplySeats, "why_wait", failing)
    monkeypatch.setattr(reply_seats, "fits_beside", lambda _, contexts, *more: not contexts)
    written = Written(worker, requests(2)).run()
    assert isinstance(written.of(2)[-1], p.Failed) and ids_of(written.of(1))
    assert not worker._open_seats()._short_of_memory


def test_what_one_reply_reads_of_a_prompt_is_copied_to_the_others(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_seats, "WORTH_WAITING", 16)
    prompt = asked("a long preamble that all of them share, " * 12)
    sampling = SAMPLINGS["coupled"]
    work = [p.Reply(id=i, messages=prompt, sampling=replace(sampling, seed=i)) for i in (1, 2, 3)]
    whole = {request.id: ids_of(Written(worker, [request]).run().answers) for request in work}
    worker.recover()
    worker._pair.session.kept.clear()
    written = Written(worker, work).run()
    assert [one.id for one in of_kind(written.answers, p.Waiting)] == [2, 3]
    assert {one.reason for one in of_kind(written.answers, p.Waiting)} == {SAME_PROMPT}
    reused = {one.id: one.progress.reused for one in of_kind(written.answers, p.PrefillProgress)}
    total = of_kind(written.answers, p.PrefillProgress)[0].progress.total
    assert reused == {1: 0, 2: total - 1, 3: total - 1}
    assert {request.id: ids_of(written.of(request.id)) for request in work} == whole


def test_what_a_further_reply_needed_is_counted_again_once_it_ends(worker: ModelWorker) -> None:
    written = Written(worker, requests(4))
    written.run()
    seats = worker._open_seats()
    assert [seat.pair for seat in seats._seats] == [worker._pair] and not seats._busy


def test_nobody_begins_before_a_reply_that_has_waited_longer_for_memory(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seats, large, small = worker._open_seats(), object(), object()
    with seats.taken([1, 2, 3], 10):
        monkeypatch.setattr(reply_seats, "fits_beside", lambda _, contexts, context, kept: context < 50)
        assert seats.why_wait(large, [4], 100) == seats.why_wait(small, [5], 10) == reply_seats.NO_MEMORY
        seats.leave(large)
        assert seats.why_wait(small, [5], 10) == ""


def test_a_short_prompt_does_not_wait_for_a_long_one_that_begins_alike(worker: ModelWorker) -> None:
    seats, shared = worker._open_seats(), list(range(300))
    with seats.taken([*shared, *range(1000, 2000)], 10):
        assert not seats._reads_for([*shared, 7])
    with seats.taken([*shared, 8], 10):
        assert seats._reads_for([*shared, 7])
