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

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import mlx.core as mx

from engine.drafters.dflash import DFlash, DFlashConfig, DFlashHead, Sequential
from engine.target.model_layout import layers_of
from models.drafters.drafter_kind import Variants
from models.drafters.head_config import fields_in, layer_count, refuse_unsupported, windows_of, written_fields
from models.drafters.head_files import HeadFiles
from models.drafters.head_folder import Fields, HeadFolder, write_speculators
from models.drafters.head_weights import stored_tensors
from models.drafters.target_match import TargetShape, copies_output, is_copy, misfit
from models.loader import Loaded

_RENAMED = {"midlayer.": "layers.0.", "encoder.fc.": "fc.", "encoder.output_norm_enc.": "hidden_norm."}


class DFlashFiles(HeadFiles):
    can_branch = True

    def named(self, folder: HeadFolder, target: Loaded | None) -> dict[str, mx.array]:
        tensors = {}
        for stored, value in folder.weights().items():
            name = stored.removeprefix("model.").replace("codebook.weight", "codebook")
            for prefix, replacement in _RENAMED.items():
                name = replacement + name.removeprefix(prefix) if name.startswith(prefix) else name
            if not name.startswith("confidence_head."):
                tensors[name] = value
        if target is None:
            return tensors
        embedding, output = tensors.get("embed_tokens.weight"), tensors.get("lm_head.weight")
        if embedding is not None and is_copy(embedding, target):
            del tensors["embed_tokens.weight"]
        if output is not None and len(output) == target.model.vocabulary and copies_output(output.__getitem__, target):
            del tensors["lm_head.weight"]
        return tensors

    def network(self, folder: HeadFolder, tensors: Mapping[str, mx.array], shape: TargetShape) -> DFlashHead:
        top = folder.config
        speculators = top.get("transformer_layer_config") is not None
        layer = top.part("transformer_layer_config") if speculators else top
        whole = Fields(folder.path, {**layer.values, **top.values, **top.part("dflash_config").values})
        others = {
            "attention sinks": whole.flag("attention_sink_bias"),
            "a recurrent Markov part": whole.get("markov_head_type") == "rnn",
            "gated attention": "Qwen35" in str(whole.get("architectures")),
            "a reranker": any(str(key).startswith(("lilicorr", "xpress")) for key in whole.values),
        }
        refuse_unsupported(folder, "block drafters", layer, others)
        sequential, layers = _sequential(whole, tensors), layer_count(folder, layer)
        fields = fields_in(folder, layer, tensors, _taps(whole, layers, shape), shape)
        windows, vocabulary = _windows(layer, whole, layers), fields["vocab_size"]
        from_anchor = whole.flag("sample_from_anchor", "markov" in sequential)
        known = whole.count("draft_vocab_size", vocabulary)
        config = DFlashConfig(
            **fields,
            draft_vocab_size=known,
            block=_inputs(whole, "markov" in sequential and not speculators, from_anchor, 8 if speculators else 16),
            mask_id=whole.token("mask_token_id", vocabulary),
            windows=windows,
            causal=_causal(whole, windows, speculators),
            from_anchor=from_anchor,
            rope_interleaved=not whole.flag("rope_is_neox_style", True),
            sequential=sequential,
            rank=whole.count("selector_rank" if sequential == "selector" else "markov_rank", 256),
            candidates=min(whole.count("selector_top_k", 16), vocabulary),
            conv_kernel=whole.count("conv_kernel_size", 2) if sequential == "selector" else 0,
            conv_group=whole.count("conv_group_size", 16),
            embedding_scale=whole.number("input_embedding_scale", 1.0),
            output_multiplier=whole.number("output_multiplier", 1.0),
            softcap=whole.number("final_logit_softcapping", 1.0) if whole.get("final_logit_softcapping") else 0.0,
            own_output=known != vocabulary or "lm_head.weight" in tensors,
        )
        return DFlashHead(config)

    def variants(self, head: DFlashHead, path: Path, target: Loaded, trees: bool) -> Variants:
        """Two things are disputed: whether layer ids name inputs or outputs (mlx-dspark reads Speculators' as outputs,
        vLLM as inputs), and whether the first slot of a DSpark head proposes (its config may not say)."""
        make, config = partial(DFlash, head, target.model, trees=trees), head.config
        variants = {"the layers that its config names": make}
        later = tuple(tap + 1 for tap in config.taps)
        if max(later) <= len(layers_of(target.network)):
            variants["each layer one later"] = partial(make, taps=later)
        if "markov" in config.sequential:
            slot = "no first slot" if config.from_anchor else "its first slot"
            variants[slot] = partial(make, from_anchor=not config.from_anchor)
        return variants


