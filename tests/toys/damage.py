"""Damage to model folders and GGUF files: random bytes and values, and crafted ones. Each takes the copy to damage and
the dice."""

import json
import os
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.toys import hostile_templates
from tests.toys.gguf_files import ARRAY, F32, I32, STRING, U32, U64, ToyGguf

DEPTH = 1500
JSON_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
NUMBERS = (0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**53, 2**63, 10**18, 10**30, -(2**63), 1e308, -1e308, 0.5, 1e-300)
TEXTS = (
    "",
    "x",
    "../../../etc/passwd",
    "\x1b]52;c;aGk=\x07",
    "\ud7ff\u202e",
    "a" * 100_000,
    "{{ 1 }}",
    "llama",
    "yarn",
)
SPLIT = {"type": "Split", "behavior": "Isolated", "invert": False}
REGEXES = ("(a+)+$", "(.*?)*x", "(?=(.*))*", "((a|aa)+)+b", "(" * 500 + ")" * 500, "[", "", "^", "(?:x*)*y|.{0,99999}z")


# --- folders ------------------------------------------------------------------------------------


def any_bytes(folder: Path, dice: random.Random) -> None:
    """Bits, bytes and ends of any file."""
    path = dice.choice(sorted(path for path in folder.iterdir() if path.is_file()))
    path.write_bytes(damaged_bytes(path.read_bytes(), dice))


