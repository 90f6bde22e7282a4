"""The architectures whose decoder layer a multi-token prediction head can have: a table, and the layers.

A head's layer is mlx-lm's own of the target's architecture, at the place after the model's last layer. Where a
checkpoint has tensors of other shapes than that layer, mlx-lm's own conversion makes them fit.
"""

import copy
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import mlx.core as mx

from engine.drafters.mtp import LayerChain, MtpForm
from engine.errors import ModelError
from models.corrections import correct_modules
from models.drafters.head_config import rope_of
from models.drafters.head_folder import ANOTHER_DRAFTER, Fields, building


@dataclass(frozen=True)
class LayerFamily:
    """An architecture whose layer a head can have.

    module: of mlx_lm.models; layer, model: its classes. arguments: its class of arguments, or one of another module.
    further: what the layer's constructor gets after the arguments; None: the layer's place. converts: the tensors go
    through mlx-lm's conversion. delta_norms: upstream stores the norms' weights minus one. window: the argument with
    the size of the window, if the layer has one. chain: the head's layer is several blocks of the model, whose kinds
    config.json names. form: of its heads; the window and `may_cast` are found out.
    """

    module: str
    layer: str
    arguments: str = "ModelArgs"
    model: str = "Model"
    further: tuple[Any, ...] | None = None
    converts: bool = False
    delta_norms: bool = False
    window: str = ""
    chain: bool = False
    form: MtpForm = MtpForm()  # noqa: RUF009 - it is frozen


