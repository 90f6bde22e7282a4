"""The folders of models on this machine."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from models.paths import models_dir

_LARGEST_BYTES = 1024 * 1024


@dataclass(frozen=True)
class ModelLocations:
    """hub: the Hugging Face cache, shared with every tool that uses it. lm_studio: LM Studio's folders of models, the
    current one first. own: what Redline has imported or converted. root: of Redline's cache, None for the user's. None
    of them need exist."""

    hub: Path
    lm_studio: tuple[Path, ...]
    own: Path
    root: Path | None = None

    def holds(self, folder: Path) -> bool:
        """Whether `folder` lies in one of them."""
        real = folder.resolve()
        return any(real.is_relative_to(place.resolve()) for place in (self.hub, *self.lm_studio, self.own))


def find_locations(home: Path, root: Path | None = None, hub: Path | None = None) -> ModelLocations:
    """The places of the user whose home folder is `home`. root: of Redline's cache; hub: the Hugging Face cache, as
    huggingface_hub's own settings have it unless given."""
    if hub is None:
        from huggingface_hub import constants

        hub = Path(constants.HF_HUB_CACHE).expanduser()
    return ModelLocations(hub, tuple(_lm_studio(home)), models_dir(root), root)


def _lm_studio(home: Path) -> Iterator[Path]:
    """LM Studio's own order (lmstudio.js, findLMStudioHome): what its pointer says, ~/.cache/lm-studio of old versions,
    ~/.lmstudio; in each the folder that its settings name (`downloadsFolder`), else `models`. Those that exist."""
    pointed = _read(home / ".lmstudio-home-pointer").strip()
    homes = [Path(pointed)] if pointed.startswith("/") else []
    homes += [home / ".lmstudio", home / ".cache" / "lm-studio"]
    seen: set[Path] = set()
    for folder in homes:
        for models in (*_downloads(folder), folder / "models"):
            if models.is_dir() and models.resolve() not in seen:
                seen.add(models.resolve())
                yield models


def _downloads(folder: Path) -> list[Path]:
    try:
        setting = json.loads(_read(folder / "settings.json") or "{}").get("downloadsFolder")
    except (ValueError, AttributeError, RecursionError):
        return []
    return [Path(setting)] if isinstance(setting, str) and setting.startswith("/") else []


def _read(path: Path) -> str:
    """A small text file of another program; "" where there is none."""
    try:
        return path.read_text() if path.stat().st_size <= _LARGEST_BYTES else ""
    except (OSError, UnicodeDecodeError):
        return ""
