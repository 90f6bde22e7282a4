"""Checks that an MLX model folder is complete and safe to load, before mlx-lm reads it.

mlx-lm reads config.json, every model*.safetensors and the tokenizer's files. Each of them must exist, be inside the
folder, and be as long as it says; code and pickles are refused. Whether mlx-lm knows the architecture is not checked
here.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from engine.errors import ModelError
from models.chat_templates import TEMPLATE_FOLDER
from models.durable_files import read_json_object
from models.model_config import config_parts, context_length, first_count, text_of
from models.mtp_tensors import HEAD_FILES, tensors_of_heads
from models.quantization_methods import WHAT_TO_DO, method_of, why_misread
from models.safetensors_file import Entry, read_entries
from models.token_map import read_vocabulary

_AGAIN = "the model folder is incomplete, download it again"
# The files of a tokenizer and of its chat template, and the settings of generation. None of them is code.
TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.model"),
    *("vocab.json", "merges.txt", "generation_config.json", "chat_template.jinja", "chat_template.json"),
)
# Where mlx-lm and PEFT write an adapter, and PEFT what it was trained for.
ADAPTERS = ("adapters.safetensors", "adapter_model.safetensors", "adapter_model.bin")
_ADAPTER_CONFIG = "adapter_config.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_FLOATS = {"F64", "F32", "F16", "BF16"}
DEEPEST = 16  # folders in folders; repositories have one or two
_USUAL_ENDS = {"muse_spark": (200001, 200008)}  # where no file names any, as in mlx-lm
_EOS_KEYS = ("eos_token_id", "eos_token_ids")
_LAYER_KEYS = ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "num_transformer_layers")
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "n_ctx", "seq_length")


@dataclass(frozen=True)
class ModelFolder:
    """A checked model folder.

    `context_length` is in tokens, None where the config names none. `rows` is the config's vocab_size, which may be
    padded past the tokenizer's. `eos_token_ids` are all that generation_config.json and config.json
    name; the tokenizer may add its own. `head_tensors` are those of multi-token prediction heads among the weights,
    which are no part of the model's network.
    """

    path: Path
    config: Mapping[str, object] = field(repr=False)
    model_type: str
    context_length: int | None
    rows: int | None
    eos_token_ids: tuple[int, ...]
    weights: tuple[Path, ...]
    weights_bytes: int
    vocabulary: Mapping[str, int] = field(repr=False)
    head_tensors: frozenset[str] = field(default=frozenset(), repr=False)


def check_folder(path: Path) -> ModelFolder:
    """Checks the model folder `path`, reading headers but no weights.

    Raises ModelError: missing; no or bad config.json, tokenizer.json or safetensors; shards missing or cut short;
    weights that are pickles or GGUF; a model that needs its own Python code; a link that leaves the folder; a pipe.
    """
    try:
        names = folder_names(path)
        check_links(path, names)
        config = read_json_object(path / "config.json")
        if config.get("model_file") is not None:
            raise ModelError(f"{path}: needs Python code of its own, which is never run; choose another model")
        if adapters := [name for name in names if name in ADAPTERS]:
            what = f"holds an adapter ({adapters[0]}), which its weights do not contain"
            raise ModelError(f"{path}: {what}; fuse it into them first (mlx_lm.fuse), or remove that file")
        if not isinstance(config.get("tie_word_embeddings"), bool | None):
            raise ModelError(f"{path}: tie_word_embeddings in config.json is neither true nor false; {_AGAIN}")
        weights = weights_of(path, names)
        _check_index(path, weights)
        _check_duplicates(path, weights)
        _check_types(path, config, {name: entry for entries in weights.values() for name, entry in entries.items()})
        _check_layers(path, config, sum(map(len, weights.values())))
        return ModelFolder(
            path=path,
            config=MappingProxyType(config),
            model_type=_model_type(path, config),
            context_length=context_length(text_of(config), first_count(config, *_CONTEXT_KEYS)),
            rows=first_count(config, "vocab_size"),
            eos_token_ids=_eos(path, config, names),
            weights=tuple(sorted(weights)),
            weights_bytes=sum(entry.size_bytes for entries in weights.values() for entry in entries.values()),
            vocabulary=read_vocabulary(path / "tokenizer.json"),
            head_tensors=tensors_of_heads(path, config, weights, first_count(config, *_LAYER_KEYS)),
        )
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error


def folder_names(path: Path) -> list[str]:
    """Returns the sorted names in the folder. Raises ModelError: no folder, or no config.json in it."""
    if path.is_file() and path.suffix == ".gguf":
        raise ModelError(f"{path}: is a GGUF file, not a model folder; import it first")
    if not path.is_dir():
        raise ModelError(f"{path}: no such model folder; check the path")
    names = sorted(entry.name for entry in path.iterdir())
    if "config.json" not in names:
        raise ModelError(f"{path}: {without_config(path, names)}")
    return names


def without_config(path: Path, names: list[str]) -> str:
    """Returns what a folder without config.json is, and what to do. names: of the files in it."""
    if _ADAPTER_CONFIG in names or set(ADAPTERS) & set(names):
        base = _base_of_adapter(path)
        of = f" for {base}" if base else ""
        return (
            f"is an adapter (LoRA){of}, not a model; fuse it into its model first (mlx_lm.fuse, or PEFT), and load that"
        )
    if "params.json" in names or any(name.startswith("consolidated.") for name in names):
        return "has its makers' own format, not that of transformers or MLX; choose a version with config.json"
    if "model_index.json" in names:
        return "is an image model (model_index.json), not a language model; choose a language model"
    if any(name.endswith(".gguf") for name in names):
        return "holds a GGUF file, not an MLX model; import the GGUF file first"
    return "has no config.json, so it is not a model folder; check the path"


def _base_of_adapter(path: Path) -> str | None:
    """Returns the model that an adapter was trained for, None where no file says that."""
    with suppress(ModelError):
        found = read_json_object(path / _ADAPTER_CONFIG)
        named = found.get("base_model_name_or_path", found.get("model"))
        return named[:100] if isinstance(named, str) and named.isprintable() else None
    return None


def check_links(path: Path, names: list[str]) -> None:
    """Checks that links point inside the folder, or from a Hugging Face snapshot into the blobs of the same cache, in
    subfolders too, except hidden ones, which nothing reads. Raises ModelError for any other link."""
    real = Path(os.path.realpath(path))
    homes = [real]
    if real.parent.name == "snapshots":  # cache/models--x/snapshots/revision; blobs beside it, or shared by the cache
        homes += [real.parents[1] / "blobs", real.parents[2] / "blobs"]
    for link in _links(path, names):
        target = Path(os.path.realpath(link))  # unlike Path.resolve, never fails on a loop of links
        if not any(target.is_relative_to(home) for home in homes):
            raise ModelError(f"{link}: links to a place outside the model folder; replace it with the file")
        if not target.exists():
            raise ModelError(f"{link}: links to a file that is missing; {_AGAIN}")


def _links(path: Path, names: list[str]) -> Iterator[Path]:
    """Yields every link in the folder and its subfolders, none of them followed.

    Raises ModelError for folders nested too deep, and for pipes and devices: opening one could wait for ever.
    """
    below = [(path / name, 0) for name in names]
    while below:
        entry, depth = below.pop()
        mode = entry.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield entry
        elif stat.S_ISDIR(mode):
            if depth == DEEPEST:
                raise ModelError(f"{path}: its folders are nested more than {DEEPEST} levels deep; {_AGAIN}")
            if not entry.name.startswith("."):
                below += [(inner, depth + 1) for inner in entry.iterdir()]
        elif not stat.S_ISREG(mode):
            raise ModelError(f"{entry}: is a pipe or a device, not a file; remove it, or {_AGAIN}")


def weights_of(path: Path, names: list[str], begins: tuple[str, ...] = ("model",)) -> dict[Path, dict[str, Entry]]:
    """Returns every file of weights with its tensors, by default those that mlx-lm will load. Raises ModelError: there
    are none, or only pickles or GGUF; one is damaged."""
    files = [name for name in names if name.startswith(begins) and name.endswith(".safetensors")]
    if files:
        return {path / name: read_entries(path / name) for name in files}
    pickles = [name for name in names if name.endswith(PICKLES)]
    if pickles:
        what = f"its weights ({pickles[0]}) are a pickle, which can run code and is never loaded"
        raise ModelError(f"{path}: {what}; choose a safetensors version")
    if any(name.endswith(".gguf") for name in names):
        raise ModelError(f"{path}: holds a GGUF file but no MLX weights; import the GGUF file first")
    others = [name for name in names if name.endswith((".safetensors", ".npz")) and name not in HEAD_FILES]
    if others and "model" in begins:
        what = f"has no model*.safetensors, only {others[0][:80]}, which mlx-lm does not read"
        raise ModelError(f"{path}: {what}; choose a version of the model that is made for MLX or transformers")
    raise ModelError(f"{path}: has no {begins[0]}*.safetensors; {_AGAIN}")


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Copies the `TOKENIZER_FILES` and the further chat templates that `source` has. Raises OSError."""
    templates = [f"{TEMPLATE_FOLDER}/{path.name}" for path in (source / TEMPLATE_FOLDER).glob("*.jinja")]
    for name in (*TOKENIZER_FILES, *templates):
        if (source / name).is_file():
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, folder / name)


