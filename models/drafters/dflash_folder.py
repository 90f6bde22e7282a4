"""Block drafters on disk: DFlash, DFlash 2 and DSpark, in the layouts in which they are published.

    z-lab          fields of a Qwen3 config, the rest under `dflash_config` (PyPI `dflash`, `dflash/model.py`); DSpark
                   heads of SpecForge and LiquidAI too. `target_layer_ids`: the OUTPUT of those layers
    DeepSpec       the same fields at the top
    Speculators    `speculators_model_type` dflash, dflash2 or dspark, sizes under `transformer_layer_config`
                   (vllm-project/speculators, `models/dflash/config.py`). `aux_hidden_state_layer_ids`: the INPUT of
                   those layers (vllm-project/vllm, `transformers_utils/configs/speculators/algos.py`)

An embedding or an output matrix that is a copy of the target's is left on the disk. DSpark's confidence head is, too:
how much is drafted is decided beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.drafters.dflash import DFlashConfig, DFlashHead, Sequential
from engine.errors import ModelError, PairError
from engine.target.model_layout import output_rows
from models.drafters.head_folder import (
    Fields,
    HeadFolder,
    id_tensors,
    open_head,
    read_ids,
    speculators_fields,
    write_head,
)
from models.drafters.head_weights import fill, settle
from models.drafters.layer_config import layer_count, partial_rotary_factor, rope_of, sizes_of, windows_of
from models.drafters.target_match import (
    TargetShape,
    check_vocabulary,
    check_width,
    dtype_of,
    is_copy,
    sample_embedding,
    sample_ids,
    shape_of,
)
from models.loader import Loaded
from models.parameters import flat_parameters

_OTHER = "choose another drafter"
_NOT_LOADED = ("confidence_head.", "verifier_", "d2t", "t2d", "rotary_emb.")
_RENAMED = {"midlayer.": "layers.0.", "encoder.fc.": "fc.", "encoder.output_norm_enc.": "hidden_norm."}
_SAMPLED = 256  # rows that are compared with the target's


def load_dflash(path: Path, target: Loaded) -> DFlashHead:
    """Loads the block drafter at `path` for `target`, in the type that the target computes in.

    Raises ModelError for anything wrong with the folder, PairError where head and target do not fit.
    """
    folder = open_head(path, ("model",))
    tensors = _tensors(folder)
    for copy in _copies(tensors, target):
        del tensors[copy]
    head = _filled(folder, tensors, shape_of(target))
    settle(head, dtype_of(target))
    return head


def save_dflash(path: Path, head: DFlashHead, about: Mapping[str, object]) -> None:
    """Writes a plain DFlash `head` into the folder `path` in the Speculators layout, its weights in 16 bits.

    about: what config.json says under "redline". Raises ModelError when the disk refuses.
    """
    config = head.config
    sizes = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    others = ("vocab_size", "rms_norm_eps", "rope_theta", "rope_scaling", "max_position_embeddings", "attention_bias")
    fields = {
        **speculators_fields("dflash", "DFlashSpeculator", about),
        "draft_vocab_size": config.draft_vocab_size,
        "aux_hidden_state_layer_ids": list(config.points),
        "block_size": config.block,
        "mask_token_id": config.mask_id,
        "sample_from_anchor": config.from_anchor,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "transformer_layer_config": {
            "model_type": "qwen3",
            "num_hidden_layers": len(config.windows),
            "hidden_act": "silu",
            **{name: getattr(config, name) for name in (*sizes, *others)},
        },
    }
    tensors = {name: value.astype(mx.float16) for name, value in flat_parameters(head).items()}
    write_head(path, fields, "model.safetensors", {**tensors, **id_tensors(head.ids, config.vocab_size)})


def check_dflash(path: Path, target: TargetShape) -> None:
    """Raises what `load_dflash` raises, as far as it can be known without a weight."""
    folder = open_head(path, ("model",))
    _filled(folder, _tensors(folder), target, with_ids=False)


def _tensors(folder: HeadFolder) -> dict[str, mx.array]:
    """Returns the tensors by the names of `DFlashHead`, lazily."""
    found = {}
    for name, value in folder.load().items():
        ours = name.removeprefix("model.")
        for theirs, replacement in _RENAMED.items():
            ours = replacement + ours.removeprefix(theirs) if ours.startswith(theirs) else ours
        ours = ours.replace("codebook.weight", "codebook")
        if not ours.startswith(_NOT_LOADED) and "rotary_emb." not in ours:
            found[ours] = value
    return found


def _copies(tensors: Mapping[str, mx.array], target: Loaded) -> list[str]:
    """Returns which of embedding and output matrix are the target's own."""
    rows = min(_SAMPLED, target.model.vocabulary)
    ids = sample_ids(target, rows)
    theirs = {
        "embed_tokens.weight": lambda: sample_embedding(target, rows),
        "lm_head.weight": lambda: output_rows(target.network, ids),
    }
    found = [name for name in theirs if name in tensors and tensors[name].shape[0] == target.model.vocabulary]
    return [name for name in found if is_copy(tensors[name][ids], theirs[name]())]


