"""Model folders whose files lie: whatever mlx-lm, transformers and a chat template throw is one ModelError."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.errors import ModelError
from models.loader import load


def change(folder: Path, file: str, place: str, value: object) -> None:
    """Put `value` at `place`, keys with dots between them, of a JSON file."""
    whole: Any = json.loads((folder / file).read_text())
    *way, last = place.split(".")
    inner = whole
    for key in way:
        inner = inner[key]
    inner[last] = value
    (folder / file).write_text(json.dumps(whole))


@pytest.mark.parametrize(
    ("file", "place", "value"),
    [
        ("tokenizer.json", "pre_tokenizer.type", "Nonsense"),
        ("tokenizer.json", "model.type", "Nonsense"),
        ("tokenizer.json", "model.merges", [["no such", "token"]]),
        ("tokenizer.json", "version", "9"),
        ("tokenizer.json", "added_tokens", [{"id": 0, "content": "x"}]),
        ("tokenizer.json", "normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        ("tokenizer_config.json", "eos_token", 5),
        ("config.json", "eos_token_id", "x"),
        ("config.json", "tie_word_embeddings", "x"),
        ("config.json", "num_attention_heads", 0),
        ("config.json", "hidden_size", 0),
        ("config.json", "vocab_size", 0),
        ("config.json", "num_hidden_layers", 0),
        ("config.json", "num_hidden_layers", 2**31 - 1),
        ("config.json", "num_hidden_layers", 1e300),
        ("config.json", "text_config", {"n_layers": 10**18}),
        ("config.json", "layer_types", ["full_attention"] * 10**5),
        ("config.json", "text_config", {"hybrid_override_pattern": "M" * 10**5}),
        ("config.json", "rope_theta", "x"),
        ("config.json", "rope_scaling", {"type": "x", "factor": 2}),
        ("config.json", "vocab_size", 5001),
        ("config.json", "model_type", "phi3small"),
        ("config.json", "model_type", "../nonsense"),
        ("config.json", "model_type", "half a pair \ud800"),
    ],
)
def test_a_corrupt_folder_is_a_model_error_in_one_line(folder: Path, file: str, place: str, value: object) -> None:
    change(folder, file, place, value)
    with pytest.raises(ModelError) as error:
        load(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)
    assert "download" in str(error.value) or "choose another model" in str(error.value)


@pytest.mark.parametrize(
    "template", ["{{ 1/0 }}", "{% if %}", "{{ messages.a.b }}", "{{ raise_exception('no') }}", r"{{ '\ud800' }}"]
)
def test_a_chat_template_that_fails_is_a_model_error_in_one_line(folder: Path, template: str) -> None:
    change(folder, "tokenizer_config.json", "chat_template", template)
    tokenizer = load(folder).tokenizer
    with pytest.raises(ModelError, match="chat template failed") as error:
        tokenizer.chat([{"role": "user", "content": "hi"}])
    assert "\n" not in str(error.value)


def test_a_template_that_prints_the_date_can_be_held_at_a_day(folder: Path) -> None:
    template = "{{ strftime_now('%d %b %Y') }} {{ messages[0].content }}"
    change(folder, "tokenizer_config.json", "chat_template", template)
    tokenizer = load(folder).tokenizer
    then = tokenizer.on(date(2024, 7, 26))
    assert tokenizer.decode(then.chat([{"role": "user", "content": "hi"}])) == "26 Jul 2024 hi"
    assert tokenizer.decode(tokenizer.chat([{"role": "user", "content": "hi"}])) != "26 Jul 2024 hi"


def test_a_text_that_the_tokenizer_cannot_encode_is_a_model_error(folder: Path) -> None:
    change(folder, "tokenizer.json", "model", {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "b"})
    tokenizer = load(folder).tokenizer
    with pytest.raises(ModelError, match="could not encode this text"):
        tokenizer.encode("hi")


def test_a_token_past_the_embedding_never_reaches_the_model(folder: Path) -> None:
    """MLX would read memory that is not the model's; Gemma 3's text models do have such a token."""
    added: dict[str, Any] = {"id": 310, "content": "<image>", "special": True, "normalized": False}
    rest = {"single_word": False, "lstrip": False, "rstrip": False}
    kept = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    change(folder, "tokenizer.json", "added_tokens", [*kept, {**added, **rest}])
    change(folder, "tokenizer.json", "model.vocab.q", 5000)
    tokenizer = load(folder).tokenizer
    assert max(tokenizer.encode("hi")) < 310
    with pytest.raises(ModelError, match="'<image>' with id 310, but the model has only 310 tokens: leave it out"):
        tokenizer.chat([{"role": "user", "content": "an <image>"}])
    with pytest.raises(ModelError, match="'q' with id 5000, but the model has only 310 tokens"):
        tokenizer.encode("q")


def test_a_model_that_ends_the_process_on_import_is_refused_before_that(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folder, "config.json", "model_type", "olmo")
    with pytest.raises(ModelError, match="cannot be decoded exactly"):
        load(folder)
    assert capsys.readouterr().out == ""


def test_an_import_that_ends_the_process_is_a_model_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*_: object, **__: object) -> None:
        raise SystemExit(1)

    monkeypatch.setattr("models.loader.load_model", leave)
    with pytest.raises(ModelError, match="SystemExit"):
        load(folder)


def test_quantized_layers_that_are_not_are_a_model_error(folder: Path) -> None:
    weights = mx.load(str(folder / "model.safetensors"))
    assert isinstance(weights, dict)
    name = "model.layers.0.mlp.gate_proj"
    weights |= {f"{name}.{part}": mx.ones((64, 1)) for part in ("scales", "biases")}
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    change(folder, "config.json", "quantization", {"bits": 32, "group_size": 32})
    with pytest.raises(ModelError, match="does not load"):
        load(folder)


LONGEST_FIRST = {"direction": "Right", "max_length": 16, "strategy": "LongestFirst", "stride": 0}
PADDED = {"direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"}


@pytest.mark.parametrize(
    ("key", "settings"),
    [
        ("truncation", LONGEST_FIRST),
        ("padding", {"strategy": {"Fixed": 10**18}, **PADDED}),
    ],
)
def test_a_tokenizer_that_truncates_or_pads_gives_the_ids_that_transformers_gives(
    folder: Path, key: str, settings: dict[str, Any]
) -> None:
    from transformers import AutoTokenizer

    change(folder, "tokenizer.json", key, settings)
    messages = [{"role": "user", "content": "why is the sky blue? " * 20}]
    library = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    expected = library.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
    tokenizer = load(folder).tokenizer
    assert tokenizer.chat(messages) == list(expected) and len(expected) > 16
    assert len(tokenizer.encode("why is the sky blue? " * 20)) > 16 and len(tokenizer.encode("why")) < 16
