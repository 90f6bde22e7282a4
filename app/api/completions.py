"""`POST /v1/completions`, OpenAI's older endpoint: text is continued as it stands, without a chat template."""

from collections.abc import Iterable, Iterator
from typing import Any

from app.api.api_errors import Omissions, unsupported
from app.api.chat_completions import logprob
from app.api.endpoint import Choice, ReplyForm, stream_end, usage
from app.api.http_replies import Event
from app.api.reply_stream import Delta, Engine, Token, measurements, origins
from app.api.request_schema import CompletionRequest, grammar_of

DEFAULT_MAX_TOKENS = 16  # OpenAI's


class CompletionForm(ReplyForm):
    """The replies to a request: n to each prompt."""

    def __init__(self, engine: Engine, body: CompletionRequest, omissions: Omissions) -> None:
        engine.check_model(body.model)
        grammar = grammar_of(body.response_format, "response_format", omissions)
        longest = body.max_tokens or DEFAULT_MAX_TOKENS
        settings = engine.settings_of(body, omissions, max_tokens=longest, grammar=grammar)
        prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
        texts = [prompt for prompt in prompts if isinstance(prompt, str)]
        if len(texts) < len(prompts):
            raise unsupported("prompt", "give texts, not the ids of their tokens")
        self.replies = [one for text in texts for one in engine.replies((), settings, body.n or 1, prompt=text)]
        self._body, self._omissions = body, omissions
        self._head = {**engine.head("cmpl"), "object": "text_completion"}

    def document(self, choices: list[Choice]) -> dict[str, Any]:
        told = [
            self._choice(one, one.tally.thought + one.tally.answer, one.tally.emitted, one.tally.finish)
            for one in choices
        ]
        counts = {"usage": usage(choices, self._body.n), **measurements(choices[0].tally, self._omissions)}
        return {**self._head, "choices": told, **counts}

    def added(self, choice: Choice, delta: Delta) -> Iterator[Event]:
        yield "", {**self._head, "choices": [self._choice(choice, delta.thought + delta.answer, delta.tokens)]}

    def ended(self, choice: Choice) -> Iterator[Event]:
        last = {**self._choice(choice, "", (), choice.tally.finish), "logprobs": None}
        yield "", {**self._head, "choices": [last], **measurements(choice.tally, self._omissions)}

    def finished(self, choices: list[Choice]) -> Iterator[Event]:
        return stream_end(self._head, self._body, choices)

    def _choice(self, choice: Choice, text: str, tokens: Iterable[Token], finish: str | None = None) -> dict[str, Any]:
        tokens = list(tokens)
        known = {"tokens": [one.text for one in tokens], "token_logprobs": [logprob(one) for one in tokens]}
        logprobs = None if self._body.logprobs is None else known
        told = {"index": choice.index, "text": text, "logprobs": logprobs, "redline": origins(tokens)}
        return {**told, "finish_reason": finish}
