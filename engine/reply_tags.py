"""Thought and answer where ordinary text marks them: tags that are no tokens of their own.

Fine-tunes of models without such tokens write <think> and </think> as text, in tokens that end anywhere in it. An
opening tag counts only where the reply begins, and a closing one only in a thought, so that an answer may speak about
them. Text that may be the beginning of a tag is held back until that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field

from engine.reply_channels import Channel

TextOf = Callable[[int], str]


@dataclass(frozen=True)
class TextTags:
    """pairs: the texts that open and close a thought. wrappers: those that may stand around the answer after it."""

    pairs: tuple[tuple[str, str], ...]
    wrappers: tuple[tuple[str, str], ...] = ()

    @property
    def texts(self) -> frozenset[str]:
        return frozenset(tag for pair in (*self.pairs, *self.wrappers) for tag in pair)

    def after(self, prompt: str, text_of: TextOf, tokens: Mapping[int, str]) -> TagParser:
        """Returns the parser of the reply to a prompt, whose end may have opened the thought. text_of: the text of a
        token. tokens: the tags that are tokens after all."""
        end = prompt.rstrip()
        closing = next((close for start, close in self.pairs if end.endswith(start)), "")
        return TagParser(TagReader(self, closing), text_of, tokens)


@dataclass
class TagReader:
    """A fold over the text of a reply. closing: the text that ends the thought or the wrapper that is open, "" without
    one. channel: of the text that comes next. has_begun: whether anything but space was read of the answer."""

    tags: TextTags
    closing: str = ""
    channel: Channel = field(init=False)
    has_begun: bool = False
    _thought: bool = field(init=False, default=False)  # whether there was one
    _again: str = field(init=False, default="")  # what some models write though the prompt ends with it
    _held: str = ""

    def __post_init__(self) -> None:
        self.channel = "thought" if self.closing else "answer"
        self._again = next((start for start, end in self.tags.pairs if end == self.closing), "")

    def push(self, text: str) -> list[tuple[str, Channel]]:
        """Takes more text; returns the parts that are sure now. What marks a thought is a part of its own."""
        self._held += text
        parts: list[tuple[str, Channel]] = []
        while (found := self._tag()) is not None:
            at, tag, next_closing = found
            parts += [(self._held[:at], self.channel), (tag, "markup")]
            self._held = self._held[at + len(tag) :]
            self._enter(tag, next_closing)
        sure = len(self._held) - self._unsure()
        self._again = self._again if not self._held[:sure].strip() else ""
        parts.append((self._held[:sure], self.channel))
        self._held = self._held[sure:]
        self.has_begun = self.has_begun or (self.channel == "answer" and bool(parts[-1][0].strip()))
        return [part for part in parts if part[0]]

    def finish(self) -> list[tuple[str, Channel]]:
        """Returns the rest, which is no tag."""
        rest, self._held = self._held, ""
        return [(rest, self.channel)] if rest else []

    def _enter(self, tag: str, closing: str) -> None:
        self._thought, self._again = self._thought or self.channel == "thought", ""
        wrapper_end = dict(self.tags.wrappers).get(tag, "") if tag == self.closing else ""
        self.closing = closing or wrapper_end  # what ends one thing may begin the next
        self.channel = "thought" if any(tag == start for start, _ in self.tags.pairs) else "answer"

    def _openers(self) -> tuple[tuple[str, str], ...]:
        """Returns the tags that may open here, each with what closes it."""
        if self.closing or self.has_begun:
            return ()
        return (*self.tags.pairs, *(self.tags.wrappers if self._thought else ()))

    def _tag(self) -> tuple[int, str, str] | None:
        """Returns where the next tag stands, itself, and what closes it; None without one."""
        if self.closing:
            if self._again and self._held.lstrip().startswith(self._again):  # the prompt has opened the thought already
                return self._held.index(self._again), self._again, self.closing
            at = self._held.find(self.closing)
            return None if at < 0 else (at, self.closing, "")
        text = self._held.lstrip()
        begins = (pair for pair in self._openers() if text.startswith(pair[0]))
        return next(((len(self._held) - len(text), start, end) for start, end in begins), None)

    def _unsure(self) -> int:
        """Returns how many of the last characters may be the beginning of a tag."""
        text = self._held.lstrip()
        if self._again and text and self._again.startswith(text):
            return len(text)
        if self.closing:
            sizes = range(min(len(self._held), len(self.closing) - 1), 0, -1)
            return next((size for size in sizes if self.closing.startswith(self._held[-size:])), 0)
        return len(text) if text and any(start.startswith(text) for start, _ in self._openers()) else 0


class TagParser:
    """Tells thought and answer of a reply apart by tags in its text. reader: of that text, for callers that read it
    themselves. tokens: the tags that are tokens, by number; a detokenizer may have no text for them."""

    openers: frozenset[int] = frozenset()  # with a grammar, a tag that is text is part of what the grammar decides

    def __init__(self, reader: TagReader, text_of: TextOf, tokens: Mapping[int, str]) -> None:
        self.reader, self._text_of, self.tokens = reader, text_of, tokens

    @property
    def channel(self) -> Channel:
        return self.reader.channel

    def fork(self) -> TagParser:
        return TagParser(copy(self.reader), self._text_of, self.tokens)

    def push(self, token: int) -> Channel:
        """Takes the next token, and returns what it belongs to as far as is known."""
        parts = self.reader.push(self._text_of(token))
        return parts[-1][1] if parts else self.channel


@dataclass
class TokenText:
    """What a token completed of the text, as far as is known. left: how many of its characters nobody knows yet."""

    left: int
    text: str = ""
    channel: Channel | None = None


class TagCutter:
    """Takes the tags out of the texts of tokens. A token that has text on both sides of a tag belongs to what follows
    it."""

    def __init__(self, reader: TagReader) -> None:
        self._reader = reader
        self._open: list[TokenText] = []  # tokens with text that is not known

    def push(self, text: str) -> TokenText:
        """Takes the text of a token; it is completed now or by later ones."""
        token = TokenText(len(text))
        self._open.append(token)
        self._share(self._reader.push(text))
        return token

    def finish(self) -> None:
        """Completes all tokens."""
        self._share(self._reader.finish())

    def _share(self, parts: list[tuple[str, Channel]]) -> None:
        for part, channel in parts:
            text = part
            while text:
                token = self._next()
                taken, text = text[: token.left], text[token.left :]
                token.left -= len(taken)
                if channel != "markup":
                    token.text += taken
                    token.channel = channel
                elif token.channel is None:
                    token.channel = "markup"
        self._next()

    def _next(self) -> TokenText:
        """Returns the first token with text that is not known; those before it are complete."""
        while self._open and self._open[0].left == 0:
            token = self._open.pop(0)
            token.channel = token.channel or self._reader.channel
        return self._open[0] if self._open else TokenText(0)
