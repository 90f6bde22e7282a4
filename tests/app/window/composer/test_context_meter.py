"""The context meter shows how full the context is, and what to do about it."""

import pytest
from PySide6.QtGui import QAccessible

from app.window.composer.context_meter import ContextMeter

pytestmark = pytest.mark.usefixtures("app")


@pytest.mark.parametrize(
    ("tokens", "level", "beside"),
    [
        (0, "room", ""),
        (6_553, "room", ""),
        (6_554, "nearly full", "80% used"),
        (8_191, "nearly full", "99% used"),
        (8_192, "full", "context full"),
        (9_000, "full", "context full"),
    ],
)
def test_the_meter_warns_from_four_fifths_and_says_when_it_is_full(tokens: int, level: str, beside: str) -> None:
    meter = ContextMeter()
    assert "not known" in meter.toolTip()
    meter.set_count(tokens, 8_192)
    assert meter.text() == beside
    assert meter.toolTip().startswith(f"{tokens:,} of 8,192 context tokens used")
    advice = {"room": "", "nearly full": "Start a new chat soon", "full": "Choose how to continue"}
    assert meter.toolTip().endswith("used") if level == "room" else advice[level] in meter.toolTip()


def test_the_meter_has_a_value_for_assistive_technology() -> None:
    meter = ContextMeter()
    meter.set_count(1_234, 8_192)
    interface = QAccessible.queryAccessibleInterface(meter)
    assert interface.role() == QAccessible.Role.ProgressBar
    assert (meter.value(), meter.maximum()) == (1_234, 8_192)
    assert meter.accessibleName() == "Context used"
    assert meter.accessibleDescription() == meter.description
