"""Who takes part: plain decoding, every drafter asked for, and the peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from app import pair
from app.measure import Reply, measure_reply, policy_maker
from app.options import Options
from engine.drafters import Drafter
from engine.policy import Policy
from engine.session import Session
from engine.settings import Settings
from models.load import Loaded

PLAIN = "none"
Notice = Callable[[str], None]


class Contestant(Protocol):
    """name: in table and JSON. drafter: for the cost of a draft; None where Redline doesn't draft.
    peer: whether it is another engine, which promises nothing about its noise."""

    @property
    def name(self) -> str: ...
    @property
    def drafter(self) -> Drafter | None: ...
    @property
    def peer(self) -> bool: ...

    def reply(self, prompt: Sequence[int], settings: Settings) -> Reply:
        """Answer from nothing, timed."""

    def rule(self, settings: Settings) -> str | None:
        """How drafts are accepted: greedy, rejection, coupled or sample-and-match; None where none could be."""


@dataclass(frozen=True)
class Ours:
    """Redline with one drafter, or with none."""

    name: str
    session: Session
    drafter: Drafter | None
    make_policy: Callable[[], Policy]
    peer: bool = False

    def reply(self, prompt: Sequence[int], settings: Settings) -> Reply:
        return measure_reply(self.session, prompt, settings, self.drafter, self.make_policy())

    def rule(self, settings: Settings) -> str:
        return "greedy" if settings.sampling.greedy else settings.rule


def enter(options: Options, target: Loaded, session: Session, peer: bool, notice: Notice) -> list[Contestant]:
    """Everyone, plain decoding first. Raises UsageError, ModelError or PairError for a drafter that can't be had."""
    contestants: list[Contestant] = [
        Ours(PLAIN, session, None, policy_maker(target, pair.NamedDrafter(PLAIN, None), 0))
    ]
    models: list[tuple[str, Any]] = []
    lengths, opened = tuple(dict.fromkeys(options.draft_lengths)), dict[str, str]()
    for spec in dict.fromkeys(options.drafters):
        drafter = pair.open_drafter(spec, target, options.tree)
        if drafter.said:
            notice(drafter.said)
        if drafter.drafter is None or drafter.spec in opened:  # what auto came to was named too
            continue
        name = opened[drafter.spec] = _free_name(drafter, list(opened.values()))
        for length in lengths:
            if length is None:
                notice(f"measuring what {name} costs here")
            session.forget()
            called = name if len(lengths) == 1 else f"{name} {'auto' if length is None else length}"
            contestants.append(Ours(called, session, drafter.drafter, policy_maker(target, drafter, length)))
        if drafter.loaded is not None:
            models.append((name, drafter.loaded.network))
    if peer:
        from app.bench.peer import enter_peer

        contestants += enter_peer(target, models, options.draft_length, session.context, notice)
    return contestants


def _free_name(drafter: pair.NamedDrafter, taken: Sequence[str]) -> str:
    """A drafter in a folder goes by the folder's name, unless another does."""
    return drafter.spec if drafter.name in taken else drafter.name
