"""The calls of tools in a reply: a fold over its rounds that takes them out of its text.

A mark that is one token is known by its number, since a model that writes *about* it writes other tokens; a mark of
several tokens is found in the text. The text between the marks goes to the model's parser once it is whole. What is
not a call after all, and a call that the reply ends within, is given as text of the answer, so that nothing is lost.

    outside a call   `_body` is None       `_held` is the end of the text, where a mark of several tokens may begin
    within a call    `_body` is its text   `_held` is empty

Where a model may leave the first mark out, the text with which its calls begin (`ToolFormat.bare`) is a mark too, and
belongs to the call. So does a mark that begins with a brace, which begins a call only before any text of the answer.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from engine.events import Finished, Round
from engine.reply_channels import Channel
from models.tokenizer import FolderTokenizer
from models.tool_formats import HARMONY, RECIPIENT_MARK
from models.tool_parsers import ParsedCall

_USER = "all\n"
_RECIPIENT = re.compile(r"to=(?:functions\.)?([^\s<>]+)")


class ToolCallReader:
    """Reads one reply. tools: as OpenAI describes them. The tokenizer's model must take tools."""

    _begun: str | None = None  # what the prompt has written of a call

    def __init__(self, tokenizer: FolderTokenizer, tools: Sequence[dict[str, Any]]) -> None:
        assert tokenizer.tools is not None
        self._tokenizer, self._tools, self._format = tokenizer, tools, tokenizer.tools
        self._start = tokenizer.added.get(self._format.start)
        self._end = tokenizer.added.get(self._format.end)
        start = self._format.start
        # Whether the first mark is several tokens with special ones among them, whose names are not in the text.
        self._has_special = self._start is None and any(name in start for name in tokenizer.added if len(name) > 2)
        self._written = ""  # the end of what was written, names of special tokens included
        first = "" if self._start is not None or self._has_special else start
        self._marks = tuple(mark for mark in (first, self._format.bare) if mark)  # what is looked for in the text
        self._mark = ""  # with which the call began
        self._answers = False  # whether any text belonged to the answer
        self._stream = tokenizer.stream(special=True)
        self._held = ""  # text that a mark of several tokens may begin with
        self._body = self._begun  # what was written of a call
        self._calls: list[ParsedCall] = []
        self._names = {tool["function"]["name"] for tool in tools}

    def push(self, round_: Round) -> tuple[Round, list[ParsedCall]]:
        """Returns a round without the text of calls, and the calls that end in it."""
        before: list[Channel] = list(round_.channels) or ["answer"] * len(round_.tokens)
        parts = zip(round_.tokens, round_.texts, before, strict=True)
        read = [self._read(token, text, channel) for token, text, channel in parts]
        channels = tuple(channel for _, channel in read)
        known = channels if round_.channels or "call" in channels else ()
        return replace(round_, texts=tuple(text for text, _ in read), channels=known), self._taken()

    def finish(self, finished: Finished) -> tuple[Finished, list[ParsedCall]]:
        """Returns the end with the text that is no call, and the calls that the reply ended with."""
        if self._body is None:
            rest = self._held + finished.text
        else:
            self._body += self._stream.finish()
            whole = finished.reason == "eos" or not self._format.end
            rest = self._complete() if whole else self._unread()
        return replace(finished, text=rest), self._taken()

    def _taken(self) -> list[ParsedCall]:
        taken, self._calls = self._calls, []
        return taken

    def _read(self, token: int, text: str, channel: Channel) -> tuple[str, Channel]:
        """Returns what a token adds to the text, and what it belongs to."""
        if channel == "thought":
            return text, channel
        piece = "" if token in self._tokenizer.eos else self._stream.push(token)
        if self._body is None:
            if self._ends_special_mark(piece) or (channel == "markup" and token != self._start):
                return text, channel
            if token == self._start:
                told, self._held, self._body, self._mark = self._held, "", "", self._format.start
                return (told, "answer") if told else ("", "call")
            return self._outside(text) if self._marks else (text, channel)
        if token == self._end or (token == self._start and not self._format.end):
            rest = self._complete(self._format.end)
            self._body, self._mark = ("", self._format.start) if token == self._start else (None, "")
            return _labelled(rest)
        self._body += piece
        by_text = self._format.end and self._end is None
        return self._closed() if by_text and self._format.end in self._body else ("", "call")

    def _ends_special_mark(self, piece: str) -> bool:
        """Returns whether the first mark of a call ends here, where it has special tokens in it; begins the call."""
        if not self._has_special:
            return False
        before, mark, after = (self._written + piece).partition(self._format.start)
        self._written = "" if mark else before[-len(self._format.start) :]
        if mark:
            self._body, self._mark = after, mark
        return bool(mark)

    def _outside(self, text: str) -> tuple[str, Channel]:
        """Reads text in which a mark of several tokens may begin."""
        self._held += text
        places = [(place, mark) for mark in self._marks if (place := self._held.find(mark)) >= 0]
        place, mark = min(places, default=(-1, ""))
        if mark.startswith("{") and (self._answers or self._held[:place].strip()):
            place = -1
        if place < 0:
            unsure = max(_overlap(self._held, mark) for mark in self._marks)
            told, self._held = self._held[: len(self._held) - unsure], self._held[len(self._held) - unsure :]
            self._answers = self._answers or bool(told.strip())
            return told, "answer"
        before, after = self._held[:place], self._held[place + len(mark) :]
        self._held, self._body, self._mark = "", after, mark
        if mark == self._format.bare or mark.startswith("{"):
            self._body, self._mark = mark + after, ""
        whole = self._end is None and self._format.end and self._format.end in after
        return _labelled(before + self._closed()[0] if whole else before)

    def _closed(self) -> tuple[str, Channel]:
        """Ends a call whose mark stands in its text; what follows is read on."""
        assert self._body is not None
        self._body, _, after = self._body.partition(self._format.end)
        rest = self._complete(self._format.end)
        return _labelled(rest + (self._outside(after)[0] if self._marks else after))

    def _complete(self, mark: str = "") -> str:
        """Parses what was written of a call. Returns "", or the text of what is no call. mark: that stood at its
        end."""
        calls = self._tokenizer.calls(self._body or "", self._tools)
        self._calls += calls
        text = self._unread()
        return "" if calls else text + mark

    def _unread(self) -> str:
        """Returns what was written of a call, the mark before it included."""
        body, self._body = self._body or "", None
        mark, self._mark = self._mark, ""
        return mark + body


