"""Short forms of the attacks on the window: `python -m tests.attack window` and `python -m tests.attack kill`."""

from __future__ import annotations

import pytest

from tests.attack import kill, window

pytestmark = pytest.mark.usefixtures("app")


@pytest.mark.slow
@pytest.mark.timing
def test_hostile_replies_leave_no_gap_of_a_tenth_of_a_second() -> None:
    assert window.attack(seed=1, short=True) == []


@pytest.mark.slow
def test_a_kill_takes_nothing_that_was_on_screen() -> None:
    assert kill.attack(seed=1, short=True) == []
