"""Gemma 4's assistants on disk, as Google publishes them and as mlx-vlm converts them.

Format: transformers, `models/gemma4_assistant/configuration_gemma4_assistant.py`. The sizes of the layers are under
`text_config`; transformers from 5.22 on writes the width of the full layers' heads under `per_layer_config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models import gemma4_text

from engine.drafters.gemma4_assistant import AssistantConfig, AssistantHead
from engine.errors import ModelError, PairError
from models.drafters.head_folder import Fields, HeadFolder, open_head
from models.drafters.head_weights import fill, settle
from models.drafters.layer_config import layer_count
from models.drafters.target_match import TargetShape, check_vocabulary, check_width, dtype_of, shape_of
from models.loader import Loaded
from models.model_folder import config_parts

_OTHER = "choose another drafter"
_ORDERING = "masked_embedding.token_ordering"


def load_assistant(path: Path, target: Loaded) -> tuple[AssistantHead, dict[str, int]]:
    """Loads the assistant at `path` for `target`, in the type that the target computes in. Also returns, by the kind of
    layer, which of the target's layers it reads keys and values of.

    Raises ModelError for anything wrong with the folder, PairError where assistant and target do not fit.
    """
    folder = open_head(path, ("model",))
    head = _filled(folder, shape_of(target))
    _check_ordering(folder, head)
    settle(head, dtype_of(target))
    return head, kv_layers(folder, target.folder.config, head)


def check_assistant(path: Path, config: Mapping[str, object], target: TargetShape) -> None:
    """Raises what `load_assistant` raises, as far as it can be known without a weight. config: of the target."""
    folder = open_head(path, ("model",))
    kv_layers(folder, config, _filled(folder, target))


def kv_layers(folder: HeadFolder, config: Mapping[str, object], head: AssistantHead) -> dict[str, int]:
    """Returns for each kind of layer the last one of the target that has keys and values of its own. config: of the
    target. Raises PairError for a target that has none of that kind, or is no Gemma 4."""
    if not str(config.get("model_type")).startswith("gemma4"):
        raise PairError(
            f"{folder.path}: made for Gemma 4, not for a {str(config.get('model_type'))[:40]} model; {_OTHER}"
        )
    arguments = gemma4_text.ModelArgs.from_dict(dict(config_parts(config)[-1]))
    kinds = list(arguments.layer_types or ())[: arguments.num_hidden_layers - arguments.num_kv_shared_layers]
    missing = [kind for kind in head.layer_types if kind not in kinds]
    if missing:
        raise PairError(f"{folder.path}: the target has no layer of the kind {missing[0][:40]}; {_OTHER}")
    return {kind: max(place for place, own in enumerate(kinds) if own == kind) for kind in head.layer_types}


def _filled(folder: HeadFolder, target: TargetShape) -> AssistantHead:
    """Returns the head with its weights, none of which is evaluated yet."""
    top, text = folder.config, folder.config.part("text_config")
    ordered = top.flag("use_ordered_embeddings")
    config = AssistantConfig(
        backbone_size=top.count("backbone_hidden_size"),
        hidden_size=text.count("hidden_size"),
        vocab_size=text.count("vocab_size"),
        rms_norm_eps=text.number("rms_norm_eps", 1e-6),
        clusters=top.count("num_centroids", 2048) if ordered else 0,
        best_clusters=top.count("centroid_intermediate_top_k", 32) if ordered else 0,
        tied=top.get("tie_word_embeddings") is not False,
    )
    check_width(folder.path, config.backbone_size, target.hidden, target)
    check_vocabulary(folder.path, config.vocab_size, target)
    if ordered and (config.vocab_size % config.clusters or config.best_clusters > config.clusters):
        raise top.wrong("num_centroids", f"a divisor of {config.vocab_size}, and no fewer than the best of them")
    head = AssistantHead(config, _layers(folder, text))
    tensors = {name: value.astype(mx.int32) if name == _ORDERING else value for name, value in folder.load().items()}
    if config.tied:
        tensors.pop("lm_head.weight", None)
    fill(folder.path, head, tensors)
    return head


def _layers(folder: HeadFolder, text: Fields) -> list[Any]:
    """Returns the layers without weights. Raises ModelError."""
    per_layer = text.part("per_layer_config").values
    wide = [part["head_dim"] for part in per_layer.values() if isinstance(part, dict) and "head_dim" in part]
    fields = {**text.values, **({"global_head_dim": wide[0]} if wide else {})}
    fields["num_kv_shared_layers"] = layer_count(folder, text)  # none has keys and values of its own
    try:
        arguments = gemma4_text.ModelArgs.from_dict(fields)
        if any(kind not in ("full_attention", "sliding_attention") for kind in arguments.layer_types or ()):
            raise ValueError("unknown layer_types")
        return [gemma4_text.DecoderLayer(arguments, place) for place in range(arguments.num_hidden_layers)]
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ModelError(f"{folder.path}: config.json describes no assistant ({error}); download it again") from error


def _check_ordering(folder: HeadFolder, head: AssistantHead) -> None:
    """Raises ModelError unless the clusters hold every token once."""
    if not head.config.clusters:
        return
    ordering = head.masked_embedding.token_ordering
    if not mx.array_equal(mx.sort(ordering), mx.arange(head.config.vocab_size)).item():
        raise ModelError(f"{folder.path}: token_ordering does not name every token once; download the drafter again")
