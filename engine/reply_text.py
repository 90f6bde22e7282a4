"""From rounds of token ids to rounds of text, and the stop strings that end a reply.

Detokenizers hold text back while a character is unfinished, and a stop string may begin in one
token and end in another, even in another round. Attribution stays exact: each token has the text
it completed, and a round is released once none of its text can turn out to belong to a stop string.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from engine.events import Round
from engine.reply_channels import Channel, ChannelParser

# role, content, what the assistant thought before it, under "thought", and what it called, as in app.protocol.Message
Message = Mapping[str, Any]
_NO_TEXT = "\udfff"  # stands for text that no stop string is looked for in, since no text contains it


class TokenStream(Protocol):
    """Detokenizes one reply."""

    def push(self, token: int) -> str:
        """Returns the text that `token` completed; "" while a character is unfinished or for special tokens."""

    def finish(self) -> str:
        """Returns what was still held back."""


class Tokenizer(Protocol):
    """What a session needs of a tokenizer."""

    eos: frozenset[int]

    def chat(
        self, messages: Sequence[Message], cancelled: Callable[[], bool] = lambda: False, **switches: Any
    ) -> list[int]:
        """Returns the prompt's ids for a conversation, ready for the assistant to answer or to go on. Raises
        StoppedError once it was `cancelled`. switches: of the chat template, as in
        `engine.settings.SamplingSettings.switches`."""

    def stream(self) -> TokenStream:
        """Returns a fresh detokenizer."""

    def channels(self, prompt: Sequence[int]) -> ChannelParser | None:
        """Returns what tells thought and answer of the reply to a prompt apart; None where the model has no thoughts,
        or none that can be told by their tokens."""


class ReplyText:
    """Gives rounds their texts and watches for stop strings.

    `push` takes a round in and returns those that may be emitted. After it, `stopped` says whether a stop string ended
    the reply; then `tokens` is how many tokens of the reply remain, the one that completed the stop string being the
    last, and no text from the stop string on is emitted.

    continuation_ids: tokens of the reply that were emitted before and are not counted. Texts go on as if they had just
    been emitted, and a stop string may begin in them; one inside them has stopped the reply already.

    parser: tells thought and answer apart. What marks them has no text, and stop strings end the answer alone.
    """

    def __init__(
        self,
        stream: TokenStream,
        stops: Sequence[str],
        continuation_ids: Sequence[int] = (),
        parser: ChannelParser | None = None,
    ) -> None:
        self._stream = stream
        self._parser = parser
        self._stops = [s for s in stops if s]
        self._held: deque[Round] = deque()
        self._text = ""  # that may end the reply: of the held rounds, end to end, and before it
        for token in continuation_ids:
            self._read(token)
        self.tokens = 0
        self.stopped = any(s in self._text for s in self._stops)
        self._before = unsure = self._unsure()  # how much of `_text` was emitted, and may yet begin a stop string
        self._text = self._text[len(self._text) - unsure :]

    def push(self, round_: Round) -> list[Round]:
        """Takes a round in; returns the rounds that may be emitted now, with their texts."""
        texts: list[str] = []
        channels: list[Channel] = []
        for token in round_.tokens:
            text, channel = self._read(token)
            texts.append(text)
            channels.append(channel)
            self.tokens += 1
            if any(s in self._text for s in self._stops):
                self.stopped = True
                break
        known = tuple(channels) if self._parser is not None else ()
        self._held.append(replace(round_.cut(len(texts)), texts=tuple(texts), channels=known))
        return self._cut() if self.stopped else self._release()

    def finish(self) -> tuple[list[Round], str]:
        """Ends the reply; returns the rounds and the text that were held back. The rest of a character that a thought
        ends within is dropped: it belongs to no token, so nothing would tell it from the answer."""
        rest = list(self._held)
        self._held.clear()
        in_thought = self._parser is not None and self._parser.channel != "answer"
        return rest, "" if self.stopped or in_thought else self._stream.finish()

    def _read(self, token: int) -> tuple[str, Channel]:
        """Returns the text that a token completed, and what it belongs to."""
        channel = self._parser.push(token) if self._parser is not None else "answer"
        text = "" if channel == "markup" else self._stream.push(token)
        self._text += text if channel == "answer" else _NO_TEXT * len(text)
        return text, channel

    def _release(self) -> list[Round]:
        """Returns the rounds that end before any text that may still become a stop string."""
        unsure = self._unsure()
        ready: list[Round] = []
        while self._held and len(self._text) - self._before - _size(self._held[0]) >= unsure:
            self._text = self._text[self._before + _size(self._held[0]) :]
            self._before = 0
            ready.append(self._held.popleft())
        return ready

    def _unsure(self) -> int:
        """Returns the length of the longest suffix of the text that a stop string may begin with."""
        longest = max((len(s) - 1 for s in self._stops), default=0)
        for size in range(min(longest, len(self._text)), 0, -1):
            if any(s.startswith(self._text[-size:]) for s in self._stops):
                return size
        return 0

    def _cut(self) -> list[Round]:
        """Returns all held rounds, without the text from the stop string on."""
        room = min(self._text.index(s) for s in self._stops if s in self._text) - self._before
        room = max(room, 0)
        ready: list[Round] = []
        for round_ in self._held:
            texts: list[str] = []
            for text in round_.texts:
                texts.append(text[:room])
                room -= len(texts[-1])
            ready.append(replace(round_, texts=tuple(texts)))
        self._held.clear()
        return ready


def _size(round_: Round) -> int:
    return sum(len(t) for t in round_.texts)
