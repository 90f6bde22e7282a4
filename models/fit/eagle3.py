"""An EAGLE-3 head in training: unrolled over its own guesses (training-time test, Li 2025, arXiv 2503.01840).

While it drafts, the head reads the target's features up to the last committed token and its own output from there
on. In training every token of a conversation is such a last token at once:

    depth 0, place i    reads the features of t_i and the embedding of t_(i+1), guesses t_(i+2)
    depth j, place i    reads the output of depth j - 1 at place i - 1 in place of the features

A draft that began at place i - j has seen the features of places up to i - j, and then its own steps: so the query of
depth j at place i looks at the keys of depth 0 up to place i - j, and at one key of each later depth s, at place
i - j + s. That those are the keys that drafting makes is what `tests/models/fit/test_unrolled.py` shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.anatomy import embed, layers_of, output_rows
from engine.errors import FitError
from engine.heads.eagle3 import Eagle3Config, Eagle3Head
from models.fit.batches import Batch, States
from models.fit.corpus import Conversation
from models.fit.induction import Sums, teach_copying
from models.fit.trainee import shifted
from models.fit.weights import flat, rounded
from models.heads.eagle3 import save_eagle3
from models.heads.fit_to import made_for
from models.load import Loaded

DEEPEST = 6
_SPREAD = 0.02
_PLACES, _MOST_PLACES = 64, 32_768  # looked at before training: so many for each number of a state, and at most


def points(layers: int) -> tuple[int, ...]:
    """Which hidden states a head reads: low, middle and high (SafeAILab's choice), of any number of layers."""
    return tuple(sorted((min(2, layers - 1), layers // 2, max(layers - 3, 0))))


class Eagle3Trainee:
    """ids: draft vocabulary, (n,) int32 increasing. depths: unrolled steps. width: of the features of a token."""

    def __init__(self, target: Loaded, ids: mx.array, depths: int, width: int, seed: int) -> None:
        self._target, self._embed = target, embed(target.network)
        self.points = points(len(layers_of(target.network)))
        self.depths, self.deepest, self.lead = depths, max(depths, DEEPEST), max(depths, DEEPEST)
        mx.random.seed(seed)
        self.network: Any = Eagle3Head(geometry(target, self.points, width, ids.size))
        self.network.speak(ids)
        self.ids: mx.array | None = self.network.ids
        _begin_like(self.network, target)
        mx.eval(flat(self.network))

    def begin(self, conversations: Sequence[Conversation], states: States) -> None:
        head, hidden = self.network, self.network.config.hidden_size
        sums = Sums.none(hidden, hidden)
        for number, conversation in enumerate(conversations):
            read = states(number)[:, : head.config.feature_size]
            sums.add(head, read, self._embed(mx.array(conversation.tokens)))
            if sums.places >= min(_PLACES * hidden, _MOST_PLACES):
                break
        teach_copying(head, sums, self._embed(head.ids), output_rows(self._target.network, head.ids))
        mx.eval(flat(head))

    def predict(self, batch: Batch, depths: int) -> list[mx.array]:
        head, width = self.network, self.network.config.feature_size
        hidden = head.fuse(batch.states[..., :width])
        embedded = self._embed(mx.concatenate([batch.tokens[:, 1:], batch.tokens[:, :1]], 1)).astype(mx.float32)
        attend = Unrolled(head)
        logits = []
        for _ in range(depths):
            hidden = head(hidden, embedded, attend)
            logits.append(head.logits(hidden.reshape(-1, hidden.shape[-1])[batch.rows - 1]))
            hidden = shifted(hidden, 1, 1)
        return logits

    def settle(self) -> None:
        rounded(self.network, mx.float16)

    def look(self, logits: list[mx.array], batch: Batch) -> None:
        pass

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        save_eagle3(folder, self.network, {**about, "target": made_for(self._target)}, mx.float16)

    @property
    def tree(self) -> list[float]:
        return []


class Unrolled:
    """The attention of all depths, for `Eagle3Head`'s hook: called once a depth, remembers what each depth showed.

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
            own = shifted(self._keys[step], depth - step, 2)[:, :, None]
            score = mx.sum(grouped * own, -1, keepdims=True)
            scores.append(mx.where((places >= depth - step)[:, None], score, -mx.inf))
        weights = mx.softmax(mx.concatenate(scores, -1) if depth else scores[0], -1)
        out = weights[..., : lead + n] @ self._values[0][:, :, None]
        for step in range(1, depth + 1):
            value = shifted(self._values[step], depth - step, 2)[:, :, None]
            out = out + weights[..., lead + n + step - 1 : lead + n + step] * value
        return out.reshape(queries.shape)


def geometry(target: Loaded, points: tuple[int, ...], width: int, columns: int) -> Eagle3Config:
    """A layer of the target's own shape, where its config names one, with one key-value head more, for `induction`.
    Raises FitError: the embedding is narrower or wider than the hidden states."""
    config = {**target.folder.config, **_part(target.folder.config.get("text_config"))}
    hidden = width // len(points)
    if int(embed(target.network)(mx.zeros(1, mx.int32)).shape[-1]) != hidden:
        raise FitError("the target's embedding is not as wide as its hidden states: choose --kind medusa or draft")
    heads = _count(config, "num_attention_heads", max(1, hidden // 64))
    shared = _count(config, "num_key_value_heads", heads)
    rope = _part(config.get("rope_parameters"))
    return Eagle3Config(
        points=points,
        feature_size=width,
        hidden_size=hidden,
        intermediate_size=min(_count(config, "intermediate_size", 4 * hidden), 4 * hidden),
        num_attention_heads=heads + heads // shared,
        num_key_value_heads=shared + 1,
        head_dim=_count(config, "head_dim", max(2, hidden // heads)),
        vocab_size=target.model.vocabulary,
        draft_vocab_size=columns,
        rms_norm_eps=_number(config, "rms_norm_eps", 1e-5),
        rope_theta=_number(config, "rope_theta", _number(rope, "rope_theta", 10_000.0)),
        max_position_embeddings=_count(config, "max_position_embeddings", 8192),
    )


def _part(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _count(config: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = config.get(key)
    return value if type(value) is int and value > 0 else otherwise


def _number(config: Mapping[str, Any], key: str, otherwise: float) -> float:
    value = config.get(key)
    return float(value) if isinstance(value, int | float) and value > 0 else otherwise


# --- where it begins --------------------------------------------------------------------------


def _begin_like(head: Eagle3Head, target: Loaded) -> None:
    """Begin where the target ends: its output rows, its last norm, and its last layer where the names and shapes are
    llama's. The layer then reads the highest of the features, as the target's own did."""
    network, hidden = target.network, head.config.hidden_size
    head.lm_head.weight = output_rows(network, head.ids).astype(mx.float32)
    norm = _final_norm(network, hidden)
    if norm is not None:
        head.norm.weight = norm.astype(mx.float32)
    fused = mx.random.normal(head.fc.weight.shape, scale=_SPREAD / hidden**0.5)
    if head.config.feature_size == hidden * len(head.config.points):
        fused[:, -hidden:] = fused[:, -hidden:] + mx.eye(hidden)
    head.fc.weight = fused
    last, layer = layers_of(network)[-1], head.layers[0]
    for name in ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
        _copy(_at(layer, name), _dense(_at(last, name)))
    for name, own in (("input_layernorm", "hidden_norm"), ("post_attention_layernorm", "post_attention_layernorm")):
        _copy(_at(layer, own), _dense(_at(last, name)))
    _attend_like(layer.self_attn, _at(last, "self_attn"), head.config)


def _attend_like(own: Any, theirs: Any, config: Eagle3Config) -> None:
    """All key-value heads but the last, with their query heads, look at the hidden states as the target's layer does,
    and at embeddings hardly."""
    hidden, group = config.hidden_size, config.num_attention_heads // config.num_key_value_heads
    for name, last in (("q_proj", group), ("k_proj", 1), ("v_proj", 1)):
        weight, found = own[name].weight, _dense(_at(theirs, name))
        rows = weight.shape[0] - last * config.head_dim
        if found is not None and found.shape == (rows, hidden):
            kept = mx.concatenate([weight[:rows, :hidden] * _SPREAD, found.astype(mx.float32)], 1)
            own[name].weight = mx.concatenate([kept, weight[rows:]])
    weight, found = own.o_proj.weight, _dense(_at(theirs, "o_proj"))
    columns = weight.shape[1] - group * config.head_dim
    if found is not None and found.shape == (hidden, columns):
        own.o_proj.weight = mx.concatenate([found.astype(mx.float32), weight[:, columns:]], 1)


def _final_norm(network: Any, hidden: int) -> mx.array | None:
    """The weight of the norm behind the last layer."""
    inside = {id(part) for layer in layers_of(network) for part in layer.modules()}
    for name, module in network.named_modules():
        if name.rpartition(".")[2] in ("norm", "ln_f", "final_layernorm", "norm_f") and id(module) not in inside:
            weight = module.get("weight")
            if weight is not None and weight.shape == (hidden,) and isinstance(module, nn.RMSNorm):
                return mx.array(weight)
    return None


def _at(module: Any, name: str) -> Any:
    """The module `name` below `module`, None where there is none."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def _dense(module: Any) -> mx.array | None:
    """The weight of a linear map or a norm, dequantized; None for anything else."""
    if not isinstance(module, nn.Linear | nn.QuantizedLinear | nn.RMSNorm):
        return None
    weight: mx.array = module.weight
    if not isinstance(module, nn.QuantizedLinear):
        return weight
    return mx.dequantize(weight, module.scales, module.get("biases"), module.group_size, module.bits, module.mode)


def _copy(module: Any, weight: mx.array | None) -> None:
    if weight is not None and weight.shape == module.weight.shape:
        module.weight = weight.astype(mx.float32)
