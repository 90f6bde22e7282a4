"""A server that speaks OpenAI's protocol as a contestant of a benchmark, and the verdict on it."""

import random
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.bench.bench_document import BenchDocument, BenchRun, runs_by_contestant
from app.inference.measured_reply import Reply
from app.remote.openai_client import ServerClient
from app.remote.server_reply import ServerReply, Token, tokenized
from app.reply_statistics import ABOUT_EQUAL, count
from engine.events import Event
from engine.metrics import Metrics
from engine.settings import SamplingSettings
from models.tokenizer import FolderTokenizer

RESAMPLES, RESAMPLING_SEED = 2000, 0
_INTERVAL = 0.95
_NUMBER = re.compile(r"\d[\d.]*")


class Peer:
    """A contestant that is not Redline: what the others say of their drafter and mode. name: of the contestant."""

    name: str
    drafter: None = None
    exact = False
    peer = True

    @property
    def proposer(self) -> str:
        return self.name


@dataclass(frozen=True)
class AskedReply:
    """The reply of a server before it is in tokens."""

    reply: ServerReply
    events: Sequence[Event]


@dataclass(frozen=True)
class ServerContestant(Peer):
    """A server. tokenizer: of the loaded model."""

    name: str
    client: ServerClient
    tokenizer: FolderTokenizer
    draft_length: None = None

    def rule(self, settings: SamplingSettings) -> str | None:
        """Returns how tokens are chosen, where that is known."""
        return "greedy" if settings.greedy else None

    def ask(self, messages: list[dict[str, str]], settings: SamplingSettings) -> AskedReply:
        """Returns a timed reply, whatever the server has in its cache. Raises ServerError."""
        reply = ServerReply(self.client.name, self.client.product, settings)
        return AskedReply(reply, list(reply.events(self.client.chat(messages, settings, lambda: False))))

    def in_tokens(self, asked: AskedReply, prompt: Sequence[int], plain: Reply) -> Reply:
        """Returns the same reply in tokens, split as in plain decoding's where both have the same text."""
        pairs = [Token(*pair) for one in plain.rounds for pair in zip(one.tokens, one.texts, strict=False)]
        events = tokenized(asked.events, self.tokenizer, pairs)
        report = asked.reply.report(len(prompt), Metrics.of(events))
        return replace(Reply.of(prompt, events), report=report)


def drawn_order(names: Sequence[str], order_seed: int, number: int) -> list[str]:
    """Returns the contestants in the order in which they answer, for the time of this number."""
    return random.Random(f"{order_seed}/{number}").sample(list(names), len(names))


def server_lines(value: BenchDocument) -> Iterator[tuple[str, str]]:
    """Yields the verdict on each server and what it says of itself that was not measured, each with its style."""
    groups = [rows for rows in runs_by_contestant(value.runs) if rows[0].report is not None]
    for rows in groups:
        for name in dict.fromkeys(row.drafter for row in value.runs if not row.peer and not row.exact):
            ours = [row for row in value.runs if row.drafter == name and row.temperature == rows[0].temperature]
            yield compared(name, ours, rows), "bold"
        yield from ((line, "yellow") for line in _warnings(rows))
    if groups and value.drift is not None and abs(value.drift - 1) > ABOUT_EQUAL:
        yield f"run again at the end, plain decoding had {value.drift:.2f} times its speed", "yellow"


def compared(name: str, ours: Sequence[BenchRun], theirs: Sequence[BenchRun]) -> str:
    """Returns in a sentence how fast Redline decodes beside a server, with an interval, and if texts agree."""
    server = theirs[0].drafter
    speeds = {(row.question_id, row.turn, row.repeat): row.speedup for row in theirs}
    ratios = dict[object, list[float]]()
    for row in ours:
        other = speeds.get((row.question_id, row.turn, row.repeat))
        if row.speedup and other:
            ratios.setdefault((row.question_id, row.turn), []).append(row.speedup / other)
    same = sum(bool(row.matches_plain) for row in theirs)
    text = f"; its text is that of the target alone in {same} of {len(theirs)}" if theirs[0].temperature == 0 else ""
    if not ratios:
        return f"{server} sent every reply at once, so its speed is unknown{text}"
    named = "Redline alone" if name == "none" else f"Redline with {name}"
    middle, low, high = bootstrap([statistics.geometric_mean(each) for each in ratios.values()])
    what = f"decodes {middle:.2f} times as fast as {server}"
    if low <= 1 <= high:
        what = f"and {server} are too close to call ({middle:.2f} times as fast)"
    return f"{named} {what}: {low:.2f} to {high:.2f} ({_INTERVAL:.0%}, over {count(len(ratios), 'prompt')}){text}"


def bootstrap(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Returns the geometric mean of the ratios, and the ends of its percentile interval (Efron 1979), prompts drawn
    again with replacement."""
    drawn = random.Random(RESAMPLING_SEED)
    means = sorted(statistics.geometric_mean(drawn.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    cut = round((1 - _INTERVAL) / 2 * RESAMPLES)
    return statistics.geometric_mean(ratios), means[cut], means[-1 - cut]


def _warnings(rows: Sequence[BenchRun]) -> Iterator[str]:
    """Yields each kind of warning once, as in the first reply that has it, and how many have it."""
    kinds = dict[str, list[str]]()
    for row in rows:
        for warning in row.report.warnings if row.report else ():
            kinds.setdefault(_NUMBER.sub("#", warning), []).append(warning)
    for each in kinds.values():
        yield f"{rows[0].drafter}, {len(each)} of {len(rows)} replies: {each[0]}"
