"""Hostile replies of any length, random and crafted, by class: what takes a window long to divide, parse or lay out."""

import random
from collections.abc import Callable

from tests.app.window.markdown.stressors import STRESSORS
from tests.app.window.transcript.samples import REPLY, THOUGHT

Maker = Callable[[random.Random, int], str]  # the length is about that


def _repeated(unit: str, length: int, before: str = "") -> str:
    return before + unit * max(1, (length - len(before)) // max(1, len(unit)))


def _ticks(dice: random.Random, length: int) -> str:
    """A first line that looks like the opening of a fence but is none."""
    ticks = "`" * dice.randint(3, 9)
    filler = dice.choice(("a", "x ", "word ", "ab`", "``c "))
    return f"{ticks}{_repeated(filler, max(2000, length // 2))}`\n" + _repeated("and on\n", length // 2)


def _table(dice: random.Random, length: int) -> str:
    columns = dice.choice((1, 2, 3, 8, 40, 64))
    cell = dice.choice(("a", "**b**", "`c`", "$x^2$", "[d](http://example.com)", "word " * 30, ""))
    head = "|" + "h|" * columns + "\n|" + "-|" * columns + "\n"
    return _repeated("|" + f"{cell}|" * columns + "\n", length, head)


def _nested_list(dice: random.Random, length: int) -> str:
    markers, depth = dice.choice((("-",), ("1.",), ("-", "*", "1."), (">", "-"))), dice.randint(2, 40)
    lines = [f"{'  ' * level}{markers[level % len(markers)]} item" for level in range(depth)]
    body = "\n".join([*lines, *reversed(lines)]) + dice.choice(("\n", "\n\n"))
    return _repeated(body, length, "- first\n  ")


def _one_line(dice: random.Random, length: int) -> str:
    return _repeated(
        dice.choice(("a", "word ", "\u4e2d", "\U0001f600", "a. B ", "*a ", "$x$ ", "a\u0301", "&amp;")), length
    )


def _lines(dice: random.Random, length: int) -> str:
    return _repeated(
        dice.choice(("\n", "a\n", "a\n\n", "# h\n", "---\n\n", "> q\n", "a  \n", " \n", "\r\n", "=\n")), length
    )


def _inline(dice: random.Random, length: int) -> str:
    units = (
        "*a **b ", "[", "![", "[a](", "<a:", "`a``b```c", "$", "\\(", "~~a ", "_x_", "\\*", "[a](b 'c", "$a ", "<!--",
    )  # fmt: skip
    return _repeated(dice.choice(units) + dice.choice(("", " ", "\n")), length)


def _code(dice: random.Random, length: int) -> str:
    language = dice.choice(("python", "html", "json", "perl", "", "x" * 50))
    return _repeated(
        dice.choice(("x = 1\n", "(" * 80 + "\n", "y", "<a b='", '"', "\n", "```` `\n")), length, f"```{language}\n"
    )


def _thought(dice: random.Random, length: int) -> str:
    unit = dice.choice(("<think>\n", "<think>\na\n</think>\n", "word ", "- a\n", "</think>\n"))
    return _repeated(unit, length, "<think>\n")


def _signs(dice: random.Random, length: int) -> str:
    signs = "\u202e\u200b\u0301\u05d0\u0915\u094d\U0001f1e9\U0001f468\u200d\ufdfd\x00\x1b\ufffc\u3164\u2028"
    return _repeated("".join(dice.choices(signs + "ab \n", k=200)), length)


def _stressed(dice: random.Random, length: int) -> str:
    """One of the stressors, again and again, behind one line end, two or none."""
    return _repeated(dice.choice(list(STRESSORS.values()))[:length] + dice.choice(("", "\n", "\n\n")), length)


def _mixed(dice: random.Random, length: int) -> str:
    """Parts of everything."""
    made: list[str] = []
    left, tagged = length, f"<think>{THOUGHT}</think>\n\n"
    while left > 0:
        part = dice.choice((*STRESSORS.values(), REPLY, tagged))[: dice.choice((80, 400, 5000))][:left]
        made.append(part + dice.choice(("", "\n", "\n\n")))
        left -= len(made[-1]) or 1
    return "".join(made)


def _random(dice: random.Random, length: int) -> str:
    """Marks and letters as they fall."""
    marks = (
        "`", "```", "*", "_", "|", "-", "#", ">", "[", "](", ")", "<", "$", "\\", "~~", "\n", "\n\n", "  ", "    ",
        "1. ",
    )  # fmt: skip
    pool = "".join(
        dice.choice(marks) if dice.random() < 0.5 else dice.choice(("a", "word ", "\u00e9 ")) for _ in range(5000)
    )
    return _repeated(pool, length)[:length]


CLASSES: dict[str, Maker] = {
    "backticks": _ticks,
    "tables": _table,
    "nested lists": _nested_list,
    "one line": _one_line,
    "lines": _lines,
    "inline marks": _inline,
    "code": _code,
    "thought": _thought,
    "signs": _signs,
    "stressors": _stressed,
    "mixed": _mixed,
    "random": _random,
}

# Those that once froze the window, for seconds each.
NAMED: dict[str, str] = {
    "backticks, 14.7 kB": "```" + "ab`" * 4_900,
    "backticks, 50 kB": "```" + "ab`" * 16_600,
    "table, 48 kB": "|a|b|c|\n|-|-|-|\n" + "| cell | **cell** | `cell` |\n" * 1_700,
    "table, 500 kB": "|a|b|c|\n|-|-|-|\n" + "| cell | **cell** | `cell` |\n" * 17_800,
    "table, 3.6 MB": "|a|b|c|\n|-|-|-|\n" + "| cell | **cell** | `cell` |\n" * 128_000,
    "nested list, 2.2 MB": ("- a\n  - b\n    - c\n      - d\n") * 71_000,
    "one line, 10 MB": "all work and no play " * 476_000,
}
