"""The queue of the thread that owns MLX: whose turn it is, what is stopped, and how much may wait."""

from __future__ import annotations

from app.protocol import Count, Pair, Reply, SamplingSettings
from app.task_queue import MAX_WAITING_BYTES, Task, TaskQueue

PAIR, OTHER = Pair(), Pair(target="another")


def put(queue: TaskQueue, *numbers: int, size_bytes: int = 10, of_program: bool = False) -> list[Task]:
    """Puts replies with these ids, as far as there is room; returns the tasks."""
    requests = [Reply(id=number, messages=(), sampling=SamplingSettings()) for number in numbers]
    tasks = [Task(request, lambda _: None, size_bytes, of_program) for request in requests]
    return [task for task in tasks if queue.put(task)]


def ids(queue: TaskQueue, count: int) -> list[int]:
    """Takes so many tasks; returns their ids."""
    return [task.request.id for _ in range(count) if (task := queue.take()) is not None]


def serving(pair: Pair = PAIR) -> TaskQueue:
    """A queue for programs, with this pair loaded."""
    queue = TaskQueue()
    queue.end_task(pair)
    queue.admit_programs(PAIR)
    return queue


def test_the_current_request_is_told_to_stop_and_no_other() -> None:
    queue = TaskQueue()
    put(queue, 1, 2)
    first = queue.take()
    assert first is not None
    assert queue.stop(1) == []
    assert first.stop.is_set()
    second = queue.take()
    assert second is not None
    queue.stop(1)
    assert not second.stop.is_set() and queue.current is second
    queue.end_task(None)
    assert queue.current is None


def test_the_queue_is_bounded_and_frees_space_again() -> None:
    queue, half = TaskQueue(), MAX_WAITING_BYTES // 2
    assert len(put(queue, 1, 2, 3, size_bytes=half)) == 2
    queue.take()
    assert len(put(queue, 4, 5, size_bytes=half)) == 1
    queue.stop(4)
    assert len(put(queue, 6, size_bytes=half)) == 1


def test_tasks_of_the_app_are_taken_before_those_of_programs() -> None:
    queue = serving()
    first, *_ = put(queue, 1, 2, 3, of_program=True)
    assert queue.take() is first
    put(queue, 7, 8)
    assert not first.stop.is_set()
    assert ids(queue, 4) == [7, 8, 2, 3]


def test_programs_wait_until_they_are_admitted_and_their_pair_is_loaded() -> None:
    queue = serving(OTHER)
    put(queue, 1, of_program=True)
    assert not queue.wait(0)
    queue.end_task(PAIR)
    assert queue.wait(0)
    queue.admit_programs(None)
    assert not queue.wait(0)
    queue.admit_programs(PAIR)
    assert ids(queue, 1) == [1]


def test_the_ids_of_programs_are_their_own() -> None:
    queue = serving()
    current, waits = put(queue, 1, 2, of_program=True)
    assert queue.take() is current
    assert queue.stop(1) == queue.stop(2) == [] and not current.stop.is_set()
    queue.cancel(waits)
    queue.cancel(current)
    assert current.stop.is_set() and not queue.wait(0)


def test_counts_of_programs_are_answered_within_a_reply_unless_they_wait_for_the_app() -> None:
    queue = serving()
    put(queue, 1)
    queue.take()
    count = Task(Count(id=2, messages=()), lambda _: None, 10, of_program=True)
    queue.put(count)
    queue.admit_programs(None)
    assert queue.take_count() is None
    queue.admit_programs(PAIR)
    assert queue.take_count() is count


def test_a_queue_that_closes_gives_out_what_waits_and_it_is_stopped() -> None:
    queue, answers = serving(OTHER), list[object]()
    queue.put(Task(Count(id=1, messages=()), answers.append, of_program=True))
    queue.close(stop=True)
    task = queue.take()
    assert task is not None and task.stop.is_set() and queue.take() is None
    assert not queue.put(task)
