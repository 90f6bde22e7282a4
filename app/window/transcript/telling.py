"""The tokens of one reply: from the rounds that were told to its source, the spans in it, and what is known of each."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from app.protocol import Told
from app.window.reading import Span
from engine.events import Origin, Round
from engine.receipt import Difference


@dataclass(frozen=True)
class TokenDetail:
    """What is known of a token. number: in the reply, from 0. round: from 1. drafted: tokens the round drafted; none,
    and the token is the target's own, shown without a tint. p: the target's probability of it. q: the drafter's,
    None if it did not propose it. instead: what the drafter proposed at this place and was refused, with its q.
    differs: what a check found there."""

    number: int
    round: int
    text: str
    origin: Origin
    drafted: int
    p: float | None
    q: float | None
    instead: tuple[tuple[str, float], ...] = ()
    differs: Difference | None = None


@dataclass(frozen=True)
class _Heard:
    """A round, what to call it, and the number of its first token."""

    told: Told
    name: int
    first: int


class Telling:
    """Rounds are heard whole; their tokens are shown when their time comes, in order, none lost.

    text, spans: of the tokens shown so far. A round that is heard twice counts once; another by a number that was
    heard begins the part that goes on behind a stop.
    """

    def __init__(self, told: Iterable[Told] = ()) -> None:
        self.text = ""
        self.spans: list[Span] = []
        self.drafted = False
        self._heard: list[_Heard] = []
        self._known: dict[int, Round] = {}  # of the part of the reply that is told now, by index
        self._before = 0  # rounds of the parts before: a reply that was stopped and went on has several
        self._waiting: deque[tuple[str, Origin | None]] = deque()
        self._tokens = 0
        for one in told:
            self.hear(one)
        self.show(len(self._waiting))

    def hear(self, told: Told) -> int:
        """A round. Returns how many tokens now wait because of it."""
        round_ = told.round
        if self._known.get(round_.index) == round_:
            return 0
        if round_.index in self._known:
            self._known.clear()
            self._before = self._heard[-1].name
        self._known[round_.index] = round_
        self._heard.append(_Heard(told, self._before + round_.index + 1, self._tokens))
        origins: Iterable[Origin | None] = round_.origins if round_.drafted else [None] * len(round_.tokens)
        texts = round_.texts or ("",) * len(round_.tokens)
        self._waiting.extend(zip(texts, origins, strict=False))
        count = min(len(texts), len(round_.tokens))
        self._tokens += count
        self.drafted = self.drafted or bool(round_.drafted)
        return count

    def duration_s(self) -> float:
        """How long the last round took, as far as the times of rounds tell."""
        if len(self._heard) < 2:
            return 0.0
        return self._heard[-1].told.round.time_s - self._heard[-2].told.round.time_s

    def show(self, count: int) -> str:
        """The next `count` tokens; returns their text."""
        number, at = self._tokens - len(self._waiting), len(self.text)
        shown = []
        for _ in range(min(count, len(self._waiting))):
            text, origin = self._waiting.popleft()
            self.spans.append(Span(at, at + len(text), origin, number))
            shown.append(text)
            number, at = number + 1, at + len(text)
        added = "".join(shown)
        self.text += added
        return added

    def go_on(self) -> None:
        """The reply is written again: text of no token, which ended it, is not part of what follows."""
        self.text = self.text[: self.spans[-1].end] if self.spans else self.text

    def finish(self, text: str) -> str:
        """The reply is `text` in the end: shows all, takes back what a stop string cut. Returns what was added."""
        before = len(self.text)
        self.show(len(self._waiting))
        if text != self.text:
            same = _common(text, self.text)
            self.text = text
            self.spans = [span._replace(end=min(span.end, same)) for span in self.spans if span.start <= same]
        return self.text[before:]

    def detail(self, number: int) -> TokenDetail | None:
        """Of a token by its number; None where there is no such."""
        if not 0 <= number < self._tokens:
            return None
        heard = self._heard[bisect_right(self._heard, number, key=lambda one: one.first) - 1]
        round_, i = heard.told.round, number - heard.first
        return TokenDetail(
            number=number,
            round=heard.name,
            text=round_.texts[i] if i < len(round_.texts) else "",
            origin=round_.origin(i),
            drafted=len(round_.drafted),
            p=_at(round_.p, i),
            q=_at(round_.q, _node(round_, i)) if i < round_.accepted else None,
            instead=tuple((_text(heard.told, node), _at(round_.q, node) or 0.0) for node in _refused_at(round_, i)),
        )

    def ghosts(self, first: int, last: int) -> dict[int, str]:
        """By the number of the token that came instead, `first` to before `last`: the text that was refused there."""
        found: dict[int, str] = {}
        start = max(0, bisect_right(self._heard, first, key=lambda one: one.first) - 1)
        for heard in self._heard[start:]:
            if heard.first >= last:
                break
            for i in range(len(heard.told.round.tokens)):
                text = _ghost(heard.told, i)
                if text and first <= heard.first + i < last:
                    found[heard.first + i] = text
        return found


def _ghost(told: Told, i: int) -> str:
    """In a chain all that was refused, in a tree what stood beside the way taken."""
    round_ = told.round
    if round_.parents is None:
        places = range(round_.accepted, len(round_.drafted)) if i == round_.accepted else range(0)
        return "".join(_text(told, node) for node in places)
    return " / ".join(filter(None, (_text(told, node) for node in _refused_at(round_, i))))


def _refused_at(round_: Round, i: int) -> list[int]:
    """Which of `drafted` were proposed for the place of token i and refused."""
    if round_.parents is None:
        return [i] if i == round_.accepted < len(round_.drafted) else []
    parent = round_.path[i - 1] if 0 < i <= len(round_.path) else -1
    taken = round_.path[i] if i < len(round_.path) else None
    if i > round_.accepted:
        return []
    return [node for node, above in enumerate(round_.parents) if above == parent and node != taken]


def _node(round_: Round, i: int) -> int:
    """The place in `drafted` of accepted token i."""
    return i if round_.parents is None or i >= len(round_.path) else round_.path[i]


def _text(told: Told, node: int) -> str:
    return told.drafted_texts[node] if node < len(told.drafted_texts) else ""


def _at(values: tuple[float, ...], i: int) -> float | None:
    return values[i] if 0 <= i < len(values) else None


def _common(one: str, other: str) -> int:
    """Length of the longest common prefix, found by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
