"""Writes the frequencies that transformers computes for scaled rotary embeddings, which heads and targets must have.

    python -m tests.programs.rotary_references

Needs torch and transformers, as `architecture_references` does. Each row of the file has what a configuration says and
the length of the text, and what is computed here: the inverse frequencies and the factor of what is rotated. A new row
needs the first two.
"""

import json
from pathlib import Path
from typing import Any

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

FILE = Path(__file__).parents[1] / "engine" / "rotary_references.json"


def recomputed(row: dict[str, Any], head: int, longest: int) -> dict[str, Any]:
    """Returns a row with what transformers computes for its configuration and length. head: the width of a head."""
    rope, length = row["rope_parameters"], row["length"]
    sizes = {"hidden_size": 4 * head, "num_attention_heads": 4, "max_position_embeddings": longest}
    config = LlamaConfig(**sizes, rope_parameters=dict(rope))
    frequencies, factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu", seq_len=length)
    return {"rope_parameters": rope, "length": length, "frequencies": frequencies.tolist(), "factor": float(factor)}


def main() -> None:
    kept = json.loads(FILE.read_text())
    rows = [recomputed(row, kept["head"], kept["longest"]) for row in kept["rows"]]
    FILE.write_text(json.dumps(kept | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
