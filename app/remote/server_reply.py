"""The reply of a server as the engine's events, and what the server says of it beside what was measured.

What arrives at one time becomes a round, so that bursts of several tokens are told apart from steps. Tokens are those
of the loaded model's tokenizer, one unit for all who are compared; the server's own count is reported beside.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from app.protocol.race_messages import ServerReport
from app.remote.openai_client import TRY_AGAIN, Arrival, ServerError
from engine.events import Event, Finished, PromptProgress, Reason, Round
from engine.metrics import Metrics
from engine.reply_channels import Channel
from engine.settings import SamplingSettings
from models.tokenizer import FolderTokenizer

NOT_COUNTED = -1  # the token of a round whose text has not been tokenized yet
_TOLERANCE = 0.05  # by which a server's figure may differ from the clock's
_TTFT_TOLERANCE_S = 0.02
_BURST = 1.5  # tokens at one time, from which they count as arriving in bursts
_SPARE_TOKENS = 16


class Token(NamedTuple):
    """A token of a reply, and the text that it completed."""

    id: int
    text: str


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _CachedTokens(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedTokens | None = None


class _Timings(msgspec.Struct):
    """llama.cpp's."""

    cache_n: int | None = None
    predicted_per_second: float | None = None


class _Stats(msgspec.Struct):
    """LM Studio's."""

    tokens_per_second: float | None = None
    time_to_first_token: float | None = None


class _Chunk(msgspec.Struct):
    """What is read of a chunk of the stream (OpenAI's chat.completion.chunk)."""

    model: str = ""
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    timings: _Timings | None = None
    stats: _Stats | None = None
    error: Any = None


class ServerReply:
    """Reads one reply. name: of the server, for errors. product: as in `ServerReport`."""

    def __init__(self, name: str, product: str, settings: SamplingSettings) -> None:
        self._name, self._product, self._settings = name, product, settings
        self._last = _Chunk()  # with the latest of everything but choices
        self._ended = self._over_limit = False
        self._finish: str | None = None
        self._pieces = 0

    def events(self, arrivals: Iterable[Arrival]) -> Iterator[Event]:
        """Yields the reply while it arrives: each round has one token, NOT_COUNTED, for all of its text. Raises
        ServerError, and what `arrivals` raises."""
        index, time_s = 0, 0.0
        for arrival in arrivals:
            time_s = arrival.time_s
            for channel, text in self._texts(arrival):
                yield Round(index, (NOT_COUNTED,), (), 0, (), (), 1, time_s, texts=(text,), channels=(channel,))
                index += 1
            self._ended = arrival.done
            if self._ended or self._over_limit:
                break
        if not index:
            raise ServerError(
                f"the server {self._name} sent no text: look at its own messages, or choose another prompt"
            )
        usage = self._last.usage
        if usage is not None and usage.prompt_tokens is not None:
            yield PromptProgress(usage.prompt_tokens, usage.prompt_tokens, self._cached() or 0, 0.0)
        ended: Reason = "stop" if self._settings.stop else "eos"  # nothing tells which of the two
        reason = "cancelled" if self._finish is None else "length" if self._finish == "length" else ended
        yield Finished(reason, index, time_s)

    def report(self, prompt_tokens: int, metrics: Metrics) -> ServerReport:
        """Returns what the server says of the reply. prompt_tokens: of the same prompt here. metrics: of the reply in
        tokens of the loaded model."""
        last = self._last
        usage, timings, stats = last.usage or _Usage(), last.timings or _Timings(), last.stats or _Stats()
        found = ServerReport(
            product=self._product,
            model=Path(last.model).name if Path(last.model).is_absolute() else last.model,  # folders stay here
            tokens=usage.completion_tokens,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=self._cached(),
            tokens_per_s=timings.predicted_per_second if last.timings else stats.tokens_per_second,
            ttft_s=stats.time_to_first_token,
            source="timings" if last.timings else "stats" if last.stats else "",
        )
        warnings = (*self._warnings_of_end(), *warnings_of(found, prompt_tokens, metrics))
        return msgspec.structs.replace(found, warnings=warnings)

    def _texts(self, arrival: Arrival) -> Iterator[tuple[Channel, str]]:
        """Yields what an arrival adds to the thought and to the answer, each at most once."""
        texts: dict[Channel, str] = {"thought": "", "answer": ""}
        for event in arrival.events:
            for choice in self._read(event).choices or ():
                delta = choice.delta or _Delta()
                texts["thought"] += delta.reasoning_content or delta.reasoning or ""
                texts["answer"] += delta.content or ""
                self._finish = choice.finish_reason or self._finish
                self._pieces += bool(delta.content or delta.reasoning_content or delta.reasoning)
        self._over_limit = self._pieces > 2 * self._settings.max_tokens + _SPARE_TOKENS
        yield from ((channel, text) for channel, text in texts.items() if text)

    def _read(self, event: bytes) -> _Chunk:
        try:
            chunk = msgspec.json.decode(event, type=_Chunk)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ServerError(
                f"the server {self._name} sends what is not OpenAI's protocol ({error}): check its address"
            ) from error
        if chunk.error:
            said = " ".join(str(chunk.error).split())[:200]
            raise ServerError(f"the server {self._name} broke off its reply with an error ({said}): {TRY_AGAIN}")
        for name in ("model", "usage", "timings", "stats"):
            setattr(self._last, name, getattr(chunk, name) or getattr(self._last, name))
        return chunk

    def _cached(self) -> int | None:
        usage, timings = self._last.usage, self._last.timings
        details = usage.prompt_tokens_details if usage else None
        found = details.cached_tokens if details else None
        return timings.cache_n if found is None and timings else found

    def _warnings_of_end(self) -> Iterator[str]:
        if self._over_limit:
            yield f"It went on beyond the limit of {self._settings.max_tokens} tokens and was cut off."
        elif self._finish is None:
            yield "It closed the connection without saying that its reply had ended."
        elif not self._ended:
            yield "Its stream ended without [DONE]."


