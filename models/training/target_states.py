"""The target's hidden states over a conversation, which a drafter reads, and its distribution, which a drafter learns.

A conversation goes through the target alone, in one pass, so its states do not depend on what it is batched with.
They are computed when needed, or stored on disk in 16 bits if there is space: the target then runs once for all
epochs. The distribution is computed from the last normed state and the logsumexp of all logits, which are 10 to 300
times smaller than the distribution and need no further product with the whole vocabulary.

    a row of states     features (width) | normed state (hidden) | logsumexp (1)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.backend import to_numpy
from engine.errors import FitError
from engine.target.layer_taps import NORMED, LayerTaps
from engine.target.model_layout import output_of, output_rows
from models.durable_files import replace_with
from models.model_config import config_parts
from models.training.corpus import Conversation

_LOGITS_BYTES = 64 * 1024**2  # of logits at a time
_TRIAL = 24
_LARGEST_HALF = 65504.0
_AGREES = 1e-2  # of the logits' spread, on average: what 16-bit arithmetic in another order explains


class TargetStateReader:
    """Reads hidden states and distributions of a network. points: the states to read, as `engine.target.layer_taps`
    numbers them.

    width: the size of a token's features; hidden: of its normed state; columns: of its logits.
    Raises ModelError if the states cannot be read, FitError if the logits are computed in an unsupported way.
    """

    def __init__(self, network: Any, points: Sequence[int], config: Mapping[str, Any]) -> None:
        self._network = network
        self._features = LayerTaps(network, (*points, NORMED))
        self.hidden = LayerTaps(network, (NORMED,)).width
        self.width = self._features.width - self.hidden
        module, kind = output_of(network)
        self._bias: mx.array | None = module.get("bias") if kind == "input" else None
        self._matrix: Callable[[mx.array], mx.array] = module if kind == "input" else module.as_linear
        logits, raw = self._try()
        self.columns = int(logits.shape[-1])
        self._after = _transform(logits, raw, _softcap(config))

    def read(self, conversation: Conversation) -> mx.array:
        """Returns (n, width + hidden + 1) float32, one row per token. The logsumexp is 0 before the reply."""
        states = self._states(conversation.tokens)
        first = conversation.prompt - 1
        sums = self._logsumexp(states[first:, self.width :])
        rows = mx.concatenate([states, mx.pad(sums, (first, 0))[:, None]], 1)
        mx.eval(rows)
        return rows

    def target_distribution(self, ids: mx.array | None) -> Callable[[mx.array], mx.array]:
        """Returns a function from the ends of state rows, (n, hidden + 1), to the target's probabilities at temperature
        1, (n, ids) float32: of `ids` only, whose sum is less than 1, or of every token."""
        if ids is None:
            return lambda rows: mx.exp(self._logits(rows[:, :-1]) - rows[:, -1:])
        matrix = output_rows(self._network, ids).astype(mx.float32).T
        bias = mx.zeros(ids.size) if self._bias is None else self._bias[ids].astype(mx.float32)
        mx.eval(matrix, bias)
        return lambda rows: mx.exp(self._after(rows[:, :-1] @ matrix + bias) - rows[:, -1:])

    def _states(self, tokens: NDArray[np.int32]) -> mx.array:
        self._network(mx.array(tokens)[None])  # the logits are never evaluated, so they are not computed
        self._features.record(0)
        rows = self._features.take(0, len(tokens)).astype(mx.float32)
        mx.eval(rows)
        self._features.drop()
        return rows

    def _logits(self, normed: mx.array) -> mx.array:
        return self._after(self._matrix(normed).astype(mx.float32))

    def _logsumexp(self, normed: mx.array) -> mx.array:
        """Returns (n,), computed a few rows at a time to bound memory."""
        rows = max(1, _LOGITS_BYTES // (4 * self.columns))
        parts = []
        for start in range(0, normed.shape[0], rows):
            parts.append(mx.logsumexp(self._logits(normed[start : start + rows]), -1))
            mx.eval(parts[-1])
        return mx.concatenate(parts)

    def _try(self) -> tuple[mx.array, mx.array]:
        """Returns the model's logits of a short text, and the plain product with its output matrix."""
        tokens = np.array([1 + i % 7 for i in range(_TRIAL)], np.int32)
        logits = self._network(mx.array(tokens)[None]).squeeze(0).astype(mx.float32)
        raw = self._matrix(self._states(tokens)[:, self.width :]).astype(mx.float32)
        return logits, raw


