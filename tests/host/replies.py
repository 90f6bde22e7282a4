"""One question to a room of toy models, under two laws, and what its answers say."""

from threading import Event
from typing import Any

from app.host.model_worker import ModelWorker
from app.protocol import AnyAnswer, Reply, ReplyDone, RoundDone, SamplingSettings
from tests.host.process import asked, of_kind

QUESTION = asked("why is the sky blue?")
LENGTH = 16
SAMPLINGS = {
    "greedy": SamplingSettings(max_tokens=LENGTH, draft_length=3),
    "coupled": SamplingSettings(
        max_tokens=LENGTH, draft_length=3, temperature=0.9, top_p=0.95, seed=5, acceptance="coupled"
    ),
}


def ask(room: ModelWorker, sampling: SamplingSettings, stop: Event | None = None, **more: Any) -> list[AnyAnswer]:
    request = Reply(id=7, messages=more.pop("messages", QUESTION), sampling=sampling, **more)
    return list(room.reply(request, stop or Event()))


def ids_of(answers: list[AnyAnswer]) -> list[int]:
    return [token for told in of_kind(answers, RoundDone) for token in told.round.tokens]


def text_of(answers: list[AnyAnswer]) -> str:
    return "".join(text for told in of_kind(answers, RoundDone) for text in told.round.texts)


def end_of(answers: list[AnyAnswer]) -> ReplyDone:
    assert isinstance(answers[-1], ReplyDone), answers[-1]
    return answers[-1]
