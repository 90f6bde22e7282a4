"""Parses LaTeX formulas into trees (`formula_tree`). A command that is not known is shown as it was written; a formula
that LaTeX would refuse, such as one with an argument missing, has no tree."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from app.window.markdown import formula_commands as commands
from app.window.markdown.formula_chemistry import chemistry, unit
from app.window.markdown.formula_commands import Meaning, meanings
from app.window.markdown.formula_spans import LONGEST_FORMULA
from app.window.markdown.formula_tokens import FormulaError, Token, TokenStream
from app.window.markdown.formula_tree import (
    PRIME,
    Accent,
    Arrow,
    Classed,
    Delimited,
    Delimiter,
    Font,
    Fraction,
    Level,
    Limits,
    Matrix,
    Node,
    Phantom,
    Root,
    Row,
    Rule,
    Scripts,
    Space,
    Styled,
    Symbol,
)
from app.window.markdown.text_blocks import visible

_LINE_ENDS = frozenset(("", "\\\\"))
DEEPEST = 40  # levels of parts within parts
_EM = {"em": 1.0, "ex": 0.43, "mu": 1 / 18, "pt": 0.1, "cm": 2.85, "mm": 0.285, "in": 7.2, "pc": 1.2, "px": 0.075}
_LENGTH = re.compile(r"([-+]?\s*\d*\.?\d*)\s*([a-z]{2})")


@lru_cache(maxsize=1024)
def formula_tree(source: str) -> Row | None:
    """Returns the tree of a formula; None if it is too long, too deep, not LaTeX, or has characters that are not what
    they seem."""
    if len(source) > LONGEST_FORMULA or visible(source) != source:
        return None
    try:
        row = FormulaParser(source).formula()
    except FormulaError:
        return None
    return row if row.items else None


class FormulaParser:
    """Parses one formula."""

    def __init__(self, source: str) -> None:
        self._tokens = TokenStream(source)
        self._font: Font | None = None  # None: letters are slanted, digits are not
        self._alphabet = ""  # of MATHEMATICAL letters in Unicode's names
        self._depth = 0
        self._tag: list[Node] = []

    def formula(self) -> Row:
        """Returns the tree. Raises FormulaError."""
        lines = [self._row(_LINE_ENDS)]
        while self._tokens.pop().text:
            lines.append(self._row(_LINE_ENDS))
        if len(lines) > 1 and not lines[-1].items:
            lines.pop()
        whole = Matrix(tuple((line,) for line in lines), "c", 0, columns="lines", level="display")
        row = lines[0] if len(lines) == 1 else Row((whole,))
        return Row((*row.items, Space(2.0), *self._tag)) if self._tag else row

    # --- rows ---------------------------------------------------------------------------------------

    def _row(self, ends: frozenset[str]) -> Row:
        """Reads as far as one of the tokens that end it, which is left. A font that is switched on within ends with
        it."""
        font, alphabet = self._font, self._alphabet
        self._go_deeper()
        items: list[Node] = []
        while (token := self._tokens.peek_after_blanks()).text not in ends:
            if token.text in ("", "}", "&", "\\\\", "\\right", "\\end", "\\middle"):
                raise FormulaError(f"{token.text} where nothing ends")
            name = token.text[1:] if token.text[0] == "\\" else ""
            if name in commands.INFIX:
                items = [self._infix(items, ends)]
            elif name in commands.LEVELS:
                self._tokens.pop()
                items.append(Styled(self._row(ends), commands.LEVELS[name]))
            else:
                items += self._scripted()
        self._font, self._alphabet = font, alphabet
        self._depth -= 1
        return Row(tuple(items))

    def _infix(self, above: list[Node], ends: frozenset[str]) -> Node:
        token = self._tokens.pop()
        pair = commands.INFIX[token.text[1:]]
        bar = token.text == "\\over" or (token.text == "\\above" and self._length() > 0)
        made = Fraction(Row(tuple(above)), self._row(ends), bar, token.at)
        return _between(pair, made, token.at) if pair else made

    def _scripted(self) -> list[Node]:
        """Reads one part and its scripts."""
        token = self._tokens.peek()
        items: list[Node] = [] if token.text in ("^", "_", "'") else self._part()
        base: Node = items[-1] if items else Row(())
        above: Row | None = None
        below: Row | None = None
        limits = _limits(base)
        while (token := self._tokens.peek_after_blanks()).text in ("^", "_", "'", "\\limits", "\\nolimits"):
            self._tokens.pop()
            if token.text == "'":
                above = Row((*(above.items if above else ()), Symbol(PRIME, token.at)))
            elif token.text == "^" and (above is None or _is_prime(above)):
                above = Row((*(above.items if above else ()), *self._argument().items))
            elif token.text == "_" and below is None:
                below = self._argument()
            elif token.text in "^_":
                raise FormulaError("two scripts of one kind")
            else:
                limits = "always" if token.text == "\\limits" else "beside"
        if above is None and below is None:
            return items
        return [*items[:-1], Scripts(base, above, below, limits)]

    def _argument(self) -> Row:
        """Reads a group in braces, or one part without them."""
        token = self._tokens.peek_after_blanks()
        if token.text in ("", "}", "^", "_", "&", "\\\\", "\\right", "\\end"):
            raise FormulaError("an argument is missing")
        self._go_deeper()
        row = self._group() if token.text == "{" else Row(tuple(self._part()))
        self._depth -= 1
        return row

    def _go_deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise FormulaError("too deep")

    def _group(self) -> Row:
        self._tokens.expect("{")
        row = self._row(frozenset("}"))
        self._tokens.expect("}")
        return row

    def _optional(self) -> Row | None:
        """Reads an argument in brackets, if there is one."""
        if self._tokens.peek_after_blanks().text != "[":
            return None
        self._tokens.pop()
        row = self._row(frozenset("]"))
        self._tokens.expect("]")
        return row

    # --- parts --------------------------------------------------------------------------------------

    def _part(self) -> list[Node]:
        """Reads a group, a character or a command with its arguments."""
        token = self._tokens.peek()
        if token.text == "{":
            return [self._group()]
        self._tokens.pop()
        if token.text[0] != "\\":
            return [self._character(token)]
        name = token.text[1:]
        if name in _HANDLERS:
            return _HANDLERS[name](self, token)
        meaning = meanings("math").get(token.text) or meanings("text").get(token.text)
        if meaning is not None:
            return [self._symbol(meaning, token.at)] if meaning.text else []
        return self._unknown(token)

    def _unknown(self, token: Token) -> list[Node]:
        """Returns a command that is not known as it is written, with the braces behind it."""
        items: list[Node] = [Symbol(token.text, token.at, font="typewriter")]
        while self._tokens.peek().text == "{":
            begin = self._tokens.peek()
            items += [Symbol("{", begin.at, font="typewriter"), *self._group().items]
            items.append(Symbol("}", self._tokens.last.at, font="typewriter"))
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
        if self._alphabet:
            return Symbol(_lettered(text, self._alphabet), at, kind)
        font: Font = "italic" if letter and text[0] < "\U0001d400" else "upright"
        if self._font is not None and (kind == "ordinary" or self._font == "bold italic"):
            font = self._font
            if font == "bold italic" and not letter:
                font = "bold"
            if font == "italic" and not text.isalpha():
                font = "upright"
        return Symbol(text, at, kind, font)

    # --- text ---------------------------------------------------------------------------------------

    def text(self, font: Font = "upright") -> Row:
        """Reads an argument that is text."""
        before, self._font = self._font, font
        self._go_deeper()
        self._tokens.peek_after_blanks()
        token = self._tokens.pop()
        items = [] if token.text == "{" else self._text_part(token)
        while token.text == "{" and (part := self._tokens.pop()).text != "}":
            items += self._text_part(part)
        self._depth -= 1
        self._font = before
        return Row(tuple(items))

    def _text_part(self, token: Token) -> list[Node]:
        text, font = token.text, self._font or "upright"
        name = text[1:] if text[:1] == "\\" else ""
        if text in ("", "&", "\\\\"):
            raise FormulaError("text that does not end")
        if text in (" ", "~", "\\ "):
            return [Space(0.25)]
        if text == "{":
            self._tokens.push(token)
            return [self.text(font)]
        if text in ("$", "\\("):
            return [self._mathematics("$" if text == "$" else "\\)")]
        if name in commands.TEXT_ACCENTS:
            return self._text_accent(commands.TEXT_ACCENTS[name], token.at)
        if name in commands.OLD_FONTS:
            self._font = commands.OLD_FONTS[name]
            return []
        if name in ("textcolor", "color"):
            self._tokens.raw_argument()
        if name in commands.LEVELS or name in commands.NOTHING or name in ("textcolor", "color"):
            return []
        while text in ("-", "--", "`", "'") and self._tokens.peek().text == text[0]:
            text += self._tokens.pop().text
        meaning = meanings("text").get(text)
        if meaning is not None:
            return [Symbol(meaning.text, token.at, font=font)]
        if not name:
            return [Symbol(text, token.at, font=font)]
        self._tokens.push(token)
        return self._part()

    def _mathematics(self, end: str) -> Row:
        before, self._font = self._font, None
        row = self._row(frozenset((end,)))
        self._tokens.expect(end)
        self._font = before
        return row

    def _text_accent(self, mark: str, at: int) -> list[Node]:
        body = self.text(self._font or "upright").items
        if not body or not isinstance(body[0], Symbol):
            return [Symbol("\u25cc" + mark, at), *body]
        text = unicodedata.normalize("NFC", body[0].text.replace("\u0131", "i") + mark)
        return [replace(body[0], text=text), *body[1:]]

    # --- commands with arguments --------------------------------------------------------------------

    def words(self, token: Token) -> list[Node]:
        name = token.text[1:]
        row = self.text(commands.TEXTS[name])
        return [Accent(row, "box", token.at)] if name == "fbox" else [row]

    def font(self, token: Token) -> list[Node]:
        before, alphabet = self._font, self._alphabet
        name = token.text[1:]
        self._font, self._alphabet = commands.FONTS.get(name), commands.ALPHABETS.get(name, "")
        row = self._argument()
        self._font, self._alphabet = before, alphabet
        return [row]

    def old_font(self, token: Token) -> list[Node]:
        script = token.text == "\\cal"
        self._font = None if script else commands.OLD_FONTS[token.text[1:]]
        self._alphabet = "SCRIPT" if script else ""
        return []

    def dots(self, token: Token) -> list[Node]:
        """Dots on the axis between operators and relations, on the baseline elsewhere."""
        follows = meanings("math").get(self._tokens.peek_after_blanks().text)
        centred = follows is not None and follows.kind in ("binary", "relation", "large")
        return [Symbol("⋯" if centred else "…", token.at, "inner")]

    def space(self, token: Token) -> list[Node]:
        return [Space(commands.SPACES[token.text[1:]])]

    def nothing(self, token: Token) -> list[Node]:
        return []

    def skip(self, token: Token) -> list[Node]:
        self._tokens.star()
        return [Space(self._length())]

    def _length(self) -> float:
        """Reads a length, with or without braces, in em."""
        if self._tokens.peek_after_blanks().text == "{":
            text = self._tokens.raw_argument()
        else:
            text = ""
            while not _LENGTH.fullmatch(text) and len(text) < 16 and self._tokens.peek().text:
                text += self._tokens.pop().text
        return _em(text)

    def fraction(self, token: Token) -> list[Node]:
        name = token.text[1:]
        made: Node = Fraction(self._argument(), self._argument(), name in commands.FRACTIONS, token.at)
        if name in commands.BINOMIALS:
            made = _between("()", made, token.at)
        level = commands.FRACTIONS.get(name) or commands.BINOMIALS.get(name)
        return [Styled(Row((made,)), level)] if level else [made]

    def general_fraction(self, token: Token) -> list[Node]:
        left, right = (self._tokens.raw_argument() for _ in range(2))
        bar, level = self._tokens.raw_argument(), self._tokens.raw_argument()
        made: Node = Fraction(self._argument(), self._argument(), not bar or _em(bar) > 0, token.at)
        ends = [text if len(text) == 1 else _delimiter_text(text) for text in (left or ".", right or ".")]
        if ends != [".", "."]:
            made = Delimited(((ends[0].strip("."), token.at), (ends[1].strip("."), token.at)), (made,))
        levels: dict[str, Level] = {"0": "display", "1": "text", "2": "script", "3": "scriptscript"}
        return [Styled(Row((made,)), levels[level])] if level in levels else [made]

    def root(self, token: Token) -> list[Node]:
        degree = self._optional()
        return [Root(degree, self._argument(), token.at)]

    def accent(self, token: Token) -> list[Node]:
        name = token.text[1:]
        under = name in commands.UNDER_ACCENTS
        mark = (commands.UNDER_ACCENTS if under else commands.ACCENTS)[name]
        return [Accent(self._argument(), mark, token.at, under)]

    def operator(self, token: Token) -> list[Node]:
        """\\operatorname, with a star if its limits stand above and below."""
        star = self._tokens.star()
        before, self._font = self._font, "upright"
        row = self._argument()
        self._font = before
        return [Classed(row, "function", "display" if star else "beside")]

    def function(self, token: Token) -> list[Node]:
        return [Symbol(token.text[1:], token.at, "function")]

    def set_class(self, token: Token) -> list[Node]:
        return [Classed(self._argument(), commands.CLASSES[token.text[1:]], _class_limits(token.text))]

    def stacked(self, token: Token) -> list[Node]:
        script, base = self._argument(), self._argument()
        under = token.text == "\\underset"
        stack = Scripts(base, None if under else script, script if under else None, "always")
        return [Classed(Row((stack,)), "relation") if token.text == "\\stackrel" else stack]

    def sided(self, token: Token) -> list[Node]:
        """\\sideset: the scripts at the left, those at the right, and an operator."""
        left, right = self._argument(), self._argument()
        return [*left.items, *self._part(), *right.items]

    def arrow(self, token: Token) -> list[Node]:
        below = self._optional()
        return [Arrow(commands.ARROWS[token.text[1:]], self._argument(), below, token.at)]

    def phantom(self, token: Token) -> list[Node]:
        ink, width, height, side = commands.PHANTOMS[token.text[1:]]
        if token.text == "\\smash":
            self._optional()
        return [Phantom(self._argument(), ink, width, height, side)]

    def rule(self, token: Token) -> list[Node]:
        raised = 0.0
        if self._tokens.peek_after_blanks().text == "[":
            self._tokens.pop()
            raised = self._length()
            self._tokens.expect("]")
        return [Rule(self._length(), self._length(), raised, token.at)]

    def drawing(self, token: Token) -> list[Node]:
        """A command of which only the last argument is shown: colours belong to tokens here."""
        for _ in range(commands.DRAWING[token.text[1:]]):
            self._tokens.raw_argument()
        if token.text in ("\\color", "\\label"):
            return []
        in_text = token.text in ("\\raisebox", "\\colorbox", "\\fcolorbox")
        row = self.text() if in_text else self._argument()
        return [Accent(row, "box", token.at)] if token.text == "\\fcolorbox" else [row]

    def not_(self, token: Token) -> list[Node]:
        """\\not strikes the next symbol through."""
        self._tokens.peek_after_blanks()
        row = self._argument()
        match row.items:
            case (Symbol(text, at, kind, font), *rest):
                struck = Symbol(unicodedata.normalize("NFC", text + "\u0338"), at, kind, font)
                return [struck, *rest]
        return [Accent(row, "cancel", token.at)]

    def tag(self, token: Token) -> list[Node]:
        star = self._tokens.star()
        text = self.text()
        around = [] if star else [Symbol("(", token.at), Symbol(")", token.at)]
        if self._tag:
            raise FormulaError("two tags")
        self._tag = [*around[:1], text, *around[1:]]
        return []

    def chemical(self, token: Token) -> list[Node]:
        argument = self._tokens.raw_tokens()
        self._tokens.push_all(chemistry(argument) if token.text == "\\ce" else unit(argument))
        return [self._group()]

    def define(self, token: Token) -> list[Node]:
        self._tokens.define(token.text[1:])
        return []

    def character_code(self, token: Token) -> list[Node]:
        text = ""
        mark = self._tokens.peek().text
        if mark == "`":
            self._tokens.pop()
            return [Symbol(self._tokens.pop().text.removeprefix("\\"), token.at)]
        base = {"'": 8, '"': 16}.get(mark, 10)
        if base != 10:
            self._tokens.pop()
        while (
            self._tokens.peek().text and self._tokens.peek().text in "0123456789abcdefABCDEF"[: 10 if base < 16 else 22]
        ):
            text += self._tokens.pop().text
        shown = visible(chr(min(int(text or "0", base), 0x10FFFF)))
        return [Symbol(shown, token.at)]

    def as_words(self, token: Token) -> list[Node]:
        """An address, or words that are shown letter by letter."""
        return [Row(tuple(Symbol(t.text, t.at, font="typewriter") for t in self._tokens.raw_tokens()))]

    def verbatim(self, token: Token) -> list[Node]:
        end = self._tokens.pop().text
        items: list[Node] = []
        while (found := self._tokens.pop()).text != end:
            if not found.text:
                raise FormulaError("\\verb that does not end")
            items.append(Symbol(found.text, found.at, font="typewriter"))
        return items

    def first_choice(self, token: Token) -> list[Node]:
        """\\mathchoice: what stands in a display."""
        rows = [self._argument() for _ in range(4)]
        return [rows[0]]

    # --- delimiters ---------------------------------------------------------------------------------

    def sized(self, token: Token) -> list[Node]:
        name = token.text[1:]
        side = name[-1] if name[-1] in "lrm" else ""
        text, at = self._delimiter()
        return [Delimiter(text, commands.SIZES[name.removesuffix(side)], commands.SIDES[side], at)] if text else []

    def delimited(self, token: Token) -> list[Node]:
        """\\left ... \\right, with any number of \\middle."""
        delimiters = [self._delimiter()]
        bodies: list[Node] = []
        while True:
            bodies.append(self._row(frozenset(("\\right", "\\middle"))))
            last = self._tokens.pop().text == "\\right"
            delimiters.append(self._delimiter())
            if last:
                return [Delimited(tuple(delimiters), tuple(bodies))]

    def _delimiter(self) -> tuple[str, int]:
        """Reads a delimiter; "" for a period."""
        self._tokens.peek_after_blanks()
        token = self._tokens.pop()
        if token.text == "{":
            token = self._tokens.pop()
            self._tokens.expect("}")
        text = _delimiter_text(token.text)
        return ("" if text == "." else text), token.at

    # --- environments -------------------------------------------------------------------------------

    def environment(self, token: Token) -> list[Node]:
        written = self._tokens.raw_argument()
        name = written.removesuffix("*")
        if name not in commands.ENVIRONMENTS:
            raise FormulaError(f"an unknown environment {name}")
        alignment, vertical = self._column_places(name)
        before, self._font = self._font, None
        rows, horizontal = self._rows()
        self._font = before
        if self._tokens.raw_argument() != written:
            raise FormulaError("an environment that does not end")
        matrix = Matrix(rows, alignment or "c", token.at, vertical=vertical, horizontal=horizontal)
        return [_environment(name, token.at, matrix, self._tokens.last.at)]

    def _column_places(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Reads the arguments of an environment: its columns and the lines between them."""
        if name in ("array", "darray", "subarray"):
            return _columns(self._tokens.raw_argument())
        if name in ("alignat", "alignedat"):
            self._tokens.raw_argument()
        given = None
        if name in ("aligned", "gathered") or name in commands.MATRICES:
            first = self._tokens.peek_after_blanks()
            given = self._optional() if first.text == "[" and self._tokens.closes_soon() else None
        letters = [item.text for item in given.items if isinstance(item, Symbol)] if given else []
        return "".join(letter for letter in letters if letter in "lcr") or "c", ()

    def _rows(self) -> tuple[tuple[tuple[Row, ...], ...], tuple[int, ...]]:
        """Reads cells up to \\end, and the rows with a line before them."""
        ends = frozenset(("&", "\\\\", "\\end"))
        rows: list[tuple[Row, ...]] = []
        cells: list[Row] = []
        lines: list[int] = []
        outer, self._tag = self._tag, []
        while True:
            while not cells and self._tokens.peek_after_blanks().text in ("\\hline", "\\hdashline"):
                self._tokens.pop()
                lines.append(len(rows))
            cells.append(self._row(ends))
            end = self._tokens.pop().text
            if end == "&":
                continue
            if self._tag:
                cells[-1] = Row((*cells[-1].items, Space(2.0), *self._tag))
                self._tag = []
            if end == "\\\\" or any(cell.items for cell in cells):
                rows.append(tuple(cells))
            if end == "\\end":
                break
            cells = []
            self._tokens.star()
            if self._tokens.peek_after_blanks().text == "[":
                self._line_gap()
        self._tag = outer
        return tuple(rows), tuple(lines)

    def _line_gap(self) -> None:
        """Reads the length behind \\\\, if it is one; else the bracket is part of the next row."""
        bracket = self._tokens.pop()
        taken = [bracket]
        while (token := self._tokens.peek()).text not in ("", "]", "&", "\\\\", "{", "}") and len(taken) < 12:
            taken.append(self._tokens.pop())
        text = "".join(token.text for token in taken[1:])
        if token.text == "]" and _LENGTH.fullmatch(text.strip()):
            self._tokens.pop()
        else:
            self._tokens.push_all(taken)


