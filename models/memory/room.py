"""What this machine can give a model.

macOS    the GPU may wire a part of memory that the system names; what is beyond does not run
others   what the process may have at all
"""

from __future__ import annotations

from dataclasses import dataclass

_SPARED = 0.1  # of memory that only the processor uses, for everything else


@dataclass(frozen=True)
class Room:
    """In bytes. total: of memory. free: now, without taking any from other programs. wired: what the GPU may hold at
    most, None where there is no GPU. None where the system does not say."""

    total: int | None
    free: int | None = None
    wired: int | None = None

    @property
    def most(self) -> int | None:
        """What a pair may take if everything else makes room."""
        if self.wired is not None:
            return self.wired
        return None if self.total is None else int(self.total * (1 - _SPARED))
