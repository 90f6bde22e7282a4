"""What the target thinks over a conversation: hidden states for the drafter to read, and its law to learn.

A conversation goes through the target alone, in one pass, so its states do not depend on what it is batched with.
They are taken as they come, or kept on disk as float16 where there is room: the target is then read once for all
epochs. The law is made from the last normed state, which is 10 to 300 times smaller than the law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.anatomy import output_of
from engine.errors import FitError
from engine.features import NORMED, Features
from models.fit.work import write_whole

_LAW_BYTES = 64 * 1024**2  # of logits at a time
_TRIAL = 24
_LARGEST_HALF = 65504.0
_AGREES = 2e-2  # of the logits' spread: 16-bit arithmetic in another order


class Reader:
    """Reads hidden states of the network. points: which, in the sense of `engine.features`, beside the normed one.

    width: of the features of a token; hidden: of the normed state.
    Raises ModelError for a model whose states cannot be read.
    """

    def __init__(self, network: Any, points: Sequence[int]) -> None:
        self._network = network
        self._features = Features(network, (*points, NORMED))
        self.hidden = Features(network, (NORMED,)).width
        self.width = self._features.width - self.hidden

    def read(self, tokens: Sequence[int]) -> mx.array:
        """(n, width + hidden) float32: the features of each token and, behind them, its normed state."""
        self._network(mx.array(list(tokens), mx.int32)[None])
        self._features.record(0)
        rows = self._features.take(0, len(tokens)).astype(mx.float32)
        mx.eval(rows)
        self._features.drop()
        return rows


class Readout:
    """From normed states to the target's logits: its output matrix, and what its code does after it.

    Raises FitError for a model whose logits are made in a way that is not known here.
    """

    def __init__(self, network: Any, reader: Reader, config: Any) -> None:
        module, kind = output_of(network)
        self._matrix: Callable[[mx.array], mx.array] = module if kind == "input" else module.as_linear
        self._after: Callable[[mx.array], mx.array] = lambda logits: logits
        tokens = [1 + i % 7 for i in range(_TRIAL)]
        told = network(mx.array([tokens], mx.int32))[0].astype(mx.float32)
        raw = self._matrix(reader.read(tokens)[:, reader.width :].astype(told.dtype)).astype(mx.float32)
        self.columns = int(told.shape[-1])
        self._after = _transform(told, raw, _softcap(config))

    def __call__(self, normed: mx.array) -> mx.array:
        """(n, hidden) to logits (n, columns), float32."""
        return self._after(self._matrix(normed).astype(mx.float32))

    def law(self, normed: mx.array, ids: mx.array | None) -> mx.array:
        """The target's probabilities at temperature 1 of `ids` alone (they sum to less than 1), or of every token:
        (n, ids). Made a few rows at a time, so that what is held is bounded."""
        rows = max(1, _LAW_BYTES // (4 * self.columns))
        parts = []
        for start in range(0, normed.shape[0], rows):
            logits = self(normed[start : start + rows])
            probs = mx.softmax(logits, -1)
            parts.append(probs if ids is None else probs[:, ids])
            mx.eval(parts[-1])
        return mx.concatenate(parts)


def _softcap(config: Any) -> float | None:
    for part in (config, config.get("text_config") or {}):
        if isinstance(value := part.get("final_logit_softcapping"), int | float) and value > 0:
            return float(value)
    return None


def _transform(told: mx.array, raw: mx.array, cap: float | None) -> Callable[[mx.array], mx.array]:
    """What turns `raw` into `told`: nothing, a soft cap, or a factor."""
    factor = float((mx.sum(told * raw) / mx.maximum(mx.sum(raw * raw), 1e-20)).item())
    tried: list[Callable[[mx.array], mx.array]] = [lambda logits: logits]
    if cap is not None:
        tried.append(lambda logits: mx.tanh(logits / cap) * cap)
    tried.append(lambda logits: logits * factor)
    spread = mx.maximum(mx.std(told), 1e-6)
    for one in tried:
        if float((mx.max(mx.abs(one(raw) - told)) / spread).item()) < _AGREES:
            return one
    raise FitError("the target turns its last state into logits in a way that is not known here: choose another target")


# --- kept on disk -----------------------------------------------------------------------------


def states_file(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npy"


def store(path: Path, reader: Reader, conversations: Sequence[Sequence[int]]) -> Iterator[int]:
    """Keep the states of `conversations` end to end in one file; yields the tokens of each as it is read.

    The file appears when the iterator ends. Raises OSError.
    """
    rows = []
    for tokens in conversations:
        rows.append(_half(reader.read(tokens)))
        yield len(tokens)
    write_whole(path, lambda draft: np.save(draft, np.concatenate(rows)))


def _half(rows: mx.array) -> NDArray[np.float16]:
    """Some models have single states past what 16 bits hold: clipped, which the norms behind hardly notice."""
    return np.array(mx.clip(rows, -_LARGEST_HALF, _LARGEST_HALF).astype(mx.float16))


class Stored:
    """The states of conversation n, from files that a `store` made. Maps files, holds none.

    lengths: tokens of each conversation of each file.
    """

    def __init__(self, files: Sequence[Path], lengths: Sequence[Sequence[int]]) -> None:
        self._places = [
            (file, sum(within[:place]), tokens)
            for file, within in zip(files, lengths, strict=True)
            for place, tokens in enumerate(within)
        ]

    def __call__(self, number: int) -> mx.array:
        """(n, width + hidden) float32. Raises FitError for a damaged file."""
        file, start, tokens = self._places[number]
        try:
            rows = np.load(file, mmap_mode="r", allow_pickle=False)[start : start + tokens]
        except (OSError, ValueError) as error:
            raise FitError(f"{file} is damaged ({error}): remove it and go on with --resume") from error
        if len(rows) != tokens:
            raise FitError(f"{file} is too short: remove it and go on with --resume")
        return mx.array(np.ascontiguousarray(rows)).astype(mx.float32)