def _filled(
    folder: HeadFolder, tensors: Mapping[str, mx.array], target: TargetShape, with_ids: bool = True
) -> DFlashHead:
    """Returns the head with its weights, none of which is evaluated yet."""
    config = _config(folder, tensors, target)
    try:
        head = DFlashHead(config)
    except (KeyError, OverflowError, TypeError, ValueError) as error:  # of an unknown or incomplete rope_scaling
        raise ModelError(
            f"{folder.path}: config.json describes an unknown kind of drafter ({error}); {_OTHER}"
        ) from error
    fill(folder.path, head, tensors)
    if with_ids:
        head.set_draft_vocabulary(read_ids(folder, folder.load(), config.draft_vocab_size, config.vocab_size))
    return head


# --- config.json -------------------------------------------------------------------------------


def _config(folder: HeadFolder, tensors: Mapping[str, mx.array], target: TargetShape) -> DFlashConfig:
    """Returns sizes and switches. Raises ModelError for a head of another make, PairError for one of another target."""
    top = folder.config
    speculators = top.get("transformer_layer_config") is not None
    layer = top.part("transformer_layer_config") if speculators else top
    whole = Fields(folder.path, {**layer.values, **top.values, **top.part("dflash_config").values})
    _check_supported(folder, layer, whole)
    sizes, sequential = sizes_of(layer), _sequential(whole, tensors)
    layers = layer_count(folder, layer)
    windows = _windows(layer, whole, layers)
    points = _points(folder, whole, layers, target)
    width = _check_sizes(folder, tensors, points, sizes, target)
    theta, scaling = rope_of(layer)
    from_anchor = _flag(whole, "sample_from_anchor", "markov" in sequential)
    known = whole.count("draft_vocab_size", sizes["vocab_size"])
    return DFlashConfig(
        points=points,
        feature_size=width,
        **sizes,
        draft_vocab_size=known,
        block=_inputs(whole, "markov" in sequential and not speculators, from_anchor, 8 if speculators else 16),
        mask_id=whole.token("mask_token_id", sizes["vocab_size"]),
        windows=windows,
        causal=_causal(whole, windows, speculators),
        from_anchor=from_anchor,
        rms_norm_eps=layer.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        rope_interleaved=not _flag(whole, "rope_is_neox_style", True),
        attention_bias=layer.flag("attention_bias"),
        sequential=sequential,
        rank=whole.count("selector_rank" if sequential == "selector" else "markov_rank", 256),
        candidates=min(whole.count("selector_top_k", 16), sizes["vocab_size"]),
        conv_kernel=whole.count("conv_kernel_size", 2) if sequential == "selector" else 0,
        conv_group=whole.count("conv_group_size", 16),
        **_scales(whole),
        own_output=known != sizes["vocab_size"] or "lm_head.weight" in tensors,
        own_embedding="embed_tokens.weight" in tensors,
    )


def _scales(whole: Fields) -> dict[str, Any]:
    """Returns what embeddings and logits are multiplied by, and the bound of the logits."""
    return {
        "embedding_scale": whole.number("input_embedding_scale", 1.0),
        "output_multiplier": whole.number("output_multiplier", 1.0),
        "softcap": whole.number("final_logit_softcapping", 1.0) if whole.get("final_logit_softcapping") else 0.0,
    }


def _flag(fields: Fields, key: str, otherwise: bool) -> bool:
    return otherwise if fields.get(key) is None else fields.flag(key)


def _sequential(whole: Fields, tensors: Mapping[str, mx.array]) -> Sequential:
    """Returns the sequential part that a head has, by its tensors."""
    if "candidate_selector.predecessor_codebook" in tensors:
        return "selector"
    if "markov_head.markov_w1.weight" not in tensors:
        return "none"
    return "gated_markov" if whole.get("markov_head_type") == "gated" else "markov"


