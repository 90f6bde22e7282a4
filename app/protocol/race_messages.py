"""The messages of a race: two ways to decode one prompt on the same loaded target, measured one after the other.

    app -> host    Race                                a Stop with its id ends it; complete pairs of runs are kept
    host -> app    RaceProgress* RaceReady (RaceProgress* RunPart+)* PairCompared ... RaceDone | Failed

The rounds of a run are sent after it has ended, so that sending takes no time from it, and in parts, so that no line is
too long; the last part has `finished`. A PairCompared follows every pair of runs. The sides alternate: AB BA AB. Where
one is a server, which of them goes first is drawn for each pair, and after the last pair the side that began runs once
more, under the number of another pair, so that a machine that has become slower or faster shows.
"""

import random
from collections.abc import Iterable, Sequence

from app.protocol.messages import Request, RequestAnswer, RoundDone, Struct
from engine.events import Finished
from engine.settings import AcceptanceRule, SamplingSettings

SIDES = 2
MAX_RUNS = 99
PAUSE_S, MAX_PAUSE_S = 1.0, 3600.0


class Server(Struct, frozen=True, kw_only=True):
    """A server that speaks OpenAI's protocol. url: under which its routes are; without a path, /v1. model: "" for the
    first that it lists. key_env: the environment variable that holds its key, "" for none."""

    url: str
    model: str = ""
    key_env: str = ""


class Side(Struct, frozen=True, kw_only=True):
    """One way to decode. drafter, tree: as in a Pair. draft_length: tokens (nodes of a tree) a round, None for auto. A
    side that never drafts is plain decoding. server: another program that replies; nothing else counts then."""

    server: Server | None = None
    drafter: str = "auto"
    tree: bool = False
    draft_length: int | None = None
    acceptance: AcceptanceRule = "rejection"

    @property
    def plain(self) -> bool:
        """Whether the target decodes alone."""
        return self.server is None and (self.drafter == "none" or self.draft_length == 0)


PLAIN = Side(drafter="none")


class Race(Request, frozen=True, kw_only=True):
    """Races two sides on the loaded target. sampling: the settings that both share; the acceptance rule and the draft
    length in it are ignored. runs: of each side. order_seed: where one is a server, draws which side goes first in each
    pair of runs. pause_s: between two runs then, in which the machine cools down."""

    prompt: str
    sampling: SamplingSettings
    sides: tuple[Side, ...]
    runs: int = 3
    order_seed: int = 0
    pause_s: float = PAUSE_S


def has_server(sides: Iterable[Side]) -> bool:
    """Returns whether one of the sides is a server."""
    return any(side.server is not None for side in sides)


def first_sides(sides: Sequence[Side], pairs: int, order_seed: int) -> list[int]:
    """Returns which side goes first in each pair of runs."""
    if not has_server(sides):
        return [number % SIDES for number in range(pairs)]
    drawn = random.Random(order_seed)
    return [drawn.randrange(SIDES) for _ in range(pairs)]


def run_letters(sides: Sequence[Side], pairs: int, order_seed: int) -> str:
    """Returns the sides in the order of all runs that are measured: "ABBA", with a server "BAABB"."""
    order = first_sides(sides, pairs, order_seed)
    again = "AB"[order[0]] if has_server(sides) else ""
    return "".join("BA" if first else "AB" for first in order) + again


class ReadySide(Struct, frozen=True, kw_only=True):
    """A side that is ready to run. name: of its drafter or server, to show; "" for plain decoding. note: what
    the user did not choose and should know, or ""."""

    side: Side
    name: str
    note: str = ""


class Environment(Struct, frozen=True, kw_only=True):
    """The versions and the machine that a race was measured with. Names no user, host or folder."""

    redline: str
    mlx: str
    platform: str
    processor: str
    cores: int
    backend: str
    dtype: str
    target: str
    kv_bits: int | None = None


class ServerReport(Struct, frozen=True, kw_only=True):
    """What a server says of a reply; None for what it does not say. product: the program. tokens, prompt_tokens,
    cached_tokens: of its usage. tokens_per_s, ttft_s: its own figures, of `source` (timings, stats). warnings: where
    this, the clock and the text do not agree, in sentences."""

    product: str = ""
    model: str = ""
    tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    tokens_per_s: float | None = None
    ttft_s: float | None = None
    source: str = ""
    warnings: tuple[str, ...] = ()


class Run(Struct, frozen=True, kw_only=True):
    """One measured reply of one side, with empty caches at its start. number: of the pair it belongs to, from 1. Of a
    server, a round is what arrived at one time. report: of a server."""

    side: int
    number: int
    prompt_tokens: int
    rounds: tuple[RoundDone, ...]
    finished: Finished
    report: ServerReport | None = None


class Divergence(Struct, frozen=True, kw_only=True):
    """The first position where two replies differ.

    tokens, texts: of each side at that position, None if the reply had ended. gap_ulps, noise_ulps: the gap between the
    two tokens' logits in a plain pass, and the rounding noise there; None if no rounding could close the gap, or if
    identical text was not promised. near_tie: whether rounding explains the difference.
    """

    position: int
    tokens: tuple[int | None, ...]
    texts: tuple[str | None, ...]
    gap_ulps: float | None = None
    noise_ulps: float | None = None
    near_tie: bool = False


class PairReceipt(Struct, frozen=True, kw_only=True):
    """The comparison of the two runs of a pair.

    run: the number of the pair. promised: whether identical text was promised, as it is if both sides are greedy or
    coupled, and no server. tokens: how many tokens are the same from the start. same_bits: in exact-verify, for
    identical texts, whether all logits are the same to the last bit.
    """

    run: int
    promised: bool
    tokens: int
    divergence: Divergence | None = None
    same_bits: bool | None = None

    @property
    def failed(self) -> bool:
        """Whether a promise was broken."""
        if self.divergence is None:
            return self.same_bits is False
        return self.promised and not self.divergence.near_tie


class RaceProgress(RequestAnswer, frozen=True, kw_only=True):
    """What the race is doing now, sent a few times a second. run: from 1, 0 before the first. tokens: of this run so
    far. text: what these tokens added to the reply since the last one of this run. time_s: since the race began."""

    message: str
    time_s: float
    run: int = 0
    side: int = 0
    tokens: int = 0
    text: str = ""


class RaceReady(RequestAnswer, frozen=True, kw_only=True):
    """Both sides are loaded, and the step times that they need are known."""

    sides: tuple[ReadySide, ...]
    environment: Environment


class RunPart(RequestAnswer, frozen=True, kw_only=True):
    """Rounds of a run that has ended, in order. finished: how it ended, in the last part only, and so its report."""

    side: int
    run: int
    prompt_tokens: int
    rounds: tuple[RoundDone, ...]
    time_s: float
    finished: Finished | None = None
    report: ServerReport | None = None


class PairCompared(RequestAnswer, frozen=True, kw_only=True):
    """Both runs of a pair have ended and were compared."""

    receipt: PairReceipt


class RaceDone(RequestAnswer, frozen=True, kw_only=True):
    """The race is over. pairs: how many pairs of runs are complete; fewer than requested if it was stopped."""

    pairs: int
    stopped: bool = False
