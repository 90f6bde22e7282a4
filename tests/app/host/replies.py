"""One question to a worker with toy models, sampled in two ways, and what its answers contain."""

from pathlib import Path
from threading import Event
from typing import Any

from app.host.engine_loop import TaskRunner
from app.host.model_worker import ModelWorker
from app.protocol import AnyAnswer, Load, Reply, ReplyDone, RoundDone, SamplingSettings, decode_answer, encode_line
from app.task_queue import PLACES, Task, TaskQueue, Work
from tests.app.host.process import asked, of_kind, pair

QUESTION = asked("why is the sky blue?")
LENGTH = 16
SAMPLINGS = {
    "greedy": SamplingSettings(max_tokens=LENGTH, draft_length=3),
    "coupled": SamplingSettings(
        max_tokens=LENGTH, draft_length=3, temperature=0.9, top_p=0.95, seed=5, acceptance="coupled"
    ),
}


def ask(worker: ModelWorker, sampling: SamplingSettings, stop: Event | None = None, **more: Any) -> list[AnyAnswer]:
    request = Reply(id=7, messages=more.pop("messages", QUESTION), sampling=sampling, **more)
    return list(worker.reply(request, stop or Event()))


def worker_with(target: Path, drafter: str | Path = "none") -> ModelWorker:
    """A worker with this pair loaded."""
    worker = ModelWorker()
    list(worker.load(Load(id=1, pair=pair(target, drafter))))
    return worker


def ask_and_stop(
    worker: ModelWorker, sampling: SamplingSettings, kind: type[AnyAnswer] = RoundDone, after: int = 2
) -> list[AnyAnswer]:
    """The answers to the question where it is stopped after so many answers of a kind."""
    stop, heard = Event(), list[AnyAnswer]()
    for answer in worker.reply(Reply(id=7, messages=QUESTION, sampling=sampling), stop):
        heard.append(answer)
        if len(of_kind(heard, kind)) == after:
            stop.set()
    return heard


def served(worker: ModelWorker, *requests: Work, places: int = PLACES) -> list[AnyAnswer]:
    """What the window gets when the engine carries out these requests. places: for replies at once."""
    tasks, answers = TaskQueue(), list[AnyAnswer]()
    tasks.places = places
    for request in requests:
        tasks.put(Task(request, answers.append))
    tasks.close(stop=False)
    TaskRunner(tasks, answers.append, lambda: worker).run()
    return [decode_answer(encode_line(answer)[:-1]) for answer in answers]


def ids_of(answers: list[AnyAnswer]) -> list[int]:
    return [token for told in of_kind(answers, RoundDone) for token in told.round.tokens]


def text_of(answers: list[AnyAnswer]) -> str:
    return "".join(text for told in of_kind(answers, RoundDone) for text in told.round.texts)


def end_of(answers: list[AnyAnswer]) -> ReplyDone:
    assert isinstance(answers[-1], ReplyDone), answers[-1]
    return answers[-1]
