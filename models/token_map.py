"""Token maps: which token string has which id, read from tokenizer.json, and whether two models share them.

Read directly, not through the tokenizers library, whose errors cannot be told apart from its bugs and which also
builds the merge tables that nobody needs here. Format: tokenizers' tokenizer.json; `model.vocab` is a map (BPE,
WordPiece, WordLevel) or a list of [token, score] (Unigram); `added_tokens` is a list of {"id", "content", ...}.

A model drafts for another token by token only if the same ids mean the same tokens; else by the bytes that tokens stand
for (`token_bytes`). Sizes prove nothing: two tokenizers of 49,152
tokens can disagree everywhere, so the maps are compared token by token. What may differ is the end of the map: padding
rows without a token, and tokens that only one side has after the last common one, as long as the drafter has an
embedding for every token of the target. Those ids are never drafted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from engine.errors import ModelError, PairError
from models.durable_files import read_json_object

LARGEST_ID = 1 << 24
LARGEST_BYTES = 128 * 1024 * 1024  # of a tokenizer.json; those of 262,144 tokens have 33
_SHOWN = 3


def read_vocabulary(path: Path) -> Mapping[str, int]:
    """Returns token string -> id of the tokenizer.json at `path`, added and special tokens included.

    Raises ModelError: missing, damaged, of an unknown form.
    """
    content = read_json_object(path, LARGEST_BYTES)
    model = content.get("model")
    listed = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(listed, list):
        pairs = [(number, item[0]) for number, item in enumerate(listed) if isinstance(item, list) and item]
        listed = {token if isinstance(token, str) else number: number for number, token in pairs}
    if not isinstance(listed, dict):
        raise _damaged(path, "has no vocabulary")
    added = content.get("added_tokens") or []
    if not isinstance(added, list) or not all(
        isinstance(token, dict) and isinstance(token.get("content"), str | None) for token in added
    ):
        raise _damaged(path, "has added tokens of an unknown form")
    vocabulary = dict(listed)
    vocabulary.update((token.get("content"), token.get("id")) for token in added)
    for token, number in vocabulary.items():
        if type(token) is not str or type(number) is not int or not 0 <= number < LARGEST_ID:
            raise _damaged(path, f"gives the token {str(token)[:40]!r} no usable id")
    if not vocabulary:
        raise _damaged(path, "has an empty vocabulary")
    return MappingProxyType(vocabulary)


def vocabulary_size(vocabulary: Mapping[str, int]) -> int:
    """Returns one more than the largest id."""
    return max(vocabulary.values()) + 1


class HasVocabulary(Protocol):
    """A model's folder, as far as its tokens go. rows: of its embedding, None if unknown."""

    @property
    def path(self) -> Path: ...
    @property
    def rows(self) -> int | None: ...
    @property
    def vocabulary(self) -> Mapping[str, int]: ...


@dataclass(frozen=True)
class TokenDifference:
    """One id and the token it means to each side, None where a side has no such token."""

    id: int
    target: str | None
    drafter: str | None

    def __str__(self) -> str:
        return f"{self.id} is {_shown(self.target)} in the target and {_shown(self.drafter)} in the drafter"


def match_tokens(target: HasVocabulary, drafter: HasVocabulary) -> int:
    """Returns how many tokens two checked folders share: every id below that number means the same to both, and is in
    the embedding of both. Raises PairError, naming the first tokens that differ."""
    target_rows = target.rows or vocabulary_size(target.vocabulary)
    drafter_rows = drafter.rows or vocabulary_size(drafter.vocabulary)
    end = min(vocabulary_size(target.vocabulary), vocabulary_size(drafter.vocabulary), target_rows, drafter_rows)
    found = [one for one in token_differences(target.vocabulary, drafter.vocabulary) if one.id < end]
    emitted = ((number, token) for token, number in target.vocabulary.items() if number < target_rows)
    found += [TokenDifference(number, token, None) for number, token in sorted(emitted) if number >= drafter_rows]
    if found:
        raise PairError(_refusal(target, drafter, found))
    return end


def token_differences(target: Mapping[str, int], drafter: Mapping[str, int]) -> list[TokenDifference]:
    """Returns every id whose tokens differ between two maps, in order of id; empty if the maps are equal."""
    if target == drafter:
        return []
    only_target = {number: token for token, number in target.items() - drafter.items()}
    only_drafter = {number: token for token, number in drafter.items() - target.items()}
    ids = sorted(only_target.keys() | only_drafter.keys())
    return [TokenDifference(number, only_target.get(number), only_drafter.get(number)) for number in ids]


def _refusal(target: HasVocabulary, drafter: HasVocabulary, found: list[TokenDifference]) -> str:
    first = "; ".join(str(difference) for difference in found[:_SHOWN])
    more = f"; {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    verb = "differ" if len(found) > 1 else "differs"
    count = f"{len(found):,} of {vocabulary_size(target.vocabulary):,} tokens {verb}"
    return f"{drafter.path}: different tokenizer ({count}: {first}{more}); choose a drafter of the same family"


def _shown(token: str | None) -> str:
    return "no token" if token is None else repr(token[:40])


def _damaged(path: Path, what: str) -> ModelError:
    return ModelError(f"{path}: {what}; the file is damaged or of an unknown kind, download it again")
