"""Folders as their makers publish them: ids, ends and templates are those of the files, whatever class they declare."""

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from tokenizers import Tokenizer

from engine.errors import ModelError
from models.chat_templates import read_templates
from models.model_config import context_length, for_mlx_lm
from models.model_folder import check_folder, copy_tokenizer
from models.stored_weights import renamed
from models.tokenizer import FolderTokenizer
from tests.toys.tokenizers import families, write_model

CLASSES = ("GPT2Tokenizer", "GPTNeoXTokenizer", "Qwen2Tokenizer", "LlamaTokenizer", "CodeLlamaTokenizer", "Unknown")
TEXTS = ("x   5", "[\n    1,\n    2]", "| a |  10 |", "2023\n\n\nok", " x", "</s> hi", "  été 5 0", "<|im_end|> x")
FAMILIES = {family.name: family for family in families()}


def write_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(values))


# --- tokenizers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", CLASSES)
@pytest.mark.parametrize("family", ["smollm2-135m", "llama-2-7b", "llama-3.2-1b", "gemma-3-1b"])
def test_ids_are_those_of_tokenizer_json_whatever_class_is_declared(tmp_path: Path, family: str, declared: str) -> None:
    path = write_model(tmp_path, FAMILIES[family])
    write_json(path / "tokenizer_config.json", tokenizer_class=declared, legacy=False, add_prefix_space=True)
    own, tokenizer = Tokenizer.from_file(str(path / "tokenizer.json")), FolderTokenizer(path)
    for text in TEXTS:
        assert tokenizer.pieces(text) == own.encode(text, add_special_tokens=False).ids, text
        assert tokenizer.encode(text) == own.encode(text).ids, text


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "kimi_k2", "rope_scaling": {"type": "yarn", "factor": 32.0}},
        {"model_type": "gemma3_text", "query_pre_attn_scalar": 8.0},
        {"model_type": "nobody_knows"},
    ],
)
def test_a_tokenizer_is_read_beside_a_config_that_transformers_cannot_build(
    folder: Path, config: dict[str, Any]
) -> None:
    before = FolderTokenizer(folder).pieces("the sky is blue")
    write_json(folder / "config.json", **config)
    assert FolderTokenizer(folder).pieces("the sky is blue") == before


# --- ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "generation", "ends"),
    [
        ([2, 0], 0, {2, 0}),
        (2, [0, 7], {2, 0, 7}),
        (None, [7], {7}),
        ([2, 0], None, {2, 0}),
        ([2, -1, None], [True, "x"], {2}),
    ],
)
def test_a_reply_ends_at_every_id_that_any_file_names(
    folder: Path, config: Any, generation: Any, ends: set[int]
) -> None:
    document = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", **document | {"eos_token_id": config})
    write_json(folder / "generation_config.json", eos_token_id=generation)
    assert set(check_folder(folder).eos_token_ids) == ends


def test_the_text_part_of_a_config_names_ends_as_well(folder: Path) -> None:
    document = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", **document | {"eos_token_id": 1, "text_config": {"eos_token_id": [2, 3]}})
    assert set(check_folder(folder).eos_token_ids) == {1, 2, 3}


# --- configurations and names of tensors -----------------------------------------------------------