def warnings_of(report: ServerReport, prompt_tokens: int, metrics: Metrics) -> Iterator[str]:
    """Yields in sentences where a server's figures, the clock and the text do not agree."""
    if report.tokens is None:
        yield "It does not say how many tokens it wrote."
    elif abs(report.tokens - metrics.tokens) > 1:  # some count the end-of-sequence token, some do not
        yield f"It counts {report.tokens} tokens; here its text has {metrics.tokens}."
    if report.prompt_tokens is not None and report.prompt_tokens != prompt_tokens:
        yield f"Its prompt has {report.prompt_tokens} tokens, here {prompt_tokens}: its template or tokenizer differs."
    if report.cached_tokens:
        yield f"It had {report.cached_tokens} tokens of the prompt in its cache: compare decode speeds."
    size = (metrics.tokens - metrics.first_tokens) / (metrics.rounds - 1) if metrics.rounds > 1 else metrics.tokens
    if size >= _BURST:
        yield f"Its tokens arrive in bursts, {size:.1f} at a time; TTFT is that of the first burst."
    if report.tokens_per_s is not None and (why := _fault_of_speed(report.tokens_per_s, metrics)):
        yield why
    if report.ttft_s and metrics.ttft_s and report.ttft_s < (1 - _TOLERANCE) * metrics.ttft_s - _TTFT_TOLERANCE_S:
        yield f"It claims {report.ttft_s:.2f} s to the first token; by the clock it took {metrics.ttft_s:.2f} s."


def _fault_of_speed(claimed: float, metrics: Metrics) -> str:
    """Returns in a sentence that a claimed speed is not the clock's, "" where it may be: some servers divide all tokens
    by the time, some all but the first."""
    if not metrics.decode_s:
        return ""
    least, most = ((metrics.tokens - first) / metrics.decode_s for first in (max(1, metrics.first_tokens), 0))
    if (1 - _TOLERANCE) * least <= claimed <= (1 + _TOLERANCE) * most:
        return ""
    return f"It claims {claimed:.1f} tokens/s; by the clock it was {metrics.tokens_per_s:.1f}."


def tokenized(events: Sequence[Event], tokenizer: FolderTokenizer, like: Iterable[Token] = ()) -> list[Event]:
    """Returns the events of a reply with its text in tokens of `tokenizer`, each in the round that completed it. like:
    the reply that it will be compared with: a text may be split in several ways, and where both have the same text it
    is split in the same one."""
    rounds = [event for event in events if isinstance(event, Round)]
    whole = next(event.reason == "eos" for event in events if isinstance(event, Finished))
    text = "".join(text for round_ in rounds for text in round_.texts)
    ends, reached = list[int](), 0
    for round_ in rounds:
        reached += sum(map(len, round_.texts))
        ends.append(reached)
    groups: list[list[Token]] = [[] for _ in rounds]
    place = 0
    for token in _split(text, tokenizer, list(like), whole):
        place += len(token.text)
        groups[min(bisect_left(ends, place), len(ends) - 1)].append(token)
    thinks = any("thought" in round_.channels for round_ in rounds)
    filled = [_round(round_, group, thinks) for round_, group in zip(rounds, groups, strict=True) if group]
    numbered = [replace(round_, index=index) for index, round_ in enumerate(_merged(filled))]
    return [*(event for event in events if isinstance(event, PromptProgress)), *numbered, events[-1]]


def _split(text: str, tokenizer: FolderTokenizer, like: list[Token], whole: bool) -> list[Token]:
    """Splits a text into tokens, as `like` does for as long as the texts are the same. whole: whether an
    end-of-sequence token ended it."""
    place, same = 0, 0
    for number, token in enumerate(like):
        if token.text and not text.startswith(token.text, place):
            break
        place += len(token.text)
        ends = place == len(text) and not token.text and whole and token.id in tokenizer.eos
        if token.text or ends:  # others have no text of their own, or complete none yet
            same = number + 1
        if ends:
            return like[:same]
    place = sum(len(token.text) for token in like[:same])
    if place == len(text) and not any(token.text or token.id in tokenizer.eos for token in like[same:]) and not whole:
        return like  # the limit of tokens came within a character
    stream = tokenizer.stream()
    found = like[:same] + [Token(one, stream.push(one)) for one in tokenizer.pieces(text[place:])]
    if whole and tokenizer.eos:
        found.append(Token(min(tokenizer.eos), ""))
    return found


def _round(round_: Round, group: Sequence[Token], thinks: bool) -> Round:
    ids, texts = tuple(token.id for token in group), tuple(token.text for token in group)
    return replace(round_, tokens=ids, texts=texts, channels=round_.channels * len(group) if thinks else ())


def _merged(rounds: Iterable[Round]) -> list[Round]:
    """Makes rounds of the same time, the end of a thought and the start of its answer, one."""
    made: list[Round] = []
    for round_ in rounds:
        if made and made[-1].time_s == round_.time_s:
            before = made.pop()
            names = ("tokens", "texts", "channels")
            round_ = replace(before, **{name: getattr(before, name) + getattr(round_, name) for name in names})
        made.append(round_)
    return made
