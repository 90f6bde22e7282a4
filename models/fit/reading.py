"""What the target thinks over a conversation: hidden states for the drafter to read, and its law to learn.

A conversation goes through the target alone, in one pass, so its states do not depend on what it is batched with.
They are taken as they come, or kept on disk in 16 bits where there is room: the target is then read once for all
epochs. The law is made from the last normed state and the logsumexp of all logits there, which are 10 to 300 times
smaller than the law, and need no product with the whole vocabulary again.

    a row of states     features (width) | normed state (hidden) | logsumexp (1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.anatomy import output_of, output_rows
from engine.errors import FitError
from engine.features import NORMED, Features
from models.fit.corpus import Conversation
from models.fit.work import write_whole

_LOGITS_BYTES = 64 * 1024**2  # of logits at a time
_TRIAL = 24
_LARGEST_HALF = 65504.0
_AGREES = 1e-2  # of the logits' spread, on average: what 16-bit arithmetic in another order explains


class Reader:
    """Reads hidden states and laws of the network. points: which states, in the sense of `engine.features`.

    width: of the features of a token; hidden: of the normed state; columns: of the logits.
    Raises ModelError for a model whose states cannot be read, FitError where its logits are made in an unknown way.
    """

    def __init__(self, network: Any, points: Sequence[int], config: Mapping[str, Any]) -> None:
        self._network = network
        self._features = Features(network, (*points, NORMED))
        self.hidden = Features(network, (NORMED,)).width
        self.width = self._features.width - self.hidden
        module, kind = output_of(network)
        self._bias: mx.array | None = module.get("bias") if kind == "input" else None
        self._matrix: Callable[[mx.array], mx.array] = module if kind == "input" else module.as_linear
        told, raw = self._try()
        self.columns = int(told.shape[-1])
        self._after = _transform(told, raw, _softcap(config))

    def read(self, conversation: Conversation) -> mx.array:
        """(n, width + hidden + 1) float32, a row a token. The logsumexp is 0 where nothing of the reply follows."""
        states = self._states(conversation.tokens)
        first = conversation.prompt - 1
        sums = self._logsumexp(states[first:, self.width :])
        rows = mx.concatenate([states, mx.pad(sums, (first, 0))[:, None]], 1)
        mx.eval(rows)
        return rows

    def lawgiver(self, ids: mx.array | None) -> Callable[[mx.array], mx.array]:
        """From the ends of rows of states, (n, hidden + 1), to the target's probabilities at temperature 1 of `ids`
        alone, which sum to less than 1, or of every token: (n, ids), float32."""
        if ids is None:
            return lambda rows: mx.exp(self._logits(rows[:, :-1]) - rows[:, -1:])
        matrix = output_rows(self._network, ids).astype(mx.float32).T
        bias = mx.zeros(ids.size) if self._bias is None else self._bias[ids].astype(mx.float32)
        mx.eval(matrix, bias)
        return lambda rows: mx.exp(self._after(rows[:, :-1] @ matrix + bias) - rows[:, -1:])

    def _states(self, tokens: NDArray[np.int32]) -> mx.array:
        self._network(mx.array(tokens)[None])  # logits are not asked for, so they are not computed
        self._features.record(0)
        rows = self._features.take(0, len(tokens)).astype(mx.float32)
        mx.eval(rows)
        self._features.drop()
        return rows

    def _logits(self, normed: mx.array) -> mx.array:
        return self._after(self._matrix(normed).astype(mx.float32))

    def _logsumexp(self, normed: mx.array) -> mx.array:
        """(n,), a few rows at a time, so that what is held is bounded."""
        rows = max(1, _LOGITS_BYTES // (4 * self.columns))
        parts = []
        for start in range(0, normed.shape[0], rows):
            parts.append(mx.logsumexp(self._logits(normed[start : start + rows]), -1))
            mx.eval(parts[-1])
        return mx.concatenate(parts)

    def _try(self) -> tuple[mx.array, mx.array]:
        """The logits of a short text as the model makes them, and the bare product with its output matrix."""
        tokens = np.array([1 + i % 7 for i in range(_TRIAL)], np.int32)
        told = self._network(mx.array(tokens)[None])[0].astype(mx.float32)
        raw = self._matrix(self._states(tokens)[:, self.width :]).astype(mx.float32)
        return told, raw


def _softcap(config: Mapping[str, Any]) -> float | None:
    for part in (config, config.get("text_config") or {}):
        if isinstance(value := part.get("final_logit_softcapping"), int | float) and value > 0:
            return float(value)
    return None


def _transform(told: mx.array, raw: mx.array, cap: float | None) -> Callable[[mx.array], mx.array]:
    """What turns `raw` into `told`: nothing, a soft cap, or a factor."""
    factor = mx.sum(told * raw) / mx.maximum(mx.sum(raw * raw), 1e-20)
    tried: list[Callable[[mx.array], mx.array]] = [lambda logits: logits]
    if cap is not None:
        tried.append(lambda logits: mx.tanh(logits / cap) * cap)
    tried.append(lambda logits: logits * factor)
    spread = mx.maximum(mx.std(told), 1e-6)
    for one in tried:
        if (mx.mean(mx.abs(one(raw) - told)) / spread < _AGREES).item():
            return one
    raise FitError("the target turns its last state into logits in a way that is not known here: choose another target")


# --- kept on disk -----------------------------------------------------------------------------


def states_file(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npy"


def store(path: Path, reader: Reader, conversations: Sequence[Conversation]) -> Iterator[int]:
    """Keep the states of `conversations` end to end in one file; yields the tokens of each as it is read.

    The file appears when the iterator ends. Raises OSError.
    """
    rows = []
    for conversation in conversations:
        rows.append(_halves(reader.read(conversation)))
        yield len(conversation.tokens)
    write_whole(path, lambda draft: np.save(draft, np.concatenate(rows)))


def _halves(rows: mx.array) -> NDArray[np.float16]:
    """In 16 bits, the logsumexp as a sum of two. Some models have single states past what 16 bits hold: clipped,
    which the norms behind hardly notice."""
    coarse = mx.clip(rows, -_LARGEST_HALF, _LARGEST_HALF).astype(mx.float16)
    rest = (rows[:, -1:] - coarse[:, -1:].astype(mx.float32)).astype(mx.float16)
    return np.array(mx.concatenate([coarse, rest], 1))


class Stored:
    """The states of conversation n, from files that `store` made with `reader`. Maps files, holds none.

    lengths: tokens of each conversation of each file.
    """

    def __init__(self, files: Sequence[Path], lengths: Sequence[Sequence[int]], reader: Reader) -> None:
        self._numbers = reader.width + reader.hidden + 2  # of a row, as `_halves` makes them
        self._places = [
            (file, sum(within[:place]), tokens)
            for file, within in zip(files, lengths, strict=True)
            for place, tokens in enumerate(within)
        ]

    def __call__(self, number: int) -> mx.array:
        """(n, width + hidden + 1) float32. Raises FitError for a damaged file."""
        file, start, tokens = self._places[number]
        try:
            halves = np.load(file, mmap_mode="r", allow_pickle=False)[start : start + tokens]
        except (OSError, ValueError, EOFError, RuntimeError, TokenError) as error:
            raise FitError(f"{file} is damaged ({error}): remove it and go on with --resume") from error
        if halves.shape != (tokens, self._numbers) or halves.dtype != np.float16:
            raise FitError(f"{file} is of another size: remove it and go on with --resume")
        rows = mx.array(np.ascontiguousarray(halves)).astype(mx.float32)
        return mx.concatenate([rows[:, :-2], rows[:, -2:-1] + rows[:, -1:]], 1)
