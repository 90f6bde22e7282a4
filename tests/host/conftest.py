"""A room with a toy pair."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.host.model_worker import ModelWorker
from app.protocol import Load
from tests.host.process import pair


@pytest.fixture(autouse=True)
def own_costs(tmp_path: Path) -> Iterator[None]:
    """Costs that a test measures are its own. With a patch of its own: those of a test end before its room does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.inference.calibration.cache_dir", lambda root=None: root or tmp_path / "cache")
        yield


@pytest.fixture(scope="module")
def shared(toy_folder: Path, toy_drafter_folder: Path) -> ModelWorker:
    room = ModelWorker()
    list(room.load(Load(id=1, pair=pair(toy_folder, toy_drafter_folder))))
    return room


@pytest.fixture
def room(shared: ModelWorker) -> Iterator[ModelWorker]:
    """The same for all, left without memories."""
    yield shared
    shared.recover()
