"""Medusa heads on disk: FasterDecoding's layout as safetensors.

    config.json                      medusa_num_heads, medusa_num_layers (FasterDecoding/Medusa,
                                     `medusa/model/medusa_model.py`, class MedusaConfig)
    medusa_lm_head.safetensors       {head}.{layer}.linear.{weight,bias} and, for an output matrix of its own,
                                     {head}.{L}.weight (`medusa/train/train_legacy.py`, which saves the former alone)
    model.safetensors                the same, each name begins with medusa_head.

Ours on top: `draft_vocab_size` with the tensors `d2t` and `t2d` for heads that know part of the vocabulary, as EAGLE-3
heads do, and under redline.tree the nested tree of ranks (see `engine.drafters.medusa`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.drafters.medusa import Medusa, MedusaConfig, MedusaHeads, default_tree, parents_of
from engine.errors import ModelError
from engine.target.layer_taps import NORMED
from engine.target.model_layout import output_rows, unembed
from models.drafters.drafter_kind import Variants
from models.drafters.head_files import HeadFiles
from models.drafters.head_folder import Fields, HeadFolder, read_config, write_head
from models.drafters.head_weights import stored_tensors
from models.drafters.target_match import TargetShape, check_vocabulary, check_width, first_embedding
from models.loader import Loaded

RankPath = tuple[int, ...]

_MAX_HEADS = 32
_NODES = 64  # of a tree for heads that bring none


class MedusaFiles(HeadFiles):
    can_branch = True
    begins = ("medusa_lm_head", "model")

    def named(self, folder: HeadFolder, target: Loaded | None) -> dict[str, mx.array]:
        return {f"heads.{name.removeprefix('medusa_head.')}": value for name, value in folder.weights().items()}

    def network(self, folder: HeadFolder, tensors: Mapping[str, mx.array], shape: TargetShape) -> MedusaHeads:
        """FasterDecoding's config says few of the sizes."""
        fields, vocabulary = folder.config, shape.rows
        heads, layers = fields.count("medusa_num_heads"), fields.count("medusa_num_layers", 1)
        if heads > _MAX_HEADS:
            raise fields.wrong("medusa_num_heads", f"at most {_MAX_HEADS}")
        states, first = shape.states((NORMED,)), tensors.get("heads.0.0.linear.weight")
        is_quantized = "heads.0.0.linear.scales" in tensors
        width = states if first is None or first.ndim != 2 or is_quantized else first.shape[1]
        hidden = fields.count("hidden_size", width)
        check_width(folder.path, hidden, states, shape)
        check_vocabulary(folder.path, fields.count("vocab_size", vocabulary), shape)
        config = MedusaConfig(
            hidden_size=hidden,
            vocab_size=vocabulary,
            draft_vocab_size=fields.count("draft_vocab_size", vocabulary),
            num_heads=heads,
            num_layers=layers,
            own_output=f"heads.0.{layers}.weight" in tensors,
        )
        return MedusaHeads(config)

    def complete(self, folder: HeadFolder, head: Any, shape: TargetShape, target: Loaded | None) -> None:
        """Heads without output matrices read the target's; of the rows that they know, if not all, a copy is made."""
        tree_in(folder.config, head.config.num_heads)
        if target is None or head.config.own_output:
            return
        if head.token_map is None:
            head.tie_lm_head(unembed(target.network))
        else:
            rows = output_rows(target.network, head.ids).astype(first_embedding(target).dtype)
            mx.eval(rows)
            head.tie_lm_head(rows)

    def variants(self, heads: MedusaHeads, path: Path, target: Loaded, trees: bool) -> Variants:
        tree = tree_in(read_config(path), heads.config.num_heads)
        return {"as stored": lambda: Medusa(heads, tree, target.model, trees)}


FILES = MedusaFiles()


def save_medusa(path: Path, heads: MedusaHeads, about: Mapping[str, object], tree: Sequence[Sequence[int]]) -> None:
    """Writes `heads` and their nested `tree` into the folder `path`, the weights in 16 bits.

    about: what config.json says under "redline" besides the tree: the target (`made_for`), the data and their
    licence, what was measured. Raises ModelError when the disk refuses, ValueError for an invalid tree.
    """
    config = heads.config
    parents_of(tree, config.num_heads)
    of_target = about.get("target")
    tensors = {name.removeprefix("heads."): value for name, value in stored_tensors(heads).items()}
    fields = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "medusa_num_heads": config.num_heads,
        "medusa_num_layers": config.num_layers,
        "base_model_name_or_path": of_target.get("name") if isinstance(of_target, Mapping) else None,
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "draft_vocab_size": config.draft_vocab_size,
        "torch_dtype": "float16",
        "redline": {**about, "tree": [list(ranks) for ranks in tree]},
    }
    write_head(path, fields, "medusa_lm_head.safetensors", tensors)


def tree_in(config: Fields, depth: int) -> list[RankPath]:
    """Returns the nested tree of ranks in a config.json, for heads that reach so deep; a plain one where it has none.
    Raises ModelError for nonsense."""
    stored_tree = config.part("redline").values.get("tree")
    if stored_tree is None:
        return default_tree(depth, _NODES)
    try:
        tree = [tuple(path) for path in stored_tree]
        if not tree or not all(type(rank) is int and rank >= 0 for path in tree for rank in path):
            raise ValueError("its ranks are not whole numbers")
        parents_of(tree, depth)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"{config.path}: config.json has an invalid tree ({error}); download the drafter again"
        ) from error
    return tree
