"""The window never waits for the store. Bounds are what the window can bear; `tests.programs.store_bench` times it."""

import statistics
from pathlib import Path

import pytest

from app.store import Store
from tests.machine_speed import slowness
from tests.programs.store_bench import fill, measure

BOUNDS_S = {
    "open": 0.3,
    "path": 0.1,
    "rounds": 0.1,
    "list": 0.1,
    "search": 0.1,
    "a": 0.033,  # a question
    "append": 0.033,
    "end": 0.2,
}


@pytest.mark.timing
def test_with_ten_thousand_messages_nothing_takes_long(place: Path) -> None:
    store = Store.open(place).store
    long = fill(store)
    assert len(store.path(long)) == 500
    assert store._database.rows("SELECT count(*) FROM message") == [(10_000,)]
    slow = {
        name: statistics.median(measured)
        for name, measured in measure(store, place, long)
        if statistics.median(measured) > BOUNDS_S[name.split()[0]] * slowness()
    }
    assert slow == {}
    store.close()
