"""MLP speculators on disk: a small recurrence over the target's last state (arXiv 2404.19124).

config.json          model_type "mlp_speculator", emb_dim, inner_dim (0: as emb_dim), vocab_size, n_predict,
                     tie_weights, scale_input (foundation-model-stack/fms-extras,
                     `fms_extras/utils/config/mlp_speculator.py` and the checkpoints of ibm-ai-platform)
model*.safetensors   speculator.{emb,proj,head}.{stage}.weight, speculator.ln.{stage}.{weight,bias}; where weights
                     are tied, those of the first stage and the second projection, the others being copies
"""

from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx

from engine.drafters.mlp_speculator import MlpSpeculator, MlpSpeculatorConfig, MlpSpeculatorNetwork
from engine.target.layer_taps import NORMED
from models.drafters.drafter_kind import Variants
from models.drafters.head_files import HeadFiles
from models.drafters.head_folder import HeadFolder
from models.drafters.target_match import TargetShape, check_vocabulary, check_width
from models.loader import Loaded

_MAX_STAGES = 32
_OWN_WHERE_TIED = ("emb.0.", "head.0.", "ln.0.", "proj.0.", "proj.1.")


class MlpSpeculatorFiles(HeadFiles):
    def named(self, folder: HeadFolder, target: Loaded | None) -> dict[str, mx.array]:
        tensors = {name.removeprefix("speculator."): value for name, value in folder.weights().items()}
        begins = _OWN_WHERE_TIED if folder.config.flag("tie_weights") else ""
        return {name: value for name, value in tensors.items() if name.startswith(begins)}

    def network(self, folder: HeadFolder, tensors: Mapping[str, mx.array], shape: TargetShape) -> MlpSpeculatorNetwork:
        fields = folder.config
        hidden, vocabulary, stages = fields.count("emb_dim"), fields.count("vocab_size"), fields.count("n_predict")
        if stages > _MAX_STAGES:
            raise fields.wrong("n_predict", f"at most {_MAX_STAGES}")
        check_width(fields.path, hidden, shape.states((NORMED,)), shape)
        check_vocabulary(fields.path, vocabulary, shape)
        config = MlpSpeculatorConfig(
            hidden_size=hidden,
            inner_size=fields.count("inner_dim", hidden) if fields.get("inner_dim") != 0 else hidden,
            vocab_size=vocabulary,
            stages=stages,
            tied=fields.flag("tie_weights"),
            scale_input=fields.flag("scale_input"),
        )
        return MlpSpeculatorNetwork(config)

    def variants(self, head: MlpSpeculatorNetwork, path: Path, target: Loaded, trees: bool) -> Variants:
        return {"as stored": lambda: MlpSpeculator(head, target.model)}


FILES = MlpSpeculatorFiles()
