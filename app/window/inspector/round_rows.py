"""The rounds of one reply as rows to show, with the tokens of each. Knows no Qt."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan, sqrt
from operator import attrgetter
from typing import Literal, NamedTuple, TypeVar

from app.protocol import RoundDone
from app.reply import Reply
from engine.events import Origin, Round

# refused: drafted, but not kept. plain: the target's own, where nothing was drafted.
Kind = Origin | Literal["refused", "plain"]
T = TypeVar("T")

WINDOW_S = 2.0  # seconds that the speed is an average over
Z = 1.96  # of the normal distribution, for an interval that holds 95 %
MAX_POINTS = 192  # of a series in a chart
LONGEST_TEXT = 24  # characters of a token
JOINER = "\u200d"  # between emoji, where it is part of what is seen


class RoundRow(NamedTuple):
    """A round of a reply; numbers are nan where they are unknown. draft_ms, verify_ms: as measured. clock_s: seconds
    since the request, never falling. tokens: of the reply so far. whole_ms: since the round before. tokens_per_s,
    tokens_per_pass: over the last WINDOW_S."""

    done: RoundDone
    draft_ms: float
    verify_ms: float
    clock_s: float
    tokens: int
    whole_ms: float = nan
    tokens_per_s: float = nan
    tokens_per_pass: float = nan

    @property
    def number(self) -> int:
        """The number of the round in the reply, from 1."""
        return self.done.round.index + 1


class RoundRows:
    """The rounds of `reply` as rows, as far as they have been taken in."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.rows: list[RoundRow] = []
        self._tail = 0  # the last row before the window of the speed

    @property
    def complete(self) -> bool:
        """Whether there is a row for every round so far."""
        return self.reply.is_read and len(self.rows) == len(self.reply.rounds)

    def grow(self, most: int) -> None:
        """Adds rows for at most so many rounds. There are none for rounds that turned out to be damaged."""
        if len(self.rows) > len(self.reply.rounds):
            self.rows, self._tail = [], 0
        for done in self.reply.rounds[len(self.rows) : len(self.rows) + most]:
            self._append(done)

    def column(self, name: str) -> list[float]:
        """Returns one number of every row."""
        return list(map(attrgetter(name), self.rows))

    def _append(self, done: RoundDone) -> None:
        round_, place = done.round, len(self.rows)
        before = self.rows[-1] if self.rows else None
        tokens = len(round_.tokens) + (before.tokens if before else 0)
        clock_s = max(round_.time_s, before.clock_s if before else 0.0)
        row = RoundRow(done, _ms(round_.draft_s), _ms(round_.verify_s), clock_s, tokens)
        if before is None or done.id != before.done.id:  # the time before a reply is resumed is no part of the speed
            self._tail = place
        else:
            while self._tail + 1 < place and self.rows[self._tail + 1].clock_s <= clock_s - WINDOW_S:
                self._tail += 1
            tail = self.rows[self._tail]
            seconds = clock_s - tail.clock_s
            row = row._replace(
                whole_ms=_ms(clock_s - before.clock_s),
                tokens_per_s=(tokens - tail.tokens) / seconds if seconds > 0 else nan,
                tokens_per_pass=(tokens - tail.tokens) / (place - self._tail),
            )
        self.rows.append(row)


