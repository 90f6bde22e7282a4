"""The host's answers to one Reply as deltas of text, and what is counted meanwhile: the fold that endpoints share."""

import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from app import protocol
from app.api.api_errors import ApiError, Omissions, of_failure
from app.api.engine_client import EngineClient
from app.api.http_replies import COMMENT, Event
from app.api.request_schema import SamplingFields
from app.api.thinking_fields import ThinkingFields, thinking_settings
from app.reply_statistics import drafting_in_words
from engine.events import Origin, PromptProgress, Reason, Round
from engine.metrics import Metrics
from engine.reply_channels import Channel
from engine.settings import LARGEST_SEED, MODEL_DEFAULTS, SamplingSettings

_STOP_REASONS = {"eos": "eosFound", "stop": "stopStringFound"}  # as LM Studio names them
FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True)
class Engine:
    """The engine that answers: how it is reached, and what it has loaded. Endpoints are called once there is a pair,
    which may be replaced. created: seconds since 1970."""

    client: EngineClient
    base: SamplingSettings = field(default_factory=SamplingSettings)
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def loaded(self) -> protocol.Loaded:
        """What is loaded now."""
        assert self.client.loaded is not None
        return self.client.loaded

    @staticmethod
    def now() -> int:
        """The time as OpenAI's objects have it: whole seconds since 1970."""
        return int(time.time())

    @property
    def fingerprint(self) -> str:
        """The digest of the pair, which OpenAI's clients know as `system_fingerprint`."""
        loaded = self.loaded
        parts = (loaded.target, loaded.drafter, loaded.vocabulary, str(loaded.drafts_trees), str(loaded.context))
        return "fp_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]

    def check_model(self, name: str | None) -> None:
        """Raises ApiError for a model that is not the one that is loaded. Its name may be in any case and have the
        prefix of a provider; "" and "default" mean it too."""
        own = self.loaded.target.casefold()
        if name and name.casefold() not in ("default", own) and not name.casefold().endswith(f"/{own}"):
            message = f"there is no model {name!r}: this server has {self.loaded.target!r}"
            raise ApiError(404, "model_not_found", message, "model")

    def head(self, prefix: str) -> dict[str, Any]:
        """Returns what an answer of OpenAI's begins with; its id begins with `prefix`."""
        return {
            "id": f"{prefix}-{secrets.token_hex(12)}",
            "created": self.now(),
            "model": self.loaded.target,
            "system_fingerprint": self.fingerprint,
        }

    def settings(self, given: Mapping[str, Any]) -> SamplingSettings:
        """Returns the settings of a request. given: by the names of SamplingSettings, None for what is not given: that
        is the model's own, or neutral. Raises ApiError for invalid values."""
        values = {name: value for name, value in given.items() if value is not None}
        own = tuple(name for name in MODEL_DEFAULTS if name not in values)
        values.setdefault("max_tokens", self.loaded.context)
        settings = replace(self.base, from_model=own, **values)
        for name, remedy in settings.problems(self.loaded.drafts_trees).items():
            raise ApiError(400, "invalid_value", f"{name} is invalid: {remedy}", name)
        return settings

    def settings_of(self, body: SamplingFields, omissions: Omissions, **more: Any) -> SamplingSettings:
        """Returns the settings of a request to one of OpenAI's endpoints; `more` are others that it has."""
        given = {name: getattr(body, name) for name in (*MODEL_DEFAULTS, "seed", "max_tokens")}
        given |= self.thinking(body, omissions)
        if body.stop is not None:
            given["stop"] = (body.stop,) if isinstance(body.stop, str) else body.stop
        if body.logit_bias:
            if not all(token.isdecimal() and len(token) < 10 for token in body.logit_bias):
                raise ApiError(400, "invalid_value", "logit_bias: its keys are ids of tokens", "logit_bias")
            given["logit_bias"] = {int(token): bias for token, bias in body.logit_bias.items()}
        return self.settings(given | {name: value for name, value in more.items() if value is not None})

    def replies(
        self,
        messages: tuple[protocol.Message, ...],
        settings: SamplingSettings,
        n: int = 1,
        opening: str = "",
        **more: Any,
    ) -> list[protocol.Reply]:
        """Returns the requests for n replies. Each has a seed of its own, so that they differ and can be repeated.
        opening: of the answer, which then begins without a thought. more: other fields of the requests."""
        if opening and self.loaded.thinking:
            settings = replace(settings, thinking=False)
        first = settings.seed if settings.seed is not None else secrets.randbelow(2**31)
        seeds = [(first + i) % (LARGEST_SEED + 1) for i in range(n)]
        fresh = settings.seed is None
        each = [replace(settings, seed=seed, fresh=fresh) for seed in seeds]
        target = self.loaded.pair.target
        more |= {"messages": messages, "opening": opening, "target": target}
        return [protocol.Reply(id=0, sampling=one, **more) for one in each]

    def thinking(self, body: ThinkingFields, omissions: Omissions) -> dict[str, Any]:
        """Returns the settings for how much the model thinks. Raises ApiError."""
        return thinking_settings(body, self.loaded, omissions)


@dataclass(frozen=True)
class Token:
    """A token that was emitted. probability: as the target chose it."""

    text: str
    probability: float
    origin: Origin
    channel: Channel