_QWEN3_5 = LayerFamily("qwen3_5", "DecoderLayer", "TextModelArgs", model="TextModel", delta_norms=True)
_DEEPSEEK_V3 = LayerFamily("deepseek_v3", "DeepseekV3DecoderLayer", converts=True)
_DEEPSEEK_V32 = LayerFamily("deepseek_v32", "DeepseekV32DecoderLayer", converts=True, form=MtpForm(caches=2))
FAMILIES: Mapping[str, LayerFamily] = {
    **dict.fromkeys(("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), _QWEN3_5),
    "qwen3_next": LayerFamily("qwen3_next", "Qwen3NextDecoderLayer", delta_norms=True),
    "qwen3": LayerFamily("qwen3", "TransformerBlock", further=()),
    "llama": LayerFamily("llama", "TransformerBlock", further=()),
    "mimo": LayerFamily("mimo", "TransformerBlock", further=(), form=MtpForm(hidden_first=True)),
    # vLLM, `mimo_v2_mtp.py`: a dense layer with a window, whatever the model's last one is
    "mimo_v2_flash": LayerFamily(
        "mimo_v2_flash", "DecoderLayer", further=(False, True), converts=True, window="sliding_window_size"
    ),
    **dict.fromkeys(("deepseek_v3", "kimi_k2", "joyai_llm_flash"), _DEEPSEEK_V3),
    "deepseek_v32": _DEEPSEEK_V32,
    "glm_moe_dsa": replace(_DEEPSEEK_V32, arguments="glm_moe_dsa.ModelArgs"),
    "glm4_moe": LayerFamily("glm4_moe", "DecoderLayer"),
    "glm4_moe_lite": LayerFamily("glm4_moe_lite", "Glm4MoeLiteDecoderLayer", converts=True),
    # SGLang, `bailing_moe_nextn.py`; vLLM, `bailing_moe_mtp.py`
    "bailing_moe": LayerFamily("bailing_moe", "BailingMoeDecoderLayer", converts=True),
    "bailing_hybrid": LayerFamily("bailing_hybrid", "DecoderLayer", converts=True),
    # vLLM, `nemotron_h_mtp.py`
    "nemotron_h": LayerFamily("nemotron_h", "NemotronHBlock", converts=True, chain=True),
    # vLLM, `step3p5_mtp.py`, and mtplx, `step3p5_mtp_patch.py`: states before the norm, the target's and its own
    "step3p5": LayerFamily(
        "step3p5", "Step3p5DecoderLayer", delta_norms=True, window="sliding_window",
        form=MtpForm(reads_normed=False, feeds_normed=False),
    ),
}  # fmt: skip


def family_of(config: Fields) -> LayerFamily:
    """Returns the family of the layer that `config` describes. Raises ModelError for one that no head is known to
    have."""
    kind = str(config.get("model_type"))
    if kind not in FAMILIES:
        raise ModelError(
            f"{config.path}: Redline does not support {kind[:40]!r} layers for multi-token prediction; "
            f"{ANOTHER_DRAFTER}"
        )
    return FAMILIES[kind]


def build_layer(config: Fields) -> tuple[Any, MtpForm]:
    """Returns a layer without weights as `config` describes it, and the form of a head that has it. Raises ModelError
    where it describes none."""
    family = family_of(config)
    module = _module(family.module)
    with building(config.path):
        arguments, layer_class = _arguments(family, config), getattr(module, family.layer)
        layer: Any
        if family.chain:
            layer = LayerChain([layer_class(arguments, kind) for kind in _kinds(config, arguments)])
        else:
            layer = layer_class(arguments, *((_place(arguments),) if family.further is None else family.further))
        correct_modules(layer, {**config.values, **_rope(config)})
        slides = getattr(layer, "is_sliding", getattr(layer, "is_sliding_window", False))
        window = int(getattr(arguments, family.window)) if family.window and slides else None
    predicate = getattr(getattr(module, family.model), "cast_predicate", None)
    may_cast = predicate.fget(None) if predicate is not None else MtpForm.may_cast  # what mlx-lm stores in 16 bits
    return layer, replace(family.form, window=window, may_cast=may_cast)


def _arguments(family: LayerFamily, config: Fields) -> Any:
    """Returns mlx-lm's arguments for the family's layer. Their rotary embedding is under the names of transformers 4
    too, which mlx-lm may expect."""
    fields = copy.deepcopy({**_rope(config), **config.values})  # mlx-lm changes what it is given
    module, _, name = family.arguments.rpartition(".")
    return getattr(_module(module or family.module), name).from_dict(fields)


def _rope(config: Fields) -> dict[str, Any]:
    """Returns what `rope_of` does; nothing where every layer has a base of its own (Step 3.5), without a scaling."""
    return {} if isinstance(config.values.get("rope_theta"), list) else rope_of(config)


def _kinds(config: Fields, arguments: Any) -> list[str]:
    """Returns the kinds of a chain's blocks, as mlx-lm calls them: attention, then experts, where nothing is said.
    Raises ValueError unless exactly one has keys and values and none a recurrent state."""
    named = config.get("mtp_layers_block_type", ["full_attention", "moe"])
    kinds = config.get("mtp_hybrid_override_pattern") or [arguments._block_type_to_char[kind] for kind in named]
    if list(kinds).count("*") != 1 or not set(kinds) <= set("*E-"):
        raise ValueError(f"blocks {''.join(kinds)!r}")
    return list(kinds)


def convert_layer(config: Fields, tensors: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Runs mlx-lm's own conversion over a head's tensors, of which those of the layer are called `layer.*`, as if that
    were the only one of a model. Raises ModelError where tensors are missing."""
    family = family_of(config)
    with building(config.path):
        arguments = _arguments(family, config)
        blocks = len(_kinds(config, arguments)) if family.chain else 1
    within = "backbone." if family.chain else "model.layers.0."
    for name, value in (("num_hidden_layers", blocks), ("first_k_dense_replace", 0)):
        if hasattr(arguments, name):
            setattr(arguments, name, value)
    model = getattr(_module(family.module), family.model)
    outer = {
        name.replace("layer.", within, 1) if name.startswith("layer.") else name: value
        for name, value in tensors.items()
    }
    try:
        converted = model.sanitize(SimpleNamespace(args=arguments, norm_head=False), outer)
    except (KeyError, ValueError) as error:
        raise ModelError(f"{config.path}: tensors are missing ({error}); download the drafter again") from error
    return {name.replace(within, "layer.", 1): value for name, value in converted.items()}


def _module(name: str) -> Any:
    return importlib.import_module(f"mlx_lm.models.{name}")


def _place(arguments: Any) -> int:
    """Returns the place of a layer like the head's: of full attention in a hybrid, else after the last one."""
    interval = getattr(arguments, "full_attention_interval", None)
    return int(interval) - 1 if interval else int(arguments.num_hidden_layers)
