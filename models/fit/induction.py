"""An induction head, put into an EAGLE-3 head by hand before it is trained.

An induction head looks for the earlier places of the token that it last saw and says what followed there (Olsson 2022,
arXiv 2209.11895). Training finds that circuit late, the short trainings of a fit never did, so a fit begins with it.

Place i of the head has the target's states at t_i and the embedding of t_(i+1), and guesses t_(i+2). So where t_j is
t_(i+1), the embedding at place j is that of t_(j+1), the token to say again.

    query of i    a code of t_(i+1), from its embedding             code: whitened principal directions of the
    key of j      the same code of t_j, decoded from its low state  embeddings of the draft vocabulary
    value of j    principal directions of the embedding of t_(j+1), which the output turns into t_(j+1)'s output row

Query and key lie in the pairs that the rotary embedding turns slowest, so distance matters little. The code reaches
the key along directions of the fused state that hardly vary otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.heads.eagle3 import Eagle3Head

Matrix = NDArray[np.float64]

SINKS = 4  # places at the beginning of a text, whose states may be a hundred times as large as others
_SLOW = 3 / 8  # of the rotary pairs
_SHARPNESS = (9.0, 24.0)  # the score of a token with itself: of the bluntest and of the sharpest query head
_CODE_SIZE = 0.5  # of the code in the fused state, in root mean squares of that
_COPY_SIZE = 0.1  # of what is written, in lengths of the fused state
_RIDGE = 1e-3


@dataclass
class Sums:
    """Over places of the target's texts: of the embeddings; of products of the states that come first, and of these
    with the embeddings; of the fused states, of their products, and of their root mean squares."""

    places: int
    embedded: mx.array
    low: mx.array
    across: mx.array
    fused: mx.array
    spread: mx.array
    size: mx.array

    @classmethod
    def none(cls, hidden: int) -> Sums:
        one, two = (hidden,), (hidden, hidden)
        return cls(0, *(mx.zeros(shape) for shape in (one, two, two, one, two, ())))

    def add(self, head: Eagle3Head, states: mx.array, embedded: mx.array) -> None:
        """states: (n, feature_size) of a text from its beginning. embedded: (n, hidden) of the tokens read there."""
        states, embedded = states[SINKS:].astype(mx.float32), embedded[SINKS:].astype(mx.float32)
        low, fused = states[:, : len(self.low)], head.fuse(states)
        self.places += states.shape[0]
        self.embedded = self.embedded + mx.sum(embedded, 0)
        self.low, self.across = self.low + low.T @ low, self.across + low.T @ embedded
        self.fused, self.spread = self.fused + mx.sum(fused, 0), self.spread + fused.T @ fused
        self.size = self.size + mx.sum(mx.sqrt(mx.mean(fused**2, -1)))
        mx.eval(self.embedded, self.low, self.across, self.fused, self.spread, self.size)


def teach_copying(head: Eagle3Head, sums: Sums, embedded: mx.array, said: mx.array) -> None:
    """Make the last key-value head of `head`, with its query heads, an induction head, and let `fc` carry its code in
    place of what it wrote along those directions.

    embedded: (columns, hidden), the embeddings of the draft vocabulary; said: (columns, hidden), its output rows.
    Leaves the head as it is where that is not enough to go by: `sums` of fewer places than a state has numbers, or
    fewer tokens or numbers than a code has.
    """
    rows, dims, layer = _numbers(embedded), _slowest(head.config.head_dim), head.layers[0]
    if sums.places < head.config.hidden_size or min(rows.shape) <= len(dims):
        return
    vectors, variances = _principal(rows, _numbers(sums.embedded) / sums.places)
    code, copied = vectors[: len(dims)] / np.sqrt(variances[: len(dims), None]), vectors[: head.config.head_dim]
    size = float(_numbers(sums.size)) / sums.places
    carrying = _carry(head, sums, code, _CODE_SIZE * size)
    written = _COPY_SIZE * size * head.config.hidden_size**0.5 * _output(rows @ copied.T, _numbers(said))
    from_state = _inverse(layer.hidden_norm.weight) * size
    from_embedding = _inverse(layer.input_layernorm.weight) * np.sqrt(np.mean(rows**2))
    _write_attention(head, dims, (code * from_embedding, carrying * from_state), (copied * from_embedding, written))


def _slowest(head_dim: int) -> NDArray[np.intp]:
    """Numbers of a head in the pairs that are turned slowest: the first of each pair, then the second."""
    pairs = head_dim // 2
    slow = np.arange(pairs - max(1, round(_SLOW * pairs)), pairs)
    return np.concatenate([slow, slow + pairs])


def _principal(rows: Matrix, mean: Matrix) -> tuple[Matrix, Matrix]:
    """Principal directions of the rows, (hidden, hidden), none along `mean`, and variances along them, falling."""
    unit = mean / max(float(np.linalg.norm(mean)), 1e-12)
    centred = rows - mean
    centred -= np.outer(centred @ unit, unit)
    variances, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    return vectors[:, ::-1].T, np.maximum(variances[::-1], 1e-12 * variances[-1])


def _carry(head: Eagle3Head, sums: Sums, code: Matrix, size: float) -> Matrix:
    """Let the fused state carry, `size` large, the code of the token read; returns what reads it there, (code,
    hidden)."""
    deviations = np.sqrt(np.diag(_numbers(sums.low)) / sums.places)
    deviations = np.maximum(deviations, 1e-3 * deviations.mean()) + 1e-9
    products = _numbers(sums.low) / sums.places / np.outer(deviations, deviations)
    across = _numbers(sums.across) @ code.T / sums.places / deviations[:, None]
    decoder = np.linalg.solve(products + _RIDGE * np.eye(len(products)), across) / deviations[:, None]
    mean = _numbers(sums.fused) / sums.places
    _, directions = np.linalg.eigh(_numbers(sums.spread) / sums.places - np.outer(mean, mean))
    free = directions[:, : len(code)]
    fuse = _numbers(head.fc.weight)
    fuse -= free @ (free.T @ fuse)
    fuse[:, : len(decoder)] += size * free @ decoder.T
    head.fc.weight = mx.array(fuse.astype(np.float32))
    return free.T / size


def _output(coordinates: Matrix, said: Matrix) -> Matrix:
    """What makes output rows of coordinates, (hidden, coordinates), by least squares, of length 1 on average."""
    made, *_ = np.linalg.lstsq(coordinates, said - said.mean(0), rcond=None)
    length = np.sqrt(np.mean(np.sum((coordinates @ made) ** 2, 1)))
    return np.asarray(made.T / max(float(length), 1e-12))


def _write_attention(
    head: Eagle3Head, dims: NDArray[np.intp], match: tuple[Matrix, Matrix], copy: tuple[Matrix, Matrix]
) -> None:
    """match: (code, hidden) twice, of the embedding and of the state. copy: into values and out of them."""
    attention, hidden, size = head.layers[0].self_attn, head.config.hidden_size, head.config.head_dim
    queries = head.config.num_attention_heads // head.config.num_key_value_heads
    sharpness = np.geomspace(*_SHARPNESS, queries) if queries > 1 else [np.sqrt(np.prod(_SHARPNESS))]
    q, k, v = np.zeros((queries, size, 2 * hidden)), np.zeros((size, 2 * hidden)), np.zeros((size, 2 * hidden))
    q[:, dims, :hidden] = np.reshape(sharpness, (-1, 1, 1)) / (len(dims) * head.scale) * match[0]
    k[dims, hidden:] = match[1]
    v[: len(copy[0]), :hidden] = copy[0]
    out = np.zeros((hidden, queries, size))
    out[:, :, : len(copy[0])] = copy[1][:, None] / queries
    _replace_last(attention.q_proj, q.reshape(-1, 2 * hidden), 0)
    _replace_last(attention.k_proj, k, 0)
    _replace_last(attention.v_proj, v, 0)
    _replace_last(attention.o_proj, out.reshape(hidden, -1), 1)


def _replace_last(linear: Any, weight: Matrix, axis: int) -> None:
    kept = mx.split(linear.weight, [linear.weight.shape[axis] - weight.shape[axis]], axis)[0]
    linear.weight = mx.concatenate([kept, mx.array(weight.astype(np.float32))], axis)


def _inverse(weight: mx.array) -> Matrix:
    """One over each number of a norm's weight, nothing where that is too large to be useful."""
    numbers = _numbers(weight)
    useful = np.abs(numbers) > 1e-2 * np.abs(numbers).mean()
    return np.where(useful, 1 / np.where(useful, numbers, 1), 0)


def _numbers(array: mx.array) -> Matrix:
    return np.array(array.astype(mx.float32)).astype(np.float64)
