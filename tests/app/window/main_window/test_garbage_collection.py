"""What the window leaves to the garbage collector: nothing of a reply, and a full collection only in the background."""

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtWidgets import QApplication

from app.window.main_window import garbage_collection
from app.window.main_window.garbage_collection import (
    FULL_AFTER_MS,
    GarbageCollection,
    collect_all,
    leave_old_objects_out,
)
from tests.app.window.stepped_clock import SteppedClock
from tests.app.window.waiting import until
from tests.attack.window import Attacked, Measured

TEXT = "A thought.</think>\n\nText with `code`, $x^2$ and a list:\n\n- one\n- two\n\n```python\nprint(1)\n```\n\n" * 20


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def frozen() -> Iterator[None]:
    """Old objects are left out in the test, and the collector is as before afterwards."""
    leave_old_objects_out()
    yield
    gc.callbacks.remove(garbage_collection._freeze_survivors)


@pytest.mark.slow
def test_what_survives_is_left_out_until_a_full_collection(frozen: None) -> None:
    cycles = [Cycle() for _ in range(1000)]
    gc.collect(1)
    count = gc.get_freeze_count()
    assert count >= 1000
    assert len(gc.get_objects()) < 1000
    cycles.clear()
    assert gc.collect() < 1000
    assert collect_all() >= 1000
    assert gc.get_freeze_count() <= count - 1000
    assert len(gc.get_objects()) < 1000


@pytest.fixture
def collection(app: QApplication, clock: SteppedClock) -> Iterator[None]:
    """The window's own, until the end of the test."""
    collection = GarbageCollection(app)
    yield
    gc.enable()
    collection.deleteLater()
    app.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_no_other_thread_collects(collection: None) -> None:
    """Qt crashes where another thread destroys a timer that runs."""
    gc.collect()
    gone = weakref.ref(Cycle())

    def allocate() -> None:
        kept = [Cycle() for _ in range(20 * gc.get_threshold()[0])]
        assert gone() is not None
        kept.clear()

    other = threading.Thread(target=allocate)
    other.start()
    other.join()
    assert gone() is not None
    until(lambda: gone() is None)


def test_a_full_collection_waits_for_the_background(
    app: QApplication, clock: SteppedClock, collection: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[int] = []
    monkeypatch.setattr(garbage_collection, "collect_all", lambda: collected.append(1))
    app.applicationStateChanged.emit(Qt.ApplicationState.ApplicationInactive)
    app.applicationStateChanged.emit(Qt.ApplicationState.ApplicationActive)
    clock.advance(2 * FULL_AFTER_MS / 1000)
    assert not collected
    app.applicationStateChanged.emit(Qt.ApplicationState.ApplicationHidden)
    clock.advance(FULL_AFTER_MS / 1000)
    assert collected


@pytest.mark.slow
def test_a_reply_that_is_shown_and_left_is_gone_without_the_collector(
    app: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each long reply would leave ten thousands of objects until the window is in the background."""
    monkeypatch.setattr(GarbageCollection, "_collect_young", lambda _: None)
    attacked = Attacked(tmp_path)
    transcript = attacked.window.parts.transcript
    try:
        attacked.show(TEXT, Measured())  # what is made once
        gc.collect()
        attacked.show(TEXT, Measured())
        attacked.controller.new()
        until(lambda: not any(timer.isActive() for timer in transcript.findChildren(QTimer)))
        app.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        assert gc.collect() == 0
    finally:
        gc.callbacks.remove(garbage_collection._freeze_survivors)
        attacked.close()
