"""The chat template of a model folder, as text: what transformers would render, never rendered here."""

from __future__ import annotations

import json
from pathlib import Path

from engine.errors import ModelError
from models.disk import read_json_object


def chat_template(folder: Path) -> str | None:
    """chat_template.jinja, else what tokenizer_config.json says; None where there is none. Several templates by name
    count as one text. Raises ModelError for a file that cannot be read."""
    beside = folder / "chat_template.jinja"
    try:
        if beside.is_file():
            return beside.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{beside}: cannot be read ({error}); download the model again") from error
    config = folder / "tokenizer_config.json"
    said = read_json_object(config).get("chat_template") if config.is_file() else None
    if said is None:
        return None
    return said.strip() if isinstance(said, str) else json.dumps(said, sort_keys=True)