def _softcap(config: Mapping[str, Any]) -> float | None:
    for part in config_parts(config):
        if isinstance(value := part.get("final_logit_softcapping"), int | float) and value > 0:
            return float(value)
    return None


def _transform(logits: mx.array, raw: mx.array, cap: float | None) -> Callable[[mx.array], mx.array]:
    """Returns the function from `raw` to `logits`: the identity, a soft cap, or a factor."""
    factor = mx.sum(logits * raw) / mx.maximum(mx.sum(raw * raw), 1e-20)
    tried: list[Callable[[mx.array], mx.array]] = [lambda logits: logits]
    if cap is not None:
        tried.append(lambda logits: mx.tanh(logits / cap) * cap)
    tried.append(lambda logits: logits * factor)
    spread = mx.maximum(mx.std(logits), 1e-6)
    for one in tried:
        if (mx.mean(mx.abs(one(raw) - logits)) / spread < _AGREES).item():
            return one
    raise FitError("the target computes its logits in a way that Redline does not support: choose another target")


# --- stored on disk ---------------------------------------------------------------------------


def states_file(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npy"


def store_states(path: Path, reader: TargetStateReader, conversations: Sequence[Conversation]) -> Iterator[int]:
    """Writes the states of `conversations` to one file; yields the number of tokens of each after it is read.

    The file is created when the iterator ends. Raises OSError.
    """
    rows = []
    for conversation in conversations:
        rows.append(_halves(reader.read(conversation)))
        yield len(conversation.tokens)
    replace_with(path, lambda draft: np.save(draft, np.concatenate(rows)))


def _halves(rows: mx.array) -> NDArray[np.float16]:
    """Returns the rows in 16 bits, with the logsumexp as the sum of two numbers. Some models have a few states beyond
    the range of 16 bits; those are clipped, which hardly changes the output of the norms that follow."""
    coarse = mx.clip(rows, -_LARGEST_HALF, _LARGEST_HALF).astype(mx.float16)
    rest = (rows[:, -1:] - coarse[:, -1:].astype(mx.float32)).astype(mx.float16)
    return to_numpy(mx.concatenate([coarse, rest], 1))


class StoredStates:
    """The states of each conversation, memory-mapped from files that `store_states` wrote with `reader`.

    lengths: the number of tokens of each conversation of each file.
    """

    def __init__(self, files: Sequence[Path], lengths: Sequence[Sequence[int]], reader: TargetStateReader) -> None:
        self._numbers = reader.width + reader.hidden + 2  # of a row, as `_halves` makes them
        self._places = [
            (file, sum(within[:place]), tokens)
            for file, within in zip(files, lengths, strict=True)
            for place, tokens in enumerate(within)
        ]

    def __call__(self, number: int) -> mx.array:
        """Returns (n, width + hidden + 1) float32 of a conversation. Raises FitError for a damaged file."""
        file, start, tokens = self._places[number]
        try:
            halves = np.load(file, mmap_mode="r", allow_pickle=False)[start : start + tokens]
        except (OSError, ValueError, EOFError, RuntimeError, TokenError) as error:
            raise FitError(f"{file} is damaged ({error}): remove it and continue with --resume") from error
        if halves.shape != (tokens, self._numbers) or halves.dtype != np.float16:
            raise FitError(f"{file} has the wrong size: remove it and continue with --resume")
        rows = mx.array(np.ascontiguousarray(halves)).astype(mx.float32)
        return mx.concatenate([rows[:, :-2], rows[:, -2:-1] + rows[:, -1:]], 1)
