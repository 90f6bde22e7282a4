"""How one reply is made. Apart from the session, so that a command line is judged before a model library loads."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.choice import RULES, Rule
from engine.errors import UsageError
from engine.sampling import Sampling


@dataclass(frozen=True)
class Settings:
    """How one reply is made. stop: strings that end it and are not shown. exact: whether every token gets the same
    arithmetic whatever is drafted, so that replies agree to the last bit (see `engine.grid`)."""

    sampling: Sampling = field(default_factory=Sampling)
    rule: Rule = "rejection"
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    exact: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise UsageError(f"max-tokens is {self.max_tokens}: a reply needs at least 1")
        if self.rule not in RULES:
            raise UsageError(f"acceptance is {self.rule!r}: give one of {', '.join(RULES)}")
        if any(not s for s in self.stop):
            raise UsageError("a stop string is empty and would end every reply at once: give some text")
