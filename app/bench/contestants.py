"""Who takes part: plain decoding, every drafter asked for, the same in exact-verify, and the peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol

from app import pair
from app.measure import Reply, measure_reply, policy_maker
from app.options import Options
from engine.drafters import Drafter
from engine.errors import UsageError
from engine.policy import Policy
from engine.session import Session
from engine.settings import Settings
from models.load import Loaded

PLAIN, PLAIN_EXACT = "none", "none exact"
Length = int | Literal["auto"] | None
Notice = Callable[[str], None]


class Contestant(Protocol):
    """name: in table and JSON. proposer: the same without draft length and mode. draft_length: tokens a round or auto,
    None where none are drafted. drafter: for the cost of a draft; None where Redline doesn't draft. exact: whether in
    exact-verify. peer: whether it is another engine, which promises nothing about its noise."""

    @property
    def name(self) -> str: ...
    @property
    def proposer(self) -> str: ...
    @property
    def draft_length(self) -> Length: ...
    @property
    def drafter(self) -> Drafter | None: ...
    @property
    def exact(self) -> bool: ...
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
    make_policy: Callable[[int], Policy]
    proposer: str = PLAIN
    draft_length: Length = None
    exact: bool = False
    peer: bool = False

    def reply(self, prompt: Sequence[int], settings: Settings) -> Reply:
        settings = replace(settings, exact=self.exact)
        return measure_reply(self.session, prompt, settings, self.drafter, self.make_policy(len(prompt)))

    def rule(self, settings: Settings) -> str:
        return "greedy" if settings.sampling.greedy else settings.rule


@dataclass
class Entry:
    """Enters contestants of ours for one target. said: told of each drafter what a user should know."""

    options: Options
    target: Loaded
    session: Session
    said: Notice

    def plain(self) -> list[Contestant]:
        """Plain decoding, and, where asked for, in exact-verify."""
        nobody = pair.NamedDrafter(PLAIN, None)
        return [
            Ours(name, self.session, None, policy_maker(self.target, nobody, 0, 0), exact=exact)
            for name, exact in ((PLAIN, False), (PLAIN_EXACT, True))
            if self.options.exact or not exact
        ]

    def drafters(self, random: bool) -> list[pair.NamedDrafter]:
        """Those asked for, each once: what auto comes to may be named too. random: one of random weights as well."""
        found: dict[str, pair.NamedDrafter] = {}
        for spec in dict.fromkeys(self.options.drafters):
            drafter = pair.open_drafter(spec, self.target, self.options.tree)
            if drafter.said:
                self.said(drafter.said)
            if drafter.drafter is not None:
                found.setdefault(drafter.spec, drafter)
        if random:
            from app.bench.random_head import random_drafter

            found["random"] = random_drafter(self.target)
        return list(found.values())

    def ways(self, drafter: pair.NamedDrafter, name: str) -> list[Contestant]:
        """With one drafter, at every draft length."""
        lengths = tuple(dict.fromkeys(self.options.draft_lengths))
        modes = (False, True) if self.options.exact else (False,)
        found: list[Contestant] = []
        for length in lengths:
            if length is None:
                self.said(f"measuring what {name} costs here")
            self.session.forget()
            told: Length = "auto" if length is None else length
            called = name if len(lengths) == 1 else f"{name} {told}"
            for exact in modes:
                policies = policy_maker(self.target, drafter, length, self.session.context, exact=exact)
                mode = f"{called} exact" if exact else called
                found.append(Ours(mode, self.session, drafter.drafter, policies, name, told, exact))
        return found


def enter(
    options: Options, target: Loaded, session: Session, peer: bool, notice: Notice, random: bool = False
) -> list[Contestant]:
    """Everyone, plain decoding first. random: a drafter of random weights too.

    Raises UsageError, ModelError or PairError for a drafter that can't be had."""
    entry = Entry(options, target, session, notice)
    contestants = entry.plain()
    models: list[tuple[str, Any]] = []
    taken: list[str] = []
    for drafter in entry.drafters(random):
        taken.append(_free_name(drafter, taken))
        contestants += entry.ways(drafter, taken[-1])
        if drafter.loaded is not None:
            models.append((taken[-1], drafter.loaded.network))
    if peer:
        from app.bench.peer import enter_peer

        contestants += enter_peer(target, models, options.draft_length, session.context, notice)
    return contestants


def leave_out(contestants: Sequence[Contestant], patterns: Sequence[str]) -> list[Contestant]:
    """All but those whose name matches one of `patterns`, as a shell's; plain decoding, which the others are held
    against, stays. Raises UsageError for a pattern that nobody matches."""
    names = [contestant.name for contestant in contestants if contestant.name not in (PLAIN, PLAIN_EXACT)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(
                f"--without {pattern}: no drafter is called that; there are {', '.join(names) or 'no drafters'}"
            )
    out = {name for name in names for pattern in patterns if fnmatchcase(name, pattern)}
    return [contestant for contestant in contestants if contestant.name not in out]


def _free_name(drafter: pair.NamedDrafter, taken: Sequence[str]) -> str:
    """A drafter in a folder goes by the folder's name, unless another does."""
    return drafter.spec if drafter.name in taken else drafter.name
