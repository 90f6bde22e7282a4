"""The runs of a race: one prompt decoded by two sides in turns on one loaded target, reported as
`app.protocol.race_messages` describes.

Both sides are loaded and warmed up first; then they run in turns, each reply from nothing, so that every one of them
pays for its prompt. Rounds are reported after their pair of runs, so that reporting takes no
time from it. A side may be a server, whose cache is its own. Terminal and host share this.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import replace as changed

from app.inference import environment
from app.inference.loaded_pair import LoadedPair
from app.inference.measured_reply import Reply, begin_reply, warm_up
from app.inference.memory_check import check_memory
from app.inference.options import Options
from app.protocol import AnyAnswer, PairCompared, RaceDone, RaceProgress, RaceReady, RoundDone, RunPart
from app.protocol.race_messages import (
    MAX_PAUSE_S,
    MAX_RUNS,
    PAUSE_S,
    PLAIN,
    SIDES,
    Divergence,
    Environment,
    PairReceipt,
    ReadySide,
    ServerReport,
    Side,
    first_sides,
    has_server,
)
from app.race.race_document import divergence_of
from app.race.race_text import THOUGHT_END
from app.remote.openai_client import POLL_S, WHAT_IS_SENT, ServerClient
from app.remote.server_reply import ServerReply, Token, tokenized
from engine.audit.fingerprints import first_other_bits
from engine.audit.reply_check import compare_replies
from engine.errors import ModelError, StoppedError, UsageError
from engine.events import Event, Finished, PromptProgress, Round
from engine.metrics import Metrics
from engine.sampling import Sampler
from engine.settings import SamplingSettings
from models.loader import Loaded

PROGRESS_EVERY_S = 0.25
ROUNDS_A_LINE = 256  # of a chain some 100 KB, of the largest tree some 2 MB
LoadedPairs = Mapping[tuple[str, bool], LoadedPair]  # by the drafter's name, and whether it drafts trees


@dataclass(frozen=True)
class RaceOptions:
    """What to race. number: of the request. base: options that both sides share. sides: as `level` returns them.
    order_seed, pause_s: as in `Race`. Raises UsageError for what cannot be raced."""

    number: int
    prompt: str
    base: Options
    sides: tuple[Side, ...]
    runs: int
    order_seed: int = 0
    pause_s: float = PAUSE_S

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise UsageError("the prompt is empty: enter some text")
        if len(self.sides) != SIDES:
            raise UsageError(f"a race is between {SIDES} sides, not {len(self.sides)}: name {SIDES}")
        if not 1 <= self.runs <= MAX_RUNS:
            raise UsageError(f"runs is {self.runs}: give 1 to {MAX_RUNS}")
        if not 0 <= self.pause_s <= MAX_PAUSE_S:
            raise UsageError(f"pause is {self.pause_s:g} s: give 0 to {MAX_PAUSE_S:g}")
        for side in self.sides:
            self.options(side)

    @property
    def has_server(self) -> bool:
        """Whether one of the sides is a server."""
        return has_server(self.sides)

    def options(self, side: Side) -> Options:
        """Returns the options of one side. Raises UsageError."""
        return replace(
            self.base,
            drafters=(side.drafter if side.server is None else PLAIN.drafter,),
            tree=side.tree,
            sampling=replace(self.base.sampling, acceptance=side.acceptance, draft_length=side.draft_length),
        )


@dataclass(frozen=True)
class LoadedSide:
    """A side whose pair is loaded, or whose server answers."""

    side: Side
    pair: LoadedPair
    settings: SamplingSettings
    client: ServerClient | None = None


class Measured:
    """A run while it is made. events: so far, of a server before they are in tokens. reply: of a server."""

    def __init__(self, side: LoadedSide) -> None:
        self.side = side
        self.events: list[Event] = []
        self._text, self._tokens = "", 0
        self.reply: ServerReply | None = None
        if side.client is not None:
            self.reply = ServerReply(side.client.name, side.client.product, side.settings)

    def add(self, event: Event) -> None:
        """Adds what was decoded, or has arrived."""
        self.events.append(event)
        if isinstance(event, Round):
            self._text += "".join(event.texts)
            self._tokens += len(event.tokens)

    def tokens(self) -> int:
        """Returns how many tokens there are so far; of a server, in its text: several may have arrived at a time."""
        return self._tokens if self.reply is None else len(self.side.pair.target.tokenizer.pieces(self._text))

    def tokenize(self, like: Measured) -> None:
        """Puts the reply of a server into tokens, split as in the run that it is compared with."""
        if self.reply is not None:
            rounds = [event for event in like.events if isinstance(event, Round)] if like.reply is None else []
            pairs = [Token(*pair) for one in rounds for pair in zip(one.tokens, one.texts, strict=True)]
            self.events = tokenized(self.events, self.side.pair.target.tokenizer, pairs)

    def report(self, prompt_tokens: int) -> ServerReport | None:
        """Returns what a server says of its run."""
        return None if self.reply is None else self.reply.report(prompt_tokens, Metrics.of(self.events))


def level(sides: Sequence[Side]) -> tuple[Side, ...]:
    """Returns the same sides; plain decoding draws its tokens by the rule of the side that it is compared with."""
    rules = [side.acceptance for side in sides if not side.plain and side.server is None] or [
        side.acceptance for side in sides
    ]
    return tuple(changed(side, acceptance=rules[0]) if side.plain else side for side in sides)


class RaceRuns:
    """One race on the target of `pair`. stop: is asked between rounds and between passes. loaded: pairs of that target
    that are loaded already."""

    def __init__(
        self, pair: LoadedPair, race: RaceOptions, stop: Callable[[], bool], loaded: LoadedPairs | None = None
    ) -> None:
        self._base, self._target, self._race, self._stop = pair, pair.target, race, stop
        self._loaded = dict(loaded or {})
        self._began_s = time.monotonic()
        self._pairs_done = 0
        self._sides: list[LoadedSide] = []
        self._ids: list[int] = []

    def answers(self) -> Iterator[AnyAnswer]:
        """Holds the race and reports it. Raises RedlineError, and whatever a drafter raises. Leaves caches in no known
        state."""
        race = self._race
        try:
            yield from self._prepare()
            order = first_sides(race.sides, race.runs, race.order_seed)
            yield from self._warm_up()
            for number, first in enumerate(order, 1):
                yield from self._pair(number, first)
            if race.has_server:
                yield from self._pause(race.runs + 1, order[0])
                yield from self._again(race.runs + 1, order[0])
        except StoppedError:
            yield RaceDone(id=race.number, pairs=self._pairs_done, stopped=True)
            return
        yield RaceDone(id=race.number, pairs=self._pairs_done)

    # --- getting ready -------------------------------------------------------------------------

    def _prepare(self) -> Iterator[AnyAnswer]:
        race, target = self._race, self._target
        switches = race.base.sampling.switches
        self._ids = target.tokenizer.chat([{"role": "user", "content": race.prompt}], self._stop, **switches)
        self._check_memory()
        for side in race.sides:
            self._stop_if_requested()
            if side.server is not None:
                continue
            key = side.drafter, side.tree
            if key not in self._loaded:
                yield self._progress(f"loading {side.drafter}")
                self._loaded[key] = self._base.open_drafter(side.drafter, side.tree)
        for number, side in enumerate(race.sides):
            yield self._progress("warming up", number)
            pair = self._loaded.get((side.drafter, side.tree), self._base)
            client = None if side.server is None else ServerClient(side.server)
            self._sides.append(LoadedSide(side, pair, race.options(side).sampling, client))
        yield RaceReady(
            id=race.number,
            sides=tuple(_ready_side(loaded) for loaded in self._sides),
            environment=_environment(race.base, target),
        )

    def _check_memory(self) -> None:
        """Raises ModelError if the drafters of both sides do not fit into memory together."""
        drafters = tuple(self._race.options(side).drafter for side in self._race.sides)
        options = replace(self._race.base, drafters=drafters, context=self._base.session.context)
        check_memory(self._target.folder, replace(options, kv_bits=self._target.model.kv_bits), all_drafters=True)

    def _warm_up(self) -> Iterator[AnyAnswer]:
        """Runs each side once, which teaches draft length auto."""
        for side in reversed(range(SIDES)):
            yield from self._run(0, side, Measured(self._sides[side]))

    def _pair(self, number: int, first: int) -> Iterator[AnyAnswer]:
        """Runs each side once."""
        runs = [Measured(side) for side in self._sides]
        order = (first, SIDES - 1 - first)
        for side in order:
            if self._race.has_server:
                yield from self._pause(number, side)
            yield from self._run(number, side, runs[side])
        for run, other in zip(runs, reversed(runs), strict=True):
            run.tokenize(other)
        for side in order:
            yield from self._run_parts(number, side, runs[side])
        replies = [Reply.of(self._ids, run.events) for run in runs]
        yield PairCompared(id=self._race.number, receipt=self._receipt(number, replies))
        self._pairs_done = number

    def _again(self, number: int, side: int) -> Iterator[AnyAnswer]:
        """Runs one side alone, at the end."""
        run = Measured(self._sides[side])
        yield from self._run(number, side, run)
        run.tokenize(run)
        yield from self._run_parts(number, side, run)

    def _pause(self, number: int, side: int) -> Iterator[AnyAnswer]:
        """Lets the machine cool down before the run of a side."""
        yield self._progress(f"pausing before {self._message(number)}", side, number)
        until_s = time.monotonic() + self._race.pause_s
        while (left_s := until_s - time.monotonic()) > 0:
            self._stop_if_requested()
            time.sleep(min(POLL_S, left_s))

    # --- a run ---------------------------------------------------------------------------------

    def _run(self, number: int, side: int, run: Measured) -> Iterator[AnyAnswer]:
        """Decodes into the events of `run`, and reports now and then how far it is."""
        message = self._message(number)
        yield self._progress(message, side, number)
        reported_s, text, thinking = time.monotonic(), "", False
        for event in self._events(run, warms_up=number == 0):
            run.add(event)
            if isinstance(event, Round):
                answer = event.text_in("answer")
                text += event.text_in("thought") + (f"\n\n{THOUGHT_END}\n\n" if thinking and answer else "") + answer
                thinking = "thought" in event.channels or (thinking and not answer)
                if time.monotonic() - reported_s >= PROGRESS_EVERY_S:
                    reported_s = time.monotonic()
                    yield self._progress(message, side, number, run.tokens(), text)
                    text = ""
        yield self._progress(message, side, number, run.tokens(), text)
        self._stop_if_requested()

    def _message(self, number: int) -> str:
        """Returns which run this is."""
        if number > self._race.runs:
            return "running the first side again"
        return f"run {number} of {self._race.runs}" if number else "warming up"

    def _events(self, run: Measured, warms_up: bool) -> Iterator[Event]:
        loaded = run.side
        settings = warm_up(loaded.settings) if warms_up else loaded.settings
        if loaded.client is None or run.reply is None:
            return begin_reply(loaded.pair, self._ids, settings, self._stop, learns=warms_up)
        messages = [{"role": "user", "content": self._race.prompt}]
        return run.reply.events(loaded.client.chat(messages, settings, self._stop))

    def _run_parts(self, number: int, side: int, run: Measured) -> Iterator[AnyAnswer]:
        """Reports a run that is over, in parts."""
        events = run.events
        prompt = max((event.total for event in events if isinstance(event, PromptProgress)), default=0)
        rounds = tuple(self._round_done(event) for event in events if isinstance(event, Round))
        finished = next(event for event in events if isinstance(event, Finished))
        for start in range(0, max(len(rounds), 1), ROUNDS_A_LINE):
            part = rounds[start : start + ROUNDS_A_LINE]
            last = start + ROUNDS_A_LINE >= len(rounds)
            yield RunPart(
                id=self._race.number,
                side=side,
                run=number,
                prompt_tokens=prompt,
                rounds=part,
                time_s=self._now_s(),
                finished=finished if last else None,
                report=run.report(len(self._ids)) if last else None,
            )

    def _round_done(self, round_: Round) -> RoundDone:
        """Raises ModelError for probabilities that are not finite, for which JSON has no name."""
        if not all(map(math.isfinite, (*round_.p, *round_.q))):
            raise ModelError("the model's probabilities are not numbers: its files are damaged, download it again")
        pieces = tuple(self._target.tokenizer.piece(token) for token in round_.drafted)
        return RoundDone(id=self._race.number, round=round_, drafted_texts=pieces)

    # --- what two runs have in common ------------------------------------------------------------

    def _receipt(self, number: int, replies: Sequence[Reply]) -> PairReceipt:
        """Compares the runs of a pair. Texts that differ though the same one was promised cost a run of the target."""
        samplers = [Sampler(loaded.settings, self._target.model.vocabulary) for loaded in self._sides]
        comparable = all(sampler.accepts_by_match for sampler in samplers)
        promised = comparable and not self._race.has_server
        exact = promised and all(loaded.settings.exact for loaded in self._sides)
        first, second = replies
        found = divergence_of(first.tokens, second.tokens)
        if found is None:
            bits = first_other_bits(first.rounds, second.rounds) is None if exact else None
            return PairReceipt(run=number, promised=promised, tokens=len(first.tokens), same_bits=bits)
        piece = self._target.tokenizer.piece
        found = changed(found, texts=tuple(None if token is None else piece(token) for token in found.tokens))
        servers = sum(loaded.client is not None for loaded in self._sides)
        if promised or (comparable and servers == 1 and self._race.base.sampling.greedy):
            found = self._weighed(found, samplers[0], exact, replies)
        return PairReceipt(run=number, promised=promised, tokens=found.position, divergence=found)

    def _weighed(self, found: Divergence, sampler: Sampler, exact: bool, replies: Sequence[Reply]) -> Divergence:
        """Adds the gap of the two tokens' logits. The other reply is compared with the plain one, and a server's with
        Redline's; of two that drafted, either may be the one that rounding took elsewhere."""
        servers = [loaded.client is not None for loaded in self._sides]
        plain = [not one for one in servers] if any(servers) else [one.side.plain for one in self._sides]
        first, second = replies
        orders = [(second, first)] if plain[1] and not plain[0] else [(first, second)]
        if not any(plain):
            orders.append((second, first))
        for one, other in orders:
            given = (self._target.model, sampler, one.prompt, one.tokens, other.rounds)
            compared = compare_replies(*given, exact=exact, between=self._stop_if_requested)
            if compared is None or compared.difference is None:
                continue
            at = compared.difference
            found = changed(found, gap_ulps=at.gap_ulps, noise_ulps=at.noise_ulps, near_tie=at.near_tie)
            if at.near_tie:
                break
        return found

    # --- small ---------------------------------------------------------------------------------

    def _progress(self, message: str, side: int = 0, run: int = 0, tokens: int = 0, text: str = "") -> RaceProgress:
        return RaceProgress(
            id=self._race.number, message=message, time_s=self._now_s(), run=run, side=side, tokens=tokens, text=text
        )

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    def _stop_if_requested(self) -> None:
        if self._stop():
            raise StoppedError("stopped before all runs were done")


def _environment(options: Options, target: Loaded) -> Environment:
    """Returns the versions and the machine that this process measures with."""
    found = environment.describe(options, target)
    versions = {name: found["versions"][name] for name in ("redline", "mlx")}
    same = {name: found[name] for name in ("platform", "processor", "backend", "dtype", "target", "kv_bits")}
    return Environment(cores=found["cores"] or 0, **versions, **same)


def _ready_side(loaded: LoadedSide) -> ReadySide:
    if loaded.client is not None:
        return ReadySide(side=loaded.side, name=loaded.client.name, note=WHAT_IS_SENT)
    drafter = loaded.pair.drafter
    return ReadySide(side=loaded.side, name="" if loaded.side.plain else drafter.name, note=drafter.note)
