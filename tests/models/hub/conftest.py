"""A hub on loopback with one tiny model, and an empty cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.hub.client import Hub, RetryPolicy
from tests.models.hub.held import Repo
from tests.models.hub.loopback import Loopback, loopback
from tests.models.hub.tiny import tiny

QUICK = RetryPolicy(attempts=3, first_wait_s=0.01, longest_wait_s=0.02, silence_s=5.0)


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
    """Nobody's: without a token, and impatient."""
    return Hub(server.endpoint, cache, policy=QUICK)
