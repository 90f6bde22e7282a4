"""What transformers computes with the weights of a reference and another configuration: for `config_fields`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

from tests.programs.architecture_references import remedy

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def logits_of(folder: Path, config: dict[str, Any], tokens: np.ndarray) -> np.ndarray | None:
    """Returns float32 logits (n, vocabulary); None where no network is made of it, or its tensors are others."""
    try:
        network = _network(folder, _with_floats(config))
        remedy(network, len(tokens))
        with torch.no_grad():
            found = network(torch.tensor(tokens[None].astype(np.int64)), use_cache=False).logits[0].numpy()
    except Exception:  # noqa: BLE001  broad: values that nobody trained with fail in many ways
        return None
    return found if np.isfinite(found).all() else None


def _with_floats(config: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration with the floats that transformers writes as {"__float__": "Infinity"}."""

    def read(fields: dict[str, Any]) -> Any:
        return float(fields["__float__"]) if set(fields) == {"__float__"} else fields

    read_again: dict[str, Any] = json.loads(json.dumps(config), object_hook=read)
    return read_again


def _network(folder: Path, config: dict[str, Any]) -> Any:
    made = CONFIG_MAPPING[config["model_type"]].from_dict(config)
    made._experts_implementation = "eager"
    kind = type(made)
    is_text = kind in MODEL_FOR_CAUSAL_LM_MAPPING
    network_class = (MODEL_FOR_CAUSAL_LM_MAPPING if is_text else MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING)[kind]
    network, report = network_class.from_pretrained(
        folder, config=made, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
    )
    if any(report[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys")):
        raise ValueError("the tensors are others")
    return network.eval()