def damaged_bytes(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 2, 8, 64))):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(5):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << dice.randrange(8)
            case 1:
                changed[at:at] = dice.randbytes(dice.choice((1, 4, 100)))
            case 2:
                del changed[at : at + dice.choice((1, 4, 100, 10_000))]
            case 3:
                changed[at : at + 8] = struct.pack("<Q", dice.choice((0, 1, 2**31, 2**63, 2**64 - 1)))
            case _:
                del changed[max(at, len(changed) // 2) :]
    return bytes(changed)


def any_value(folder: Path, dice: random.Random) -> None:
    """Values anywhere in the JSON files."""
    for _ in range(dice.choice((1, 1, 2, 5))):
        path = folder / dice.choice(JSON_FILES)
        content: Any = json.loads(path.read_text()) if path.exists() else {"eos_token_id": 2}
        places = list(places_of(content))
        where, key = dice.choice(places)
        where[key] = any_json(dice)
        path.write_text(json.dumps(content))


def places_of(value: Any, most: int = 8) -> Iterator[tuple[Any, Any]]:
    """Every container and key of a JSON value, but only some of a long list's."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys[:most] + keys[-most:]:
        yield value, key
        yield from places_of(value[key], most)


def any_json(dice: random.Random, depth: int = 0) -> Any:
    match dice.randrange(6 if depth < 3 else 4):
        case 0 | 1:
            return dice.choice(NUMBERS)
        case 2:
            return dice.choice(TEXTS)
        case 3:
            return dice.choice((None, True, False, [], {}, float("nan"), float("inf")))
        case 4:
            return [any_json(dice, depth + 1) for _ in range(dice.choice((1, 3, 300) if depth < 2 else (1, 3)))]
        case _:
            return {dice.choice(TEXTS): any_json(dice, depth + 1) for _ in range(3)}


def config_value(folder: Path, dice: random.Random) -> None:
    """Sizes, types and scalings of config.json."""
    keys = ("hidden_size", "head_dim", "num_attention_heads", "num_key_value_heads", "intermediate_size", "rope_theta")
    keys += ("vocab_size", "max_position_embeddings", "num_hidden_layers", "sliding_window", "eos_token_id", "n_layers")
    changes: dict[str, Any] = {dice.choice(keys): dice.choice(NUMBERS)}
    extra: tuple[dict[str, Any], ...] = (
        {
            "model_type": dice.choice(
                ("mamba", "qwen3", "gemma3", "deepseek_v3", "gpt_oss", "phi3small", "olmo", "x" * 9999)
            )
        },
        {"rope_scaling": {"type": dice.choice(("linear", "yarn", "llama3", "x", 5)), "factor": dice.choice(NUMBERS)}},
        {"quantization": {"bits": dice.choice((0, 3, 4, 32, 10**9)), "group_size": dice.choice((0, 1, 64, 10**18))}},
        {"text_config": any_json(dice)},
        {"layer_types": ["sliding_attention"] * dice.choice((1, 2, 10**5)), "sliding_window": dice.choice(NUMBERS)},
        {},
    )
    update(folder / "config.json", changes | dice.choice(extra))


def craft_template(folder: Path, dice: random.Random) -> None:
    """Templates that want time, memory and text."""
    write_template(folder, hostile_templates.craft(dice), dice)


def grow_template(folder: Path, dice: random.Random) -> None:
    """Templates of random statements."""
    write_template(folder, hostile_templates.grow(dice), dice)


def write_template(folder: Path, template: str, dice: random.Random) -> None:
    match dice.randrange(4):
        case 0:
            (folder / "chat_template.jinja").write_text(template)
        case 1:
            (folder / "additional_chat_templates").mkdir()
            (folder / "additional_chat_templates" / "default.jinja").write_text(template)
            (folder / "chat_template.jinja").write_text(template)
        case 2:
            update(folder / "tokenizer_config.json", {"chat_template": [{"name": "default", "template": template}]})
        case _:
            update(folder / "tokenizer_config.json", {"chat_template": template})


def craft_tokenizer(folder: Path, dice: random.Random) -> None:
    """Expressions, normalizers, paddings and decoders that want time and memory."""
    path, many = folder / "tokenizer.json", dice.choice(hostile_templates.COUNTS)
    content = json.loads(path.read_text())
    regex = {"Regex": dice.choice(REGEXES)}
    growth = [{"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"}] * dice.choice((3, 9, 12))
    longer = {"type": "Replace", "pattern": {"String": " "}, "content": "a" * min(many, 10**6)}
    padding = {"strategy": {"Fixed": many}, "direction": "Right", "pad_to_multiple_of": None}
    vocabulary = content["model"]["vocab"]
    changes: tuple[dict[str, Any], ...] = (
        {"pre_tokenizer": {**SPLIT, "pattern": regex}},
        {"pre_tokenizer": {"type": "FixedLength", "length": dice.choice((0, 1, many))}},
        {"normalizer": {"type": "Replace", "pattern": regex, "content": "aa"}},
        {"normalizer": {"type": "Sequence", "normalizers": growth}},
        {"normalizer": {"type": "Sequence", "normalizers": [longer, {**longer, "pattern": {"String": "a"}}]}},
        {"normalizer": {"type": "Prepend", "prepend": "a" * min(many, 10**7)}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w" + "A" * dice.randrange(0, 99, 4)}},
        {"decoder": {"type": "Sequence", "decoders": growth}},
        {"decoder": {"type": "Replace", "pattern": regex, "content": "aa"}},
        {"decoder": {"type": "Strip", "content": "a", "start": many, "stop": many}},
        {"decoder": {"type": "Sequence", "decoders": [longer, {**longer, "pattern": {"String": "a"}}]}},
        {"decoder": nest({"type": "Fuse"}, "Sequence", "decoders")},
        {"normalizer": nest({"type": "NFC"}, "Sequence", "normalizers")},
        {"truncation": {"max_length": many, "strategy": "LongestFirst", "stride": many, "direction": "Right"}},
        {"padding": {**padding, "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"}},
        {"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 9999}},
        {"model": {"type": "Unigram", "unk_id": many, "vocab": [[token, 0.0] for token in vocabulary]}},
        {"model": {"type": "WordPiece", "unk_token": "x", "max_input_chars_per_word": many, "vocab": vocabulary}},
        {"model": {**content["model"], "vocab": {**vocabulary, "a" * 10**6: 309}, "dropout": dice.choice(NUMBERS)}},
        {"model": {**content["model"], "vocab": {**vocabulary, "x": min(many, 2**24 - 1)}}},
        {"added_tokens": [{**content["added_tokens"][0], "id": min(many, 2**24 - 1), "content": "a" * 10**5}]},
        {"added_tokens": [{**content["added_tokens"][0], "content": text} for text in ("", " ", "a", "\u2581")]},
    )
    path.write_text(json.dumps(content | dice.choice(changes)))


def nest(inner: dict[str, Any], kind: str, key: str, depth: int = 60) -> dict[str, Any]:
    for _ in range(depth):
        inner = {"type": kind, key: [inner]}
    return inner


def tokenizer_setting(folder: Path, dice: random.Random) -> None:
    """Settings of tokenizer_config.json and of generation, special tokens among them."""
    many = dice.choice(NUMBERS)
    token = {"__type": "AddedToken", "content": dice.choice(TEXTS), "special": True, "lstrip": many}
    classes = ("LlamaTokenizer", "GPT2Tokenizer", "BertTokenizer", "T5TokenizerFast", "../x", "PreTrainedModel", 5)
    changes: tuple[dict[str, Any], ...] = (
        {"tokenizer_class": dice.choice(classes)},
        {"model_max_length": many},
        {"eos_token": any_json(dice)},
        {"bos_token": token, "additional_special_tokens": [token] * 3},
        {"added_tokens_decoder": {str(many): token}},
        {"added_tokens_decoder": {str(number): {**token, "content": f"t{number}"} for number in range(3000)}},
        {"auto_map": {"AutoTokenizer": ["x.Y", None]}},
        {"chat_template": any_json(dice)},
        {"chat_template": {"default": "{{ 1 }}", "x": dice.choice(TEXTS)}},
        {"clean_up_tokenization_spaces": True, "legacy": many, "add_prefix_space": True, "from_slow": True},
    )
    update(folder / "tokenizer_config.json", dice.choice(changes))
    update(folder / "generation_config.json", {"eos_token_id": dice.choice((many, [many] * 3, any_json(dice)))})


def safetensors_header(folder: Path, dice: random.Random) -> None:
    """Names, types, shapes and places of tensors."""
    path = folder / "model.safetensors"
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    for _ in range(dice.choice((1, 1, 3))):
        name = dice.choice([name for name in header if name != "__metadata__"])
        match dice.randrange(6):
            case 0:
                header[name]["dtype"] = dice.choice(("F16", "BF16", "I64", "F8_E4M3", "U8", "C64", "X", "", "F4"))
            case 1:
                header[name]["shape"] = dice.choice(
                    ([], [0], [2**32, 2**32], [-1], [1] * 5000, [1, *header[name]["shape"]])
                )
            case 2:
                header[name]["data_offsets"] = dice.choice(([0, 2**63], [8, 0], [0, 0], [-8, 8], [0, len(data)], []))
            case 3:
                header[dice.choice(TEXTS)] = header.pop(name)
            case 4:
                header["__metadata__"] = any_json(dice)
            case _:
                del header[name]
    text = json.dumps(header).encode()
    length = dice.choice((len(text), len(text), len(text), len(text) - 1, 2**25 + 1, 2**63, 0))
    path.write_bytes(length.to_bytes(8, "little") + text + data)


def shape_of_folder(folder: Path, dice: random.Random) -> None:
    """Deep folders, links, pipes, huge files and folders where files should be."""
    name = dice.choice((*JSON_FILES, "model.safetensors", "chat_template.jinja", "added_tokens.json"))
    path = folder / name
    match dice.randrange(8):
        case 0:
            deepen(folder, dice.choice((1500, 300, 60)))
            return
        case 1:
            fresh(path).symlink_to(dice.choice((path.name, "/dev/zero", "/etc/passwd", "..", "nowhere")))
        case 2:
            os.mkfifo(fresh(path))
        case 3:
            with fresh(path).open("wb") as file:
                file.truncate(dice.choice((2**40, 2**31, 300 * 2**20)))
        case 4:
            fresh(path).mkdir()
        case 5:
            path.write_text("[" * 100_000 if dice.random() < 0.5 else '{"a":' * 100_000)
        case 6:
            fresh(folder / "model-00002.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        case _:
            index = {"weight_map": {"x": dice.choice(TEXTS), "y" * 10**5: any_json(dice)}}
            (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def fresh(path: Path) -> Path:
    path.unlink(missing_ok=True)
    return path


def deepen(folder: Path, depth: int) -> None:
    """Folders in folders, deeper than a path can say."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a", dir_fd=here)
        below = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def update(path: Path, changes: Mapping[str, Any]) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | dict(changes)))


