"""Places with nothing in them, and models to put there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from models.local.locations import ModelLocations
from tests.models.local.model_placement import places_in, write_folder, write_in_hub

Put = Callable[..., Path]


@pytest.fixture
def places(tmp_path: Path) -> ModelLocations:
    return places_in(tmp_path)


@pytest.fixture
def put() -> Put:
    return write_folder


@pytest.fixture
def put_in_hub(places: ModelLocations) -> Put:
    return partial(write_in_hub, places.hub)
