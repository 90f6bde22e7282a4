"""The settings that a model's authors recommend: read, kept within bounds, and never an error."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.settings import MODEL_DEFAULTS, SamplingSettings
from models.generation_defaults import generation_defaults

QWEN3 = {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "eos_token_id": [1, 2]}


def values_of(folder: Path, stated: dict[str, Any]) -> dict[str, float]:
    (folder / "generation_config.json").write_text(json.dumps(stated))
    return dict(generation_defaults(folder).values)


def test_what_the_file_states_is_taken_and_nothing_else(tmp_path: Path) -> None:
    assert generation_defaults(tmp_path).values == {}
    assert values_of(tmp_path, QWEN3) == {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
    every = dict(zip(MODEL_DEFAULTS, (0.7, 0.8, 20, 0.05, 1.1, 1.5, 0.25), strict=True))
    assert values_of(tmp_path, every) == every and generation_defaults(tmp_path).note == ""


def test_do_sample_says_whether_it_is_greedy(tmp_path: Path) -> None:
    assert values_of(tmp_path, {"do_sample": False, "temperature": 0.6})["temperature"] == 0
    assert values_of(tmp_path, {"do_sample": True}) == {"temperature": 1.0}
    assert values_of(tmp_path, {"temperature": 0.6}) == {"temperature": 0.6}
    assert values_of(tmp_path, {}) == {}


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("temperature", 900, 100.0),
        ("temperature", -1, 0.0),
        ("temperature", 1e-9, 1e-3),
        ("temperature", "hot", None),
        ("temperature", float("nan"), None),
        ("top_p", 7, 1.0),
        ("top_p", 0, 0.0001),
        ("top_k", -1, 0),
        ("top_k", 10**30, 2**31 - 1),
        ("min_p", 1, 0.9999),
        ("repetition_penalty", 0, 0.01),
        ("presence_penalty", 1e300, 100.0),
    ],
)
def test_a_value_out_of_bounds_is_clamped_or_ignored_with_a_word(
    tmp_path: Path, name: str, given: Any, value: float | None
) -> None:
    found = values_of(tmp_path, {name: given})
    assert found == ({} if value is None else {name: value})
    assert name.replace("_", "-") in generation_defaults(tmp_path).note
    assert not SamplingSettings(from_model=MODEL_DEFAULTS).with_defaults(found).problems()


def test_settings_take_the_models_values_only_where_they_ask_for_them() -> None:
    wanted = SamplingSettings(top_p=0.5, temperature=9, min_p=0.9, from_model=("temperature", "min_p"))
    taken = wanted.with_defaults({"temperature": 0.6, "top_p": 0.95})
    assert (taken.temperature, taken.top_p, taken.min_p) == (0.6, 0.5, 0.0)
    assert taken.from_model == wanted.from_model  # which values were the model's is still known
