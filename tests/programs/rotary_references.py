"""Writes the frequencies that transformers computes for scaled rotary embeddings, which heads and targets must have.

    python -m tests.programs.rotary_references

Needs torch and transformers, as `architecture_references` does. Each row of the file has what a configuration says, the
length of the text, the inverse frequencies and the factor of what is rotated.
"""

import json
from pathlib import Path
from typing import Any

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

FILE = Path(__file__).parents[1] / "engine" / "rotary_references.json"
HEAD, LONGEST, ORIGINAL = 16, 4096, 1024
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL}
LONGROPE = {
    "rope_type": "longrope",
    "original_max_position_embeddings": ORIGINAL,
    "short_factor": [1.0 + 0.05 * place for place in range(HEAD // 2)],
    "long_factor": [1.0 + 2.0 * place for place in range(HEAD // 2)],
}
SCALINGS: list[dict[str, Any]] = [
    {"rope_type": "linear", "factor": 8.0},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": ORIGINAL,
    },
    YARN,
    {**YARN, "truncate": False},
    {**YARN, "truncate": False, "beta_fast": 16.0, "beta_slow": 2.0},
    {**YARN, "attention_factor": 1.25},
    {**YARN, "mscale": 1.0, "mscale_all_dim": 0.7},
    {**YARN, "mscale": 1.0},
    LONGROPE,
    {**LONGROPE, "factor": 2.0},
    {**LONGROPE, "attention_factor": 1.1},
]


def row(scaling: dict[str, Any], length: int) -> dict[str, Any]:
    """Returns one row of the file."""
    rope = {"rope_theta": 150_000.0, **scaling}
    sizes = {"hidden_size": 4 * HEAD, "num_attention_heads": 4, "max_position_embeddings": LONGEST}
    config = LlamaConfig(**sizes, rope_parameters=dict(rope))
    frequencies, factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu", seq_len=length)
    return {"rope_parameters": rope, "length": length, "frequencies": frequencies.tolist(), "factor": float(factor)}


def main() -> None:
    lengths = {"longrope": (ORIGINAL, ORIGINAL + 1)}
    rows = [row(one, length) for one in SCALINGS for length in lengths.get(one["rope_type"], (ORIGINAL,))]
    FILE.write_text(json.dumps({"head": HEAD, "longest": LONGEST, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
