"""Published configurations, older and newer, as mlx-lm reads them."""

from typing import Any

import pytest

from models.model_config import context_length, for_mlx_lm, scaling_of

_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
_LONGROPE = {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}


@pytest.mark.parametrize(
    ("config", "declared", "expected"),
    [
        ({"rope_scaling": _YARN}, 32_768, 131_072),
        ({"rope_parameters": {**_YARN, "rope_theta": 1e6}}, 32_768, 131_072),
        ({"rope_scaling": _YARN}, 262_144, 262_144),
        ({"rope_scaling": {**_YARN, "factor": None}}, 32_768, 32_768),
        ({"rope_scaling": _YARN}, None, None),
        ({"rope_scaling": _LONGROPE, "original_max_position_embeddings": 4096}, 131_072, 131_072),
        ({"rope_parameters": {**_LONGROPE, "original_max_position_embeddings": 4096}}, 131_072, 131_072),
        ({"rope_parameters": "damaged"}, 2048, 2048),
        ({}, 2048, 2048),
    ],
)
def test_contexts_end_where_the_rotation_does(
    config: dict[str, Any], declared: int | None, expected: int | None
) -> None:
    assert context_length(config, declared) == expected


def test_an_older_configuration_passes_unchanged() -> None:
    config = {"model_type": "llama", "rope_theta": 5e5, "rope_scaling": None, "num_hidden_layers": 2}
    assert for_mlx_lm(config) == config


def test_rope_parameters_win_over_older_fields() -> None:
    config = {"model_type": "llama", "rope_theta": 1.0, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    assert for_mlx_lm(config)["rope_theta"] == 5e5


def test_each_kind_of_layer_keeps_its_own_base() -> None:
    ropes = {"full_attention": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 8.0}}
    ropes["sliding_attention"] = {"rope_type": "default", "rope_theta": 1e4}
    found = for_mlx_lm({"model_type": "gemma3_text", "rope_parameters": ropes})
    assert (found["rope_theta"], found["rope_local_base_freq"]) == (1e6, 1e4)
    assert found["rope_scaling"]["type"] == found["rope_scaling"]["rope_type"] == "yarn"


def test_infinity_is_read_as_transformers_writes_it() -> None:
    found = for_mlx_lm({"model_type": "mamba2", "time_step_limit": [0.0, {"__float__": "Infinity"}]})
    assert found["time_step_limit"] == [0.0, float("inf")]


def test_longrope_is_known_by_its_first_name_too() -> None:
    """In the files of heads as well, which say what those of their targets say."""
    assert scaling_of({**_LONGROPE, "type": "su"}) == {**_LONGROPE, "type": "longrope", "rope_type": "longrope"}
