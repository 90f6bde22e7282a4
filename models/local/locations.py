"""The folders of models on this machine, and the folder that a name means.

A name is `owner/name` of the hub or of LM Studio, or a model of Redline's own. A path that exists is taken as it is,
before any name. Nothing is scanned: a name is looked up where it would be.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from engine.errors import ModelError
from models.hub.repo_names import is_repo, shown
from models.paths import BUILTIN, exists, models_dir

_LARGEST_BYTES = 1024 * 1024


@dataclass(frozen=True)
class ModelLocations:
    """The folders of models. hub: the Hugging Face cache, shared with every tool that uses it. lm_studio: LM Studio's
    folders, the current one first. own: what Redline has imported or converted. root: of Redline's cache, None for the
    user's. None of them need exist."""

    hub: Path
    lm_studio: tuple[Path, ...]
    own: Path
    root: Path | None = None

    def holds(self, folder: Path) -> bool:
        """Whether `folder` is in one of them."""
        real = folder.resolve()
        return any(real.is_relative_to(place.resolve()) for place in (self.hub, *self.lm_studio, self.own))


def find_locations(home: Path, root: Path | None = None, hub: Path | None = None) -> ModelLocations:
    """Returns the places of the user whose home folder is `home`. root: of Redline's cache. hub: the Hugging Face
    cache, by default that of huggingface_hub's own settings."""
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
    """Returns a small text file of another program; "" if there is none."""
    try:
        return path.read_text() if path.stat().st_size <= _LARGEST_BYTES else ""
    except (OSError, UnicodeDecodeError):
        return ""


class AbsentModel(ModelError):
    """No model of this name is on this machine."""


_PATHS = ("/", ".", "~")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


def find_model(name: str, places: ModelLocations) -> Path:
    """Returns the folder of the model called `name`, without its owner if only one is called so. Raises AbsentModel if
    it is not here, ModelError if it is incomplete or may be several."""
    if exists(name) or name.startswith(_PATHS):
        return Path(name)
    repo, at, commit = name.partition("@")
    if not is_repo(repo) or (at and not _COMMIT.fullmatch(commit)):
        raise AbsentModel(f"{shown(name)}: not an existing folder or a valid model name; check the spelling")
    from models.local.completeness import missing_part  # a path needs none of what it imports

    candidates = _candidates(repo, commit, places)
    if not candidates and "/" not in repo:
        alike = [known for known in names_in(places) if known.rpartition("/")[2] == repo]
        if len(alike) > 1:
            raise ModelError(f"{name} may be {' or '.join(alike)}: give the full name")
        candidates = _candidates(alike[0], commit, places) if alike else []
    troubles = [(folder, missing_part(folder)) for folder in candidates]
    for folder, trouble in troubles:
        if not trouble:
            return folder
    if troubles:
        folder, trouble = troubles[0]
        raise ModelError(f"{name} is incomplete ({trouble}): `redline models pull {repo}` continues the download")
    raise AbsentModel(_absent(name, repo, places))


def _candidates(repo: str, commit: str, places: ModelLocations) -> list[Path]:
    """Returns the folders that this name may mean, the hub's snapshots first."""
    found = _snapshots(repo, commit, places.hub)
    if commit:
        return found
    found += [root / repo for root in places.lm_studio if repo.count("/") == 1]
    found += [places.own / repo] if "/" not in repo else []
    return [folder for folder in found if folder.is_dir()]


def _snapshots(repo: str, commit: str, cache: Path) -> list[Path]:
    """Returns the current snapshot of a repository, or those whose commit begins with `commit`."""
    from models.hub.repo_cache import RepoCache  # huggingface_hub's settings: a path needs none of them

    if commit:
        return sorted((RepoCache(cache, repo).folder / "snapshots").glob(f"{commit}*"))
    current = RepoCache(cache, repo).current_snapshot()
    return [current] if current is not None else []


def _absent(name: str, repo: str, places: ModelLocations) -> str:
    """Returns the message for a model that is not here."""
    names = (BUILTIN, *names_in(places))
    known = {known.rpartition("/")[2]: known for known in names}  # owners are all alike, models are not
    close = get_close_matches(repo.rpartition("/")[2], known, n=1, cutoff=0.75)
    meant = f"; did you mean {known[close[0]]}?" if close else ""
    if "/" in repo:
        return f"{name} is not on this machine: `redline models pull {repo}` fetches it{meant}"
    return f"no folder or model here is called {shown(name)}; `redline models list` shows the installed models{meant}"


def names_in(places: ModelLocations) -> list[str]:
    """Returns the names of the models that may be here, by their folders alone."""
    hub = [path.name.removeprefix("models--").replace("--", "/") for path in places.hub.glob("models--*")]
    studio = [path.relative_to(root).as_posix() for root in places.lm_studio for path in root.glob("[!.]*/[!.]*")]
    return sorted({*hub, *studio, *(path.name for path in places.own.glob("[!.]*"))})
