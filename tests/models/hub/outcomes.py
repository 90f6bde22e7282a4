"""How a pull ends: refused in words, or with the whole model."""

from pathlib import Path

import pytest

from engine.errors import HubError
from models.hub.client import Hub
from models.hub.download import pull
from models.hub.download_events import Done, DownloadEvent
from models.hub.failures import REASONS
from models.hub.repo_cache import PARTIAL, RepoCache
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import TOKEN
from tests.models.hub.tiny import NAME, read_folder, wanted

FIRST = "model-00001-of-00003.safetensors"


def refusal_of(hub: Hub, name: str = NAME, revision: str = "main") -> HubError:
    """The error that a pull ends with: one line, one of the known reasons, no token; and no snapshot."""
    with pytest.raises(HubError) as caught:
        list(pull(hub, name, revision))
    said = str(caught.value)
    assert "\n" not in said and len(said) < 400 and TOKEN not in said
    assert caught.value.reason in REASONS
    assert not list(hub.cache.glob("models--*/snapshots/*"))
    return caught.value


def pull_whole(hub: Hub, repo: Repo) -> list[DownloadEvent]:
    """The events of a pull that brings the model."""
    events = list(pull(hub, NAME))
    done = events[-1]
    assert isinstance(done, Done)
    assert read_folder(Path(done.path)) == wanted(repo)
    return events


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a disk does that has none."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("os.symlink", refuse)


def part_of(hub: Hub, repo: Repo, name: str = FIRST) -> Path:
    return RepoCache(hub.cache, NAME).folder / "blobs" / f"{repo.etag(name)}{PARTIAL}"
