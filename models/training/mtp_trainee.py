"""A multi-token prediction head in training (DeepSeek-V3, arXiv 2412.19437, section 2.2), unrolled over its own output.

Places and depths are those of `models.training.eagle3_trainee`: depth 0 at place i reads the target's normed state of
t_i and the embedding of t_(i+1), later depths read the output of the depth before in place of the state, and see
what drafting has in its cache. The head's layer is one of mlx-lm's, whose cache says which keys it attends to.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from engine.backend import to_numpy
from engine.backend.mlx_lm_imports import create_attention_mask
from engine.drafters.mtp import MtpHead
from engine.target.model_layout import layers_of, output_rows
from models.drafters.head_folder import Fields
from models.drafters.mtp import mtp_network, save_mtp
from models.loader import Loaded
from models.parameters import flat_parameters
from models.training.batches import Batch, States
from models.training.corpus import Conversation
from models.training.target_layer import copy_layer, copy_weight, final_norm, layer_fields
from models.training.trainee import Step, UnrolledTrainee

_LAYERS = ("llama", "qwen3")  # of which a head's layer can be one; others get a llama layer
_PLAIN = {  # what would otherwise be taken from the target's config.json when the head is loaded
    "num_hidden_layers": 1,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "mlp_bias": False,
    "rope_parameters": None,
    "rope_scaling": None,
    "layer_types": None,
}
_RIDGE = 1e-3  # of the mean square of what is read
_ADDED = 0.1  # the root mean square of what the layer adds before training, over that of what it reads
_MEASURED = 512  # rows of a conversation on which that is measured, at most


class MtpTrainee(UnrolledTrainee):
    """A multi-token prediction head in training. ids: the draft vocabulary, (n,) int32 increasing. depths: unrolled
    steps. hidden: of a normed state."""

    def __init__(self, target: Loaded, ids: mx.array, depths: int, hidden: int, seed: int) -> None:
        super().__init__(target, depths)
        named = target.folder.model_type if target.folder.model_type in _LAYERS else _LAYERS[0]
        self._fields = {"model_type": named, **layer_fields(target, hidden), **_PLAIN}
        self.ids: mx.array | None = ids
        self._output = output_rows(target.network, ids).astype(mx.float32)
        mx.random.seed(seed)
        self.network: Any = mtp_network(Fields(target.folder.path, self._fields), {})
        copy_layer(self.network.layer, layers_of(target.network)[-1])
        copy_weight(self.network.norm, final_norm(target.network, hidden))
        mx.eval(flat_parameters(self.network), self._output)

    def initialize(self, conversations: Sequence[Conversation], states: States, tokens: int) -> Iterator[int]:
        """Makes `fc` the best linear guess at the target's next state, by least squares, which the layer, the target's
        last one, then changes only a little."""
        head, sums = self.network, [mx.zeros(()), mx.zeros(())]
        read, longest = 0, mx.zeros((0,))
        for place, conversation in enumerate(conversations):
            if read >= tokens:
                break
            rows = states(place)[:, :-1]
            pairs = head.read(rows[:-1], self._embed(mx.array(conversation.tokens[1:])).astype(mx.float32))
            sums[0], sums[1] = sums[0] + pairs.T @ pairs, sums[1] + pairs.T @ (rows[1:] / head.norm.weight)
            longest = max(longest, pairs, key=len)
            mx.eval(sums, longest)
            read += rows.shape[0]
            yield read
        if read >= 2 * head.norm.weight.size:
            head.fc.weight = _least_squares(*sums)
            _scale_outputs(head, longest[:_MEASURED])
        mx.eval(flat_parameters(head))

    def unroll(self, batch: Batch) -> tuple[mx.array, Step]:
        head, cache, n = self.network, UnrolledCache(), batch.tokens.shape[1]
        return batch.states, lambda hidden, embedded, depth: head(hidden, embedded, [cache], sight(n, depth))

    def logits(self, states: mx.array) -> mx.array:
        return states @ self._output.T

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        assert self.ids is not None
        save_mtp(folder, self.network, self._fields, self.ids, self.described(about))


class UnrolledCache:
    """What an mlx-lm layer takes for its cache: keeps the keys and values of all depths, one after the other. Those of
    every depth stand at the positions of their places."""

    offset = 0

    def __init__(self) -> None:
        self._kept: tuple[mx.array, mx.array] | None = None

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Adds a depth's keys and values (batch, heads, n, head_dim); returns those of all depths so far."""
        if self._kept is not None:
            keys = mx.concatenate([self._kept[0], keys], 2)
            values = mx.concatenate([self._kept[1], values], 2)
        self._kept = keys, values
        return self._kept


def sight(n: int, depth: int) -> mx.array:
    """Returns what the places of `depth` see of `n` places of each depth up to theirs, (n, (depth + 1) * n): of the
    first depth those up to where the draft began, of each later one the step that the same draft made."""
    rows, columns = mx.arange(n)[:, None], mx.arange(n)[None]
    steps = [columns == rows - depth + step for step in range(1, depth + 1)]
    return mx.concatenate([columns <= rows - depth, *steps], 1)


def _scale_outputs(head: MtpHead, pairs: mx.array) -> None:
    """Scales both outputs of the head's layer, so that it adds `_ADDED` of what it reads.

    pairs: (n, 2 * hidden), what `fc` reads of one conversation. The target's last layer was trained on states many
    times as large as the guess, so that what it adds would be far larger than the guess.
    """
    guess = head.fc(pairs)[None]
    for _ in range(2):  # the feed-forward part reads what attention has added
        added = head.layer(guess, create_attention_mask(guess, None, return_array=True), None) - guess
        factor = _ADDED * mx.sqrt(mx.mean(guess**2) / mx.maximum(mx.mean(added**2), 1e-12))
        weights = dict(flat_parameters(head.layer))
        names = ("self_attn.o_proj.weight", "mlp.down_proj.weight")
        head.layer.load_weights([(name, factor * weights[name]) for name in names], strict=False)


def _least_squares(products: mx.array, across: mx.array) -> mx.array:
    """Returns the map (out, in) that is best for sums of products of inputs (in, in) and with outputs (in, out)."""
    squares, wanted = (to_numpy(one).astype(np.float64) for one in (products, across))
    squares += _RIDGE * np.trace(squares) / len(squares) * np.eye(len(squares))
    return mx.array(np.linalg.solve(squares, wanted).T.astype(np.float32))
