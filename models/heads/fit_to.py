"""Does a head fit this target? What can be told without a word of text, and what a folder says it was made for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import mlx.core as mx

from engine.anatomy import embed
from engine.errors import PairError
from models.heads.folder import HeadFolder
from models.load import Loaded

_OTHER = "choose a drafter that was made for this target"


def made_for(target: Loaded) -> dict[str, object]:
    """What a head's config.json says, under redline.target, of the target that it was made for."""
    return {
        "name": target.name,
        "model_type": target.folder.model_type,
        "vocabulary_sha256": _digest(target.folder.vocabulary),
    }


def check_made_for(folder: HeadFolder, target: Loaded) -> None:
    """Where a folder says it, the target's tokens must be those it was made for. Raises PairError."""
    said = folder.config.part("redline").part("target").values
    if said.get("vocabulary_sha256", "") not in ("", _digest(target.folder.vocabulary)):
        name = str(said.get("name", "another model"))[:60]
        raise PairError(f"{folder.path}: was made for {name}, whose tokens are not {target.name}'s; {_OTHER}")


def check_vocabulary(folder: HeadFolder, vocabulary: int, target: Loaded) -> None:
    """A head's target vocabulary is as large as the target's. Raises PairError."""
    if vocabulary != target.model.vocabulary:
        raise PairError(
            f"{folder.path}: was made for {vocabulary} tokens, {target.name} has {target.model.vocabulary}; {_OTHER}"
        )


def check_width(folder: HeadFolder, width: int, states: int, target: Loaded) -> None:
    """`states` numbers are what the target shows a head for each token, `width` what it wants. Raises PairError."""
    if width != states:
        raise PairError(
            f"{folder.path}: reads {width} numbers for each token, and {target.name} has {states} there; {_OTHER}"
        )


def dtype_of(target: Loaded) -> mx.Dtype:
    """What the target computes in: float32 on CPU, on Metal what its weights are stored in."""
    return sample_embedding(target, 1).dtype


def sample_embedding(target: Loaded, rows: int) -> mx.array:
    """Some rows of the target's embedding, evenly spread: (rows, hidden)."""
    return embed(target.network)(sample_ids(target, rows))


def sample_ids(target: Loaded, rows: int) -> mx.array:
    """The ids of those rows."""
    return mx.arange(rows) * (target.model.vocabulary // rows)


def _digest(vocabulary: Mapping[str, int]) -> str:
    """Of which token has which id, in any order."""
    lines = "\n".join(f"{number} {token!r}" for token, number in sorted(vocabulary.items(), key=lambda item: item[1]))
    return hashlib.sha256(lines.encode()).hexdigest()
