"""Initializes an EAGLE-3 head from the target's output rows, last norm and last layer, and adds an induction head.

An induction head finds the earlier places of the current token and predicts what followed there (Olsson 2022, arXiv
2209.11895). Training finds that circuit late, and a short one never does, so it is written into the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.backend import to_numpy
from engine.drafters.eagle3 import Eagle3Config, Eagle3Head
from engine.target.model_layout import layers_of
from models.loader import Loaded
from models.training.target_layer import SPREAD, begin_like, copy_layer, copy_weight, weight_at


def initialize_from_target(head: Eagle3Head, target: Loaded) -> None:
    """Copies the target's output rows, its last norm and, if names and shapes are llama's, its last layer, which then
    reads the highest of the features as it did in the target."""
    begin_like(head, target)
    last, layer = layers_of(target.network)[-1], head.layers[0]
    copy_layer(layer.mlp, getattr(last, "mlp", None))
    for name, own in (("input_layernorm", "hidden_norm"), ("post_attention_layernorm", "post_attention_layernorm")):
        copy_weight(layer[own], weight_at(last, name))
    _attend_like(layer.self_attn, getattr(last, "self_attn", None), head.config)


def _attend_like(own: Any, theirs: Any, config: Eagle3Config) -> None:
    """Copies the attention of the target's layer, as far as names and shapes are llama's.

    All key-value heads but the last, with their query heads, read the hidden states as the target's do, and hardly the
    embeddings. The last ones write nothing yet.
    """
    hidden, size = config.hidden_size, config.head_dim
    group = config.num_attention_heads // config.num_key_value_heads
    for name, last in (("q_proj", group), ("k_proj", 1), ("v_proj", 1)):
        weight, found = own[name].weight, weight_at(theirs, name)
        rows = weight.shape[0] - last * size
        if found is not None and found.shape[0] in (rows, weight.shape[0]) and found.shape[1] == hidden:
            kept = mx.concatenate([weight[:rows, :hidden] * SPREAD, found[:rows].astype(mx.float32)], 1)
            own[name].weight = mx.concatenate([kept, weight[rows:]])
    weight, found = own.o_proj.weight, weight_at(theirs, "o_proj")
    columns = weight.shape[1] - group * size
    if found is not None and found.shape[0] == hidden and found.shape[1] in (columns, weight.shape[1]):
        weight = found.astype(mx.float32)
    own.o_proj.weight = mx.pad(weight[:, :columns], [(0, 0), (0, group * size)])


# --- An induction head, put into an EAGLE-3 head by hand before it is trained.


Matrix = NDArray[np.float64]

SINKS = 4  # positions at the beginning of a text, whose states may be a hundred times as large as others
_SLOW = 3 / 8  # of the rotary pairs
_SHARPNESS = (9.0, 24.0)  # the score of a token with itself: of the bluntest and of the sharpest query head
_CODE_SIZE = 0.5  # of the code in the fused state, in root mean squares of that
_COPY_SIZE = 0.1  # of what is written, in lengths of the fused state
_RIDGE = 1e-3


@dataclass
class StateSums:
    """Sums over the positions of texts: of the embeddings; of products of the states that come first, and of these with
    the embeddings; of the fused states, of their products, and of their root mean squares."""

    places: int
    embedded: mx.array
    low: mx.array
    across: mx.array
    fused: mx.array
    spread: mx.array
    size: mx.array

    @classmethod
    def none(cls, hidden: int) -> StateSums:
        one, two = (hidden,), (hidden, hidden)
        return cls(0, *(mx.zeros(shape) for shape in (one, two, two, one, two, ())))

    def add(self, head: Eagle3Head, states: mx.array, embedded: mx.array) -> None:
        """Adds a text. states: (n, feature_size) from its beginning. embedded: (n, hidden) of the tokens read there."""
        states, embedded = states[SINKS:].astype(mx.float32), embedded[SINKS:].astype(mx.float32)
        low, fused = states[:, : len(self.low)], head.fuse(states)
        self.places += states.shape[0]
        self.embedded = self.embedded + mx.sum(embedded, 0)
        self.low, self.across = self.low + low.T @ low, self.across + low.T @ embedded
        self.fused, self.spread = self.fused + mx.sum(fused, 0), self.spread + fused.T @ fused
        self.size = self.size + mx.sum(mx.sqrt(mx.mean(fused**2, -1)))
        mx.eval(self.embedded, self.low, self.across, self.fused, self.spread, self.size)


def add_induction_head(head: Eagle3Head, sums: StateSums, embedded: mx.array, output_rows: mx.array) -> None:
    """Makes the last key-value head of `head`, with its query heads, an induction head, and lets `fc` carry its code in
    place of what it wrote along those directions.

    embedded, output_rows: (columns, hidden), the embeddings and output rows of the draft vocabulary.
    Leaves the head as it is if there is too little data: `sums` of fewer positions than a state has numbers, or fewer
    tokens or numbers than a code has.
    """
    rows, dims, layer = _numbers(embedded), _slowest(head.config.head_dim), head.layers[0]
    if sums.places < head.config.hidden_size or min(rows.shape) <= len(dims):
        return
    vectors, variances = _principal(rows, _numbers(sums.embedded) / sums.places)
    code, copied = vectors[: len(dims)] / np.sqrt(variances[: len(dims), None]), vectors[: head.config.head_dim]
    size = float(_numbers(sums.size)) / sums.places
    carrying = _carry(head, sums, code, _CODE_SIZE * size)
    written = _COPY_SIZE * size * head.config.hidden_size**0.5 * _output(rows @ copied.T, _numbers(output_rows))
    from_state = _inverse(layer.hidden_norm.weight) * size
    from_embedding = _inverse(layer.input_layernorm.weight) * np.sqrt(np.mean(rows**2))
    _write_attention(head, dims, (code * from_embedding, carrying * from_state), (copied * from_embedding, written))


def _slowest(head_dim: int) -> NDArray[np.intp]:
    """Returns the indices of the slowest rotary pairs of a head: the first of each pair, then the second."""
    pairs = head_dim // 2
    slow = np.arange(pairs - max(1, round(_SLOW * pairs)), pairs)
    return np.concatenate([slow, slow + pairs])


def _principal(rows: Matrix, mean: Matrix) -> tuple[Matrix, Matrix]:
    """Returns the principal directions of rows, (hidden, hidden), none along `mean`, and their variances, falling."""
    unit = mean / max(float(np.linalg.norm(mean)), 1e-12)
    centred = rows - mean
    centred -= np.outer(centred @ unit, unit)
    variances, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    return vectors[:, ::-1].T, np.maximum(variances[::-1], 1e-12 * variances[-1])


def _carry(head: Eagle3Head, sums: StateSums, code: Matrix, size: float) -> Matrix:
    """Lets the fused state carry the code of the token read, with the size `size`. Returns what reads it there, (code,
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


def _output(coordinates: Matrix, output_rows: Matrix) -> Matrix:
    """Returns the map from coordinates to output rows, (hidden, coordinates), by least squares."""
    made, *_ = np.linalg.lstsq(coordinates, output_rows - output_rows.mean(0), rcond=None)
    length = np.sqrt(np.mean(np.sum((coordinates @ made) ** 2, 1)))
    return np.asarray(made.T / max(float(length), 1e-12))


def _write_attention(
    head: Eagle3Head, dims: NDArray[np.intp], match: tuple[Matrix, Matrix], copy: tuple[Matrix, Matrix]
) -> None:
    """Writes the weights of the last group. match: (code, hidden) twice, for the embedding and for the state. copy:
    into values and out of them."""
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
    """Returns the inverse of each number of a norm's weight, 0 where it would be too large to be useful."""
    numbers = _numbers(weight)
    useful = np.abs(numbers) > 1e-2 * np.abs(numbers).mean()
    return np.where(useful, 1 / np.where(useful, numbers, 1), 0)


def _numbers(array: mx.array) -> Matrix:
    return to_numpy(array.astype(mx.float32)).astype(np.float64)