def _check_supported(folder: HeadFolder, layer: Fields, whole: Fields) -> None:
    """Refuses a head that computes something else than `engine.drafters.dflash` does."""
    architectures = str(whole.get("architectures"))
    unsupported = {
        "an activation other than SiLU": layer.get("hidden_act", "silu") != "silu",
        "partly rotated heads": partial_rotary_factor(layer) != 1.0,
        "attention sinks": _flag(whole, "attention_sink_bias", False),
        "a recurrent Markov part": whole.get("markov_head_type") == "rnn",
        "gated attention": "Qwen35" in architectures,
        "a reranker": any(str(key).startswith(("lilicorr", "xpress")) for key in whole.values),
    }
    for what, is_so in unsupported.items():
        if is_so:
            raise ModelError(f"{folder.path}: Redline does not support block drafters with {what}; {_OTHER}")


def _points(folder: HeadFolder, whole: Fields, drafter_layers: int, target: TargetShape) -> tuple[int, ...]:
    """Returns which states the head reads, as layer taps."""
    count = target.layers
    if whole.get("num_target_layers") is not None and whole.count("num_target_layers") != count:
        made_for = whole.count("num_target_layers")
        raise PairError(
            f"{folder.path}: different number of layers (made for {made_for}; {target.name} has {count}); "
            "choose a drafter that was made for this target"
        )
    if outputs := whole.places("target_layer_ids"):
        points = tuple(place + 1 for place in outputs)
    elif inputs := whole.places("aux_hidden_state_layer_ids"):
        points = inputs
    elif whole.get("speculators_model_type") is not None:
        points = (2, count // 2, count - 3)
    elif drafter_layers == 1:
        points = (count // 2 + 1,)
    else:
        points = tuple(round(1 + i * (count - 4) / (drafter_layers - 1)) + 1 for i in range(drafter_layers))
    if not 0 <= min(points) <= max(points) <= count:
        raise PairError(
            f"{folder.path}: different number of layers (reads layer {max(points)}; {target.name} has {count}); "
            "choose a drafter that was made for this target"
        )
    return points


def _check_sizes(
    folder: HeadFolder,
    tensors: Mapping[str, mx.array],
    points: tuple[int, ...],
    sizes: Mapping[str, int],
    target: TargetShape,
) -> int:
    """Compares widths and vocabulary with the target's; returns the width of the states."""
    width = target.states(points)
    fused = tensors.get("fc.weight")
    if fused is None or fused.ndim != 2:
        raise ModelError(f"{folder.path}: lacks the tensor 'fc.weight' of a block drafter; {_OTHER}")
    if "fc.scales" not in tensors:
        check_width(folder.path, fused.shape[1], width, target)
    check_vocabulary(folder.path, sizes["vocab_size"], target)
    if "embed_tokens.weight" not in tensors:
        check_width(folder.path, sizes["hidden_size"], target.hidden, target)
    return width


def _inputs(whole: Fields, counts_proposals: bool, from_anchor: bool, otherwise: int) -> int:
    """Returns the inputs of a pass. `block_size` counts them, or (DSpark outside Speculators) the proposals."""
    size = whole.count("block_size", otherwise)
    if counts_proposals:
        size -= _flag(whole, "dspark_bonus_anchor", False)
        size += not from_anchor
    return max(size, 1 if from_anchor else 2)


def _windows(layer: Fields, whole: Fields, layers: int) -> tuple[int | None, ...]:
    """Returns how many tokens each layer sees, None for all."""
    window = whole.count("swa_window_size") if whole.get("swa_window_size") is not None else None
    windows = windows_of(layer, layers, window)
    if _flag(whole, "use_swa", False) and not any(windows):
        return (window or layer.count("sliding_window"),) * layers
    return windows


def _causal(whole: Fields, windows: tuple[int | None, ...], speculators: bool) -> tuple[bool, ...]:
    """Returns for each layer whether a slot sees no later one: as config.json says, else in layers with a window
    alone; in Speculators' layout there only if it says so."""
    for key in ("is_causal", "causal", "dflash_query_causal"):
        if whole.get(key) is not None:
            return (whole.flag(key),) * len(windows)
    sliding = not speculators or not _flag(whole, "sliding_window_non_causal", True)
    return tuple(sliding and window is not None for window in windows)
