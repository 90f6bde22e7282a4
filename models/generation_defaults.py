"""The sampling settings that a model's authors recommend, as its folder's generation_config.json has them.

The format is transformers' GenerationConfig. Only what the file states counts, as in vLLM: its silent defaults, such as
top-k 50, are those of another program. `do_sample` false means greedy; true without a temperature means temperature 1.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.settings import MAX_PENALTY, MAX_TEMPERATURE, MIN_TEMPERATURE, MODEL_DEFAULTS
from models.durable_files import read_json_object

FILE = "generation_config.json"
_COUNTS = ("top_k",)
_FARTHEST = 100.0  # of a penalty that is subtracted from logits
_BOUNDS = {  # the least and the most, both allowed
    "temperature": (0.0, MAX_TEMPERATURE),
    "top_p": (0.0001, 1.0),
    "top_k": (0, 2**31 - 1),
    "min_p": (0.0, 0.9999),
    "repetition_penalty": (0.01, MAX_PENALTY),
    "presence_penalty": (-_FARTHEST, _FARTHEST),
    "frequency_penalty": (-_FARTHEST, _FARTHEST),
}


@dataclass(frozen=True)
class GenerationDefaults:
    """values: by the name of the setting, within the engine's bounds. note: what was changed or ignored, or ""."""

    values: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


def generation_defaults(folder: Path) -> GenerationDefaults:
    """Returns the defaults of the model in a folder, none where it states none. Raises ModelError for a file that is no
    JSON object, as `check_folder` does."""
    if not (folder / FILE).is_file():
        return GenerationDefaults()
    stated = read_json_object(folder / FILE)
    values: dict[str, float] = {}
    changed = []
    for name in MODEL_DEFAULTS:
        if (given := stated.get(name)) is None:
            continue
        value = _within(name, given)
        if value is not None:
            values[name] = value
        if value is None or value != given:
            result = "ignored" if value is None else f"changed to {value:g}"
            changed.append(f"{name.replace('_', '-')} {str(given)[:20]} was {result}")
    if stated.get("do_sample") is False:
        values["temperature"] = 0.0
    elif stated.get("do_sample") is True:
        values.setdefault("temperature", 1.0)
    note = f"model's default {', '.join(changed)}" if changed else ""
    return GenerationDefaults(values, note)


def _within(name: str, given: object) -> float | None:
    """Returns the nearest value that the engine takes, None for what is no number."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        return None
    low, high = _BOUNDS[name]
    value = min(max(given, low), high)
    if name == "temperature" and 0 < value < MIN_TEMPERATURE:
        return MIN_TEMPERATURE
    return int(value) if name in _COUNTS else float(value)
