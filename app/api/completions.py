"""`POST /v1/completions`, OpenAI's older endpoint: text is continued as it stands, without a chat template."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app import protocol
from app.api.api_errors import unsupported
from app.api.chat_completions import logprob
from app.api.http_replies import Event, EventStream, json_response, until_gone
from app.api.omissions import Omissions
from app.api.reply_stream import Choice, ChoiceStream, Engine, Token, deltas, measurements, origins, usage
from app.api.request_reading import read_request
from app.api.request_schema import CompletionRequest, grammar_of

DEFAULT_MAX_TOKENS = 16  # OpenAI's


class Completions:
    """The endpoint."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, request: Request) -> Response:
        omissions = Omissions()
        body = read_request(await request.body(), CompletionRequest, omissions)
        replies = self._replies(body, omissions)
        head = {**self._engine.head("cmpl"), "object": "text_completion"}
        if body.stream:
            counts_usage = body.stream_options is not None and body.stream_options.include_usage
            events_of = partial(self._events, body.logprobs is not None, head, omissions)
            events = ChoiceStream(head, body.n or 1, counts_usage).events(replies, events_of)
            return await EventStream(events, headers=omissions.headers).begin(request)
        tallies = await until_gone(request.receive, self._engine.wholes(replies))
        choices = [
            {
                **_choice(i, tally.thought + tally.answer, tally.emitted, body.logprobs is not None),
                "finish_reason": tally.finish,
            }
            for i, tally in enumerate(tallies)
        ]
        counts = {"usage": usage(tallies, body.n or 1), **measurements(tallies[0], omissions)}
        return json_response({**head, "choices": choices, **counts}, headers=omissions.headers)

    def _replies(self, body: CompletionRequest, omissions: Omissions) -> list[protocol.Reply]:
        """Returns the requests for the host. Raises ApiError."""
        self._engine.check_model(body.model)
        grammar = grammar_of(body.response_format, "response_format", omissions)
        longest = body.max_tokens or DEFAULT_MAX_TOKENS
        settings = self._engine.settings_of(body, omissions, max_tokens=longest, grammar=grammar)
        prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        texts = [prompt for prompt in prompts if isinstance(prompt, str)]
        if len(texts) < len(prompts):
            raise unsupported("prompt", "give texts, not the ids of their tokens")
        return [one for text in texts for one in self._engine.replies((), settings, body.n or 1, prompt=text)]

    async def _events(
        self, logprobs: bool, head: dict[str, Any], omissions: Omissions, choice: Choice
    ) -> AsyncGenerator[Event]:
        index, tally = choice.index, choice.tally
        async with aclosing(deltas(self._engine.client, choice.reply, tally)) as added:
            async for delta in added:
                if (sign := delta.sign_of_life) is not None:
                    yield sign
                    continue
                piece = _choice(index, delta.thought + delta.answer, delta.tokens, logprobs)
                yield "", {**head, "choices": [{**piece, "finish_reason": None}]}
        last = {**_choice(index, "", (), False), "finish_reason": tally.finish}
        yield "", {**head, "choices": [last], **measurements(tally, omissions)}


def _choice(index: int, text: str, tokens: Iterable[Token], logprobs: bool) -> dict[str, Any]:
    tokens = list(tokens)
    known = {"tokens": [one.text for one in tokens], "token_logprobs": [logprob(one) for one in tokens]}
    return {"index": index, "text": text, "logprobs": known if logprobs else None, "redline": origins(tokens)}
