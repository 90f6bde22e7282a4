"""May this drafter draft for this target? Only if the same ids mean the same tokens.

Sizes prove nothing: two tokenizers of 49,152 tokens can disagree everywhere. So the maps are compared token by token.
What may differ is the end of the map: padding rows without a token, and tokens that only one side has after the last
common one, as long as the drafter has embeddings to read what the target says. Those ids are never drafted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import PairError
from models.folder import ModelFolder

_SHOWN = 3


@dataclass(frozen=True)
class Pairing:
    """A pair that fits.

    Ids below `shared_vocabulary` mean the same to both; the engine masks the drafter's others. An id at or above
    `drafter_rows` has no embedding in the drafter (the target can still draw one if `target_rows` is larger).
    """

    shared_vocabulary: int
    target_rows: int
    drafter_rows: int


@dataclass(frozen=True)
class Difference:
    """One id with what it means to each side; None where a side has no such token."""

    id: int
    target: str | None
    drafter: str | None

    def __str__(self) -> str:
        return f"{self.id} is {_shown(self.target)} to the target and {_shown(self.drafter)} to the drafter"


def check_pair(target: ModelFolder, drafter: ModelFolder) -> Pairing:
    """The pairing of two checked folders. Raises PairError, naming the first tokens that differ."""
    target_rows = target.rows or vocabulary_size(target.vocabulary)
    drafter_rows = drafter.rows or vocabulary_size(drafter.vocabulary)
    end = min(vocabulary_size(target.vocabulary), vocabulary_size(drafter.vocabulary), target_rows, drafter_rows)
    found = [one for one in differences(target.vocabulary, drafter.vocabulary) if one.id < end]
    said = ((number, token) for token, number in target.vocabulary.items() if number < target_rows)
    found += [Difference(number, token, None) for number, token in sorted(said) if number >= drafter_rows]
    if found:
        raise PairError(_refusal(drafter, found))
    return Pairing(end, target_rows, drafter_rows)


def differences(target: Mapping[str, int], drafter: Mapping[str, int]) -> list[Difference]:
    """Every id whose tokens differ between two maps, in order of id; empty when the maps are equal."""
    if target == drafter:
        return []
    only_target = {number: token for token, number in target.items() - drafter.items()}
    only_drafter = {number: token for token, number in drafter.items() - target.items()}
    ids = sorted(only_target.keys() | only_drafter.keys())
    return [Difference(number, only_target.get(number), only_drafter.get(number)) for number in ids]


def _refusal(drafter: ModelFolder, found: list[Difference]) -> str:
    first = "; ".join(str(difference) for difference in found[:_SHOWN])
    more = f"; {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    count = f"{len(found)} tokens differ" if len(found) > 1 else "1 token differs"
    return f"{drafter.path}: does not fit the target, {count} ({first}{more}); choose a drafter of its family"


def _shown(token: str | None) -> str:
    return "no token" if token is None else repr(token[:40])


def vocabulary_size(vocabulary: Mapping[str, int]) -> int:
    """One more than its largest id."""
    return max(vocabulary.values()) + 1
