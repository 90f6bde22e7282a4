"""What the endpoints share: a request is read, answered by the engine, and told as one document or as a stream."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from app import protocol
from app.api.api_errors import ApiError, Omissions
from app.api.http_replies import COMMENT, Event, EventStream, json_response, until_gone
from app.api.reply_stream import Delta, Engine, Tally, deltas
from app.api.request_reading import read_request
from app.api.request_schema import SamplingFields

T = TypeVar("T")


@dataclass(frozen=True)
class Choice:
    """One of the replies to a request, and what is known of it so far."""

    index: int
    reply: protocol.Reply
    tally: Tally = field(default_factory=Tally)


class ReplyForm(ABC):
    """How a protocol tells the replies to one request. Its generators are read in the order in which a client gets
    their events.

    replies: what the engine is asked for. ping: the sign of life of a stream.
    """

    replies: list[protocol.Reply]
    ping: Event = (COMMENT, "ping")

    @abstractmethod
    def document(self, choices: list[Choice]) -> dict[str, Any]:
        """Returns the answer once all replies are complete."""

    @abstractmethod
    def added(self, choice: Choice, delta: Delta) -> Iterator[Event]:
        """Yields the events of what a round added, or of calls."""

    @abstractmethod
    def ended(self, choice: Choice) -> Iterator[Event]:
        """Yields the events of a reply that is complete."""

    def received(self, choice: Choice, delta: Delta) -> Iterator[Event]:
        """Yields the events of any answer of the engine; of one that adds nothing to the reply, a sign of life."""
        if (sign := delta.sign_of_life) is not None:
            yield sign
        else:
            yield from self.added(choice, delta)

    def finished(self, choices: list[Choice]) -> Iterator[Event]:
        """Yields the events after all replies."""
        yield from ()

    def failed(self, error: ApiError) -> Event:
        """Returns the event for an error within the stream."""
        return "", error.body()


class Endpoint:
    """Answers requests of a kind. form: returns how a request is answered; it raises ApiError for one that cannot be,
    and notes what its reply does without."""

    def __init__(
        self, engine: Engine, kind: type[msgspec.Struct], form: Callable[[Engine, Any, Omissions], ReplyForm]
    ) -> None:
        self._engine, self._kind, self._form = engine, kind, form

    async def __call__(self, request: Request) -> Response:
        omissions = Omissions()
        body: Any = read_request(await request.body(), self._kind, omissions)
        form = self._form(self._engine, body, omissions)
        choices = [Choice(index, reply) for index, reply in enumerate(form.replies)]
        if body.stream:
            events = self._events(form, choices)
            return await EventStream(events, form.failed, form.ping, omissions.headers).begin(request)
        await until_gone(request.receive, self._complete(choices))
        return json_response(form.document(choices), headers=omissions.headers)

    async def _complete(self, choices: list[Choice]) -> None:
        """Returns once all replies are complete. Raises ApiError, and then none goes on."""
        replies = [deltas(self._engine.client, choice.reply, choice.tally) for choice in choices]
        async with aclosing(_side_by_side(replies)) as received:
            async for _ in received:
                pass

    async def _events(self, form: ReplyForm, choices: list[Choice]) -> AsyncGenerator[Event]:
        """Yields the events of all replies as they come, then those of the end. Raises ApiError."""
        streams = [self._events_of(form, choice) for choice in choices]
        async with aclosing(_side_by_side(streams)) as events:
            async for event in events:
                yield event
        for event in form.finished(choices):
            yield event

    async def _events_of(self, form: ReplyForm, choice: Choice) -> AsyncGenerator[Event]:
        async with aclosing(deltas(self._engine.client, choice.reply, choice.tally)) as received:
            async for delta in received:
                for event in form.received(choice, delta):
                    yield event
        for event in form.ended(choice):
            yield event


async def _side_by_side(streams: list[AsyncGenerator[T]]) -> AsyncGenerator[T]:
    """Yields what several streams yield as they come. Closing it early closes them. Raises the first ApiError."""
    waiting = {asyncio.ensure_future(anext(stream)): stream for stream in streams}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                stream = waiting.pop(task)
                try:
                    event = task.result()
                except StopAsyncIteration:
                    continue
                waiting[asyncio.ensure_future(anext(stream))] = stream
                yield event
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for stream in streams:
            await stream.aclose()


def stream_end(head: dict[str, Any], body: SamplingFields, choices: list[Choice]) -> Iterator[Event]:
    """Yields the last events of OpenAI's older streams. head: of every event."""
    if body.stream_options is not None and body.stream_options.include_usage:
        yield "", {**head, "choices": [], "usage": usage(choices, body.n)}
    yield "", "[DONE]"


def usage(choices: list[Choice], n: int | None) -> dict[str, Any]:
    """Returns OpenAI's `usage`: each prompt is counted once, whatever `n`, the number of its replies, is."""
    prompts, reply = [one.tally.metrics for one in choices[:: n or 1]], sum(one.tally.metrics.tokens for one in choices)
    prompt = sum(one.prompt_tokens for one in prompts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": reply,
        "total_tokens": prompt + reply,
        "prompt_tokens_details": {"cached_tokens": sum(one.reused_tokens for one in prompts)},
        "completion_tokens_details": {
            "reasoning_tokens": sum(one.tally.reasoning_tokens for one in choices),
            "accepted_prediction_tokens": sum(one.tally.predicted for one in choices),
        },
    }
