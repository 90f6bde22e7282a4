"""Whether a head fits a target, by its sizes and by the tokens that it was made for.

A head is checked against a target's `TargetShape`: measured of a loaded target, or read from its folder's config.json
before anything is loaded.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx

from engine.errors import ModelError, PairError
from engine.target.model_layout import check_states, embed, layers_of, matrix_rows, output_of
from models.drafters.head_folder import Fields
from models.loader import Loaded
from models.model_config import first_count
from models.model_folder import ModelFolder
from models.paths import name_of

_COMPARED = 256  # rows of a matrix
_ALIKE = 0.7  # the least cosine of a copy: 2 bits leave .87, other rows .45


@dataclass(frozen=True)
class TargetShape:
    """The sizes of a target that a head depends on.

    rows: of the logits. layers: decoder layers. hidden: numbers in a row of the embedding. states: numbers that the
    target shows a head for a token at these taps (see `engine.target.layer_taps`). vocabulary: token to id. config:
    its config.json, which may say what a head's own does not.
    """

    name: str
    rows: int
    layers: int
    hidden: int
    states: Callable[[tuple[int, ...]], int] = field(repr=False)
    vocabulary: Mapping[str, int] = field(repr=False)
    config: Mapping[str, object] = field(default_factory=dict, repr=False)


def shape_of(target: Loaded) -> TargetShape:
    """Measures a loaded target. Raises ModelError if its layers or its embedding cannot be found here."""
    check_states(target.network)
    return TargetShape(
        name=target.name,
        rows=target.model.vocabulary,
        layers=len(layers_of(target.network)),
        hidden=first_embedding(target).shape[-1],
        states=lambda taps: target.model.layer_taps(taps).width,
        vocabulary=target.folder.vocabulary,
        config=target.folder.config,
    )


def shape_in(target: ModelFolder) -> TargetShape:
    """Reads the shape from a target's config.json; nothing is loaded. Raises ModelError if it does not say."""
    hidden = _size(target, "hidden_size")
    return TargetShape(
        name=name_of(target.path),
        rows=target.rows or max(target.vocabulary.values()) + 1,
        layers=_size(target, "num_hidden_layers"),
        hidden=hidden,
        states=lambda taps: len(taps) * hidden,
        vocabulary=target.vocabulary,
        config=target.config,
    )


def made_for(target: Loaded) -> dict[str, object]:
    """Returns what a head's config.json has under redline.target: the target that it was made for."""
    return {
        "name": target.name,
        "model_type": target.folder.model_type,
        "vocabulary_sha256": vocabulary_digest(target.folder.vocabulary),
    }


def check_made_for(config: Fields, target: TargetShape) -> None:
    """Raises PairError if the config.json of a head says that it was made for other tokens than the target's."""
    recorded = config.part("redline").part("target").values
    digest = recorded.get("vocabulary_sha256", "")
    if digest != "" and digest != vocabulary_digest(target.vocabulary):
        name = str(recorded.get("name", "another model"))[:60]
        raise misfit(config.path, "tokenizer", f"made for {name}, not for {target.name}")


def is_made_for(config: Mapping[str, object], vocabulary: Mapping[str, int]) -> bool:
    """Whether a drafter's config.json says that it was trained for a target of this vocabulary."""
    about = config.get("redline")
    recorded = about.get("target") if isinstance(about, Mapping) else None
    return isinstance(recorded, Mapping) and recorded.get("vocabulary_sha256") == vocabulary_digest(vocabulary)


def misfit(path: Path, what: str, found: str) -> PairError:
    """Returns the error for a head that was made for another target. what: differs. found: how."""
    return PairError(f"{path}: different {what} ({found}); choose a drafter that was made for this target")


def check_vocabulary(path: Path, vocabulary: int, target: TargetShape) -> None:
    """Raises PairError unless a head's target vocabulary is as large as the target's."""
    if vocabulary != target.rows:
        raise misfit(path, "vocabulary size", f"{vocabulary:,}; {target.name} has {target.rows:,}")


def check_width(path: Path, width: int, states: int, target: TargetShape) -> None:
    """Raises PairError unless the head reads (`width`) as many numbers a token as the target shows it (`states`)."""
    if width != states:
        raise misfit(path, "hidden size", f"{width:,} numbers a token; {target.name} has {states:,}")


def first_embedding(target: Loaded) -> mx.array:
    """Returns the first row of the target's embedding, (1, hidden), in the type the target computes in: float32 on CPU,
    on Metal what its weights are stored in."""
    return embed(target.network)(mx.arange(1))


def _sample_ids(target: Loaded) -> mx.array:
    """Returns the ids of some rows of the target's matrices, evenly spread. Copies are judged by all of them together,
    as one alone may be zeros."""
    rows = min(_COMPARED, target.model.vocabulary)
    return mx.arange(rows) * (target.model.vocabulary // rows)


def is_copy(own: mx.array, target: Loaded) -> bool:
    """Whether an embedding, a row a token, is a copy of the target's, up to their precision."""
    if own.shape[0] != target.model.vocabulary:
        return False
    ids = _sample_ids(target)
    mine, theirs = own[ids].astype(mx.float32), embed(target.network)(ids).astype(mx.float32)
    if mine.shape != theirs.shape:
        return False
    alike = mx.sum(mine * theirs) * mx.rsqrt(mx.sum(mine * mine) * mx.sum(theirs * theirs))
    return bool((alike >= _ALIKE).item())  # NaN, where all are zeros, is not


def copies_output(own: Callable[[mx.array], mx.array], target: Loaded) -> bool:
    """Whether an output matrix, which has a row for each of the target's tokens, is the target's, but for what 16 bits
    and the target's quantization round. own: returns rows of it by ids. Stricter than `is_copy`, since the target's own
    rows then draft: a matrix that was trained further is only similar."""
    original = output_of(target.network).module
    ids = _sample_ids(target)
    mine, other = own(ids).astype(mx.float32), matrix_rows(original, ids).astype(mx.float32)
    if mine.shape != other.shape or "bias" in original:
        return False
    rounded = mine
    if "scales" in original:
        form = (original.group_size, original.bits)
        rounded = mx.dequantize(
            *mx.quantize(mine, *form, mode=original.mode), group_size=form[0], bits=form[1], mode=original.mode
        )
    allowed = 1.2 * mx.linalg.norm(mine - rounded) + 0.005 * mx.linalg.norm(mine)
    return bool((mx.linalg.norm(mine - other) <= allowed).item())


def _size(target: ModelFolder, key: str) -> int:
    size = first_count(target.config, key)
    if size is None:
        raise ModelError(f"{target.path}: config.json has no {key}; choose a model made for MLX or transformers")
    return size


def vocabulary_digest(vocabulary: Mapping[str, int]) -> str:
    """Returns a digest of which token has which id, whatever their order."""
    lines = "\n".join(f"{number} {token!r}" for token, number in sorted(vocabulary.items(), key=lambda item: item[1]))
    return hashlib.sha256(lines.encode()).hexdigest()
