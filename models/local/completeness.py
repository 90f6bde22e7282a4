"""Checks whether a folder is a complete model, by headers and names, in milliseconds, without loading it."""

import re
from pathlib import Path

from engine.errors import ModelError
from models.drafters import kind_of
from models.durable_files import read_json_object
from models.model_folder import check_links, folder_names, weights_of

INDEX = "model.safetensors.index.json"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "tiktoken.model", "spiece.model")
_NUMBERED = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.safetensors")


def missing_part(folder: Path) -> str:
    """Returns why `folder` is not a complete model or head, in a few words; "" if it is complete.

    Every shard must be as long as its header says, all that the index or their numbers announce must be there, links
    must stay inside, and a model (not a head) must have a tokenizer.
    """
    try:
        names = folder_names(folder)
        check_links(folder, names)
        shards = {path.name for path in weights_of(folder, names, ("",))}
        missing = sorted(_announced(folder, names, shards) - shards)
        if missing:
            few = f"is missing: {missing[0]}" if len(missing) == 1 else f"are missing, such as {missing[0]}"
            return f"{len(missing)} of its weight files {few}"
        if kind_of(folder).stands_alone and not any(name in names for name in _TOKENIZERS):
            return "its tokenizer is missing"
    except ModelError as error:
        return str(error).removeprefix(f"{folder}: ").removeprefix(f"{folder}/")
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""


def _announced(folder: Path, names: list[str], shards: set[str]) -> set[str]:
    """Returns the weight files that the index lists, and those that the numbers of the others count."""
    listed: set[str] = set()
    if INDEX in names:
        weights = read_json_object(folder / INDEX).get("weight_map")
        listed = {str(name)[:200] for name in weights.values()} if isinstance(weights, dict) else set()
    for found in filter(None, map(_NUMBERED.fullmatch, shards)):
        stem, total = found[1], int(found[3])
        listed |= {f"{stem}-{number:05}-of-{total:05}.safetensors" for number in range(1, min(total, 999) + 1)}
    return listed
