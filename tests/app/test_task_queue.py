"""The queue of the thread that owns MLX: whose turn it is, what is stopped, and how much may wait."""

from app.protocol import Count, Load, Pair, Reply, SamplingSettings, Unload
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


def load(queue: TaskQueue, pair: Pair) -> None:
    """Has the queue note that a pair has been loaded, by a task that is over."""
    queue.end_task(Task(Unload(id=0), lambda _: None), pair)


def serving(pair: Pair = PAIR) -> TaskQueue:
    """A queue for programs, with this pair loaded."""
    queue = TaskQueue()
    load(queue, pair)
    queue.admit_programs(PAIR)
    return queue


def test_a_request_that_runs_is_told_to_stop_and_no_other() -> None:
    queue = TaskQueue()
    put(queue, 1, 2)
    first, second = queue.take(), queue.take_beside()
    assert first is not None and second is not None and queue.running == (first, second)
    assert queue.stop(1) == []
    assert first.stop.is_set() and not second.stop.is_set()
    queue.end_task(first, None)
    assert queue.running == (second,)
    queue.stop(1)
    assert not second.stop.is_set()


def test_as_many_replies_run_as_there_are_places_and_the_others_wait() -> None:
    queue = serving()
    queue.places = 2
    tasks = put(queue, 1, 2, 3, 4, of_program=True)
    assert [queue.take_beside() for _ in range(3)] == [tasks[0], tasks[1], None]
    assert queue.waiting_replies() == tasks[2:]
    queue.end_task(tasks[1], PAIR)
    assert queue.take_beside() is tasks[2]
    assert queue.take_beside() is None


def test_the_first_reply_of_the_app_needs_no_place_and_the_next_ones_come_before_those_of_programs() -> None:
    queue = serving()
    queue.places = 1
    of_program, waits = put(queue, 1, 2, of_program=True)
    assert queue.take() is of_program
    first, second = put(queue, 7, 8)
    assert queue.take_beside() is first
    assert queue.take_beside() is None
    queue.end_task(first, PAIR)
    queue.end_task(of_program, PAIR)
    assert queue.take_beside() is second
    assert queue.take_beside() is None
    queue.end_task(second, PAIR)
    assert queue.take_beside() is waits


def test_what_is_no_reply_runs_alone_and_replies_behind_it_wait() -> None:
    queue = serving()
    (reply,) = put(queue, 1)
    assert queue.take() is reply
    change = Task(Load(id=2, pair=OTHER), lambda _: None)
    queue.put(change)
    behind, of_program = *put(queue, 3), *put(queue, 4, of_program=True)
    assert queue.take_beside() is None
    queue.end_task(reply, PAIR)
    assert queue.take_beside() is change
    assert queue.take_beside() is None
    queue.end_task(change, PAIR)
    assert [queue.take_beside(), queue.take_beside()] == [behind, of_program]


def test_the_queue_is_bounded_and_frees_space_again() -> None:
    queue, half = TaskQueue(), MAX_WAITING_BYTES // 2
    assert len(put(queue, 1, 2, 3, size_bytes=half)) == 2
    queue.take()
    assert len(put(queue, 4, 5, size_bytes=half)) == 1
    queue.stop(4)
    assert len(put(queue, 6, size_bytes=half)) == 1


def test_tasks_of_the_app_are_taken_before_those_of_programs() -> None:
    queue = serving()
    queue.places = 5
    first, *_ = put(queue, 1, 2, 3, of_program=True)
    assert queue.take() is first
    put(queue, 7, 8)
    assert not first.stop.is_set()
    assert ids(queue, 4) == [7, 8, 2, 3]


def test_programs_wait_until_they_are_admitted_and_their_pair_is_loaded() -> None:
    queue = serving(OTHER)
    put(queue, 1, of_program=True)
    assert not queue.wait(0)
    load(queue, PAIR)
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