def _check_index(path: Path, weights: Mapping[Path, Mapping[str, Entry]]) -> None:
    """Checks that every tensor in model.safetensors.index.json is in the shard that it names."""
    if not os.path.lexists(path / "model.safetensors.index.json"):
        return
    listed = read_json_object(path / "model.safetensors.index.json").get("weight_map")
    if not isinstance(listed, dict):
        raise ModelError(f"{path}: model.safetensors.index.json has no weight_map; {_AGAIN}")
    for tensor, name in listed.items():
        shard = weights.get(path / str(name))
        if shard is None:
            raise ModelError(f"{path}: the weights {str(name)[:80]!r} are missing; {_AGAIN}")
        if tensor not in shard:
            raise ModelError(f"{path}: {name} lacks the tensor {tensor[:80]!r}; {_AGAIN}")


def _check_duplicates(path: Path, weights: Mapping[Path, Mapping[str, Entry]]) -> None:
    """Checks that no tensor is in two files: mlx-lm would take that of the last."""
    files: dict[str, Path] = {}
    for file, entries in weights.items():
        for name in entries:
            if name in files:
                both = f"{files[name].name} and {file.name} both hold {name[:80]}"
                raise ModelError(f"{path}: {both}; remove the one that does not belong to this model")
            files[name] = file