class HarmonyCallReader(ToolCallReader):
    """Reads a reply of gpt-oss: the header of a message names the tool, and its content is the arguments. The recipient
    may stand before or after the channel, with and without `functions.`."""

    _header: tuple[int, ...] = ()

    def _read(self, token: int, text: str, channel: Channel) -> tuple[str, Channel]:
        if channel == "markup" or token == self._end or token in self._tokenizer.eos:
            rest = "" if self._body is None else self._complete()
            self._header = (*self._header, token)
            return (rest, "answer") if rest else ("", "markup")
        if self._header:
            recipient = _RECIPIENT.search("".join(map(self._tokenizer.piece, self._header)))
            self._body = f"{recipient[1]}\n" if recipient is not None and recipient[1] in self._names else None
            self._header, self._stream = (), self._tokenizer.stream(special=True)
        if self._body is None:
            return text, channel
        self._body += self._stream.push(token)
        return "", "call"

    def _unread(self) -> str:
        body, self._body = self._body or "", None
        return body.partition("\n")[2]


class RecipientCallReader(ToolCallReader):
    """Reads a reply of Functionary 3.2: each part begins with a mark, a name and a line break, but for the first, whose
    mark ends the prompt. The name `all` stands for the user."""

    _begun = ""

    def _read(self, token: int, text: str, channel: Channel) -> tuple[str, Channel]:
        if self._body is None:
            return self._outside(text)
        self._body += text
        if self._body.startswith(_USER):
            answer, self._body = self._body.removeprefix(_USER), None
            return self._outside(answer)
        body, mark, after = self._body.partition(RECIPIENT_MARK)
        if not mark:
            return "", "call"
        self._body = body
        rest = self._complete()
        self._body = after
        return _labelled(rest)


def call_reader(tokenizer: FolderTokenizer, tools: Sequence[dict[str, Any]]) -> ToolCallReader:
    """Returns the reader for a model that takes tools."""
    assert tokenizer.tools is not None
    if tokenizer.tools.parser == HARMONY:
        return HarmonyCallReader(tokenizer, tools)
    if tokenizer.tools.start == RECIPIENT_MARK:
        return RecipientCallReader(tokenizer, tools)
    return ToolCallReader(tokenizer, tools)


def _labelled(text: str) -> tuple[str, Channel]:
    """Returns a text with what it belongs to: an empty one to a call."""
    return text, "answer" if text else "call"


def _overlap(text: str, mark: str) -> int:
    """Returns how many of the last characters of a text the mark may begin with."""
    return next((size for size in range(min(len(text), len(mark) - 1), 0, -1) if mark.startswith(text[-size:])), 0)
