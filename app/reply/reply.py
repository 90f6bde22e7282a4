"""One reply: its rounds in order, and all that follows from them: text, spans, sections, statistics.

The transcript, the inspector, a race and the storage are views of one `Reply`. Each remembers how far it has come, and
is told what changed. Rounds come from the host, one by one (`add`), or from the disk, as far as the reader has time for
them (`read`).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from msgspec.structs import replace as replace_fields

from app.protocol import RoundDone
from app.store.records import MessageRecord, Statistics
from app.store.round_encoding import fault_of_round
from app.token_explanation import TokenExplanation, explain_emitted
from engine.audit.receipt import Difference
from engine.errors import RedlineError
from engine.events import Origin, PromptProgress, Round
from engine.metrics import Metrics
from engine.reply_channels import Channel


class InconsistentRound(RedlineError):
    """A round that cannot be the next of this reply; the text says why."""


class Span(NamedTuple):
    """Characters [start, end) of a source that one token completed. token: its running number in the message.
    origin: None for text that no round is known of, such as an old message without rounds."""

    start: int
    end: int
    origin: Origin | None
    token: int


class Section(NamedTuple):
    """source[start:end], its tags excluded. open: more of it may come."""

    kind: Literal["text", "think"]
    start: int
    end: int
    open: bool


class Change(NamedTuple):
    """What rounds added to a reply: rounds[first_round:] and text[start:end]."""

    first_round: int
    start: int
    end: int


@dataclass(frozen=True)
class TokenDetail:
    """What is known of a token. round: from 1. kind: plain where its round drafted nothing. p: the target's probability
    of it. q: the drafter's, None if the drafter did not propose it. instead: what the drafter proposed at this place
    and was refused, with its q. why: why it is there, None if it is plain. differs: what a verification found there."""

    round: int
    text: str
    kind: Origin | Literal["plain"]
    p: float | None
    q: float | None
    instead: tuple[tuple[str, float], ...] = ()
    why: TokenExplanation | None = None
    differs: Difference | None = None


@dataclass
class _Part:
    """A part of the text in one channel. before_s, last_s: when the token before it and its last one came."""

    section: Section
    tokens: int
    before_s: float
    last_s: float

    def close(self) -> None:
        self.section = self.section._replace(open=False)


class Reply:
    """A reply as far as it has come.

    text: of thought and answer, in the order in which they came. spans: of the tokens in it. rounds: numbered and timed
    as of one reply, whatever interrupted it. metrics: of all rounds. plain_s: what a plain step took, None if that was
    not measured.

    stored: the rounds of a reply that was stored, which `read` takes in.
    """

    def __init__(self, stored: Iterable[RoundDone] = ()) -> None:
        self._stored: Iterator[RoundDone] | None = iter(stored)
        self._begin()

    def _begin(self) -> None:
        self._text = ""
        self._unjoined: list[str] = []  # texts that follow it
        self._length = 0  # of both, in characters
        self._told = (0, 0)  # rounds and characters that `take_change` has returned
        self.spans: list[Span] = []
        self.rounds: list[RoundDone] = []
        self.metrics = Metrics()
        self.plain_s: float | None = None
        self._firsts: list[int] = []  # the number of the first token of each round
        self._offset: int | None = None  # from the numbers of the host to those of the reply, None before a part
        self._offset_s = 0.0
        self._resumed_at = 0  # tokens that were there before the part that is being written
        self._parts: list[_Part] = []  # thought and answer
        self._last_s: float | None = None  # when the last token came

    # --- rounds -------------------------------------------------------------------------------

    def add(self, done: RoundDone) -> None:
        """Appends the next round. Raises InconsistentRound."""
        round_, number = done.round, len(self.rounds)
        if self._offset is None:
            self._offset = number - round_.index
            self._offset_s = self.rounds[-1].round.time_s if self.rounds else 0.0
        if (index := round_.index + self._offset) != number:
            raise InconsistentRound(f"received round {index}, expected round {number}")
        if fault := fault_of_round(done):
            raise InconsistentRound(f"received a round {fault}")
        if self._offset or self._offset_s:
            round_ = replace(round_, index=index, time_s=round_.time_s + self._offset_s)
            done = replace_fields(done, round=round_)
        self.rounds.append(done)
        self._firsts.append(self.metrics.tokens)
        self.metrics.add(round_)
        self._add_tokens(round_)

    def take_change(self) -> Change:
        """Returns what was added since the last call."""
        (rounds, start), self._told = self._told, (len(self.rounds), self._length)
        return Change(rounds, start, self._length)

    def read(self, pause: Callable[[], bool] = lambda: False) -> bool:
        """Takes in what was stored until `pause` returns true; the next call goes on. Returns whether all of it is
        there. Of rounds that are damaged none is kept: the store has the text alone."""
        try:
            for done in self._stored or ():
                self.add(done)
                if pause():
                    return False
        except RedlineError:
            self._begin()
        self._stored = None
        return True

    @property
    def is_read(self) -> bool:
        """Whether all that was stored is there."""
        return self._stored is None

    def resume(self, record: MessageRecord) -> None:
        """Continues the reply, as `record` has it so far: text of no token, which ended it, is not part of what
        follows. A reply whose rounds are lost still has its texts."""
        if not self.rounds:
            self.finish(record.text, record.thought)
        self._set_text(self.text[: self.spans[-1].end] if self.spans else self.text)
        if self._parts and not self._parts[-1].tokens and self._parts[-1].section.start >= self._length:
            self._parts.pop()  # it had only that text
        if self._parts:
            last = self._parts[-1]
            last.section = last.section._replace(end=min(last.section.end, self._length))
        self._offset, self._resumed_at, self._told = None, self.metrics.tokens, (len(self.rounds), self._length)
        if record.statistics is not None:
            self.metrics.prompt_tokens, self.plain_s = record.statistics.prompt_tokens, record.statistics.plain_s

    def add_progress(self, progress: PromptProgress) -> None:
        """Counts the prompt, unless the first part of the reply has. Tokens from before an interruption are not part
        of it."""
        if not (self._resumed_at and self.metrics.prompt_tokens):
            self.metrics.add(replace(progress, total=max(0, progress.total - self._resumed_at)))

    # --- text ---------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The text so far."""
        if self._unjoined:
            self._set_text("".join([self._text, *self._unjoined]))
        return self._text

    def _set_text(self, text: str) -> None:
        self._text, self._length, self._unjoined = text, len(text), []

    def _add_tokens(self, round_: Round) -> None:
        origins: Iterable[Origin | None] = round_.origins if round_.drafted else [None] * len(round_.tokens)
        texts = round_.texts or ("",) * len(round_.tokens)
        channels: Iterable[Channel] = round_.channels or ["answer"] * len(round_.tokens)
        number, at = self._firsts[-1], self._length
        for text, origin, channel in zip(texts, origins, channels, strict=False):
            end = at + len(text)
            self.spans.append(Span(at, end, origin, number))
            self._add_to_part(channel, at, end, round_.time_s)
            number, at = number + 1, end
        self._unjoined.extend(texts)
        self._length = at

    def _add_to_part(self, channel: Channel, at: int, end: int, time_s: float) -> None:
        """Adds a token to the part of its channel. One that marks the channels ends the thought before it."""
        last = self._parts[-1] if self._parts else None
        before_s = time_s if self._last_s is None else self._last_s
        self._last_s = time_s
        if channel == "markup":
            if last is not None:
                last.close()
            return
        kind: Literal["text", "think"] = "think" if channel == "thought" else "text"
        if last is None or last.section.kind != kind or not last.section.open:
            if last is not None:
                last.close()
            last = _Part(Section(kind, at, at, True), 0, before_s, before_s)
            self._parts.append(last)
        last.section = last.section._replace(end=end)
        last.tokens, last.last_s = last.tokens + 1, time_s

    @property
    def sections(self) -> list[Section]:
        """Thought and answer, without empty ones."""
        return [part.section for part in self._shown_parts()]

    def thought_in(self, number: int) -> tuple[int, float]:
        """Returns how many tokens a section has and how many seconds they took."""
        part = self._shown_parts()[number]
        return part.tokens, part.last_s - part.before_s

    def _shown_parts(self) -> list[_Part]:
        return [part for part in self._parts if self._is_shown(part.section)]

    def _is_shown(self, section: Section) -> bool:
        return section.kind == "text" or section.open or bool(self.text[section.start : section.end].strip())

    def answer_since(self, at: int) -> str:
        """Returns what of the text from `at` on is answer."""
        return self._said("text", at)

    @property
    def thought(self) -> str:
        """What the model thought so far."""
        return self._said("think", 0)

    def _said(self, kind: str, at: int) -> str:
        parts = [part.section for part in self._parts if part.section.kind == kind]
        return "".join(self.text[max(section.start, at) : section.end] for section in parts)

    @property
    def thinks(self) -> bool:
        """Whether its last token is of a thought, or marks one."""
        last = self.rounds[-1].round.channels if self.rounds else ()
        return last[-1:] not in ((), ("answer",))

    def finish(self, text: str, thought: str = "") -> None:
        """Ends the reply, which is `text` after `thought`: adds what was held back. Where the rounds are lost, or say
        something else, it has only these texts."""
        answer = self.answer_since(0)
        if not self.rounds or not text.startswith(answer):
            self._set_text(thought + text)
            self.spans = []
            sections = [Section("think", 0, len(thought), False), Section("text", len(thought), self._length, False)]
            self._parts = [_Part(section, 0, 0.0, 0.0) for section in sections if section.end > section.start]
        elif tail := text[len(answer) :]:
            start = self._length
            self._set_text(self.text + tail)
            if self._parts and self._parts[-1].section.kind == "text":
                self._parts[-1].section = self._parts[-1].section._replace(end=self._length)
            else:
                self._parts.append(_Part(Section("text", start, self._length, False), 0, 0.0, 0.0))

    # --- numbers and tokens -------------------------------------------------------------------

    @property
    def statistics(self) -> Statistics | None:
        """The numbers of all rounds; None before the first."""
        return Statistics.of(self.metrics, self.plain_s) if self.rounds else None

    @property
    def tokens(self) -> tuple[int, ...]:
        """Every token so far."""
        return tuple(token for one in self.rounds for token in one.round.tokens)

    def detail(self, number: int) -> TokenDetail | None:
        """Returns the detail of a token by its number; None if there is no such token."""
        if not 0 <= number < self.metrics.tokens:
            return None
        place = bisect_right(self._firsts, number) - 1
        done, i = self.rounds[place], number - self._firsts[place]
        round_ = done.round
        return TokenDetail(
            round=place + 1,
            text=round_.texts[i] if i < len(round_.texts) else "",
            kind=round_.origin(i) if round_.drafted else "plain",
            p=_at(round_.p, i),
            q=_at(round_.q, round_.kept[i]) if i < round_.accepted else None,
            instead=tuple((_text(done, node), _at(round_.q, node) or 0.0) for node in _refused_at(round_, i)),
            why=explain_emitted(done, i) if round_.drafted else None,
        )

    def refused(self, first: int, last: int) -> dict[int, str]:
        """Returns the text that was refused, by the number of the token that came instead, from `first` to before
        `last`."""
        found: dict[int, str] = {}
        for place in range(max(0, bisect_right(self._firsts, first) - 1), len(self.rounds)):
            number = self._firsts[place]
            if number >= last:
                break
            for i in range(len(self.rounds[place].round.tokens)):
                text = _refused_text(self.rounds[place], i)
                if text and first <= number + i < last:
                    found[number + i] = text
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
