"""An EAGLE-3 head in training: unrolled over its own predictions (training-time test, Li 2025, arXiv 2503.01840).

While it drafts, the head reads the target's features up to the last committed token and its own output from there
on. In training every token of a conversation is such a last token at once:

    depth 0, place i    reads the features of t_i and the embedding of t_(i+1), predicts t_(i+2)
    depth j, place i    reads the output of depth j - 1 at place i - 1 in place of the features

A draft that began at place i - j has seen the features of places up to i - j, and then its own steps: so the query of
depth j at place i looks at the keys of depth 0 up to place i - j, and at one key of each later depth s, at place
i - j + s. That those are the keys that drafting makes is what `tests/models/training/test_trained_heads.py` shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.drafters.eagle3 import Eagle3Config, Eagle3Head
from engine.target.model_layout import layers_of, output_rows
from models.drafters.eagle3 import save_eagle3
from models.loader import Loaded
from models.parameters import flat_parameters
from models.training.batches import Batch, States
from models.training.corpus import Conversation
from models.training.eagle3_initialization import StateSums, add_induction_head, initialize_from_target
from models.training.target_layer import layer_fields, points
from models.training.trainee import Step, UnrolledTrainee, shift


class Eagle3Trainee(UnrolledTrainee):
    """An EAGLE-3 head in training. ids: the draft vocabulary, (n,) int32 increasing. depths: unrolled steps. width: of
    the features of a token."""

    def __init__(self, target: Loaded, ids: mx.array, depths: int, width: int, seed: int) -> None:
        super().__init__(target, depths)
        self.points = points(len(layers_of(target.network)))
        mx.random.seed(seed)
        self.network: Any = Eagle3Head(geometry(target, self.points, width, ids.size))
        self.network.set_draft_vocabulary(ids)
        self.ids: mx.array | None = self.network.ids
        initialize_from_target(self.network, target)
        mx.eval(flat_parameters(self.network))

    def initialize(self, conversations: Sequence[Conversation], states: States, tokens: int) -> Iterator[int]:
        head, hidden = self.network, self.network.config.hidden_size
        sums = StateSums.none(hidden)
        for place, conversation in enumerate(conversations):
            if sums.places >= tokens:
                break
            read = states(place)[:, : head.config.feature_size]
            sums.add(head, read, self._embed(mx.array(conversation.tokens)))
            yield sums.places
        add_induction_head(head, sums, self._embed(head.ids), output_rows(self._target.network, head.ids))
        mx.eval(flat_parameters(head))

    def unroll(self, batch: Batch) -> tuple[mx.array, Step]:
        head, attend = self.network, Unrolled(self.network)
        features = batch.states[..., : head.config.feature_size]
        return head.fuse(features), lambda hidden, embedded, _: head(hidden, embedded, attend)

    def logits(self, states: mx.array) -> mx.array:
        found: mx.array = self.network.logits(states)
        return found

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        save_eagle3(folder, self.network, self.described(about))


class Unrolled:
    """The attention of all depths, for `Eagle3Head`'s hook: called once per depth, it keeps all keys and values.

    Shapes: (batch, heads, n, head_dim), keys and values with fewer heads where they are shared. Later depths may have
    the last rows of the first one alone.
    """

    def __init__(self, head: Eagle3Head) -> None:
        self._head = head
        self._keys: list[mx.array] = []
        self._values: list[mx.array] = []

    def __call__(self, queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        depth, n = len(self._keys), queries.shape[2]
        lead = self._keys[0].shape[2] - n if depth else 0
        self._keys.append(self._head.rope(keys, offset=lead))
        self._values.append(values)
        batch, shared = keys.shape[0], keys.shape[1]
        turned = self._head.rope(queries, offset=lead) * self._head.scale
        grouped = turned.reshape(batch, shared, -1, n, keys.shape[-1])
        places = mx.arange(n)
        scores = [grouped @ self._keys[0][:, :, None].swapaxes(-1, -2)]
        scores[0] = mx.where(mx.arange(lead + n)[None] <= lead + places[:, None] - depth, scores[0], -mx.inf)
        for step in range(1, depth + 1):
            own = shift(self._keys[step], depth - step, 2)[:, :, None]
            score = mx.sum(grouped * own, -1, keepdims=True)
            scores.append(mx.where((places >= depth - step)[:, None], score, -mx.inf))
        weights = mx.softmax(mx.concatenate(scores, -1) if depth else scores[0], -1)
        out = weights[..., : lead + n] @ self._values[0][:, :, None]
        for step in range(1, depth + 1):
            value = shift(self._values[step], depth - step, 2)[:, :, None]
            out = out + weights[..., lead + n + step - 1 : lead + n + step] * value
        return out.reshape(queries.shape)


def geometry(target: Loaded, points: tuple[int, ...], width: int, columns: int) -> Eagle3Config:
    """Returns the config of a head whose layer has the target's own shape, except for the number of heads.

    Raises FitError if the embedding is narrower or wider than the hidden states.
    """
    fields = layer_fields(target, width // len(points))
    heads, shared = heads_with_induction_group(
        fields["hidden_size"], fields["num_attention_heads"], fields["num_key_value_heads"]
    )
    fields |= {"num_attention_heads": heads, "num_key_value_heads": shared}
    return Eagle3Config(taps=points, feature_size=width, **fields, draft_vocab_size=columns)


def heads_with_induction_group(hidden: int, heads: int, shared: int) -> tuple[int, int]:
    """Returns the numbers of query and key-value heads with one more group, for the induction head.

    They stay as they are where more would not divide `hidden`, as the configs of transformers require: then the last
    group is used for it, if there is another.
    """
    more = heads + heads // shared
    return (more, shared + 1) if shared == 1 or hidden % more == 0 else (heads, shared)