def stride(count: int) -> int:
    """Returns the least power of two that leaves at most MAX_POINTS of `count`: points stay where they are while more
    come."""
    return 1 << (max(0, count - 1) // MAX_POINTS).bit_length()


def averaged(values: Sequence[float]) -> list[float]:
    """Returns the means of each `stride` of values in a row."""
    step = stride(len(values))
    return [mean(values[start : start + step]) for start in range(0, len(values), step)]


def mean(values: Sequence[float]) -> float:
    """Returns the mean of the values that are known; nan if none is."""
    known = [value for value in values if isfinite(value)]
    return sum(known) / len(known) if known else nan


def wilson(kept: int, of: int) -> tuple[float, float]:
    """Returns the 95 % interval of a share (Wilson 1927), which is honest for small samples too."""
    if of <= 0:
        return 0.0, 1.0
    share, z2 = kept / of, Z * Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z / (1 + z2 / of) * sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(middle - half, 0.0), min(middle + half, 1.0)


@dataclass(frozen=True)
class RoundToken:
    """A token. p: the target's probability, known for emitted tokens and for the first refused one. q: the drafter's,
    for what it drafted. depth: levels below the place where the round began, from 1. offered: refused where the target
    emitted its own. place: in `tokens` of the round, or in `drafted` if it was refused."""

    text: str
    kind: Kind
    token: int
    p: float | None = None
    q: float | None = None
    depth: int = 1
    offered: bool = False
    place: int = 0


def emitted_tokens(done: RoundDone) -> list[RoundToken]:
    """Returns the tokens that the round committed, in order."""
    round_, nodes, pieces = done.round, done.round.kept, []
    for i, token in enumerate(round_.tokens):
        kind: Kind = round_.origin(i) if round_.drafted else "plain"
        text, q = _at(round_.texts, i), None
        if i < round_.accepted:
            text, q = text or _at(done.drafted_texts, nodes[i]), _at(round_.q, nodes[i])
        pieces.append(RoundToken(shown(text, token), kind, token, _at(round_.p, i), q, i + 1, place=i))
    return pieces


def refused_tokens(done: RoundDone) -> list[RoundToken]:
    """Returns the refused tokens. First those offered where the target emitted its own token, then what stood beside
    the accepted path, from its end back, each branch whole; in a chain simply the rest."""
    round_, levels, kept = done.round, depths(done.round), done.round.kept
    parents = round_.parents or range(-1, len(round_.drafted) - 1)
    offered = round_.offered(round_.accepted)
    lost = [node for stem in (*reversed(kept), -1) for node in branches(parents, stem, kept)]
    return [
        RoundToken(
            shown(_at(done.drafted_texts, node), round_.drafted[node]),
            "refused",
            round_.drafted[node],
            p=round_.refusal.drafted_p if round_.refusal and offered[:1] == [node] else None,
            q=_at(round_.q, node),
            depth=levels[node],
            offered=node in offered,
            place=node,
        )
        for node in lost
    ]


def branches(parents: Sequence[int], stem: int, without: Sequence[int] = ()) -> list[int]:
    """Returns the nodes of a tree that are below `stem`, depth first; no branch begins at a node in `without`."""
    children: dict[int, list[int]] = {}
    for node in reversed(range(len(parents))):
        children.setdefault(parents[node], []).append(node)
    found, waiting = [], [node for node in children.get(stem, ()) if node not in without]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], ())
    return found


def depths(round_: Round) -> list[int]:
    """Returns the level of each drafted token, from 1."""
    if round_.parents is None:
        return list(range(1, len(round_.drafted) + 1))
    levels: list[int] = []
    for parent in round_.parents:
        levels.append(1 + (levels[parent] if parent >= 0 else 0))
    return levels


def describe(done: RoundDone) -> str:
    """Returns a round in words, for a screen reader."""
    round_ = done.round
    own = "".join(f" {piece.text}" for piece in emitted_tokens(done))
    if not round_.drafted:
        return f"plain, 1 token:{own}"
    lost = ", ".join(piece.text for piece in refused_tokens(done))
    ends = round_.origins[-1] if round_.tokens else "nothing"
    refusals = f"; refused {lost}" if lost else ""
    return f"{shape(round_)}, {round_.accepted} of {len(round_.drafted)} accepted, then {ends}:{own}{refusals}"


def shape(round_: Round) -> str:
    """Returns "chain of 5", "tree of 16" or "no draft"."""
    if not round_.drafted:
        return "no draft"
    return f"{'chain' if round_.parents is None else 'tree'} of {len(round_.drafted)}"


def compact(count: int) -> str:
    """Returns "196", "1.2k" or "19k"."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 9950 else f"{count / 1000:.0f}k"


def shown(text: str | None, token: int) -> str:
    """Returns the text of a token on one short line, whitespace and control characters made visible; its id if it has
    none: if it is unknown or unfinished, or the token is not text."""
    if not text:
        return f"#{token}"
    if not text.strip(" "):
        return "␣" * min(len(text), 4)
    cut = text.strip(" ").replace("\r\n", "⏎").replace("\n", "⏎").replace("\t", "⇥")
    if len(cut) > LONGEST_TEXT:
        cut = cut[:LONGEST_TEXT] + "…"
    return "".join(c if c.isprintable() or c == JOINER else "·" for c in cut)


def _at(values: Sequence[T], i: int) -> T | None:
    return values[i] if 0 <= i < len(values) else None


def _ms(seconds: float | None) -> float:
    return nan if seconds is None else seconds * 1000
