"""Tiny random model folders on disk: config, weights, byte-level tokenizer and chat template, as mlx-lm loads them.

The text is noise, bytes that are no UTF-8 included, which is what a terminal must survive.
"""

import importlib
import json
import math
import shutil
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models import llama
from mlx_lm.utils import load_model, quantize_model, save_config, save_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.toys.architecture_common import COMMON

VOCABULARY = 310
CONTEXT = 512
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_CORPUS = ["the sky is blue because the light of the sun is scattered by the air", "user assistant system answer"]


def make_folder(
    path: Path,
    seed: int = 0,
    like: Path | None = None,
    noise: float = 0.3,
    words: int = VOCABULARY,
    tokenizer_of: Path | None = None,
) -> Path:
    """Write a model folder. like: take the weights of this one and add noise, so that a drafter is often right.

    words: most tokens of the vocabulary; fewer make another token map. tokenizer_of: a folder to copy the tokenizer
    from instead.
    """
    path.mkdir(parents=True)
    if tokenizer_of is None:
        tokenizer = make_tokenizer(words)
        tokenizer.save(str(path / "tokenizer.json"))
        special = {"eos_token": SPECIAL[2], "bos_token": SPECIAL[0], "chat_template": TEMPLATE}
        _write(path / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **special})
        config = _config(tokenizer.get_vocab_size())  # no padding rows: random weights would draw from them
    else:
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(tokenizer_of / name, path / name)
        known = json.loads((tokenizer_of / "config.json").read_text())
        config = _config(known["vocab_size"]) | {name: known[name] for name in ("eos_token_id", "bos_token_id")}
    _write(path / "config.json", config)
    mx.random.seed(seed)
    if like is None:
        shapes = llama.Model(llama.ModelArgs.from_dict(config)).parameters()
        weights = dict(tree_flatten(tree_map(_draw, shapes)))
    else:
        whole = mx.load(str(like / "model.safetensors"))
        assert isinstance(whole, dict)
        weights = {name: _blur(value, noise) for name, value in whole.items()}
    mx.save_safetensors(str(path / "model.safetensors"), weights)
    return path


def quantize_folder(source: Path, path: Path, bits: int = 8, dtype: mx.Dtype | None = None) -> Path:
    """Writes the model folder `source` anew, its weights in so many bits. dtype: of scales and of what stays plain."""
    shutil.copytree(source, path)
    network, config = quantize_model(*load_model(source), 32, bits)
    if dtype is not None:
        network.set_dtype(dtype)
    save_model(path, network)
    save_config(config, path / "config.json")
    return path


def make_tokenizer(words: int) -> Tokenizer:
    """Byte-level BPE over every byte, with a few merges: any text has ids, and any ids have text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=words,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS * 8, trainer)
    return tokenizer


def _config(words: int) -> dict[str, object]:
    return {
        "model_type": "llama",
        "vocab_size": words,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "max_position_embeddings": CONTEXT,
        "eos_token_id": 2,
    }


def _draw(value: mx.array) -> mx.array:
    if value.ndim < 2:
        return mx.ones(value.shape)
    return mx.random.normal(value.shape, scale=3 / math.sqrt(value.shape[-1]))


def _blur(value: mx.array, noise: float) -> mx.array:
    if value.ndim < 2:
        return value
    blurred: mx.array = value + noise * mx.std(value) * mx.random.normal(value.shape)
    return blurred


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


def roomy_copy(folder: Path, path: Path, context: int = 4096) -> Path:
    """The same model for longer contexts."""
    shutil.copytree(folder, path)
    config = json.loads((path / "config.json").read_text())
    _write(path / "config.json", {**config, "max_position_embeddings": context})
    return path


def as_architecture(folder: Path, path: Path, name: str, **changes: object) -> Path:
    """A random model of another architecture, with the tokenizer of `folder`."""
    shutil.copytree(folder, path)
    config = {**COMMON, **json.loads((path / "config.json").read_text()), "model_type": name, **changes}
    _write(path / "config.json", config)
    module = importlib.import_module(f"mlx_lm.models.{name}")
    mx.random.seed(0)
    network = module.Model(module.ModelArgs.from_dict(config))
    mx.save_safetensors(str(path / "model.safetensors"), dict(tree_flatten(network.parameters())))
    return path


def make_stranger(path: Path) -> Path:
    """Writes a model folder of whose tokens no other toy has more than the special ones."""
    make_folder(path)
    content = json.loads((path / "tokenizer.json").read_text())
    special = {token["content"] for token in content["added_tokens"]}
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = {
        token if token in special else f"ĀĀĀ{token}": number for token, number in vocabulary.items()
    }
    content["model"]["merges"] = []
    (path / "tokenizer.json").write_text(json.dumps(content))
    return path
