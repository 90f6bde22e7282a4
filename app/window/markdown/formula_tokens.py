"""The tokens of a LaTeX formula, each with its place, and the expansion of macros."""

from __future__ import annotations

import re
from typing import NamedTuple

from app.window.markdown.formula_commands import MACROS

MOST_TOKENS = 8000  # that a formula may be expanded to
_TOKEN = re.compile(r"\\[A-Za-z@]+|\\[^A-Za-z]|%[^\n]*\n?\s*|\s+|.[\u0300-\u036f]*", re.DOTALL)


class FormulaError(ValueError):
    """What LaTeX would refuse, or is too large."""


class Token(NamedTuple):
    """A command with its backslash, a character, or " " for blanks; "" at the end. at: its place in the formula."""

    text: str
    at: int


class Macro(NamedTuple):
    """What a command is short for: its arguments, of which it takes so many, stand in for #1 to #9. default: the first
    one, where it is not given in brackets; None if it has to be given in braces."""

    arguments: int
    body: list[Token]
    default: list[Token] | None = None


def tokenize(source: str, at: int | None = None) -> list[Token]:
    """Returns the tokens of a source. at: the place of them all; None for each its own."""
    found: list[Token] = []
    for match in _TOKEN.finditer(source):
        text, place = match[0], match.start() if at is None else at
        if text[0] == "%" or (text.isspace() and found and _is_word(found[-1].text)):
            continue
        shown = "\\ " if text[0] == "\\" and text[1:].isspace() else text
        found.append(Token(" " if text.isspace() else shown, place))
    return found


def _is_word(text: str) -> bool:
    return text[0] == "\\" and text[1].isalpha()


class TokenStream:
    """Hands out tokens, with macros expanded. Those of an argument keep their places; the rest of a macro has the place
    of its command."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._stack = tokenize(source)[::-1]
        self._end = max(0, len(source) - 1)
        self._macros: dict[str, Macro] = {}
        self._left = MOST_TOKENS
        self.last = Token("", 0)

    def peek(self) -> Token:
        """Returns the next token without taking it. Raises FormulaError."""
        while self._stack and self._expand(self._stack[-1]):
            pass
        return self._stack[-1] if self._stack else Token("", self._end)

    def pop(self) -> Token:
        """Takes the next token."""
        self.last = self.peek()
        return self._take() if self._stack else self.last

    def push(self, token: Token) -> None:
        self._stack.append(token)

    def push_all(self, tokens: list[Token]) -> None:
        self._left -= len(tokens)
        if self._left < 0:
            raise FormulaError("too large")
        self._stack += tokens[::-1]

    def peek_after_blanks(self) -> Token:
        while (token := self.peek()).text == " ":
            self._stack.pop()
        return token

    def expect(self, text: str) -> None:
        if self.peek_after_blanks().text != text:
            raise FormulaError(f"{text} is missing")
        self.pop()

    def star(self) -> bool:
        """Takes a star, if it is next."""
        if self.peek().text != "*":
            return False
        self.pop()
        return True

    def has(self, text: str) -> bool:
        """Whether such a token is still to come."""
        return any(token.text == text for token in self._stack)

    def closes_soon(self) -> bool:
        """Whether the bracket that is next has one letter or two in it."""
        return any(token.text == "]" for token in self._stack[-4:-1])

    def raw_argument(self) -> str:
        """Takes an argument as it is written."""
        return "".join(token.text for token in self.raw_tokens())

    def verbatim(self, start: int) -> list[Token]:
        """Takes the text of \\verb: what stands between two equal characters. The first is at `start`, or after a star
        there."""
        start += self._source[start : start + 1] == "*"
        mark = self._source[start : start + 1]
        end = self._source.find(mark, start + 1) if mark else -1
        if end < 0:
            raise FormulaError("\\verb that does not end")
        while self._stack and self._stack[-1].at <= end:
            self._stack.pop()
        return [Token(self._source[at], at) for at in range(start + 1, end)]

    def raw_tokens(self) -> list[Token]:
        """Takes the tokens of a group, without its braces, or one token; none of them is expanded."""
        self._skip_blanks()
        if not self._stack or self._stack[-1].text == "}":
            raise FormulaError("an argument is missing")
        first = self._take()
        if first.text != "{":
            return [first]
        found: list[Token] = []
        depth = 1
        while depth:
            if not self._stack:
                raise FormulaError("a group that does not end")
            token = self._take()
            depth += (token.text == "{") - (token.text == "}")
            found.append(token)
        self.last = found.pop()
        return found

    def define(self, kind: str) -> None:
        """Takes a definition: \\def\\name#1#2{body}, \\newcommand{\\name}[2]{body} or \\let\\name=token."""
        if kind.endswith("command"):
            name = self.raw_argument()
            number = "".join(token.text for token in self._brackets() or ())
            default = self._brackets()
            self._macros[name] = Macro(int(number) if number.isdecimal() else 0, self.raw_tokens(), default)
            return
        name, count = self._take_any().text, 0
        if kind == "let":
            token = self._take_any()
            while token.text in ("=", " "):
                token = self._take_any()
            self._macros[name] = self._macros.get(token.text, Macro(0, [token]))
            return
        while self._stack and self._stack[-1].text != "{":
            count += self._take().text == "#"
        body = self.raw_tokens()
        self._macros[name] = Macro(count, self._expanded(body) if kind in ("edef", "xdef") else body)

    def _expanded(self, tokens: list[Token]) -> list[Token]:
        """Returns tokens with their macros expanded now."""
        outer, self._stack = self._stack, []
        self.push_all(tokens)
        found: list[Token] = []
        while (token := self.pop()).text:
            found.append(token)
        self._stack = outer
        return found

    def _brackets(self) -> list[Token] | None:
        self._skip_blanks()
        if not self._stack or self._stack[-1].text != "[":
            return None
        self._stack.pop()
        found: list[Token] = []
        while (token := self._take_any()).text != "]":
            found.append(token)
        return found

    def _skip_blanks(self) -> None:
        """Takes blanks; nothing is expanded."""
        while self._stack and self._stack[-1].text == " ":
            self._stack.pop()

    def _take_any(self) -> Token:
        if not self._stack:
            raise FormulaError("a definition that does not end")
        return self._take()

    def _take(self) -> Token:
        self._left -= 1
        if self._left < 0:
            raise FormulaError("too large")
        return self._stack.pop()

    def _expand(self, token: Token) -> bool:
        """Puts what a macro stands for in its place. Returns whether the token was one."""
        macro = self._macros.get(token.text) or (_builtin(token) if token.text[0] == "\\" else None)
        if macro is None:
            return False
        self._take()
        arguments: list[list[Token]] = []
        for index in range(macro.arguments):
            given = self._brackets() if index == 0 and macro.default is not None else None
            missing = index == 0 and macro.default is not None and given is None
            arguments.append(list(macro.default or ()) if missing else self.raw_tokens() if given is None else given)
        made: list[Token] = []
        body = iter(macro.body)
        for part in body:
            if part.text != "#":
                made.append(part._replace(at=token.at))
                continue
            number = next(body, Token("", 0)).text
            if not number.isdecimal() or not 0 < int(number) <= len(arguments):
                raise FormulaError("a macro without such an argument")
            made += arguments[int(number) - 1]
        self.push_all(made)
        return True


def _builtin(token: Token) -> Macro | None:
    text = MACROS.get(token.text[1:])
    return None if text is None else Macro(1 if "#1" in text else 0, tokenize(text, token.at))