def test_a_scaling_that_somebody_added_goes_before_the_rotation_that_was_saved() -> None:
    added = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    saved = {"model_type": "qwen3", "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}
    found = for_mlx_lm({**saved, "rope_scaling": added})
    assert (found["rope_theta"], found["rope_scaling"]) == (1e6, added)
    assert context_length({**saved, "rope_scaling": added}, 40960) == 131072
    assert for_mlx_lm(saved)["rope_scaling"] is None


@pytest.mark.parametrize(("experts", "family"), [(0, "llama4_text"), (16, "llama4")])
def test_a_llama_4_without_experts_needs_no_shell(experts: int, family: str) -> None:
    assert for_mlx_lm({"model_type": "llama4_text", "num_local_experts": experts})["model_type"] == family


def test_vision_and_audio_of_gemma_3n_keep_their_names_and_mlx_lm_drops_them() -> None:
    names = ("model.language_model.norm.weight", "model.vision_tower.x.weight", "model.embed_audio.x.weight")
    config = {"model_type": "gemma3n", "text_config": {"num_hidden_layers": 0}}
    assert set(renamed({name: mx.zeros(1) for name in names}, config)) == set(names)
    assert set(renamed({"model.norm.weight": mx.zeros(1)}, config)) == {names[0]}


# --- weights ---------------------------------------------------------------------------------------


def with_uint8(folder: Path, **more: mx.array) -> None:
    weights = dict(mx.load(str(folder / "model.safetensors")))
    name = next(name for name in weights if name.endswith("mlp.up_proj.weight"))
    weights[name] = mx.to_fp8(weights[name])
    stem = name.removesuffix(".weight")
    mx.save_safetensors(str(folder / "model.safetensors"), weights | {f"{stem}.{key}": a for key, a in more.items()})


def test_integers_without_scales_are_refused(folder: Path) -> None:
    with_uint8(folder)
    with pytest.raises(ModelError, match=r"up_proj\.weight holds U8 without scales.*choose a version"):
        check_folder(folder)


@pytest.mark.parametrize("scale", ["scales", "weight_scale_inv", "weight_scale"])
def test_integers_with_scales_are_for_mlx_lm_to_read(folder: Path, scale: str) -> None:
    with_uint8(folder, **{scale: mx.ones((1, 1))})
    check_folder(folder)


def test_a_tensor_in_two_files_is_refused(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder / "model.fp16.safetensors")
    with pytest.raises(ModelError, match=r"model\.fp16\.safetensors and model\.safetensors both hold"):
        check_folder(folder)


def test_an_adapter_beside_the_weights_is_refused(folder: Path) -> None:
    (folder / "adapters.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"adapter.*fuse it"):
        check_folder(folder)


# --- chat templates --------------------------------------------------------------------------------


def without_template(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "tokenizer_config.json").read_text())
    del config["chat_template"]
    write_json(folder / "tokenizer_config.json", **config)
    return config


def text_of(folder: Path, *tools: dict[str, Any]) -> str:
    tokenizer = FolderTokenizer(folder)
    return tokenizer.decode(tokenizer.chat([{"role": "user", "content": "sky"}], tools=tools))


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def test_the_template_file_of_a_processor_is_read(folder: Path) -> None:
    without_template(folder)
    write_json(folder / "chat_template.json", chat_template="the {{ messages[0].content }} is blue")
    assert text_of(folder) == "the sky is blue"


def test_a_list_of_named_templates_needs_no_default(folder: Path) -> None:
    config = without_template(folder)
    named = [{"name": "chat", "template": "chat"}, {"name": "tool_use", "template": "{{ tools[0].function.name }}"}]
    write_json(folder / "tokenizer_config.json", **config | {"chat_template": named})
    assert (text_of(folder), text_of(folder, TOOL)) == ("chat", "weather")
    assert FolderTokenizer(folder).takes_tools


def test_a_template_of_its_own_file_for_tools_is_used_and_copied(folder: Path, tmp_path: Path) -> None:
    (folder / "chat_template.jinja").write_text("chat")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools[0].function.name }}")
    assert (text_of(folder), text_of(folder, TOOL)) == ("chat", "weather")
    (tmp_path / "copy").mkdir()
    copy_tokenizer(folder, tmp_path / "copy")
    assert read_templates(tmp_path / "copy") == read_templates(folder)


def test_the_file_with_the_template_that_fails_is_named(folder: Path) -> None:
    without_template(folder)
    write_json(folder / "chat_template.json", chat_template="{{ raise_exception('no') }}")
    with pytest.raises(ModelError, match=r"chat_template\.json: the chat template failed"):
        text_of(folder)