FILES = DFlashFiles()


def save_dflash(path: Path, head: DFlashHead, about: Mapping[str, object]) -> None:
    """Writes a plain DFlash `head` into the folder `path` in the Speculators layout, its weights in 16 bits.

    about: what config.json says under "redline". Raises ModelError when the disk refuses.
    """
    config = head.config
    fields = {
        "draft_vocab_size": config.draft_vocab_size,
        "aux_hidden_state_layer_ids": list(config.taps),
        "block_size": config.block,
        "mask_token_id": config.mask_id,
        "sample_from_anchor": config.from_anchor,
        "tie_word_embeddings": False,
        "transformer_layer_config": written_fields(config, "qwen3"),
    }
    write_speculators(path, "dflash", "DFlashSpeculator", about, fields, stored_tensors(head))


# --- config.json -------------------------------------------------------------------------------


def _sequential(whole: Fields, tensors: Mapping[str, mx.array]) -> Sequential:
    """Returns the sequential part that a head has, by its tensors."""
    if "candidate_selector.predecessor_codebook" in tensors:
        return "selector"
    if "markov_head.markov_w1.weight" not in tensors:
        return "none"
    return "gated_markov" if whole.get("markov_head_type") == "gated" else "markov"


def _taps(whole: Fields, drafter_layers: int, target: TargetShape) -> tuple[int, ...]:
    """Returns which states the head reads, as layer taps."""
    count = target.layers
    if whole.get("num_target_layers") is not None and whole.count("num_target_layers") != count:
        made_for = whole.count("num_target_layers")
        raise misfit(whole.path, "number of layers", f"made for {made_for}; {target.name} has {count}")
    if outputs := whole.places("target_layer_ids"):
        return tuple(place + 1 for place in outputs)
    if inputs := whole.places("aux_hidden_state_layer_ids"):
        return inputs
    if whole.get("speculators_model_type") is not None:
        return 2, count // 2, count - 3
    if drafter_layers == 1:
        return (count // 2 + 1,)
    return tuple(round(1 + i * (count - 4) / (drafter_layers - 1)) + 1 for i in range(drafter_layers))


def _inputs(whole: Fields, counts_proposals: bool, from_anchor: bool, otherwise: int) -> int:
    """Returns the inputs of a pass. `block_size` counts them, or (DSpark outside Speculators) the proposals."""
    size = whole.count("block_size", otherwise)
    if counts_proposals:
        size -= whole.flag("dspark_bonus_anchor")
        size += not from_anchor
    return max(size, 1 if from_anchor else 2)


def _windows(layer: Fields, whole: Fields, layers: int) -> tuple[int | None, ...]:
    """Returns how many tokens each layer sees, None for all."""
    window = whole.count("swa_window_size") if whole.get("swa_window_size") is not None else None
    windows = windows_of(layer, layers, window)
    if whole.flag("use_swa") and not any(windows):
        return (window or layer.count("sliding_window"),) * layers
    return windows


def _causal(whole: Fields, windows: tuple[int | None, ...], speculators: bool) -> tuple[bool, ...]:
    """Returns for each layer whether a slot sees no later one: as config.json says, else in layers with a window
    alone; in Speculators' layout there only if it says so."""
    for key in ("is_causal", "causal", "dflash_query_causal"):
        if whole.get(key) is not None:
            return (whole.flag(key),) * len(windows)
    sliding = not speculators or not whole.flag("sliding_window_non_causal", True)
    return tuple(sliding and window is not None for window in windows)
