"""A worker with a toy pair."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.host.model_worker import ModelWorker
from tests.app.host.replies import worker_with


@pytest.fixture(autouse=True)
def own_times(tmp_path: Path) -> Iterator[None]:
    """What a test's replies teach is its own. With a patch of its own: those of a test end before its worker does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.inference.learnt_rounds.cache_dir", lambda root=None: root or tmp_path / "cache")
        yield


@pytest.fixture(scope="module")
def shared(toy_folder: Path, toy_drafter_folder: Path) -> ModelWorker:
    return worker_with(toy_folder, toy_drafter_folder)


@pytest.fixture
def worker(shared: ModelWorker) -> Iterator[ModelWorker]:
    """The same for all, left without memories."""
    yield shared
    shared.recover()
