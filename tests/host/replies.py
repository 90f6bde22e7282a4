"""One question to a room of toy models, under two laws, and what its answers say."""

from threading import Event
from typing import Any

from app.host.room import Room
from app.protocol import Answers, Ended, Law, Reply, Told
from tests.host.process import asked, of_kind

QUESTION = asked("why is the sky blue?")
LENGTH = 16
LAWS = {
    "greedy": Law(max_tokens=LENGTH, draft_length=3),
    "coupled": Law(max_tokens=LENGTH, draft_length=3, temperature=0.9, top_p=0.95, seed=5, acceptance="coupled"),
}


def ask(room: Room, law: Law, stop: Event | None = None, **more: Any) -> list[Answers]:
    request = Reply(id=7, messages=more.pop("messages", QUESTION), law=law, **more)
    return list(room.reply(request, stop or Event()))


def ids_of(answers: list[Answers]) -> list[int]:
    return [token for told in of_kind(answers, Told) for token in told.round.tokens]


def text_of(answers: list[Answers]) -> str:
    return "".join(text for told in of_kind(answers, Told) for text in told.round.texts)


def end_of(answers: list[Answers]) -> Ended:
    assert isinstance(answers[-1], Ended), answers[-1]
    return answers[-1]
