"""The tokens of one reply: from its rounds to its source, the spans in it, and what is known of each token."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from app.protocol import RoundDone
from app.window.markdown import Span
from engine.audit.receipt import Difference
from engine.events import Origin, Round


@dataclass(frozen=True)
class TokenDetail:
    """What is known of a token. number: in the reply, from 0. round: from 1. drafted: how many tokens the round
    drafted; with none, the token is the target's own and has no tint. p: the target's probability of it. q: the
    drafter's, None if the drafter did not propose it. instead: what the drafter proposed at this place and was refused,
    with its q. differs: what a verification found there."""

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
class _ReceivedRound:
    """A round, its number in the reply from 1, and the number of its first token."""

    done: RoundDone
    number: int
    first: int


class ReplyTokens:
    """The rounds of a reply, received whole, and their tokens, shown one after the other when they are due.

    text, spans: of the tokens shown so far. A round that is received twice counts once. Another round with an index
    that is known begins the part that continues the reply after a stop."""

    def __init__(self, rounds: Iterable[RoundDone] = ()) -> None:
        self.text = ""
        self.spans: list[Span] = []
        self.drafted = False
        self._received: list[_ReceivedRound] = []
        self._known: dict[int, Round] = {}  # of the part of the reply that is received now, by index
        self._before = 0  # rounds of the parts before: a reply that was stopped and continued has several
        self._waiting: deque[tuple[str, Origin | None]] = deque()
        self._tokens = 0
        for one in rounds:
            self.receive(one)
        self.show(len(self._waiting))

    def receive(self, done: RoundDone) -> int:
        """Takes a round. Returns how many tokens wait because of it."""
        round_ = done.round
        if self._known.get(round_.index) == round_:
            return 0
        if round_.index in self._known:
            self._known.clear()
            self._before = self._received[-1].number
        self._known[round_.index] = round_
        self._received.append(_ReceivedRound(done, self._before + round_.index + 1, self._tokens))
        origins: Iterable[Origin | None] = round_.origins if round_.drafted else [None] * len(round_.tokens)
        texts = round_.texts or ("",) * len(round_.tokens)
        self._waiting.extend(zip(texts, origins, strict=False))
        count = min(len(texts), len(round_.tokens))
        self._tokens += count
        self.drafted = self.drafted or bool(round_.drafted)
        return count

    def duration_s(self) -> float:
        """Returns how long the last round took, as far as the times of rounds show."""
        if len(self._received) < 2:
            return 0.0
        return self._received[-1].done.round.time_s - self._received[-2].done.round.time_s

    def show(self, count: int) -> str:
        """Shows the next `count` tokens. Returns their text."""
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

    def resume(self) -> None:
        """Continues the reply: text of no token, which ended it, is not part of what follows."""
        self.text = self.text[: self.spans[-1].end] if self.spans else self.text

    def finish(self, text: str) -> str:
        """Ends the reply, which is `text`: shows all tokens, and removes what a stop string cut. Returns what was
        added."""
        before = len(self.text)
        self.show(len(self._waiting))
        if text != self.text:
            same = _common(text, self.text)
            self.text = text
            self.spans = [span._replace(end=min(span.end, same)) for span in self.spans if span.start <= same]
        return self.text[before:]

    def detail(self, number: int) -> TokenDetail | None:
        """Returns the detail of a token by its number; None if there is no such token."""
        if not 0 <= number < self._tokens:
            return None
        received = self._received[bisect_right(self._received, number, key=lambda one: one.first) - 1]
        round_, i = received.done.round, number - received.first
        return TokenDetail(
            number=number,
            round=received.number,
            text=round_.texts[i] if i < len(round_.texts) else "",
            origin=round_.origin(i),
            drafted=len(round_.drafted),
            p=_at(round_.p, i),
            q=_at(round_.q, _node(round_, i)) if i < round_.accepted else None,
            instead=tuple((_text(received.done, node), _at(round_.q, node) or 0.0) for node in _refused_at(round_, i)),
        )

    def refused(self, first: int, last: int) -> dict[int, str]:
        """Returns the text that was refused, by the number of the token that came instead, from `first` to before
        `last`."""
        found: dict[int, str] = {}
        start = max(0, bisect_right(self._received, first, key=lambda one: one.first) - 1)
        for received in self._received[start:]:
            if received.first >= last:
                break
            for i in range(len(received.done.round.tokens)):
                text = _refused_text(received.done, i)
                if text and first <= received.first + i < last:
                    found[received.first + i] = text
        return found


def _refused_text(done: RoundDone, i: int) -> str:
    """Returns the text refused at token i: in a chain all that was refused, in a tree the siblings of the accepted
    node."""
    round_ = done.round
    if round_.parents is None:
        places = range(round_.accepted, len(round_.drafted)) if i == round_.accepted else range(0)
        return "".join(_text(done, node) for node in places)
    return " / ".join(filter(None, (_text(done, node) for node in _refused_at(round_, i))))


def _refused_at(round_: Round, i: int) -> list[int]:
    """Returns which of `drafted` were proposed for the place of token i and refused."""
    if round_.parents is None:
        return [i] if i == round_.accepted < len(round_.drafted) else []
    parent = round_.path[i - 1] if 0 < i <= len(round_.path) else -1
    taken = round_.path[i] if i < len(round_.path) else None
    if i > round_.accepted:
        return []
    return [node for node, above in enumerate(round_.parents) if above == parent and node != taken]


def _node(round_: Round, i: int) -> int:
    """Returns the index in `drafted` of accepted token i."""
    return i if round_.parents is None or i >= len(round_.path) else round_.path[i]


def _text(done: RoundDone, node: int) -> str:
    return done.drafted_texts[node] if node < len(done.drafted_texts) else ""


def _at(values: tuple[float, ...], i: int) -> float | None:
    return values[i] if 0 <= i < len(values) else None


def _common(one: str, other: str) -> int:
    """Returns the length of the longest common prefix, found by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
