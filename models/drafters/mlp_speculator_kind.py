"""MLP speculators as a kind of drafter: a small recurrence over the target's last state (arXiv 2404.19124).

config.json          model_type "mlp_speculator", emb_dim, inner_dim (0: as emb_dim), vocab_size, n_predict,
                     tie_weights, scale_input (foundation-model-stack/fms-extras,
                     `fms_extras/utils/config/mlp_speculator.py` and the checkpoints of ibm-ai-platform)
model*.safetensors   speculator.{emb,proj,head}.{stage}.weight, speculator.ln.{stage}.{weight,bias}; where weights
                     are tied, those of the first stage and the second projection, the others being copies
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from models.drafters.drafter_kind import Compatibility, DrafterKind, LoadedDrafter, speculator_algorithm

if TYPE_CHECKING:
    from engine.drafters.mlp_speculator import MlpSpeculatorConfig, MlpSpeculatorNetwork
    from models.drafters.head_folder import HeadFolder
    from models.drafters.target_match import TargetShape
    from models.loader import Loaded
    from models.memory.memory_verdict import Share
    from models.model_folder import ModelFolder

_PREFIX = "speculator."
_MAX_STAGES = 32
_OWN_WHERE_TIED = ("emb.0.", "head.0.", "ln.0.", "proj.0.", "proj.1.")


def detect(config: Mapping[str, object]) -> bool:
    return speculator_algorithm(config) is None and config.get("model_type") == "mlp_speculator"


def check(target: ModelFolder, folder: Path, _read: Callable[[Path], ModelFolder]) -> Compatibility:
    from models.drafters.target_match import shape_in

    shape = shape_in(target)
    _filled(folder, shape)
    return Compatibility(True, KIND.name, shape.summary)


def load(folder: Path, target: Loaded, _trees: bool) -> LoadedDrafter:
    from engine.drafters.mlp_speculator import MlpSpeculator
    from models.drafters.head_folder import usual_acceptance
    from models.drafters.head_weights import settle
    from models.drafters.target_match import dtype_of, shape_of

    network = _filled(folder, shape_of(target))
    settle(network, dtype_of(target))
    return LoadedDrafter(MlpSpeculator(network, target.model), usual_acceptance=usual_acceptance(folder))


def footprint(folder: Path, item_bytes: int) -> Callable[[int], Share]:
    from models.drafters.head_folder import head_footprint

    return head_footprint(folder, item_bytes)


def _filled(path: Path, target: TargetShape) -> MlpSpeculatorNetwork:
    """Returns the network with its weights, none of which is evaluated yet."""
    from engine.drafters.mlp_speculator import MlpSpeculatorNetwork
    from models.drafters.head_folder import open_head
    from models.drafters.head_weights import fill
    from models.drafters.target_match import check_made_for

    folder = open_head(path, ("model",))
    config = _config(folder, target)
    tensors = {name.removeprefix(_PREFIX): value for name, value in folder.load().items()}
    if config.tied:
        tensors = {name: value for name, value in tensors.items() if name.startswith(_OWN_WHERE_TIED)}
    network = MlpSpeculatorNetwork(config)
    fill(path, network, tensors)
    check_made_for(folder, target)
    return network


def _config(folder: HeadFolder, target: TargetShape) -> MlpSpeculatorConfig:
    """Sizes, checked against the target's."""
    from engine.drafters.mlp_speculator import MlpSpeculatorConfig
    from engine.target.layer_taps import NORMED
    from models.drafters.target_match import check_vocabulary, check_width

    fields = folder.config
    hidden, vocabulary, stages = fields.count("emb_dim"), fields.count("vocab_size"), fields.count("n_predict")
    if stages > _MAX_STAGES:
        raise fields.wrong("n_predict", f"at most {_MAX_STAGES}")
    check_width(folder.path, hidden, target.states((NORMED,)), target)
    check_vocabulary(folder.path, vocabulary, target)
    return MlpSpeculatorConfig(
        hidden_size=hidden,
        inner_size=fields.count("inner_dim", hidden) if fields.get("inner_dim") != 0 else hidden,
        vocab_size=vocabulary,
        stages=stages,
        tied=fields.flag("tie_weights"),
        scale_input=fields.flag("scale_input"),
    )


KIND = DrafterKind("mlp-speculator", "MLP speculator", detect, check, load, footprint)
