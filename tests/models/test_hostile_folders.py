"""Hostile model folders and files: the whole of it is a measurement, `python -m tests.attack folders`."""

import pytest

from tests.attack.folders import attack


@pytest.mark.slow
def test_a_hostile_folder_or_file_is_answered_or_refused_in_one_line() -> None:
    assert attack(seed=1, short=True, count=60) == []
