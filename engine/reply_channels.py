"""What of a reply is thought, what is answer, and what only marks the two: a fold over token ids.

Models tell thought and answer apart in two ways. Some put the thought between two tags (<think> and </think> of Qwen
and DeepSeek, [THINK] of Mistral, <|channel> and <channel|> of Gemma 4, which names the channel after the opening tag).
Others write messages with headers (harmony, of gpt-oss), in which a channel's name stands between two special tokens:

    <|channel|>analysis<|message|> ... <|end|><|start|>assistant<|channel|>final<|message|> ...

Text is not searched: a model that writes *about* a tag writes other tokens than the tag itself. For models that have
no such tokens, `engine.reply_tags` finds tags in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal, Protocol

Channel = Literal["answer", "thought", "markup", "call"]  # call: of a tool (`app.inference.tool_call_reader`)

LONGEST_HEADER = (
    64  # tokens, the name of a tool among them; a header that goes on is no header, and must not hide the reply
)


@dataclass(frozen=True)
class ReplyFormat:
    """The ids that mark the thoughts of a family of models.

    opens, closes: tags around a thought. labels: ids that may follow an opening tag and name the channel.
    headers: ids that begin a header. named: those of them that a channel's name follows. contents: ids that end a
    header. thoughts: the names of channels that are thought, anywhere in a header. turns: ids that end the turn of
    somebody else, after which nothing that was said before counts.
    """

    opens: frozenset[int] = frozenset()
    closes: frozenset[int] = frozenset()
    labels: tuple[tuple[int, ...], ...] = ()
    headers: frozenset[int] = frozenset()
    named: frozenset[int] = frozenset()
    contents: frozenset[int] = frozenset()
    thoughts: tuple[tuple[int, ...], ...] = ()
    turns: frozenset[int] = frozenset()

    def after(self, prompt: Sequence[int]) -> ChannelParser:
        """Returns the parser of the reply to a prompt, in whose end the template may have opened or closed a thought.
        What the user wrote does not count: it stands before a token that ends a turn or begins a message."""
        start = next((i for i in range(len(prompt) - 1, -1, -1) if prompt[i] in self.turns), 0)
        parser = ChannelParser(self)
        for token in prompt[start:]:
            parser.push(token)
        return parser


class Parser(Protocol):
    """Tells thought and answer of a reply apart, token by token."""

    @property
    def channel(self) -> Channel:
        """Of what comes next, as far as is known."""

    @property
    def openers(self) -> frozenset[int]:
        """Ids that may begin a thought where an answer could begin."""

    def fork(self) -> Parser:
        """Returns a parser in the same state that goes on by itself."""

    def push(self, token: int) -> Channel:
        """Takes the next token, and returns what it belongs to."""


class ChannelParser:
    """The state between two tokens of a reply. channel: of what comes next, as far as is known."""

    def __init__(self, format_: ReplyFormat) -> None:
        self._format = format_
        self._content: Channel = "answer"
        self._header: list[int] | None = None  # ids of the header that is being written
        self._names_channel = False  # whether what stands in it is the channel's name
        self._label: list[int] | None = None  # ids after an opening tag, while they may be a label

    @property
    def channel(self) -> Channel:
        return "markup" if self._header is not None else self._content

    @property
    def openers(self) -> frozenset[int]:
        """Ids that may begin a thought, or a message of harmony, where an answer could begin."""
        return self._format.opens | self._format.headers

    def fork(self) -> ChannelParser:
        """Returns a parser in the same state that goes on by itself."""
        other = copy(self)
        other._header = None if self._header is None else list(self._header)
        other._label = None if self._label is None else list(self._label)
        return other

    def push(self, token: int) -> Channel:
        """Takes the next token, and returns what it belongs to."""
        format_ = self._format
        if token in format_.headers:
            self._header, self._names_channel = [], token in format_.named
            return "markup"
        if token in format_.opens or token in format_.closes:
            self._content = "thought" if token in format_.opens else "answer"
            self._header, self._label = None, [] if token in format_.opens else None
            return "markup"
        if self._header is not None:
            return self._push_header(self._header, token)
        return "markup" if self._is_label(token) else self._content

    def _push_header(self, header: list[int], token: int) -> Channel:
        if token in self._format.contents:
            is_thought = self._names_channel and any(_contains(header, name) for name in self._format.thoughts)
            self._content, self._header = "thought" if is_thought else "answer", None
            return "markup"
        header.append(token)
        if len(header) > LONGEST_HEADER:
            self._content, self._header = "answer", None
            return "answer"
        return "markup"

    def _is_label(self, token: int) -> bool:
        """Returns whether the token continues a label after an opening tag."""
        if self._label is None:
            return False
        label = (*self._label, token)
        if any(whole[: len(label)] == label for whole in self._format.labels):
            self._label.append(token)
            return True
        self._label = None
        return False


def _contains(header: Sequence[int], name: tuple[int, ...]) -> bool:
    return any(tuple(header[at : at + len(name)]) == name for at in range(len(header)))


class ReplyBudget:
    """Counts the tokens of a reply, thought and answer apart, and says when one of them reaches its limit.

    max_tokens: of the answer; of the whole reply where the thought has no limit of its own. max_thought_tokens: of the
    thought and all that marks it, None for no limit of its own. reached: whether a limit was ever reached.
    """

    def __init__(self, max_tokens: int, max_thought_tokens: int | None, parser: Parser | None) -> None:
        self._left = max_tokens
        self._apart = parser is not None and max_thought_tokens is not None
        self._thought_left = max_thought_tokens if self._apart and max_thought_tokens is not None else 0
        self._parser = parser if self._apart else None
        self._thinks = self._parser is not None and self._parser.channel != "answer"

    def push(self, token: int) -> None:
        """Counts a token."""
        self._thinks = self._parser is not None and self._parser.push(token) != "answer"
        if self._thinks:
            self._thought_left -= 1
        else:
            self._left -= 1

    @property
    def left(self) -> int:
        """How many tokens the reply may still have: of thought and answer while it thinks, of the answer afterwards,
        though an answer may turn out to hold another thought."""
        return max(self._left, 0) + (max(self._thought_left, 0) if self._thinks else 0)

    @property
    def end(self) -> Literal["length", "thought"] | None:
        """Why the reply ends here, None where it may go on."""
        if self._left <= 0:
            return "length"
        return "thought" if self._thinks and self._thought_left <= 0 else None

    @property
    def reached(self) -> bool:
        return self._left <= 0 or (self._apart and self._thought_left <= 0)
