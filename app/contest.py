"""Plain against speculative on one prompt: the runs, in turns, and what they say. Knows no terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app import environment, pair
from app.conversation import target_name
from app.measure import Reply, decode_speedup, measure_reply, median, policy_maker, total_speedup, warm_up
from app.options import Options
from engine.choice import Chooser
from engine.receipt import Receipt, compare

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Side:
    """One way of decoding. name: for people."""

    name: str
    replies: tuple[Reply, ...]

    @property
    def middle(self) -> Reply:
        """The run whose time from request to last token is the median (the quicker of the middle two)."""
        by_time = sorted(self.replies, key=lambda reply: reply.metrics.last_s or 0.0)
        return by_time[(len(by_time) - 1) // 2]

    @property
    def tokens_per_s(self) -> float | None:
        return median(reply.metrics.tokens_per_s for reply in self.replies)

    @property
    def ttft_s(self) -> float | None:
        return median(reply.metrics.ttft_s for reply in self.replies)

    @property
    def total_s(self) -> float | None:
        return median(reply.metrics.last_s for reply in self.replies)


@dataclass(frozen=True)
class Contest:
    """plain and other: run i of one stood beside run i of the other. receipt: of the first run that differs from
    the first plain one, or of all if none does; None where no such promise is made. drafter: as `app.pair` names it;
    said: what it says of it."""

    plain: Side
    other: Side
    receipt: Receipt | None
    environment: dict[str, Any]
    drafter: str = "lookup"
    said: str = ""

    @property
    def speedup(self) -> float | None:
        """Without the prompt: median over pairs of runs."""
        return median(decode_speedup(a.metrics, b.metrics) for a, b in self._pairs)

    @property
    def speedup_total(self) -> float | None:
        """From request to last token: median over pairs of runs."""
        return median(total_speedup(a.metrics, b.metrics) for a, b in self._pairs)

    @property
    def failed(self) -> bool:
        return self.receipt is not None and not (self.receipt.identical or self.receipt.near_tie)

    @property
    def _pairs(self) -> list[tuple[Reply, Reply]]:
        return list(zip(self.plain.replies, self.other.replies, strict=True))


def hold(options: Options, prompt: str, runs: int, notice: Notice) -> Contest:
    """Load the pair and race it, `runs` times each way. Raises RedlineError."""
    notice(f"loading {target_name(options)}")
    target = pair.open_target(options)
    drafter = pair.open_drafter(options.drafter, target, options.tree)
    session = pair.open_session(target, options)
    settings = options.settings()
    ids = target.tokenizer.chat([{"role": "user", "content": prompt}])
    notice("measuring what a pass costs here" if options.draft_length is None else "warming up")
    plain = pair.NamedDrafter("none", None)
    sides = [(one, policy_maker(target, one, options.draft_length)) for one in (plain, drafter)]
    replies: list[list[Reply]] = [[], []]
    for turn in range(-1, runs):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            one, make_policy = sides[side]
            notice("warming up" if turn < 0 else f"run {turn + 1} of {runs}: {('plain', drafter.spec)[side]}")
            law = warm_up(settings) if turn < 0 else settings
            replies[side].append(measure_reply(session, ids, law, one.drafter, make_policy()))
    first, *others = [*replies[0][1:], *replies[1][1:]]
    chooser = Chooser(settings.sampling, settings.rule, target.model.vocabulary)
    receipts = [compare(target.model, chooser, ids, first.tokens, other.rounds) for other in others]
    receipt = next((one for one in receipts if one is not None and not one.identical), receipts[-1])
    return Contest(
        Side("plain", tuple(replies[0][1:])),
        Side(f"with {drafter.name}", tuple(replies[1][1:])),
        receipt,
        environment.describe(options, target),
        drafter.spec,
        drafter.said,
    )
