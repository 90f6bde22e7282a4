"""Compares what Redline loads and computes with what transformers computed."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np
from tokenizers import Tokenizer, models

from engine.errors import RedlineError
from engine.target.cached_model import CachedModel
from models.loader import Loaded, load

FOLDER = Path(__file__).parent
EARLY = 12  # tokens before any threshold
_PIECES = (5, 1, 9, 2, 1, 13, 3, 1, 64)


@dataclass(frozen=True)
class Difference:
    """The largest differences of logits. before: no threshold is passed; after: windows and original contexts are;
    pieces: prefill in pieces, with the cache. reason: why the folder is refused, None where it loads."""

    before: float = 0.0
    after: float = 0.0
    pieces: float = 0.0
    reason: str | None = None

    @property
    def largest(self) -> float:
        return max(self.before, self.after, self.pieces)


def names() -> list[str]:
    """Returns the references, each a folder."""
    return sorted(path.parent.name for path in FOLDER.glob("*/expected.npz"))


def folder_of(name: str, path: Path, source: Path = FOLDER) -> Path:
    """Copies a reference to `path`, as a user would have it: with a tokenizer."""
    shutil.copytree(source / name, path)
    (path / "expected.npz").unlink()
    words = {f"w{number}": number for number in range(64)}
    Tokenizer(models.WordLevel(words, unk_token="w0")).save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return path


def compare(name: str, path: Path, source: Path = FOLDER) -> Difference:
    """Loads the folder at `path` and compares it with the reference called `name`."""
    try:
        loaded = load(path)
        model = in_float32(loaded)
    except RedlineError as error:
        return Difference(reason=str(error).removeprefix(str(path)))
    with np.load(source / name / "expected.npz") as expected:
        tokens, whole = expected["tokens"], expected["whole"]
        if "beginning" in expected and (loaded.folder.context_length or len(tokens)) < len(tokens):
            tokens, whole = tokens[: loaded.folder.context_length], expected["beginning"]  # contexts end there
        beginning = expected.get("beginning", whole[:EARLY])
    early = _apart(in_one_pass(model, tokens[: len(beginning)]), beginning)
    late = _apart(in_one_pass(model, tokens)[EARLY:], whole[EARLY:])
    return Difference(early, late, _apart(in_pieces(model, tokens), whole))


def in_float32(loaded: Loaded) -> CachedModel:
    """Returns the target, in float32 on a backend that keeps 16 bits too."""
    loaded.network.set_dtype(mx.float32)
    return loaded.model


def in_one_pass(model: CachedModel, tokens: np.ndarray) -> np.ndarray:
    """Returns the logits after each token."""
    model.reset()
    model.read_as(len(tokens))
    return np.array(model.forward(mx.array(tokens)).astype(mx.float32))


def in_pieces(model: CachedModel, tokens: np.ndarray) -> np.ndarray:
    """Returns the same from passes of several widths."""
    model.reset()
    model.read_as(len(tokens))
    rows = [np.array(model.forward(mx.array(piece)).astype(mx.float32)) for piece in _pieces(tokens)]
    return np.concatenate(rows)


def _pieces(tokens: np.ndarray) -> Iterator[np.ndarray]:
    start = 0
    for width in _PIECES:
        if start < len(tokens):
            yield tokens[start : start + width]
        start += width


def _apart(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max())
