"""What a wrong edit is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`old`, which stands once in `file`, replaced by `new`; `tests` (pytest ids, all fast) must then fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
