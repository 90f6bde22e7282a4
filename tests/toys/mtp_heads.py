"""Checkpoints of multi-token prediction heads, with the names and shapes of tensors that each family is published with,
and what such a head computes, written down without the product's loader.

The names are those of vLLM (`vllm/model_executor/models/*_mtp.py`), SGLang (`python/sglang/srt/models/*_nextn.py`) and
of mlx-lm's `sanitize`.
"""

import importlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten

from tests.toys.architecture_common import SLIDING, WINDOW
from tests.toys.architectures import _config, build

_OF_THE_TARGET = "model.layers.0.input_layernorm.weight"
PLACE = 3  # of the head's layer: after the toys' layers
_NEXTN = {"embedding": "enorm", "hidden": "hnorm", "fc": "eh_proj", "norm": "shared_head.norm"}
_FINAL = {**_NEXTN, "norm": "final_layernorm"}
_MIMO = {"embedding": "token_layernorm", "hidden": "hidden_layernorm", "fc": "input_proj", "norm": "final_layernorm"}
_STEP = {**_NEXTN, "norm": "transformer.shared_head.norm"}


@dataclass(frozen=True)
class Published:
    """How the heads of one family are published. target: mlx-lm's module of it. layer: where its layer comes from,
    module, arguments and layer. normed: whether states are those after the norm."""

    target: str
    layer: tuple[str, str, str]
    parts: dict[str, str] = field(default_factory=lambda: _NEXTN)
    prefix: str = f"model.layers.{PLACE}."
    further: tuple[Any, ...] = (PLACE,)
    config: dict[str, Any] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    hidden_first: bool = False
    window: int | None = None
    normed: bool = True
    delta: bool = False


def _same(name: str, layer: str, **changes: Any) -> Published:
    return Published(name, (name, f"{name}.ModelArgs", layer), **changes)


_STEP_LISTS = {
    "layer_types": [SLIDING, "full_attention", SLIDING, SLIDING],
    "rope_theta": [10000.0, 100000.0, 10000.0, 5000.0],
    "partial_rotary_factors": [1.0, 0.5, 1.0, 0.5],
}
_V32_LAYER = "DeepseekV32DecoderLayer"
PUBLISHED: dict[str, Published] = {
    "mimo": _same(
        "mimo", "TransformerBlock", further=(), hidden_first=True, parts=_MIMO, prefix="model.mtp_layers.0."
    ),
    "deepseek_v3": _same("deepseek_v3", "DeepseekV3DecoderLayer"),
    "kimi_k2": _same("deepseek_v3", "DeepseekV3DecoderLayer", config={"model_type": "kimi_k2"}),
    "glm4_moe": _same("glm4_moe", "DecoderLayer"),
    "glm4_moe_lite": _same("glm4_moe_lite", "Glm4MoeLiteDecoderLayer"),
    "deepseek_v32": _same("deepseek_v32", _V32_LAYER),
    "glm_moe_dsa": Published("glm_moe_dsa", ("deepseek_v32", "glm_moe_dsa.ModelArgs", _V32_LAYER)),
    "step3p5": _same(
        "step3p5", "Step3p5DecoderLayer", parts=_STEP, config=_STEP_LISTS, window=WINDOW, normed=False, delta=True
    ),
    "mimo_v2_flash": _same(
        "mimo_v2_flash", "DecoderLayer", parts=_FINAL, prefix="model.mtp.layers.0.", further=(False, True),
        renamed={"post_attention_layernorm": "pre_mlp_layernorm"}, window=WINDOW,
    ),
    "bailing_moe": _same("bailing_moe", "BailingMoeDecoderLayer", parts=_FINAL, renamed={"gate.gate_proj": "gate"}),
    # two blocks: attention, whose names have no more than a number before them, then experts
    "nemotron_h": _same(
        "nemotron_h", "NemotronHBlock", further=("*", "E"), prefix="mtp.", config={"mtp_hybrid_override_pattern": "*E"},
        parts={
            **{part: f"layers.0.{name}" for part, name in _NEXTN.items()}, "norm": "layers.1.final_layernorm",
        },
        renamed={"switch_mlp.fc1": "switch_mlp.up_proj", "switch_mlp.fc2": "switch_mlp.down_proj"},
    ),
    "bailing_hybrid": _same("bailing_hybrid", "DecoderLayer", parts=_FINAL, renamed={"gate.gate_proj": "gate"}),
}  # fmt: skip


class Blocks(nn.Module):
    """One after the other."""

    def __init__(self, blocks: list[Any]) -> None:
        super().__init__()
        self.layers = blocks

    def __call__(self, x: mx.array, mask: mx.array, cache: None) -> mx.array:
        attention, experts = self.layers
        x = x + attention.mixer(attention.norm(x), mask)
        return x + experts.mixer(experts.norm(x))


def toy_target(name: str) -> Any:
    return build(PUBLISHED[name].target)


