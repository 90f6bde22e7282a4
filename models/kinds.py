"""Which kind of model or drafter a folder holds, by its config alone: asked without loading MLX."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from engine.errors import ModelError
from models.disk import read_json_object
from models.folder import folder_names

Kind = Literal["model", "eagle3", "medusa"]


def kind_of(path: Path) -> Kind:
    """Of the drafter folder at `path`: an ordinary model, an EAGLE-3 head or Medusa heads.

    Speculators' configs say what they are. SafeAILab's EAGLE-3 configs are llama's with a `draft_vocab_size`, by
    whatever name of architecture; FasterDecoding's name `medusa_num_heads`.
    Raises ModelError: no folder, no or bad config.json, or a kind of head that Redline does not know.
    """
    folder_names(path)
    config = read_json_object(path / "config.json")
    said = config.get("speculators_model_type")
    if said is None and "speculators_config" in config:
        said = _algorithm(config)
    if said == "eagle3":
        return "eagle3"
    if said is not None:
        raise ModelError(
            f"{path}: is a speculator of the kind {str(said)[:40]!r}, which Redline does not know; "
            "choose an eagle3 or medusa head, or a model"
        )
    if "medusa_num_heads" in config:
        return "medusa"
    return "eagle3" if "draft_vocab_size" in config or "eagle_config" in config else "model"


def _algorithm(config: Mapping[str, object]) -> object:
    part = config["speculators_config"]
    return part.get("algorithm") if isinstance(part, dict) else part
