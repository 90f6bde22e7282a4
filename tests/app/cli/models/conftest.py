"""A hub on loopback, places with nothing in them, and a keychain that forgets: never those of this machine."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import keyring
import pytest
from huggingface_hub import constants
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

from models.local.locations import ModelLocations
from tests.app.command import Redline
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import Loopback, loopback
from tests.models.hub.tiny import tiny
from tests.models.local.model_placement import places_in


class Keychain(KeyringBackend):
    """In memory."""

    priority = 1  # type: ignore[assignment]
    name = "test keychain"

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError


@pytest.fixture(autouse=True)
def keychain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keychain]:
    """And no token in the environment."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    before, found = keyring.get_keyring(), Keychain()
    keyring.set_keyring(found)
    yield found
    keyring.set_keyring(before)


@pytest.fixture
def models(redline: Redline) -> Redline:
    """Runs `redline models` with these words."""
    return partial(redline, "models")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelLocations:
    """What `redline models` finds, whatever is on this machine."""
    found = places_in(tmp_path)
    monkeypatch.setattr("models.local.locations.find_locations", lambda home, root=None: found)
    return found


@pytest.fixture
def repo() -> Repo:
    return tiny()


@pytest.fixture
def server(repo: Repo, places: ModelLocations, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """The hub, and the cache into which it is pulled."""
    with loopback(repo) as hub:
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.endpoint}{template}")
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(places.hub))
        yield hub
