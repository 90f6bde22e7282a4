"""The parts of a reply that the model thinks in: <think> ... </think>, as reasoning models write them."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple


class Section(NamedTuple):
    """source[start:end], its tags excluded. open: the closing tag has not come."""

    kind: Literal["text", "think"]
    start: int
    end: int
    open: bool


_OPENS = re.compile(r"[ \t]*<think(?:ing)?>", re.IGNORECASE)
_CLOSES = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`\n]*$)|~{3,})", re.MULTILINE)


def sections(source: str) -> list[Section]:
    """`source` in order, empty parts left out. A tag opens at the start of a line only and closes anywhere; within
    a code fence neither counts. A line that is only </think>, with nothing opened before, closes what was thought
    from the start (some templates open it within the prompt)."""
    found: list[Section] = []
    start, thinks, fence, at = 0, False, "", 0
    while at < len(source):
        end = source.find("\n", at) + 1 or len(source)
        line = source[at:end]
        if fence:
            fence = "" if _ends(line, fence) else fence
        elif opening := _FENCE.match(line):
            fence = opening.group(1)
        elif thinks and (tag := _CLOSES.search(line)):
            found.append(Section("think", start, at + tag.start(), False))
            start, thinks = at + tag.end(), False
            end = start
        elif not thinks and (tag := _OPENS.match(line)):
            found.append(Section("text", start, at, False))
            start, thinks = at + tag.end(), True
            end = start
        elif not thinks and start == 0 and (tag := _CLOSES.fullmatch(line.strip())):
            found.append(Section("think", 0, at, False))
            start = at + len(line.rstrip())
        at = end
    found.append(Section("think" if thinks else "text", start, len(source), thinks))
    return [part for part in found if part.open or source[part.start : part.end].strip()]


def _ends(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]} and not line.startswith("    ")
