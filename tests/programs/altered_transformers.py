"""What transformers computes with the weights of a reference and another configuration: for `config_fields`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tests.programs.architecture_references import described, remedy

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def logits_of(folder: Path, config: dict[str, Any], tokens: np.ndarray) -> np.ndarray | None:
    """Returns float32 logits (n, vocabulary); None where no network is made of it, or its tensors are others."""
    try:
        network = _network(folder, config)
        remedy(network, len(tokens))
        with torch.no_grad():
            found = network(torch.tensor(tokens[None].astype(np.int64)), use_cache=False).logits[0].numpy()
    except Exception:  # noqa: BLE001  broad: values that nobody trained with fail in many ways
        return None
    return found if np.isfinite(found).all() else None


def _network(folder: Path, config: dict[str, Any]) -> Any:
    network_class, made = described(config)
    network, report = network_class.from_pretrained(
        folder, config=made, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
    )
    if any(report[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys")):
        raise ValueError("the tensors are others")
    return network.eval()
