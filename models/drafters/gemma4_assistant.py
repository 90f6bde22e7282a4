"""Gemma 4's assistants on disk, as Google publishes them and as mlx-vlm converts them.

Format: transformers, `models/gemma4_assistant/configuration_gemma4_assistant.py`. The sizes of the layers are under
`text_config`; transformers from 5.22 on writes the width of the full layers' heads under `per_layer_config`.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models import gemma4_text

from engine.drafters.gemma4_assistant import AssistantConfig, AssistantHead, Gemma4Assistant
from engine.errors import ModelError, PairError
from models.drafters.drafter_kind import Variants
from models.drafters.head_config import layer_count
from models.drafters.head_files import HeadFiles
from models.drafters.head_folder import ANOTHER_DRAFTER, Fields, HeadFolder
from models.drafters.target_match import TargetShape, check_vocabulary, check_width
from models.loader import Loaded
from models.model_config import text_of

_ORDERING = "masked_embedding.token_ordering"


class AssistantFiles(HeadFiles):
    def named(self, folder: HeadFolder, target: Loaded | None) -> dict[str, mx.array]:
        tensors = folder.weights()
        if _ORDERING in tensors:
            tensors[_ORDERING] = tensors[_ORDERING].astype(mx.int32)
        if folder.config.get("tie_word_embeddings") is not False:
            tensors.pop("lm_head.weight", None)
        return tensors

    def network(self, folder: HeadFolder, tensors: Mapping[str, mx.array], shape: TargetShape) -> AssistantHead:
        top = folder.config
        text, ordered = top.part("text_config"), top.flag("use_ordered_embeddings")
        config = AssistantConfig(
            backbone_size=top.count("backbone_hidden_size"),
            hidden_size=text.count("hidden_size"),
            vocab_size=text.count("vocab_size"),
            rms_norm_eps=text.number("rms_norm_eps", 1e-6),
            clusters=top.count("num_centroids", 2048) if ordered else 0,
            best_clusters=top.count("centroid_intermediate_top_k", 32) if ordered else 0,
            tied=top.get("tie_word_embeddings") is not False,
        )
        check_width(top.path, config.backbone_size, shape.hidden, shape)
        check_vocabulary(top.path, config.vocab_size, shape)
        if ordered and (config.vocab_size % config.clusters or config.best_clusters > config.clusters):
            raise top.wrong("num_centroids", f"a divisor of {config.vocab_size}, and no fewer than the best of them")
        return AssistantHead(config, _layers(folder, text))

    def complete(self, folder: HeadFolder, head: Any, shape: TargetShape, target: Loaded | None) -> None:
        if target is not None:
            _check_ordering(folder.path, head)
        kv_layers(folder.path, shape.config, head)

    def variants(self, head: AssistantHead, path: Path, target: Loaded, trees: bool) -> Variants:
        """At which position an assistant stands is disputed: vLLM, SGLang and mlx-vlm take that of the last token that
        the target has seen, transformers the one after it."""
        make = partial(Gemma4Assistant, head, target.model, kv_layers(path, target.folder.config, head))
        return {
            "the position of the last token seen": make,
            "the position after the last token seen": partial(make, later=True),
        }


FILES = AssistantFiles()


def kv_layers(path: Path, config: Mapping[str, object], head: AssistantHead) -> dict[str, int]:
    """Returns for each kind of layer the last one of the target that has keys and values of its own. config: of the
    target. Raises PairError for a target that has none of that kind, or is no Gemma 4."""
    if not str(config.get("model_type")).startswith("gemma4"):
        raise PairError(
            f"{path}: made for Gemma 4, not for a {str(config.get('model_type'))[:40]} model; {ANOTHER_DRAFTER}"
        )
    arguments = gemma4_text.ModelArgs.from_dict(dict(text_of(config)))
    kinds = list(arguments.layer_types or ())[: arguments.num_hidden_layers - arguments.num_kv_shared_layers]
    missing = [kind for kind in head.layer_types if kind not in kinds]
    if missing:
        raise PairError(f"{path}: the target has no layer of the kind {missing[0][:40]}; {ANOTHER_DRAFTER}")
    return {kind: max(place for place, own in enumerate(kinds) if own == kind) for kind in head.layer_types}


def _layers(folder: HeadFolder, text: Fields) -> list[Any]:
    """Returns the layers without weights. Raises ValueError for unknown ones."""
    per_layer = text.part("per_layer_config").values
    wide = [part["head_dim"] for part in per_layer.values() if isinstance(part, dict) and "head_dim" in part]
    fields = {**text.values, **({"global_head_dim": wide[0]} if wide else {})}
    fields["num_kv_shared_layers"] = layer_count(folder, text)  # none has keys and values of its own
    arguments = gemma4_text.ModelArgs.from_dict(fields)
    if any(kind not in ("full_attention", "sliding_attention") for kind in arguments.layer_types or ()):
        raise ValueError("unknown layer_types")
    return [gemma4_text.DecoderLayer(arguments, place) for place in range(arguments.num_hidden_layers)]


def _check_ordering(path: Path, head: AssistantHead) -> None:
    """Raises ModelError unless the clusters hold every token once."""
    if not head.config.clusters:
        return
    ordering = head.masked_embedding.token_ordering
    if not mx.array_equal(mx.sort(ordering), mx.arange(head.config.vocab_size)).item():
        raise ModelError(f"{path}: token_ordering does not name every token once; download the drafter again")
