"""From rounds of token ids to rounds of text, and the stop strings that end a reply.

Detokenizers hold text back while a character is unfinished, and a stop string may begin in one
token and end in another, even in another round. Attribution stays exact: each token has the text
it completed, and a round is released once none of its text can turn out to belong to a stop string.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from engine.events import Round
from engine.reply_channels import Parser
from engine.reply_tags import TagCutter, TagParser, TokenText

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

    def channels(self, prompt: Sequence[int]) -> Parser | None:
        """Returns what tells thought and answer of the reply to a prompt apart; None where the model has no thoughts,
        or none that can be told by their tokens."""


class ReplyText:
    """Gives rounds their texts and watches for stop strings.

    `push` takes a round in and returns those that may be emitted. After it, `stopped` says whether a stop string ended
    the reply; then `tokens` is how many tokens of the reply remain, the one that completed the stop string being the
    last, and no text from the stop string on is emitted.

    continuation_ids: tokens of the reply that were emitted before and are not counted. Texts go on as if they had just
    been emitted, and a stop string may begin in them; one inside them has stopped the reply already.

    parser: tells thought and answer apart. What marks them has no text, and stop strings end the answer alone. A round
    with text that may begin a tag is held back as well.
    """

    def __init__(
        self,
        stream: TokenStream,
        stops: Sequence[str],
        continuation_ids: Sequence[int] = (),
        parser: Parser | None = None,
    ) -> None:
        self._stream = stream
        self._parser = parser
        self._stops = [s for s in stops if s]
        self._cutter = TagCutter(parser.reader) if isinstance(parser, TagParser) else None
        self._held: deque[tuple[Round, list[TokenText]]] = deque()
        self._unread: deque[TokenText] = deque()  # tokens whose texts are not in `_text` yet
        self._text = ""  # that may end the reply: of the held rounds, end to end, and before it
        for token in continuation_ids:
            self._read(token)
        self._unread.clear()
        self.tokens = 0
        self.stopped = any(s in self._text for s in self._stops)
        self._before = unsure = self._unsure()  # how much of `_text` was emitted, and may yet begin a stop string
        self._text = self._text[len(self._text) - unsure :]

    def push(self, round_: Round) -> list[Round]:
        """Takes a round in; returns the rounds that may be emitted now, with their texts."""
        texts: list[TokenText] = []
        for token in round_.tokens:
            texts.append(self._read(token))
            self.tokens += 1
            if any(s in self._text for s in self._stops):
                self.stopped = True
                break
        self._held.append((round_.cut(len(texts)), texts))
        return self._cut() if self.stopped else self._release()

    def finish(self) -> tuple[list[Round], str]:
        """Ends the reply; returns the rounds and the text that were held back. The rest of a character that a thought
        ends within is dropped: it belongs to no token, so nothing would tell it from the answer."""
        if self._cutter is not None:
            self._cutter.finish()
        rest = [self._with_texts(*held) for held in self._held]
        self._held.clear()
        in_thought = self._parser is not None and self._parser.channel != "answer"
        return rest, "" if self.stopped or in_thought else self._stream.finish()

    def _read(self, token: int) -> TokenText:
        """Reads a token, and adds to the text what is known now."""
        if self._cutter is not None and isinstance(self._parser, TagParser):
            tag = self._parser.tokens.get(token)
            self._unread.append(self._cutter.push(self._stream.push(token) if tag is None else tag))
        else:
            channel = self._parser.push(token) if self._parser is not None else "answer"
            self._unread.append(TokenText(0, "" if channel == "markup" else self._stream.push(token), channel))
        last = self._unread[-1]
        while self._unread and self._unread[0].left == 0:
            known = self._unread.popleft()
            self._text += known.text if known.channel == "answer" else _NO_TEXT * len(known.text)
        return last

    def _with_texts(self, round_: Round, texts: Sequence[TokenText]) -> Round:
        channels = tuple(one.channel or "answer" for one in texts) if self._parser is not None else ()
        return replace(round_, texts=tuple(one.text for one in texts), channels=channels)

    def _release(self) -> list[Round]:
        """Returns the rounds that end before any text that may still become a stop string or a tag."""
        unsure = self._unsure()
        ready: list[Round] = []
        while self._held and not any(one.left for one in self._held[0][1]):
            size = sum(len(one.text) for one in self._held[0][1])
            if len(self._text) - self._before - size < unsure:
                break
            self._text = self._text[self._before + size :]
            self._before = 0
            ready.append(self._with_texts(*self._held.popleft()))
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
        for round_, known in self._held:
            for one in known:
                one.text = one.text[:room]
                room -= len(one.text)
            ready.append(self._with_texts(round_, known))
        self._held.clear()
        return ready