@dataclass(frozen=True)
class Reference:
    """What a head computes: the layer is mlx-lm's, called over all pairs at once without a cache."""

    published: Published
    layer: Any
    parts: dict[str, mx.array]
    eps: float

    def __call__(self, hidden: mx.array, embedded: mx.array) -> mx.array:
        """Returns the states before the head's norm, (1, n, hidden) twice to the same shape."""
        read = [self.norm("embedding", embedded), self.norm("hidden", hidden)]
        x = mx.concatenate(read[::-1] if self.published.hidden_first else read, -1) @ self.parts["fc"].T
        rows = mx.arange(x.shape[1])
        far = rows[:, None] - rows[None]
        out: mx.array = self.layer(x, (far >= 0) & (far < (self.published.window or x.shape[1])), None)
        return out

    def norm(self, part: str, x: mx.array) -> mx.array:
        mean = mx.mean(mx.square(x), -1, keepdims=True)
        return x * mx.rsqrt(mean + self.eps) * self.parts[part]


def write_checkpoint(name: str, path: Path, seed: int = 0, own_output: mx.array | None = None) -> Reference:
    """Writes the checkpoint of a target, of whose own layers it has one tensor, with a random head among its weights.

    own_output: (vocabulary, hidden), a matrix of the head's own. Returns what the head computes.
    """
    mx.random.seed(seed)
    published = PUBLISHED[name]
    config = _config(published.target) | {"num_nextn_predict_layers": 1} | published.config
    module, arguments, layer_class = published.layer
    args_module, args_class = arguments.split(".")
    args = getattr(_module(args_module), args_class).from_dict(json.loads(json.dumps(config)))
    make = getattr(_module(module), layer_class)
    layer = (
        Blocks([make(args, kind) for kind in published.further])
        if name == "nemotron_h"
        else make(args, *published.further)
    )
    drawn = {path: _draw(path, value) for path, value in tree_flatten(layer.parameters())}
    layer.update(tree_unflatten(list(drawn.items())))
    hidden = config["hidden_size"]
    parts = {part: _draw("norm", mx.zeros(hidden)) for part in ("embedding", "hidden", "norm")}
    parts["fc"] = _draw("fc", mx.zeros((hidden, 2 * hidden)))
    tensors = {f"{published.parts[part]}.weight": value for part, value in parts.items()} | _upstream(published, drawn)
    if own_output is not None:
        tensors[f"{published.parts['norm'].removesuffix('norm')}{'output' if name == 'step3p5' else 'head'}.weight"] = (
            own_output
        )
    if published.delta:
        tensors = {key: value - 1 if "norm" in key else value for key, value in tensors.items()}
    tensors = {published.prefix + key: value for key, value in tensors.items()}
    tensors[_OF_THE_TARGET] = mx.ones(hidden)
    path.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(path / "model.safetensors"), tensors)
    (path / "config.json").write_text(json.dumps(config))
    return Reference(published, layer, parts, config["rms_norm_eps"])


def _module(name: str) -> Any:
    return importlib.import_module(f"mlx_lm.models.{name}")


def _draw(name: str, value: mx.array) -> mx.array:
    noise = mx.random.normal(value.shape)
    if value.ndim < 2:
        return 1 + 0.2 * noise if "norm" in name and not name.endswith("bias") else 0.3 * noise
    return 2 * noise * value.shape[-1] ** -0.5


def _upstream(published: Published, layer: dict[str, mx.array]) -> dict[str, mx.array]:
    """The tensors of a layer as upstream has them: experts one by one, latent keys and values in one matrix."""
    found: dict[str, mx.array] = {}
    for name, value in layer.items():
        for ours, theirs in published.renamed.items():
            name = name.replace(ours, theirs)
        if ".switch_mlp." in name:
            found |= {name.replace("switch_mlp", f"experts.{e}"): value[e] for e in range(len(value))}
        elif name.endswith("embed_q.weight"):
            values = layer[name.replace("embed_q", "unembed_out")]
            joint = mx.concatenate([value.swapaxes(-1, -2), values], 1)
            found[name.replace("embed_q", "kv_b_proj")] = joint.reshape(-1, joint.shape[-1])
        elif not name.endswith("unembed_out.weight"):
            found[name] = value
    return found


def write_whole_checkpoint(name: str, path: Path, tokenizer_of: Path) -> Any:
    """Writes a checkpoint of a target with all of its own weights, its head among them; returns the target's network.

    tokenizer_of: a model folder whose tokenizer it gets.
    """
    write_checkpoint(name, path)
    network = toy_target(name)
    head = dict(mx.load(str(path / "model.safetensors")))
    del head[_OF_THE_TARGET]
    mx.save_safetensors(str(path / "model.safetensors"), head | dict(tree_flatten(network.parameters())))
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (path / file).write_bytes((tokenizer_of / file).read_bytes())
    return network