def _em(text: str) -> float:
    """Returns a length in em."""
    found = _LENGTH.match(text.strip())
    if found is None or found[2] not in _EM:
        raise FormulaError("no length")
    number = found[1].replace(" ", "")
    return max(-20.0, min(20.0, float(number if number.strip("+-.") else 0) * _EM[found[2]]))


def _environment(name: str, at: int, matrix: Matrix, end: int) -> Node:
    """Returns the rows of an environment as it sets them."""
    if name in commands.ALIGNED:
        return replace(matrix, alignment="rl", columns="aligned", level="display")
    if name in commands.CENTRED:
        return replace(matrix, level="display")
    if name in commands.CASES:
        matrix = replace(matrix, alignment="l", level="display" if name[0] == "d" else "text")
        left, right = commands.CASES[name]
    else:
        small = name in ("smallmatrix", "subarray")
        matrix = replace(
            matrix,
            columns="tight" if small else "wide",
            level="script" if small else "display" if name == "darray" else "text",
        )
        left, right = commands.MATRICES[name] or ".."
    if left + right == "..":
        return matrix
    return Delimited(((left.strip("."), at), (right.strip("."), end)), (matrix,))


def _columns(text: str) -> tuple[str, tuple[int, ...]]:
    """Returns the alignment of an array's columns, and those with a line before them."""
    text = re.sub(r"[@!pmb*]\{[^}]*\}", "", text)
    letters = [letter for letter in text if letter in "lcr"]
    lines = [len([a for a in text[:i] if a in "lcr"]) for i, letter in enumerate(text) if letter in "|:"]
    return "".join(letters), tuple(dict.fromkeys(lines))