FOLDER_DAMAGE: dict[str, Callable[[Path, random.Random], None]] = {
    "any bytes": any_bytes,
    "any JSON value": any_value,
    "config.json": config_value,
    "crafted chat template": craft_template,
    "grown chat template": grow_template,
    "crafted tokenizer.json": craft_tokenizer,
    "tokenizer settings": tokenizer_setting,
    "safetensors header": safetensors_header,
    "files and folders": shape_of_folder,
}


# --- GGUF ---------------------------------------------------------------------------------------


def gguf_bytes(sound: ToyGguf, dice: random.Random) -> bytes:
    """Bits, bytes and ends, mostly of the header."""
    content = sound.to_bytes()
    head = dice.choice((24, 2000, 20_000, len(content)))
    return damaged_bytes(content[:head], dice) + content[head:]


def gguf_metadata(sound: ToyGguf, dice: random.Random) -> bytes:
    """Values of the metadata."""
    key = dice.choice(list(sound.metadata))
    strings = [dice.choice(TEXTS) for _ in range(dice.choice((0, 1, 300)))]
    value: tuple[int, object] | None = dice.choice(
        (
            None,
            (U32, dice.choice((0, 1, 2, 3, 2**31, 2**32 - 1))),
            (U64, dice.choice((0, 2**63, 2**64 - 1))),
            (F32, dice.choice((0.0, -1.0, float("inf"), float("nan")))),
            (STRING, dice.choice(TEXTS)),
            (STRING, hostile_templates.craft(dice)),
            (ARRAY, (STRING, strings)),
            (ARRAY, (I32, [dice.choice((0, -1, 2**31 - 1)) for _ in range(300)])),
        )
    )
    return replace(
        sound, metadata={k: v for k, v in {**sound.metadata, key: value}.items() if v is not None}
    ).to_bytes()


