"""What is corrected or refused because of a configuration; tests/models/references compares with transformers."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.backend.mlx_lm_imports import KVCache, RotatingKVCache
from engine.errors import ModelError
from models import loader
from models.corrections import corrected_classes
from models.fixed_fields import check_fields
from models.model_config import for_mlx_lm
from tests.models.references.comparison import FOLDER, folder_of
from tests.programs.config_fields import changed


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("olmoe", "clip_qkv", 8.0),
        ("nanochat", "final_logit_softcapping", 30.0),
        ("falcon_h1", "attention_in_multiplier", 0.5),
        ("qwen2_moe", "mlp_only_layers", [0]),
        ("gemma3_text", "use_bidirectional_attention", True),
        ("olmo3", "rope_parameters.sliding_attention.rope_theta", 10_000.0),
        ("deepseek_v2", "rope_parameters.attention_factor", 1.3),
        ("gpt_oss", "swiglu_limit", 10.0),
        ("ministral3", "sliding_window", 12),
        ("jamba", "hidden_act", "relu"),
        ("exaone", "hidden_act", "gelu"),
        ("llama", "hidden_act", "an invention"),
    ],
)
def test_a_field_that_mlx_lm_ignores_is_refused_by_name(name: str, path: str, value: Any, tmp_path: Path) -> None:
    folder = folder_of(name, tmp_path / name)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(changed(config, tuple(path.split(".")), value)))
    named = "activation" if path == "hidden_act" else path.rpartition(".")[2]
    with pytest.raises(ModelError, match=named):
        loader.load(folder)


def test_an_interval_counts_where_no_list_of_layers_is_given() -> None:
    text = {"num_hidden_layers": 4, "no_rope_layer_interval": 2}
    with pytest.raises(ModelError, match="no_rope_layer_interval"):
        check_fields(text, "llama4")
    check_fields({**text, "no_rope_layers": [1, 1, 1, 0]}, "llama4")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_of_a_pipeline_has_caches_of_its_own_layers(rank: int) -> None:
    class Group:
        def rank(self) -> int:
            return rank

        def size(self) -> int:
            return 2

    config = for_mlx_lm(json.loads((FOLDER / "qwen2_sliding" / "config.json").read_text()))
    network, arguments = corrected_classes(config)
    model = network(arguments.from_dict(config))
    whole = [type(one) for one in model.make_cache()]
    assert whole == [KVCache, RotatingKVCache]
    model.model.pipeline(Group())
    assert [type(one) for one in model.make_cache()] == [whole[1 - rank]]  # the last rank has the first layers
