"""A race: two ways of decoding one prompt on the same loaded target, measured one after the other.

    window -> host   Race                              Stop of its id ends it; pairs of runs that are whole stand
    host -> window   Racing* LinedUp (Racing* Ran+)* Compared ... Raced | Failed

Every run is told once it is over, in parts, so that telling costs no time in it and no line is too long; the part that
holds `finished` is its last. Runs go AB BA AB; behind each pair stands its Compared.
"""

from __future__ import annotations

from app.protocol.answers import Answer, Told
from app.protocol.requests import Request
from app.protocol.values import Acceptance, Law, Struct
from engine.events import Finished

SIDES = 2
MOST_RUNS = 99


class Side(Struct, frozen=True, kw_only=True):
    """A way of decoding. drafter: as in a Pair. tree: whether a drafter that can branch does. draft_length: tokens
    (nodes of a tree) a round, None for auto. A side that never drafts is plain decoding."""

    drafter: str = "auto"
    tree: bool = False
    draft_length: int | None = None
    acceptance: Acceptance = "rejection"

    @property
    def plain(self) -> bool:
        """Whether the target decodes alone."""
        return self.drafter == "none" or self.draft_length == 0


PLAIN = Side(drafter="none")


class Race(Request, frozen=True, kw_only=True):
    """Race two sides on the loaded target. law: what they share; its acceptance and draft length do not count. runs: of
    each side."""

    prompt: str
    law: Law
    sides: tuple[Side, ...]
    runs: int = 3


class Contestant(Struct, frozen=True, kw_only=True):
    """A side as it came. name: of its drafter for people, "" for plain decoding. said: what the user did not ask for
    and should know, or ""."""

    side: Side
    name: str
    said: str = ""


class Environment(Struct, frozen=True, kw_only=True):
    """What a race was measured with. Names no user, host or folder."""

    redline: str
    mlx: str
    platform: str
    processor: str
    cores: int
    backend: str
    dtype: str
    target: str
    kv_bits: int | None = None


class Run(Struct, frozen=True, kw_only=True):
    """One reply of one side, measured from nothing. number: of its pair, from 1."""

    side: int
    number: int
    prompt_tokens: int
    told: tuple[Told, ...]
    finished: Finished


class Parting(Struct, frozen=True, kw_only=True):
    """The first place where two replies differ. tokens, texts: of either side there, None where a reply had ended.
    gap_ulps, noise_ulps: between the two tokens in a pass of plain decoding, and what rounding makes of it there; None
    where no rounding could close the gap, or where no identity was promised. near_tie: rounding explains it."""

    position: int
    tokens: tuple[int | None, ...]
    texts: tuple[str | None, ...]
    gap_ulps: float | None = None
    noise_ulps: float | None = None
    near_tie: bool = False


class PairReceipt(Struct, frozen=True, kw_only=True):
    """Of the two runs of a pair. run: its number. promised: whether the same text was promised, as it is where both are
    greedy or coupled. tokens: how many from the start on are the same. same_bits: in exact-verify, of texts that are
    the same, whether all logits are too, to the last bit."""

    run: int
    promised: bool
    tokens: int
    parting: Parting | None = None
    same_bits: bool | None = None

    @property
    def failed(self) -> bool:
        """Whether a promise was broken."""
        if self.parting is None:
            return self.same_bits is False
        return self.promised and not self.parting.near_tie


class Racing(Answer, frozen=True, kw_only=True):
    """What goes on now, a few times a second. run: from 1, 0 before the first. tokens: of this run so far.
    time_s: since the race began."""

    id: int
    said: str
    time_s: float
    run: int = 0
    side: int = 0
    tokens: int = 0


class LinedUp(Answer, frozen=True, kw_only=True):
    """Both sides are ready, and what a pass costs is known where it had to be."""

    id: int
    contestants: tuple[Contestant, ...]
    environment: Environment


class Ran(Answer, frozen=True, kw_only=True):
    """Rounds of a run that is over, in order. finished: its end, in the last part alone."""

    id: int
    side: int
    run: int
    prompt_tokens: int
    told: tuple[Told, ...]
    time_s: float
    finished: Finished | None = None


class Compared(Answer, frozen=True, kw_only=True):
    """Both runs of a pair are over: what their texts have in common."""

    id: int
    receipt: PairReceipt


class Raced(Answer, frozen=True, kw_only=True):
    """The race is over. runs: pairs that are whole; fewer than were asked for where it was stopped."""

    id: int
    runs: int
    stopped: bool = False
