"""A hub on loopback with one tiny model, and an empty cache."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.hub.client import Hub, RetryPolicy
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import Loopback, loopback
from tests.models.hub.tiny import tiny

# No time of a hub is reached by itself, however slow the machine: only the waits between attempts are short.
QUICK = RetryPolicy(*(3, 0.01, 0.02), silence_s=300.0, answer_s=300.0, slow_window_s=300.0, least_bytes_per_s=1e-6)


@pytest.fixture
def repo() -> Repo:
    return tiny()


@pytest.fixture
def server(repo: Repo) -> Iterator[Loopback]:
    with loopback(repo) as hub:
        yield hub


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "hub"


@pytest.fixture
def hub(server: Loopback, cache: Path) -> Hub:
    """Without a token, and with short waits between attempts."""
    return Hub(server.endpoint, cache, policy=QUICK)
