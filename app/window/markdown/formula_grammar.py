"""The grammar of LaTeX formulas: rows, scripts, groups, symbols and text. `formula_parser` knows the commands and their
arguments."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from app.window.markdown import formula_commands as commands
from app.window.markdown.formula_commands import Meaning, meanings
from app.window.markdown.formula_tokens import FormulaError, Token, TokenStream
from app.window.markdown.formula_tree import (
    PRIME,
    Accent,
    Classed,
    Delimited,
    Font,
    Fraction,
    Limits,
    Matrix,
    Node,
    Row,
    Scripts,
    Space,
    Styled,
    Symbol,
    is_prime,
)

DEEPEST = 40  # levels of parts within parts
_EM = {"em": 1.0, "ex": 0.43, "mu": 1 / 18, "pt": 0.1, "cm": 2.85, "mm": 0.285, "in": 7.2, "pc": 1.2, "px": 0.075}
LENGTH = re.compile(r"([-+]?\s*\d*\.?\d*)\s*([a-z]{2})")

Handler = Callable[["FormulaParser", Token], list[Node]]


class FormulaParser:
    """Parses one formula. handlers: what reads the arguments of each command, by its name."""

    def __init__(self, source: str, handlers: Mapping[str, Handler]) -> None:
        self.tokens = TokenStream(source)
        self._handlers = handlers
        self.font: Font | None = None  # None: letters are slanted, digits are not
        self.alphabet = ""  # of MATHEMATICAL letters in Unicode's names
        self._depth = 0
        self.tag: list[Node] = []

    def formula(self) -> Row:
        """Returns the tree. Raises FormulaError."""
        row = self.lines("")
        return Row((*row.items, Space(2.0), *self.tag)) if self.tag else row

    # --- rows ---------------------------------------------------------------------------------------

    def row(self, ends: frozenset[str]) -> Row:
        """Reads as far as one of the tokens that end it, which is left. A font that is switched on within ends with
        it."""
        font, alphabet = self.font, self.alphabet
        self.go_deeper()
        items: list[Node] = []
        while (token := self.tokens.peek_after_blanks()).text not in ends:
            if token.text in ("", "}", "&", "\\\\", "\\right", "\\end", "\\middle"):
                raise FormulaError(f"{token.text} where nothing ends")
            name = token.text[1:] if token.text[0] == "\\" else ""
            if name in commands.INFIX:
                items = [self._infix(items, ends)]
            elif name in commands.LEVELS:
                self.tokens.pop()
                items.append(Styled(self.row(ends), commands.LEVELS[name]))
            else:
                items += self._scripted()
        self.font, self.alphabet = font, alphabet
        self._depth -= 1
        return Row(tuple(items))

    def _infix(self, above: list[Node], ends: frozenset[str]) -> Node:
        token = self.tokens.pop()
        pair = commands.INFIX[token.text[1:]]
        bar = token.text == "\\over" or (token.text == "\\above" and self.length() > 0)
        made = Fraction(Row(tuple(above)), self.row(ends), bar, token.at)
        return between(pair, made, token.at) if pair else made

    def _scripted(self) -> list[Node]:
        """Reads one part and its scripts."""
        token = self.tokens.peek()
        items: list[Node] = [] if token.text in ("^", "_", "'") else self.part()
        base: Node = items[-1] if items else Row(())
        above: Row | None = None
        below: Row | None = None
        limits = _limits(base)
        while (token := self.tokens.peek_after_blanks()).text in ("^", "_", "'", "\\limits", "\\nolimits"):
            self.tokens.pop()
            if token.text == "'":
                above = Row((*(above.items if above else ()), Symbol(PRIME, token.at)))
            elif token.text == "^" and (above is None or is_prime(above)):
                above = Row((*(above.items if above else ()), *self.argument().items))
            elif token.text == "_" and below is None:
                below = self.argument()
            elif token.text in "^_":
                raise FormulaError("two scripts of one kind")
            else:
                limits = "always" if token.text == "\\limits" else "beside"
        if above is None and below is None:
            return items
        return [*items[:-1], Scripts(base, above, below, limits)]

    def argument(self) -> Row:
        """Reads a group in braces, or one part without them."""
        token = self.tokens.peek_after_blanks()
        if token.text in ("", "}", "^", "_", "&", "\\\\", "\\right", "\\end"):
            raise FormulaError("an argument is missing")
        self.go_deeper()
        row = self.group() if token.text == "{" else Row(tuple(self.part()))
        self._depth -= 1
        return row

    def go_deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise FormulaError("too deep")

    def group(self) -> Row:
        self.tokens.expect("{")
        row = self.lines("}")
        self.tokens.expect("}")
        return row

    def lines(self, end: str) -> Row:
        """Reads rows with line breaks between them, as far as `end`."""
        ends = frozenset((end, "\\\\"))
        rows = [self.row(ends)]
        while self.tokens.peek().text != end:
            self.tokens.pop()
            self.line_gap()
            rows.append(self.row(ends))
        if len(rows) > 1 and not rows[-1].items:
            rows.pop()
        whole = Matrix(tuple((row,) for row in rows), "c", 0, columns="lines", level="display")
        return rows[0] if len(rows) == 1 else Row((whole,))

    def optional(self) -> Row | None:
        """Reads an argument in brackets, if there is one."""
        if self.tokens.peek_after_blanks().text != "[":
            return None
        self.tokens.pop()
        row = self.row(frozenset("]"))
        self.tokens.expect("]")
        return row

    def length(self) -> float:
        """Reads a length, with or without braces, in em."""
        if self.tokens.peek_after_blanks().text == "{":
            text = self.tokens.raw_argument()
        else:
            text = ""
            while not LENGTH.fullmatch(text) and len(text) < 16 and self.tokens.peek().text:
                text += self.tokens.pop().text
        return em_of(text)

    def line_gap(self) -> None:
        """Reads the star and the length behind \\\\, if they are there; another bracket is part of the next row."""
        self.tokens.star()
        if self.tokens.peek_after_blanks().text != "[":
            return
        bracket = self.tokens.pop()
        taken = [bracket]
        while (token := self.tokens.peek()).text not in ("", "]", "&", "\\\\", "{", "}") and len(taken) < 12:
            taken.append(self.tokens.pop())
        text = "".join(token.text for token in taken[1:])
        if token.text == "]" and LENGTH.fullmatch(text.strip()):
            self.tokens.pop()
        else:
            self.tokens.push_all(taken)

    # --- parts --------------------------------------------------------------------------------------

    def part(self) -> list[Node]:
        """Reads a group, a character or a command with its arguments."""
        token = self.tokens.peek()
        if token.text == "{":
            return [self.group()]
        self.tokens.pop()
        if token.text[0] != "\\":
            return [self._character(token)]
        name = token.text[1:]
        if name in self._handlers:
            return self._handlers[name](self, token)
        if name in commands.TEXT_ACCENTS:
            return self._text_accent(commands.TEXT_ACCENTS[name], token.at)
        meaning = meanings("math").get(token.text) or meanings("text").get(token.text)
        if meaning is not None:
            return [self._symbol(meaning, token.at)] if meaning.text else []
        return self._unknown(token)

    def _unknown(self, token: Token) -> list[Node]:
        """Returns a command that is not known as it is written, with the braces and brackets behind it."""
        items: list[Node] = [Symbol(token.text, token.at, font="typewriter")]
        while (begin := self.tokens.peek()).text == "{" or (begin.text == "[" and self.tokens.has("]")):
            body = self.group() if begin.text == "{" else self.optional() or Row(())
            end = self.tokens.last
            items += [Symbol(begin.text, begin.at, font="typewriter"), *body.items]
            items.append(Symbol(end.text, end.at, font="typewriter"))
        return items

    def _character(self, token: Token) -> Node:
        text = token.text
        if text == "~":
            return Space(0.25)
        if text in "#$%":
            raise FormulaError(f"{text} within a formula")
        meaning = meanings("math").get(text)
        if meaning is not None:
            return self._symbol(meaning, token.at)
        shifted = unicodedata.decomposition(text[0]) if len(text) == 1 else ""
        if shifted.startswith(("<super>", "<sub>")) and text not in "ªº":
            script = Row((self._character(token._replace(text=unicodedata.normalize("NFKC", text))),))
            up = shifted.startswith("<super>")
            return Scripts(Row(()), script if up else None, None if up else script, "beside")
        letter = text[0].isalpha() and text[0] < "\u2e80"
        return self._symbol(Meaning(text, "ordinary", letter and not "\u0391" <= text <= "\u03a9"), token.at)

    def _symbol(self, meaning: Meaning, at: int) -> Symbol:
        text, kind, letter = meaning
        if self.alphabet:
            return Symbol(_lettered(text, self.alphabet), at, kind)
        font: Font = "italic" if letter and text[0] < "\U0001d400" else "upright"
        if self.font is not None and (kind == "ordinary" or self.font == "bold italic"):
            font = self.font
            if font == "bold italic" and not letter:
                font = "bold"
            if font == "italic" and not text.isalpha():
                font = "upright"
        return Symbol(text, at, kind, font)

    # --- text ---------------------------------------------------------------------------------------

    def text(self, font: Font = "upright") -> Row:
        """Reads an argument that is text."""
        before, self.font = self.font, font
        self.go_deeper()
        self.tokens.peek_after_blanks()
        token = self.tokens.pop()
        items = [] if token.text == "{" else self._text_part(token)
        while token.text == "{" and (part := self.tokens.pop()).text != "}":
            items += self._text_part(part)
        self._depth -= 1
        self.font = before
        return Row(tuple(items))

    def _text_part(self, token: Token) -> list[Node]:
        text, font = token.text, self.font or "upright"
        name = text[1:] if text[:1] == "\\" else ""
        if text in ("", "&", "\\\\"):
            raise FormulaError("text that does not end")
        if text in (" ", "~", "\\ "):
            return [Space(0.25)]
        if text == "{":
            self.tokens.push(token)
            return [self.text(font)]
        if text in ("$", "\\("):
            return [self._mathematics("$" if text == "$" else "\\)")]
        if name in commands.TEXT_ACCENTS:
            return self._text_accent(commands.TEXT_ACCENTS[name], token.at)
        if name in commands.OLD_FONTS:
            self.font = commands.OLD_FONTS[name]
            return []
        if name in ("textcolor", "color"):
            self.tokens.raw_argument()
        if name in commands.LEVELS or name in commands.NOTHING or name in ("textcolor", "color"):
            return []
        while font != "typewriter" and text in ("-", "--", "`", "'") and self.tokens.peek().text == text[0]:
            text += self.tokens.pop().text
        meaning = meanings("text").get(text)
        if meaning is not None:
            return [Symbol(meaning.text, token.at, font=font)]
        if not name:
            return [Symbol(text, token.at, font=font)]
        self.tokens.push(token)
        return self.part()

    def _mathematics(self, end: str) -> Row:
        before, self.font = self.font, None
        row = self.row(frozenset((end,)))
        self.tokens.expect(end)
        self.font = before
        return row

    def _text_accent(self, mark: str, at: int) -> list[Node]:
        body = self.text(self.font or "upright").items
        if not body or not isinstance(body[0], Symbol):
            return [Symbol("\u25cc" + mark, at), *body]
        text = unicodedata.normalize("NFC", body[0].text.replace("\u0131", "i") + mark)
        return [replace(body[0], text=text), *body[1:]]


def _limits(base: Node) -> Limits:
    """Returns where the limits of a base stand, if no command says."""
    match base:
        case Symbol(text, _, "large"):
            return "beside" if text in commands.BESIDE else "display"
        case Symbol(text, _, "function"):
            return "display" if text in commands.LIMIT_FUNCTIONS else "beside"
        case Classed(_, _, limits):
            return limits
        case Accent(_, "brace" | "bracket"):
            return "always"
    return "beside"


@lru_cache(maxsize=512)
def _lettered(text: str, alphabet: str) -> str:
    """Returns the letter or digit of an alphabet, the same character if it has none."""
    if len(text) != 1 or not (text.isascii() and text.isalnum()):
        return text
    size = "DIGIT " if text.isdigit() else "CAPITAL " if text.isupper() else "SMALL "
    letter = unicodedata.name(text).rpartition(" ")[2]
    older = {"FRAKTUR": "BLACK-LETTER "}.get(alphabet, alphabet + " ")
    for name in (f"MATHEMATICAL {alphabet} {size}{letter}", f"{older}{size}{letter}"):
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return text


def between(pair: str, body: Node, at: int) -> Delimited:
    return Delimited(((pair[0], at), (pair[1], at)), (body,))


def em_of(text: str) -> float:
    """Returns a length in em."""
    found = LENGTH.match(text.strip())
    if found is None or found[2] not in _EM:
        raise FormulaError("no length")
    number = found[1].replace(" ", "")
    return max(-20.0, min(20.0, float(number if number.strip("+-.") else 0) * _EM[found[2]]))