@dataclass(frozen=True)
class Delta:
    """What one round added: its tokens, and their text by channel; or the calls of tools that have ended; or, before
    the first round, how much of the prompt has been read, or why the reply waits."""

    answer: str
    thought: str
    tokens: tuple[Token, ...] = ()
    calls: tuple[protocol.ToolCall, ...] = ()
    progress: PromptProgress | None = None
    waits: str = ""

    @property
    def sign_of_life(self) -> Event | None:
        """What a client that waits for the first token is sent meanwhile; None where this adds to the reply."""
        if self.progress is not None:
            return COMMENT, f"prompt {self.progress.done}/{self.progress.total}"
        return (COMMENT, self.waits) if self.waits else None


@dataclass
class Tally:
    """What is known of a reply so far; complete once `reason` is set. reasoning_tokens: those of thoughts and of their
    markup. prompt_s: when the prompt had been read, in seconds since the host began."""

    metrics: Metrics = field(default_factory=Metrics)
    reasoning_tokens: int = 0
    predicted: int = 0
    unused_prediction: str = ""
    prompt_s: float = 0.0
    reason: Reason | None = None
    seed: int = 0
    answer: str = ""
    thought: str = ""
    emitted: list[Token] = field(default_factory=list)
    calls: list[protocol.ToolCall] = field(default_factory=list)

    @property
    def finish(self) -> FinishReason:
        """Why the reply ended, as OpenAI names it."""
        if self.reason in ("length", "thought", "context"):
            return "length"
        return "tool_calls" if self.calls else "stop"

    def add(self, round_: Round) -> Delta:
        """Counts a round and returns what it added."""
        channels: tuple[Channel, ...] = round_.channels or tuple("answer" for _ in round_.tokens)
        tokens = tuple(map(Token, round_.texts, round_.p, round_.origins, channels))
        self.metrics.add(round_)
        self.reasoning_tokens += sum(token.channel in ("thought", "markup") for token in tokens)
        return self._added(Delta(round_.text_in("answer"), round_.text_in("thought"), tokens))

    def end(self, done: protocol.ReplyDone) -> Delta:
        """Notes the end and returns the text that was held back until then."""
        self.reason, self.seed = done.finished.reason, done.seed
        self.predicted, self.unused_prediction = done.predicted, done.unused_prediction
        return self._added(Delta(done.finished.text, ""))

    def called(self, called: protocol.Called) -> Delta:
        """Notes calls of tools and returns them."""
        self.calls += called.calls
        return Delta("", "", (), called.calls)

    def progress(self, progress: PromptProgress) -> Delta:
        """Notes how much of the prompt has been read."""
        self.metrics.add(progress)
        self.prompt_s = progress.time_s
        return Delta("", "", progress=progress)

    def _added(self, delta: Delta) -> Delta:
        self.answer += delta.answer
        self.thought += delta.thought
        self.emitted += delta.tokens
        return delta


async def deltas(client: EngineClient, reply: protocol.Reply, tally: Tally) -> AsyncGenerator[Delta]:
    """Yields what each round added, and counts it in `tally`. Closing it early stops the reply. Raises ApiError."""
    async with aclosing(client.request(reply)) as answers:
        async for answer in answers:
            match answer:
                case protocol.PrefillProgress():
                    yield tally.progress(answer.progress)
                case protocol.Waiting():
                    yield Delta("", "", waits=answer.reason)
                case protocol.RoundDone():
                    yield tally.add(answer.round)
                case protocol.Called():
                    yield tally.called(answer)
                case protocol.ReplyDone():
                    yield tally.end(answer)
                case protocol.Failed():
                    raise of_failure(answer)


def measurements(tally: Tally, omissions: Omissions) -> dict[str, Any]:
    """Returns llama.cpp's `timings` and LM Studio's `stats` of a reply, with what the request left out."""
    metrics, prompt_s = tally.metrics, tally.prompt_s
    predicted_s, read = (metrics.last_s or 0.0) - prompt_s, metrics.prompt_tokens - metrics.reused_tokens
    timings = {
        "cache_n": metrics.reused_tokens,
        "prompt_n": read,
        "prompt_ms": prompt_s * 1000,
        "prompt_per_second": read / prompt_s if prompt_s > 0 else 0.0,
        "predicted_n": metrics.tokens,
        "predicted_ms": max(0.0, predicted_s) * 1000,
        "predicted_per_second": metrics.tokens / predicted_s if predicted_s > 0 else 0.0,
        "draft_n": metrics.drafted,
        "draft_n_accepted": metrics.accepted,
    }
    stats = {
        "tokens_per_second": metrics.tokens_per_s or 0.0,
        "time_to_first_token": metrics.first_s or 0.0,
        "generation_time": metrics.decode_s or 0.0,
        "stop_reason": _STOP_REASONS.get(tally.reason or "", "maxPredictedTokensReached"),
        "draft_tokens_count": metrics.drafted,
        "accepted_draft_tokens_count": metrics.accepted,
        "drafting": "; ".join(filter(None, [drafting_in_words(metrics), tally.unused_prediction])),
        **omissions.statistics,
    }
    return {"timings": timings, "stats": stats}


def origins(tokens: tuple[Token, ...] | list[Token]) -> dict[str, Any]:
    """Returns the extension that says where each token came from."""
    return {"origins": [token.origin for token in tokens]}
