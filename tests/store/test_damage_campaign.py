"""Damage anywhere in the file: the app starts, nothing that can be read is hidden, and the damaged file is kept.

The whole of it is a measurement: `python -m tests.attack store`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from app.store import Store
from tests.attack.store import PAGE, Target, attack, texts_of


@pytest.mark.slow
def test_damage_costs_nothing_that_can_be_read() -> None:
    assert attack(seed=1, short=True) == []


def test_what_a_damaged_page_held_comes_from_the_backup(tmp_path: Path) -> None:
    target = Target(tmp_path)
    place, data = tmp_path / "c.sqlite", target.data
    place.write_bytes(data)
    Store.open(place).store.close()
    assert len(list(tmp_path.glob("c.backup-*"))) == 1
    leaves = [page for page in set().union(*target.pages.values()) if data[page * PAGE] == 13]
    for page in leaves:
        place.write_bytes(data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :])
        store, notices = Store.open(place)
        assert len(notices) == 1 and texts_of(store) == set(target.wanted.values())
        store.close()
