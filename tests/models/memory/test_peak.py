"""What was said beforehand, within a tenth of what a process with the built-in then takes."""

import sys

import pytest

from tests.models.memory.peak import peak


@pytest.mark.slow
@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="how resident memory is told differs elsewhere")
@pytest.mark.parametrize(("drafter", "context"), [("none", 512), ("none", 4096), ("lookup+eagle3", 2048)])
def test_the_estimate_is_within_a_tenth_of_the_peak(drafter: str, context: int) -> None:
    found = peak(drafter, context)
    assert found.said == pytest.approx(found.measured, rel=0.1), found
