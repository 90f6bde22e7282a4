"""Tries `redline serve` with schemathesis, which makes requests from the OpenAPI page and judges the answers.

    uv run --with schemathesis python -m tests.programs.api_schemathesis

All of its phases and checks. The model is a toy that takes tools and ends its replies at once. What follows is handed
to schemathesis, such as `--max-examples 100` or `--phases coverage`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import mlx.core as mx

from tests.app.api.serve_process import served
from tests.toys.folders import SPECIAL, make_folder
from tests.toys.tool_families import HERMES

END = SPECIAL.index("<|im_end|>")
CONSTANT = 50.0  # the first component of all embeddings, beside which the layers add little


def terse_model(folder: Path) -> Path:
    """Makes a toy that takes tools and whose next token is the end of the reply, unless a grammar excludes it."""
    make_folder(folder)
    (folder / "chat_template.jinja").write_text(HERMES)
    path = str(folder / "model.safetensors")
    weights = mx.load(path)
    assert isinstance(weights, dict)
    embeddings, rows = weights["model.embed_tokens.weight"], weights["lm_head.weight"]
    weights["model.embed_tokens.weight"] = embeddings.at[:, 0].add(CONSTANT)
    weights["lm_head.weight"] = rows.at[END, 0].add(CONSTANT)
    mx.save_safetensors(path, weights)
    return folder


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, served(str(terse_model(Path(folder, "terse")))) as server:
        command = ["schemathesis", "run", f"{server.url.removesuffix('/v1')}/openapi.json"]
        command += ["--header", f"Authorization: Bearer {server.key}", *sys.argv[1:]]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
