"""Does a head fit this target? What can be told without a word of text, and what a folder says it was made for.

A head is checked against a target's `Shape`: measured of a loaded target, or, before anything is loaded, as its
folder's config.json says it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import mlx.core as mx

from engine.anatomy import embed, layers_of
from engine.errors import ModelError, PairError
from engine.features import Features
from models.folder import ModelFolder
from models.heads.folder import HeadFolder
from models.load import Loaded

_OTHER = "choose a drafter that was made for this target"


@dataclass(frozen=True)
class Shape:
    """What a head sees of its target.

    rows: of the logits. layers: decoder layers. hidden: numbers in a row of the embedding. states: points (see
    `engine.features`) to the numbers that the target shows there for a token. vocabulary: token to id.
    """

    name: str
    rows: int
    layers: int
    hidden: int
    states: Callable[[tuple[int, ...]], int] = field(repr=False)
    vocabulary: Mapping[str, int] = field(repr=False)


def shape_of(target: Loaded) -> Shape:
    """Of a loaded target, measured. Raises ModelError where its layers or its embedding cannot be found."""
    return Shape(
        name=target.name,
        rows=target.model.vocabulary,
        layers=len(layers_of(target.network)),
        hidden=sample_embedding(target, 1).shape[-1],
        states=lambda points: Features(target.network, points).width,
        vocabulary=target.folder.vocabulary,
    )


def shape_in(target: ModelFolder) -> Shape:
    """As config.json says it, nothing loaded. Raises ModelError where it does not say."""
    hidden = _said(target, "hidden_size")
    return Shape(
        name=target.path.name,
        rows=target.rows or max(target.vocabulary.values()) + 1,
        layers=_said(target, "num_hidden_layers"),
        hidden=hidden,
        states=lambda points: len(points) * hidden,
        vocabulary=target.vocabulary,
    )


def made_for(target: Loaded) -> dict[str, object]:
    """What a head's config.json says, under redline.target, of the target that it was made for."""
    return {
        "name": target.name,
        "model_type": target.folder.model_type,
        "vocabulary_sha256": _digest(target.folder.vocabulary),
    }


def check_made_for(folder: HeadFolder, target: Shape) -> None:
    """Where a folder says it, the target's tokens must be those it was made for. Raises PairError."""
    said = folder.config.part("redline").part("target").values
    if said.get("vocabulary_sha256", "") not in ("", _digest(target.vocabulary)):
        name = str(said.get("name", "another model"))[:60]
        raise PairError(f"{folder.path}: was made for {name}, whose tokens are not {target.name}'s; {_OTHER}")


def is_made_for(config: Mapping[str, object], vocabulary: Mapping[str, int]) -> bool:
    """Whether a drafter's config.json says that it was trained for a target of this vocabulary."""
    about = config.get("redline")
    said = about.get("target") if isinstance(about, Mapping) else None
    return isinstance(said, Mapping) and said.get("vocabulary_sha256") == _digest(vocabulary)


def check_vocabulary(folder: HeadFolder, vocabulary: int, target: Shape) -> None:
    """A head's target vocabulary is as large as the target's. Raises PairError."""
    if vocabulary != target.rows:
        raise PairError(f"{folder.path}: was made for {vocabulary} tokens, {target.name} has {target.rows}; {_OTHER}")


def check_width(folder: HeadFolder, width: int, states: int, target: Shape) -> None:
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


def _said(target: ModelFolder, key: str) -> int:
    """A size in config.json, or in its part for text."""
    text = target.config.get("text_config")
    for part in (text if isinstance(text, Mapping) else {}, target.config):
        value = part.get(key)
        if type(value) is int and value > 0:
            return value
    raise ModelError(f"{target.path}: config.json has no {key}, so only loading it can tell what heads it takes")


def _digest(vocabulary: Mapping[str, int]) -> str:
    """Of which token has which id, in any order."""
    lines = "\n".join(f"{number} {token!r}" for token, number in sorted(vocabulary.items(), key=lambda item: item[1]))
    return hashlib.sha256(lines.encode()).hexdigest()
