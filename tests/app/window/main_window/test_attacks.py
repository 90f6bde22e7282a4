"""Short forms of the attacks on the window: `python -m tests.attack window` and `python -m tests.attack kill`."""

import pytest

from app.window.transcript.message_tile import LayoutSlice
from tests.attack import kill, window

IN_USE_S = LayoutSlice.LONGEST_S

pytestmark = pytest.mark.usefixtures("app")


@pytest.mark.slow
@pytest.mark.timing
def test_hostile_replies_leave_no_gap_of_a_tenth_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LayoutSlice, "LONGEST_S", IN_USE_S)
    assert window.attack(seed=1, short=True) == []


@pytest.mark.slow
@pytest.mark.timing
def test_a_kill_takes_nothing_that_was_on_screen() -> None:
    assert kill.attack(seed=1, short=True) == []
