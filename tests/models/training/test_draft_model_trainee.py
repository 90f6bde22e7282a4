"""A draft model is the target with fewer layers, in a folder that mlx-lm loads too."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm import load as load_with_mlx_lm

from engine.errors import FitError
from models.drafters.draft_vocabulary_file import NAME
from models.loader import Loaded, load
from models.parameters import flat_parameters
from models.token_map import match_tokens
from models.training.draft_model_trainee import DraftTrainee, default_layers, shorten
from models.training.trainee import trainable_parameters
from tests.toys.architectures import build
from tests.toys.folders import quantize_folder

ALL = mx.arange(310)


def test_the_layers_are_the_targets_and_only_they_are_trained(target: Loaded) -> None:
    trainee = DraftTrainee(target, 1, ALL)
    ours, theirs = flat_parameters(trainee.network), flat_parameters(target.network)
    assert mx.array_equal(ours["lm_head.weight"], theirs["lm_head.weight"]).item()
    name = "model.layers.0.mlp.up_proj.weight"
    assert mx.array_equal(ours[name], theirs[name]).item()
    assert not [name for name in ours if "layers.1." in name]
    trained = trainable_parameters(trainee.network)
    assert trained and all(name.startswith(("model.layers.", "model.norm")) for name in trained)


def test_layers_are_spread_evenly_and_lists_go_with_them() -> None:
    network = build("llama")
    network.model.layers = [*network.model.layers, *build("llama").model.layers, *build("llama").model.layers]
    own = {"model.layers.4.mlp": 8, "model.layers.5.mlp": 6, "model.embed_tokens": 8}
    config = {"num_hidden_layers": 9, "layer_types": list("abcdefghi"), "quantization": {"bits": 4, **own}}
    target: Any = SimpleNamespace(network=network, folder=SimpleNamespace(config=config))
    short, kept = shorten(target, 3)
    assert kept == [0, 4, 8]
    assert short["num_hidden_layers"] == 3 and short["layer_types"] == ["a", "e", "i"]
    assert short["quantization"] == {"bits": 4, "model.layers.1.mlp": 8, "model.embed_tokens": 8}
    assert config["num_hidden_layers"] == 9
    ends = {"num_hidden_layers": 9, "eos_token_id": list(range(9))}
    target.folder = SimpleNamespace(config=ends)
    assert shorten(target, 3)[0]["eos_token_id"] == [*range(9)]


def test_it_is_trained_on_all_tokens_and_evaluated_on_its_shortlist(target: Loaded) -> None:
    trainee = DraftTrainee(target, 1, mx.arange(0, 310, 2))
    batch: Any = SimpleNamespace(tokens=mx.array([[5, 9, 200, 3]]), rows=mx.array([1, 2]))
    whole = trainee.predict(batch, 1)[0]
    trainee.finalize()
    short = trainee.predict(batch, 1)[0]
    assert mx.all(mx.isfinite(whole)).item() and mx.allclose(short[:, ::2], whole[:, ::2], atol=0.05).item()
    assert mx.all(short[:, 1::2] == -mx.inf).item()


def test_as_many_layers_as_the_target_are_refused(target: Loaded) -> None:
    with pytest.raises(FitError, match="no smaller than the target with 2"):
        DraftTrainee(target, 2, ALL)
    assert [default_layers(n) for n in (2, 16, 30)] == [1, 2, 4]
    network = build("llama")
    network.model.layers = network.model.layers[:1]
    one: Any = SimpleNamespace(network=network)
    with pytest.raises(FitError, match="one layer, which cannot be fewer: choose --kind eagle3 or medusa"):
        shorten(one, 1)
    config = {key: value for key, value in target.folder.config.items() if key != "num_hidden_layers"}
    with pytest.raises(FitError, match="choose --kind eagle3"):
        DraftTrainee(replace(target, folder=replace(target.folder, config=config)), 1, ALL)


def test_the_folder_is_one_that_mlx_lm_loads_too(target: Loaded, tmp_path: Path) -> None:
    trainee = DraftTrainee(target, 1, mx.arange(0, 310, 2))
    trainee.finalize()
    trainee.save(tmp_path, {"kind": "draft"})
    loaded = load(tmp_path)
    match_tokens(target.folder, loaded.folder)
    model, _ = load_with_mlx_lm(str(tmp_path))[:2]  # which knows nothing of a draft vocabulary
    assert (tmp_path / NAME).is_file()
    tokens = mx.array([[5, 9, 200]])
    assert mx.allclose(loaded.network(tokens), trainee.network(tokens), atol=1e-4).item()
    assert mx.allclose(model(tokens).astype(mx.float32), trainee.network(tokens), atol=0.1).item()


def test_a_draft_model_is_quantized_as_its_target_is(toy_folder: Path, tmp_path: Path) -> None:
    target = load(quantize_folder(toy_folder, tmp_path / "target"))
    trainee = DraftTrainee(target, 1, ALL)
    trainee.finalize()
    (tmp_path / "drafter").mkdir()
    trainee.save(tmp_path / "drafter", {})
    assert "model.layers.0.mlp.up_proj.scales" in mx.load(str(tmp_path / "drafter" / "model.safetensors"))
    tokens = mx.array([[5, 9, 200]])
    loaded = load(tmp_path / "drafter")
    assert mx.allclose(loaded.network(tokens), trainee.network(tokens), atol=1e-3).item()
