"""How far an import is, told as it goes."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """`done_bytes` of the `total_bytes` of weights to be written; what: a word or two on what is being done."""

    what: str
    done_bytes: int
    total_bytes: int


Tell = Callable[[Progress], None]


def say_nothing(progress: Progress) -> None:
    """For those who do not ask how far it is."""
