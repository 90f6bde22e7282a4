"""EAGLE-3 heads on disk: the Speculators layout is read and written, SafeAILab's is read.

`models.drafters.eagle3` recognises such a folder; this module reads and writes its files.

    Speculators   vllm-project/speculators, `src/speculators/models/eagle3/config.py`: the layer's sizes under
                  `transformer_layer_config`, tensors `layers.0.*`
    SafeAILab     SafeAILab/EAGLE, `eagle/traineagle3/config.json` and `eagle/model/cnets.py`: the layer's sizes at the
                  top, tensors `midlayer.*`. SpecForge and AngelSlim write it too

A head drafts with the target's own embedding. A copy of it in the folder is left on the disk, as it may take more
memory than the head; an embedding that is no copy is a reason to refuse. A head without an output matrix reads the
target's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx

from engine.drafters.eagle3 import Eagle3Config, Eagle3Head
from engine.errors import ModelError, PairError
from engine.target.model_layout import unembed
from models.drafters.eagle3_config import config_of, fields_of
from models.drafters.head_folder import HeadFolder, id_tensors, open_head, parameters_of, read_ids, write_head
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

_EMBEDDING = "embed_tokens.weight"
_BESIDE = ("d2t", "t2d", _EMBEDDING, "verifier_lm_head.weight", "verifier_norm.weight")
_DERIVED = "rotary_emb.inv_freq"  # some keep it, though the config says it
_SAMPLED = 256  # rows of an embedding that are compared


def load_eagle3(path: Path, target: Loaded) -> Eagle3Head:
    """Load the EAGLE-3 head at `path` for `target`, in the dtype that the target computes in.

    Raises ModelError for anything wrong with the folder, PairError where head and target do not fit.
    """
    folder, head, names = _checked(path, shape_of(target))
    loaded = folder.load()
    head.set_draft_vocabulary(read_ids(folder, loaded, head.config.draft_vocab_size, head.config.vocab_size))
    _check_embedding(folder, loaded, target)
    head.load_weights([(ours, loaded[theirs]) for theirs, ours in names.items()])
    head.set_dtype(dtype_of(target))
    if not head.config.own_output:
        head.tie_lm_head(unembed(target.network))
    mx.eval(parameters_of(head))
    return head


def check_eagle3(path: Path, target: TargetShape) -> None:
    """Raises what `load_eagle3` raises, as far as it can be known without a weight: everything but its tokens and a
    copy of the embedding."""
    _checked(path, target)


def save_eagle3(path: Path, head: Eagle3Head, about: Mapping[str, object], dtype: mx.Dtype = mx.float16) -> None:
    """Write `head` into the folder `path` in the Speculators layout, its weights as `dtype`.

    about: what config.json says under "redline": the target (`made_for`), the data and their licence, what was
    measured. Raises ModelError when the disk refuses.
    """
    tensors = {name: value.astype(dtype) for name, value in parameters_of(head).items()}
    tensors |= id_tensors(head.ids, head.config.vocab_size)
    write_head(path, fields_of(head.config, about, str(dtype).rpartition(".")[2]), "model.safetensors", tensors)


def _checked(path: Path, target: TargetShape) -> tuple[HeadFolder, Eagle3Head, dict[str, str]]:
    """The folder, a head of its sizes without weights, and what the head calls those that the folder has."""
    folder = open_head(path, ("model",))
    names = {name: name.replace("midlayer.", "layers.0.", 1) for name in folder.tensors if not name.endswith(_DERIVED)}
    head = _empty(folder, config_of(folder, set(names.values()), target))
    wanted = {name: value.shape for name, value in parameters_of(head).items()}
    copied = {_EMBEDDING: (head.config.vocab_size, head.config.hidden_size)} if _EMBEDDING in names else {}
    folder.check(names, wanted | copied, _BESIDE)
    check_made_for(folder, target)
    return folder, head, {theirs: ours for theirs, ours in names.items() if ours in wanted}


def _empty(folder: HeadFolder, config: Eagle3Config) -> Eagle3Head:
    """A head of these sizes, nothing of which is computed yet."""
    try:
        return Eagle3Head(config)
    except (KeyError, OverflowError, TypeError, ValueError) as error:  # of an unknown or incomplete rope_scaling
        raise ModelError(
            f"{folder.path}: config.json describes an unknown kind of head ({error}); choose another head"
        ) from error


def _check_embedding(folder: HeadFolder, loaded: Mapping[str, mx.array], target: Loaded) -> None:
    """An embedding in the folder must be a copy of the target's, up to its precision."""
    own = loaded.get(_EMBEDDING)
    if own is None:
        return
    rows = min(_SAMPLED, target.model.vocabulary)
    theirs, mine = sample_embedding(target, rows), own[sample_ids(target, rows)]
    if not is_copy(mine, theirs):
        raise PairError(
            f"{folder.path}: different embedding (not a copy of {target.name}'s); "
            "choose a drafter that was made for this target"
        )
