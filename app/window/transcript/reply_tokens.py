"""The tokens of one reply: from its rounds to its source, the spans in it, and what is known of each token.

Tokens are spread over the time that their round took, so that a burst does not look like pasting.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

from app.protocol import RoundDone
from app.token_explanation import TokenExplanation, explain_emitted
from app.window.markdown import Span
from app.window.markdown.source_pieces import Section
from app.window.markdown.text_blocks import common_length
from engine.audit.receipt import Difference
from engine.events import Origin, Round
from engine.reply_channels import Channel

LONGEST_LAG_S = 0.15  # what is shown is never further behind what was received
TURN_TOKENS = 2_000  # that are shown in one turn of the event loop; no model writes as fast


@dataclass(frozen=True)
class TokenDetail:
    """What is known of a token. number: in the reply, from 0. round: from 1. drafted: how many tokens the round
    drafted; with none, the token is the target's own and has no tint. p: the target's probability of it. q: the
    drafter's, None if the drafter did not propose it. instead: what the drafter proposed at this place and was refused,
    with its q. why: why it is there, None where nothing was drafted. differs: what a verification found there."""

    number: int
    round: int
    text: str
    origin: Origin
    drafted: int
    p: float | None
    q: float | None
    instead: tuple[tuple[str, float], ...] = ()
    why: TokenExplanation | None = None
    differs: Difference | None = None


class _ReceivedRound(NamedTuple):
    """A round, its number in the reply from 1, and the number of its first token."""

    done: RoundDone
    number: int
    first: int


class _WaitingToken(NamedTuple):
    """A token that is to be shown from `due_s` on. time_s: of its round."""

    text: str
    origin: Origin | None
    due_s: float
    channel: Channel | None
    time_s: float


@dataclass
class _Part:
    """A part of the text in one channel. before_s, last_s: when the token before it and its last one came."""

    section: Section
    tokens: int
    before_s: float
    last_s: float


class ReplyTokens:
    """The rounds of a reply, received whole, and their tokens, shown one after the other when they are due.

    text, spans: of the tokens shown so far, thought and answer in the order in which they came. A round that is
    received twice counts once. Another round with an index that is known begins the part that continues the reply after
    a stop. Times are of a clock that only goes forward."""

    def __init__(self, rounds: Iterable[RoundDone] = ()) -> None:
        self.text = ""
        self.spans: list[Span] = []
        self._received: list[_ReceivedRound] = []
        self._known: dict[int, Round] = {}  # of the part of the reply that is received now, by index
        self._before = 0  # rounds of the parts before: a reply that was stopped and continued has several
        self._waiting: deque[_WaitingToken] = deque()
        self._tokens = 0
        self._next_s = 0.0  # when the token that comes next is due
        self._parts: list[_Part] = []  # thought and answer, where the rounds tell them apart
        self._last_s: float | None = None  # when the last token shown came
        for one in rounds:
            self.receive(one)
        self.show()

    @property
    def waiting(self) -> int:
        """How many tokens wait to be shown."""
        return len(self._waiting)

    def receive(self, done: RoundDone, now_s: float = 0.0, still: bool = False) -> None:
        """Takes a round. still: its tokens are due at once, for reduced motion."""
        round_ = done.round
        if self._known.get(round_.index) == round_:
            return
        if round_.index in self._known:
            self._known.clear()
            self._before = self._received[-1].number
        self._known[round_.index] = round_
        origins: Iterable[Origin | None] = round_.origins if round_.drafted else [None] * len(round_.tokens)
        texts = round_.texts or ("",) * len(round_.tokens)
        channels: Iterable[Channel | None] = round_.channels or [None] * len(round_.tokens)
        tokens = list(zip(texts, origins, channels, strict=False))
        before_s = self._received[-1].done.round.time_s if self._received else round_.time_s
        self._received.append(_ReceivedRound(done, self._before + round_.index + 1, self._tokens))
        self._tokens += len(tokens)
        latest_s = now_s + (0.0 if still else LONGEST_LAG_S)
        due_s = min(max(self._next_s, now_s), latest_s)
        step_s = min(max(round_.time_s - before_s, 0.0), LONGEST_LAG_S) / max(len(tokens), 1)
        for text, origin, channel in tokens:
            self._waiting.append(_WaitingToken(text, origin, due_s, channel, round_.time_s))
            due_s = min(due_s + step_s, latest_s)
        self._next_s = due_s

    def show(self, now_s: float = inf, most: float = inf) -> str:
        """Shows the tokens that are due by now, at most so many. Returns their text."""
        number, at = self._tokens - len(self._waiting), len(self.text)
        shown: list[str] = []
        while self._waiting and self._waiting[0].due_s <= now_s and len(shown) < most:
            token = self._waiting.popleft()
            end = at + len(token.text)
            self.spans.append(Span(at, end, token.origin, number))
            if token.channel is not None:
                self._add_to_part(token, at, end)
            shown.append(token.text)
            number, at = number + 1, end
        added = "".join(shown)
        self.text += added
        return added

    def _add_to_part(self, token: _WaitingToken, at: int, end: int) -> None:
        """Adds a token to the part of its channel. One that marks the channels ends the thought before it."""
        if not self._parts and at:  # of rounds that were stored before they told channels apart
            self._parts.append(_Part(Section("text", 0, at, False), 0, 0.0, 0.0))
        last = self._parts[-1] if self._parts else None
        before_s = token.time_s if self._last_s is None else self._last_s
        self._last_s = token.time_s
        if token.channel == "markup":
            if last is not None:
                last.section = last.section._replace(open=False)
            return
        kind: Literal["text", "think"] = "think" if token.channel == "thought" else "text"
        if last is None or last.section.kind != kind or not last.section.open:
            if last is not None:
                last.section = last.section._replace(open=False)
            last = _Part(Section(kind, at, at, True), 0, before_s, before_s)
            self._parts.append(last)
        last.section = last.section._replace(end=end)
        last.tokens, last.last_s = last.tokens + 1, token.time_s

    @property
    def sections(self) -> list[Section] | None:
        """Thought and answer, without empty ones; None where the rounds do not tell them apart."""
        if self._last_s is None:
            return None
        return [part.section for part in self._parts if self._is_shown(part)]

    def thought(self, number: int) -> tuple[int, float]:
        """Returns how many tokens a section has and how many seconds they took."""
        part = [part for part in self._parts if self._is_shown(part)][number]
        return part.tokens, part.last_s - part.before_s

    def _is_shown(self, part: _Part) -> bool:
        section = part.section
        return section.kind == "text" or section.open or bool(self.text[section.start : section.end].strip())

    def answer_since(self, at: int) -> str:
        """Returns what of the text from `at` on is answer."""
        parts = [part.section for part in self._parts if part.section.kind == "text"]
        if self._last_s is None:
            return self.text[at:]
        return "".join(self.text[max(section.start, at) : section.end] for section in parts)

    def resume(self) -> None:
        """Continues the reply: text of no token, which ended it, is not part of what follows."""
        self.text = self.text[: self.spans[-1].end] if self.spans else self.text
        if self._parts:
            last = self._parts[-1]
            last.section = last.section._replace(end=min(last.section.end, len(self.text)))

    def finish(self, text: str, thought: str = "") -> None:
        """Ends the reply, which is `text` after `thought`: shows all tokens, and removes what a stop string cut."""
        self.show()
        if self._last_s is not None or thought:
            self._finish_parts(text, thought)
            return
        if text != self.text:
            same = common_length(text, self.text)
            self.text = text
            self.spans = [span._replace(end=min(span.end, same)) for span in self.spans if span.start <= same]

    def _finish_parts(self, text: str, thought: str) -> None:
        """Ends a reply with a thought. Where its rounds are lost, it has only its texts."""
        answer = self.answer_since(0) if self._last_s is not None else ""
        if self._last_s is None or not text.startswith(answer):
            self.text, self.spans, self._last_s = thought + text, [], 0.0
            sections = [Section("think", 0, len(thought), False), Section("text", len(thought), len(self.text), False)]
            self._parts = [_Part(section, 0, 0.0, 0.0) for section in sections if section.end > section.start]
        elif tail := text[len(answer) :]:
            start = len(self.text)
            self.text += tail
            if self._parts and self._parts[-1].section.kind == "text":
                self._parts[-1].section = self._parts[-1].section._replace(end=len(self.text))
            else:
                self._parts.append(_Part(Section("text", start, len(self.text), False), 0, 0.0, 0.0))

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
            q=_at(round_.q, round_.kept[i]) if i < round_.accepted else None,
            instead=tuple((_text(received.done, node), _at(round_.q, node) or 0.0) for node in _refused_at(round_, i)),
            why=explain_emitted(received.done, i) if round_.drafted else None,
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
    return [node for node in round_.offered(i) if node not in round_.kept[i : i + 1]]


def _text(done: RoundDone, node: int) -> str:
    return done.drafted_texts[node] if node < len(done.drafted_texts) else ""


def _at(values: tuple[float, ...], i: int) -> float | None:
    return values[i] if 0 <= i < len(values) else None