def gguf_tensor(sound: ToyGguf, dice: random.Random) -> bytes:
    """Types, shapes, places and names of tensors."""
    at = dice.randrange(len(sound.tensors))
    one = sound.tensors[at]
    changed = dice.choice(
        (
            replace(one, code=dice.choice((0, 1, 2, 3, 9, 16, 40, 2**32 - 1))),
            replace(one, shape=dice.choice(((), (0,), (2**62, 4), (2**31, 2**31), one.shape[::-1], (1,) * 40))),
            replace(one, offset=dice.choice((1, 32, 2**40, 2**63, 2**64 - 1))),
            replace(one, name=dice.choice(TEXTS)),
            replace(one, data=one.data[: len(one.data) // 2]),
        )
    )
    version, alignment = dice.choice((3, 3, 3, 2, 1, 2**31)), dice.choice((32, 32, 32, 1, 64, 4096))
    tensors = (*sound.tensors[:at], changed, *sound.tensors[at + 1 :])
    return replace(sound, tensors=tensors, version=version, alignment=alignment).to_bytes()


def gguf_end(sound: ToyGguf, dice: random.Random) -> bytes:
    """A file cut short, or longer."""
    content = sound.to_bytes()
    return content[: dice.randrange(len(content))] + dice.choice((b"", b"", bytes(99), content))


FILE_DAMAGE: dict[str, Callable[[ToyGguf, random.Random], bytes]] = {
    "GGUF bytes": gguf_bytes,
    "GGUF metadata": gguf_metadata,
    "GGUF tensors": gguf_tensor,
    "GGUF end": gguf_end,
}
