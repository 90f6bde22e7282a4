"""EAGLE-3 heads on disk: the Speculators layout is read and written, SafeAILab's is read.

`models.drafters.eagle3_kind` recognises such a folder; this module reads and writes its files.

    Speculators   vllm-project/speculators, `src/speculators/models/eagle3/config.py`: the layer's sizes under
                  `transformer_layer_config`, tensors `layers.0.*`
    SafeAILab     SafeAILab/EAGLE, `eagle/traineagle3/config.json` and `eagle/model/cnets.py`: the layer's sizes at the
                  top, tensors `midlayer.*`. SpecForge and AngelSlim write it too

A head drafts with the target's own embedding. A copy of it in the folder is left on the disk, as it may take more
memory than the head; an embedding that is no copy is a reason to refuse, unless the config says that it was trained
(`embed_requires_grad`; P-EAGLE). A head without an output matrix reads the target's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx

from engine.drafters.eagle3 import Eagle3Head
from engine.errors import ModelError, PairError
from engine.target.model_layout import unembed
from models.drafters.eagle3_config import config_of, fields_of, trains_embedding
from models.drafters.head_folder import HeadFolder, id_tensors, open_head, read_ids, write_head
from models.drafters.head_weights import fill, settle
from models.drafters.target_match import (
    TargetShape,
    check_made_for,
    dtype_of,
    is_copy,
    sample_embedding,
    sample_ids,
    shape_of,
)
from models.loader import Loaded
from models.parameters import flat_parameters

_EMBEDDING = "embed_tokens.weight"
_BESIDE = ("d2t", "t2d", "verifier_lm_head.weight", "verifier_norm.weight")
_DERIVED = "rotary_emb.inv_freq"  # some keep it, though the config says it
_SAMPLED = 256  # rows of an embedding that are compared


def load_eagle3(path: Path, target: Loaded) -> Eagle3Head:
    """Loads the EAGLE-3 head at `path` for `target`, in the type that the target computes in.

    Raises ModelError for anything wrong with the folder, PairError where head and target do not fit.
    """
    folder = open_head(path, ("model",))
    tensors = _tensors(folder)
    if _brings_copy(folder, tensors, target):
        del tensors[_EMBEDDING]
    head = _filled(folder, tensors, shape_of(target))
    head.set_draft_vocabulary(read_ids(folder, folder.load(), head.config.draft_vocab_size, head.config.vocab_size))
    settle(head, dtype_of(target))
    if not head.config.own_output:
        head.tie_lm_head(unembed(target.network))
    return head


def check_eagle3(path: Path, target: TargetShape) -> None:
    """Raises what `load_eagle3` raises, as far as it can be known without a weight: everything but its tokens and a
    copy of the embedding."""
    folder = open_head(path, ("model",))
    tensors = _tensors(folder)
    if not trains_embedding(folder.config):
        tensors.pop(_EMBEDDING, None)
    _filled(folder, tensors, target)


def save_eagle3(path: Path, head: Eagle3Head, about: Mapping[str, object], dtype: mx.Dtype = mx.float16) -> None:
    """Write `head` into the folder `path` in the Speculators layout, its weights as `dtype`.

    about: what config.json says under "redline": the target (`made_for`), the data and their licence, what was
    measured. Raises ModelError when the disk refuses.
    """
    tensors = {name: value.astype(dtype) for name, value in flat_parameters(head).items()}
    tensors |= id_tensors(head.ids, head.config.vocab_size)
    write_head(path, fields_of(head.config, about, str(dtype).rpartition(".")[2]), "model.safetensors", tensors)


def _tensors(folder: HeadFolder) -> dict[str, mx.array]:
    """Returns the tensors by the names of `Eagle3Head`, lazily."""
    named = {name.replace("midlayer.", "layers.0.", 1): value for name, value in folder.load().items()}
    return {name: value for name, value in named.items() if name not in _BESIDE and not name.endswith(_DERIVED)}


def _filled(folder: HeadFolder, tensors: Mapping[str, mx.array], target: TargetShape) -> Eagle3Head:
    """Returns the head with its weights, none of which is evaluated yet."""
    config = config_of(folder, tensors, target)
    try:
        head = Eagle3Head(config)
    except (KeyError, OverflowError, TypeError, ValueError) as error:  # of an unknown or incomplete rope_scaling
        raise ModelError(
            f"{folder.path}: config.json describes an unknown kind of head ({error}); choose another head"
        ) from error
    fill(folder.path, head, tensors)
    check_made_for(folder, target)
    return head


def _brings_copy(folder: HeadFolder, tensors: Mapping[str, mx.array], target: Loaded) -> bool:
    """Whether the folder has a copy of the target's embedding. Raises PairError for another embedding, unless the head
    was trained with one of its own."""
    own = tensors.get(_EMBEDDING)
    if own is None:
        return False
    theirs = (target.model.vocabulary, sample_embedding(target, 1).shape[-1])
    if own.shape != theirs and trains_embedding(folder.config):
        return False
    if own.shape != theirs:
        config_of(folder, tensors, shape_of(target))  # raises a PairError for a head of another target
        raise ModelError(
            f"{folder.path}: the tensor {_EMBEDDING!r} is {own.shape}, not {theirs}; "
            "config.json and weights do not belong together, download the drafter again"
        )
    rows = min(_SAMPLED, target.model.vocabulary)
    if is_copy(own[sample_ids(target, rows)], sample_embedding(target, rows)):
        return True
    if trains_embedding(folder.config):
        return False
    raise PairError(
        f"{folder.path}: different embedding (not a copy of {target.name}'s); "
        "choose a drafter that was made for this target"
    )
