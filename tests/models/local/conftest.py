"""Places with nothing in them."""

from pathlib import Path

import pytest

from models.local.locations import ModelLocations
from tests.models.local.model_placement import places_in


@pytest.fixture
def places(tmp_path: Path) -> ModelLocations:
    return places_in(tmp_path)
