"""The answer to: may this drafter serve this target? Plain values, for a terminal, a host and a window alike."""

from __future__ import annotations

from dataclasses import dataclass

from models.pairing.tokens import Pairing


@dataclass(frozen=True)
class Verdict:
    """kind: of the drafter: "model", "eagle3", "medusa", or one that Redline cannot load yet, "" where it cannot be
    told. why: what makes it fit, or what stands against it, in one line without a path. notes: what is worth knowing
    of a pair that fits, none of it a reason to refuse. tokens: of a pair of models that fit."""

    fits: bool
    kind: str
    why: str
    notes: tuple[str, ...] = ()
    tokens: Pairing | None = None

    @property
    def line(self) -> str:
        """All of it in one line."""
        return "; ".join((self.why, *self.notes))