def _check_types(path: Path, config: Mapping[str, object], entries: Mapping[str, Entry]) -> None:
    """Checks that integers, which stand for numbers of 8 bits or fewer, come with the scales that make numbers of them,
    in a form that mlx-lm reads: MLX reads 8-bit floats as the integers 0 to 255 as well."""
    method = method_of(config)
    if reason := why_misread(config, frozenset(entries)):
        raise ModelError(f"{path}: its weights were quantized with {method}, {reason}; {WHAT_TO_DO}")
    scaled = {name.rpartition(".")[0] for name in entries if "scale" in name.rpartition(".")[2]}
    for name, entry in entries.items():
        module, _, parameter = name.rpartition(".")
        if parameter == "weight" and len(entry.shape) > 1 and entry.dtype not in _FLOATS and module not in scaled:
            what = f"{name[:80]} holds {entry.dtype} without scales, which would be read as whole numbers"
            by = f" (its weights were quantized with {method})" if method else ""
            raise ModelError(f"{path}: {what}{by}; {WHAT_TO_DO}")


def _check_layers(path: Path, config: Mapping[str, object], tensors: int) -> None:
    """Checks that there is a tensor per layer: mlx-lm would make as many as the config says, until memory is full."""
    for part in config_parts(config):
        # layer_types, layers_block_type, hybrid_override_pattern and others have an entry for every layer.
        listed = {
            key: len(value)
            for key, value in part.items()
            if isinstance(value, list | str) and any(word in key for word in ("layer", "block", "pattern"))
        }
        for key, count in {**{key: part.get(key) for key in _LAYER_KEYS}, **listed}.items():
            if isinstance(count, int | float) and count > tensors:
                said = f"{key} with {count} entries" if key in listed else f"{key} {str(count)[:20]}"
                what = f"config.json says {said}, but the weights contain only {tensors} tensors"
                raise ModelError(f"{path}: {what}; download it again")


def _model_type(path: Path, config: Mapping[str, object]) -> str:
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise ModelError(f"{path}: config.json has no model_type; choose a model made for MLX or transformers")
    return model_type


def _eos(path: Path, config: Mapping[str, object], names: list[str]) -> tuple[int, ...]:
    """Returns the ids that end a reply, of all files that name any: makers list the end of a turn in one and the end of
    the text in another."""
    parts = [*config_parts(config)]
    if any(isinstance(part.get(key), str) for part in parts for key in _EOS_KEYS):
        raise ModelError(f"{path}: config.json gives a text for the ids that end a reply; download it again")
    if "generation_config.json" in names:
        parts.insert(0, read_json_object(path / "generation_config.json"))
    values = [part.get(key) for part in parts for key in _EOS_KEYS]
    numbers = [number for value in values for number in (value if isinstance(value, list) else [value])]
    found = tuple(dict.fromkeys(number for number in numbers if type(number) is int and number >= 0))
    return found or _USUAL_ENDS.get(str(config.get("model_type")), ())