def _between(pair: str, body: Node, at: int) -> Delimited:
    return Delimited(((pair[0], at), (pair[1], at)), (body,))


def _delimiter_text(written: str) -> str:
    meaning = meanings("math").get(written)
    text = meaning.text if meaning else written
    text = {"<": "⟨", ">": "⟩", "\u2223": "|", "∥": "‖", "\u2216": "\\"}.get(text, text)
    if text not in commands.DELIMITERS:
        raise FormulaError("an unknown delimiter")
    return text


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


def _class_limits(name: str) -> Limits:
    return "display" if name == "\\mathop" else "beside"


def _is_prime(row: Row) -> bool:
    return all(isinstance(item, Symbol) and item.text == PRIME for item in row.items)


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


_Handler = Callable[[FormulaParser, Token], list[Node]]


def _handlers() -> dict[str, _Handler]:
    """Returns how each command is read."""
    made: dict[str, _Handler] = {}

    def add(names: Sequence[str] | frozenset[str] | dict[str, object], handler: _Handler) -> None:
        made.update(dict.fromkeys(names, handler))

    parser = FormulaParser
    add([*commands.TEXTS], parser.words)
    add([*commands.FONTS, *commands.ALPHABETS], parser.font)
    add([*commands.OLD_FONTS, "cal"], parser.old_font)
    add([*commands.SPACES], parser.space)
    add(commands.NOTHING, parser.nothing)
    add(["hspace", "kern", "mkern", "hskip", "mskip"], parser.skip)
    add([*commands.FRACTIONS, *commands.BINOMIALS], parser.fraction)
    add([*commands.ACCENTS, *commands.UNDER_ACCENTS], parser.accent)
    add(["operatorname", "operatornamewithlimits"], parser.operator)
    add(commands.FUNCTIONS | commands.LIMIT_FUNCTIONS, parser.function)
    add([*commands.CLASSES], parser.set_class)
    add(["overset", "underset", "stackrel"], parser.stacked)
    add([*commands.ARROWS], parser.arrow)
    add([*commands.PHANTOMS], parser.phantom)
    add([*commands.DRAWING], parser.drawing)
    add([size + side for size in commands.SIZES for side in commands.SIDES], parser.sized)
    add(commands.DEFINITIONS, parser.define)
    add(["ce", "pu"], parser.chemical)
    add(["url"], parser.as_words)
    single = {
        "sqrt": parser.root,
        "genfrac": parser.general_fraction,
        "left": parser.delimited,
        "verb": parser.verbatim,
    }
    single |= {"begin": parser.environment, "rule": parser.rule, "not": parser.not_, "tag": parser.tag, "dots": parser.dots}
    single |= {"char": parser.character_code, "mathchoice": parser.first_choice, "sideset": parser.sided}
    return made | single


_HANDLERS = _handlers()
