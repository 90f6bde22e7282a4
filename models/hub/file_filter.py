"""Which files of a repository are fetched. Data only: never Python, never a pickle, nothing that could run."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from engine.errors import HubError

WEIGHTS = ("*.safetensors",)
ALLOWED = (
    *WEIGHTS,
    "*.json",
    "*.jinja",
    "*.tiktoken",
    "tokenizer.model",
    "tiktoken.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "merges.txt",
    "vocab.txt",
    "additional_chat_templates/*.jinja",
)
_TWINS = "consolidated*.safetensors"  # Mistral's own layout of the same weights
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def model_files(names: Iterable[str], repo: str) -> list[str]:
    """Those of `names` that make a model, sorted. Weights in a second layout are left where the first is there.

    Raises HubError: no config.json, or no safetensors.
    """
    listed = list(names)
    found = sorted(name for name in listed if any(_matches(name, pattern) for pattern in ALLOWED))
    if any(name.startswith("model") and _matches(name, WEIGHTS[0]) for name in found):
        found = [name for name in found if not _matches(name, _TWINS)]
    if not any(_matches(name, WEIGHTS[0]) for name in found):
        raise HubError(f"{repo}: {_lack(listed)}", "unsuitable")
    if "config.json" not in found:
        raise HubError(f"{repo}: has no config.json, so MLX cannot load it; choose another model", "unsuitable")
    return found


def _matches(name: str, pattern: str) -> bool:
    """A star never reaches over a slash."""
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def _lack(names: list[str]) -> str:
    """Why there is nothing to load, and what to take instead."""
    if any(name.endswith(".gguf") for name in names):
        return (
            "holds GGUF files, no safetensors; choose an MLX version, or `redline models import` a GGUF file you have"
        )
    if any(name.endswith(_PICKLES) for name in names):
        return "its weights are pickles, which can run code and are never fetched; choose a safetensors version"
    return "has no safetensors, so there is no model in it; choose another"
