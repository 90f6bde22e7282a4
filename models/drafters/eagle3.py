"""EAGLE-3 heads on disk: the Speculators layout is read and written, SafeAILab's is read.

    Speculators   vllm-project/speculators, `src/speculators/models/eagle3/config.py`: the layer's sizes under
                  `transformer_layer_config`, tensors `layers.0.*`
    SafeAILab     SafeAILab/EAGLE, `eagle/traineagle3/config.json` and `eagle/model/cnets.py`: the layer's sizes at the
                  top, tensors `midlayer.*`. SpecForge and AngelSlim write it too

Which layer an index means, all three as taps in the sense of `engine.target.layer_taps`:

    eagle_aux_hidden_state_layer_ids   at the top: the INPUT of that layer (vllm-project/vllm,
                                       `vllm/model_executor/models/llama.py`); within eagle_config: the OUTPUT
                                       (sgl-project/sglang, `python/sglang/srt/models/llama.py`, adds 1)
    neither, or none in it             the inputs of layers 2, n // 2 and n - 3 (SafeAILab/EAGLE,
                                       `eagle/model/modeling_llama_kv.py`; vLLM, Speculators and, where its list is
                                       empty, NVIDIA's ModelOpt alike)

A head drafts with the target's own embedding. A copy of it in the folder is left on the disk, as it may take more
memory than the head; an embedding that is no copy is a reason to refuse, unless the config says that it was trained
(`embed_requires_grad`; P-EAGLE). A head without an output matrix reads the target's.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import mlx.core as mx

from engine.drafters.eagle3 import Eagle3, Eagle3Config, Eagle3Head
from models.drafters.drafter_kind import Variants, speculator_algorithm
from models.drafters.head_config import fields_in, layer_count, refuse_unsupported, windows_of, written_fields
from models.drafters.head_files import HeadFiles
from models.drafters.head_folder import Fields, HeadFolder, read_config, write_speculators
from models.drafters.head_weights import stored_tensors
from models.drafters.target_match import TargetShape, first_embedding, is_copy, misfit
from models.loader import Loaded

_EMBEDDING = "embed_tokens.weight"
_IDS = "eagle_aux_hidden_state_layer_ids"


class Eagle3Files(HeadFiles):
    can_branch = True

    def named(self, folder: HeadFolder, target: Loaded | None) -> dict[str, mx.array]:
        tensors = {name.replace("midlayer.", "layers.0.", 1): value for name, value in folder.weights().items()}
        if _EMBEDDING in tensors and not _has_own_embedding(folder, tensors[_EMBEDDING], target):
            return {name: value for name, value in tensors.items() if not name.startswith("embed_tokens.")}
        return tensors

    def network(self, folder: HeadFolder, tensors: Mapping[str, mx.array], shape: TargetShape) -> Eagle3Head:
        """The tensors tell what no field tells everywhere. Who norms queries and keys is said by `model_type` in one
        layout and by `architectures` in the other; NVIDIA has `norm_before_fc` within eagle_config (vllm-project/vllm,
        PR 42143). A head of the whole vocabulary without an output matrix shares the target's (SGLang,
        `llama_eagle3.py`; vLLM, `v1/spec_decode/llm_base_proposer.py`)."""
        top, eagle = folder.config, folder.config.part("eagle_config")
        layer = top.part("transformer_layer_config") if top.get("transformer_layer_config") is not None else top
        others = {
            f"a {layer.get('model_type')} layer": layer.get("model_type", "llama") not in ("llama", "qwen3"),
            "biases in its feed-forward part": layer.flag("mlp_bias"),
            "no sight of the target's middle layers": eagle.values.get("use_aux_hidden_state") is False,
        }
        refuse_unsupported(folder, "EAGLE-3 heads", layer, others)
        fields = fields_in(folder, layer, tensors, _taps(top, shape.layers), shape)
        vocabulary = fields["vocab_size"]
        known, is_parallel = top.count("draft_vocab_size", vocabulary), speculator_algorithm(top.values) == "peagle"
        config = Eagle3Config(
            **fields,
            draft_vocab_size=known,
            windows=windows_of(layer, layer_count(folder, layer, 1)),
            norm_before_residual=top.flag("norm_before_residual"),
            qk_norm="layers.0.self_attn.q_norm.weight" in tensors,
            norm_before_fc=top.flag("norm_before_fc") or "input_norm.weight" in tensors,
            fc_norm=top.flag("fc_norm"),
            norm_output=top.flag("norm_output"),
            own_output=known != vocabulary or "lm_head.weight" in tensors,
            mask_id=top.token("mask_token_id", vocabulary) if is_parallel else None,
        )
        return Eagle3Head(config)

    def variants(self, head: Eagle3Head, path: Path, target: Loaded, trees: bool) -> Variants:
        """Sources disagree about two things: ids within eagle_config are outputs of layers to SGLang and inputs to
        vLLM, and where nothing says `norm_before_residual`, it is true to vLLM and false to Speculators and SafeAILab,
        except of P-EAGLE heads, where it is false to all."""
        top, config = read_config(path), head.config
        layers = [("layer ids as outputs", config.taps)]
        if top.part("eagle_config").places(_IDS) and not top.places(_IDS):
            layers.append(("layer ids as inputs", tuple(tap - 1 for tap in config.taps)))
        residuals = [("the plain residual", config.norm_before_residual)]
        if top.get("norm_before_residual") is None and config.mask_id is None:
            residuals.append(("the normed residual", True))
        both = len(layers) > 1 and len(residuals) > 1

        def make(taps: tuple[int, ...], normed: bool) -> Eagle3:
            return Eagle3(head.read_as(taps, normed), target.model, trees)

        return {
            f"{ids} and {residual}" if both else ids if len(layers) > 1 else residual: partial(make, taps, normed)
            for ids, taps in layers
            for residual, normed in residuals
        }


FILES = Eagle3Files()


def save_eagle3(path: Path, head: Eagle3Head, about: Mapping[str, object]) -> None:
    """Writes `head` into the folder `path` in the Speculators layout, its weights in 16 bits.

    about: what config.json says under "redline": the target (`made_for`), the data and their licence, what was
    measured. Raises ModelError when the disk refuses.
    """
    config = head.config
    fields = {
        "draft_vocab_size": config.draft_vocab_size,
        _IDS: list(config.taps),
        "norm_before_residual": config.norm_before_residual,
        "norm_before_fc": config.norm_before_fc,
        "fc_norm": config.fc_norm,
        "norm_output": config.norm_output,
        "target_hidden_size": None,
        "tie_word_embeddings": False,
        "transformer_layer_config": written_fields(config, "qwen3" if config.qk_norm else "llama"),
    }
    write_speculators(path, "eagle3", "Eagle3Speculator", about, fields, stored_tensors(head))


def _taps(top: Fields, layers: int) -> tuple[int, ...]:
    """Returns which states the head reads, as taps, in the order of layers: so they are gathered in every engine,
    however the list stands (NVIDIA's ModelOpt writes that of a set)."""
    outputs = top.part("eagle_config").places(_IDS)
    inputs = top.places(_IDS) or tuple(place + 1 for place in outputs) or (2, layers // 2, layers - 3)
    return tuple(sorted(inputs))


def _has_own_embedding(folder: HeadFolder, own: mx.array, target: Loaded | None) -> bool:
    """Returns whether an embedding in the folder is one that was trained with the head. Raises PairError for one that
    is neither that nor a copy of the target's; one of another size is left to the comparison of tensors."""
    trained = folder.config.flag("embed_requires_grad", speculator_algorithm(folder.config.values) == "peagle")
    if target is None:
        return trained
    if is_copy(own, target):
        return False
    if trained or own.shape != (target.model.vocabulary, first_embedding(target).shape[-1]):
        return True
    raise misfit(folder.path, "embedding", f"not a copy of {target.name}'s")
