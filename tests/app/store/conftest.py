"""A store on disk for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.store import Store


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "kept" / "conversations.sqlite"


@pytest.fixture
def store(place: Path) -> Iterator[Store]:
    opened = Store.open(place)
    assert opened.notices == []
    yield opened.store
    opened.store.close()
