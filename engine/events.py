"""The events of a reply, emitted as it happens: frozen records of plain Python values.

    PromptProgress*  Round*  Finished

Chat, race, terminal, benchmark, storage and tests are folds over this one stream.
Times are seconds since the reply was requested, on one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from engine.reply_channels import Channel

Origin = Literal["accepted", "corrected", "bonus"]
# How a draft was decided on. point mass: rejection of a chain where q = 1. fixed tree: the same over children that are
# point masses. drawn tree: rejection over children drawn without replacement. "": nothing was drafted, or not recorded.
Rule = Literal["", "greedy", "coupled", "rejection", "point mass", "fixed tree", "drawn tree"]
Reason = Literal["eos", "stop", "length", "thought", "context", "cancelled"]


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Target and drafter have read `done` of `total` prompt tokens; `reused` were in the target's cache before."""

    done: int
    total: int
    reused: int
    time_s: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """What decided where the target emitted a token y of its own in place of a drafted x; in a tree x is the first of
    the tokens offered there. p(y) and q(x) are in the round.

    drafted_p: p(x). emitted_q: q(y), and residual: the probability of y in max(0, p - q) / Z; by rejection in a chain.
    drafted_score, emitted_score: of x and y, by match: the logits after penalties (greedy), or log p plus the Gumbel
    noise of the place (coupled); None for a token with p = 0.
    """

    drafted_p: float
    emitted_q: float | None = None
    residual: float | None = None
    drafted_score: float | None = None
    emitted_score: float | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One draft, one verify pass of the target, one commit.

    tokens:   committed ids: the accepted prefix of the draft, then the target's own token
              (missing only where a stop cut the round short).
    texts:    for each of `tokens`, the text it completed ("" while a character is unfinished).
    drafted:  proposed ids; in a chain `drafted[accepted:]` were refused, in a tree all that are not on `path`.
    accepted: how many of `tokens` came from the draft.
    parents:  for each of `drafted`, the place in `drafted` of the token it was to follow, -1 for the last committed
              one; None for a chain.
    path:     in a tree, the places in `drafted` of the accepted tokens, in order.
    p:        for each of `tokens`, the target's probability of it under the distribution that chose it
              (at temperature 0: under the softmax of the adjusted logits).
    q:        for each of `drafted`, the drafter's probability of it; 1.0 for a point mass.
    width:    rows of the verify pass, repeated prompt or replayed tokens included.
    reason:   why the policy chose this draft length.
    draft_s, verify_s: seconds of proposing and of everything after it, where proposals are timed; else None.
    channels: for each of `tokens`, whether it is thought, answer, or marks the two; empty for a model that has no
              thoughts that can be told apart.
    waits:    how often the host waited for the device: once, and once more where proposals are timed.
    fingerprints: in exact-verify, for each of `tokens` the checksum of the logits it was chosen from (53 bits, see
              `engine.audit.fingerprints`); else empty.
    rule:     how the draft was decided on; "" in rounds recorded before rules were.
    draws:    by rejection, the uniform draws u that decided, one for each accepted token and one for the refused one
              (`depth` in all); a token is kept while u < min(1, p / q). Else empty.
    refusal:  the numbers of the place where the draft was refused, if it was.
    """

    index: int
    tokens: tuple[int, ...]
    drafted: tuple[int, ...]
    accepted: int
    p: tuple[float, ...]
    q: tuple[float, ...]
    width: int
    time_s: float
    reason: str = ""
    texts: tuple[str, ...] = ()
    parents: tuple[int, ...] | None = None
    path: tuple[int, ...] = ()
    draft_s: float | None = None
    verify_s: float | None = None
    fingerprints: tuple[int, ...] = ()
    channels: tuple[Channel, ...] = ()
    waits: int = 1
    rule: Rule = ""
    draws: tuple[float, ...] = ()
    refusal: Refusal | None = None

    def text_in(self, channel: Channel) -> str:
        """Returns what its tokens completed of the answer or of the thought."""
        pairs = zip(self.texts, self.channels or ("answer",) * len(self.texts), strict=False)
        return "".join(text for text, own in pairs if own == channel)

    def cut(self, count: int) -> Round:
        """Returns the same round, ended after the first `count` of its tokens."""
        accepted = min(self.accepted, count)
        return replace(
            self,
            tokens=self.tokens[:count],
            p=self.p[:count],
            accepted=accepted,
            path=self.path[:accepted],
            fingerprints=self.fingerprints[:count],
            channels=self.channels[:count],
            draws=self.draws[:count],
            refusal=self.refusal if count > self.accepted else None,
        )

    @property
    def kept(self) -> tuple[int, ...]:
        """The places in `drafted` of the accepted tokens."""
        return tuple(range(self.accepted)) if self.parents is None else self.path

    def offered(self, i: int) -> list[int]:
        """Returns the places in `drafted` of what was proposed for the place of `tokens[i]`."""
        if i > self.accepted:
            return []
        if self.parents is None:
            return [i] if i < len(self.drafted) else []
        before = self.path[i - 1] if i else -1
        return [node for node, parent in enumerate(self.parents) if parent == before]

    @property
    def refused(self) -> bool:
        """Whether the draft had something at the place where the target chose a token of its own."""
        if self.parents is None:
            return self.accepted < len(self.drafted)
        return (self.path[-1] if self.path else -1) in self.parents

    @property
    def depth(self) -> int:
        """How many places of the draft were decided on the path that was taken: what acceptance by position counts."""
        return self.accepted + self.refused

    def origin(self, i: int) -> Origin:
        """Returns where `tokens[i]` came from."""
        if i < self.accepted:
            return "accepted"
        return "corrected" if self.refused else "bonus"

    @property
    def origins(self) -> tuple[Origin, ...]:
        return tuple(self.origin(i) for i in range(len(self.tokens)))


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every reply. `text` is what was still held back when the reply ended. reason: "length" where
    the answer has its most tokens, "thought" where the thought has."""

    reason: Reason
    tokens: int
    time_s: float
    text: str = ""


def is_tree(parents: Sequence[int], drafted: int, path: Sequence[int]) -> bool:
    """Whether `parents` are a tree over so many drafted tokens, and `path` runs down it."""
    if len(parents) != drafted or not all(-1 <= parent < node for node, parent in enumerate(parents)):
        return False
    steps = zip((-1, *path), path, strict=False)
    return all(0 <= node < drafted and parents[node] == before for before, node in steps)


Event = PromptProgress | Round | Finished


def to_json(event: Event) -> dict[str, Any]:
    """Returns a JSON-ready dict with a leading `event` key naming the kind."""
    record = {"event": type(event).__name__, **asdict(event)}
    if isinstance(event, Round):
        record["origins"] = event.origins
    return record
