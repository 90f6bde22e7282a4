"""Checkpoints that bring multi-token prediction heads load as the model alone, and as a drafter for it."""

import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from engine.errors import ModelError
from models.convert.folder_conversion import convert_folder
from models.drafters import kind_of
from models.drafters.mtp import FILES as MTP_FILES
from models.loader import assemble, load
from models.model_folder import check_folder
from models.mtp_tensors import HEAD_FILES
from models.parameters import flat_parameters
from tests.engine.fewer import paired
from tests.models.drafters.head_folders import edit, tensors_of
from tests.toys.architectures import _config, build
from tests.toys.head_targets import qwen_with_head
from tests.toys.mtp_heads import PLACE, PUBLISHED, write_whole_checkpoint


def same(folder: Path, network: Any) -> bool:
    """Whether the model of a folder has the weights of a network, but for where biases that choose experts begin."""
    mine, others = (flat_parameters(one) for one in (assemble(check_folder(folder)), network))
    return mine.keys() == others.keys() and all(
        bool(mx.allclose(_level(name, mine[name]), _level(name, value), atol=1e-5).item())
        for name, value in others.items()
    )


def _level(name: str, value: mx.array) -> mx.array:
    return value - mx.min(value) if name.endswith("bias") and value.ndim == 1 else value


def save(folder: Path, tensors: dict[str, mx.array], name: str = "model.safetensors") -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    mx.save_safetensors(str(folder / name), tensors)


@pytest.mark.slow_for("kimi_k2", "glm*", "deepseek_v32", "step3p5", "mimo*", "bailing_moe")
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_checkpoint_with_its_head_is_the_model_and_a_drafter_for_it(
    name: str, toy_folder: Path, tmp_path: Path
) -> None:
    """Also once it is converted."""
    source, converted = tmp_path / "source", tmp_path / "converted"
    network = write_whole_checkpoint(name, source, toy_folder)
    convert_folder(source, converted)
    for folder in (source, converted):
        assert same(folder, network)
        target = load(folder)
        assert kind_of(folder, folder).name == "mtp"
        assert kind_of(folder, folder).files.load(folder, target, False).drafter.needs.taps


@pytest.mark.parametrize(("model_type", "heads"), paired(["deepseek_v3", "kimi_k2", "joyai_llm_flash"], [1, 2]))
def test_all_heads_of_a_checkpoint_are_left_out(model_type: str, heads: int, toy_folder: Path, tmp_path: Path) -> None:
    network = write_whole_checkpoint("deepseek_v3", tmp_path, toy_folder)
    edit(tmp_path, model_type=model_type, num_nextn_predict_layers=heads)
    tensors = tensors_of(tmp_path)
    first = f"model.layers.{PLACE}."
    for further in range(1, heads):
        tensors |= {
            key.replace(first, f"model.layers.{PLACE + further}."): value
            for key, value in tensors.items()
            if key.startswith(first)
        }
    save(tmp_path, tensors)
    assert same(tmp_path, network)


@pytest.mark.parametrize(("file", "bare"), paired(HEAD_FILES, [False, True]))
def test_a_head_in_a_file_beside_the_weights_is_no_part_of_them(
    file: str, bare: bool, toy_folder: Path, tmp_path: Path
) -> None:
    """mlx-lm reads every file whose name begins with "model"."""
    network = build("qwen3_next")
    folder = Path(shutil.copytree(toy_folder, tmp_path / "qwen"))
    qwen_with_head(toy_folder, tmp_path / "with_head")
    save(folder, dict(tree_flatten(network.parameters())))
    edit(folder, **_config("qwen3_next"))
    head = {key: value for key, value in tensors_of(tmp_path / "with_head").items() if ".mtp." in key}
    named = {key.rpartition("mtp.")[2] if bare else key.removeprefix("language_model."): head[key] for key in head}
    save(folder, named, file)
    assert MTP_FILES.is_within(folder)
    assert same(folder, network)


@pytest.mark.slow_for("61", "64")
@pytest.mark.parametrize("layers", [61, 62, 64])
def test_a_model_deeper_than_deepseek_v3_keeps_its_layer_61(layers: int, toy_folder: Path, tmp_path: Path) -> None:
    """mlx-lm drops that layer, where DeepSeek-V3 has its head."""
    network = build("deepseek_v3", num_hidden_layers=layers)
    folder = Path(shutil.copytree(toy_folder, tmp_path / "deep"))
    save(folder, dict(tree_flatten(network.parameters())))
    edit(folder, **_config("deepseek_v3") | {"num_hidden_layers": layers})
    assert same(folder, network)


def test_a_layer_too_many_that_is_no_head_is_refused(toy_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(toy_folder, tmp_path / "short"))
    edit(folder, num_hidden_layers=1)
    with pytest.raises(ModelError, match=r"layers\.1\."):
        assemble(check_folder(folder))
