"""The legend shows every kind with its cue; the meter says how full the context is, and what to do about it."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication

from app.window.inspector import ContextMeter, Legend
from app.window.look import LOOKS, Look
from tests.window.inspector.turning import colours

pytestmark = pytest.mark.usefixtures("app")


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_the_legend_shows_each_kind_in_its_tint(look: Look) -> None:
    legend = Legend(look)
    legend.resize(legend.sizeHint())
    assert set(look.tints.values()) <= colours(legend)


def test_the_legend_says_each_kind_with_its_second_cue() -> None:
    said = Legend().accessibleDescription()
    for word in ("accepted", "corrected", "bonus", "refused", "solid underline", "dotted underline", "struck through"):
        assert word in said


def test_the_legend_leaves_out_ghosts_that_are_not_shown() -> None:
    legend = Legend()
    wide = legend.sizeHint().width()
    legend.set_ghosts(False)
    assert legend.sizeHint().width() < wide
    assert "struck through" not in legend.accessibleDescription()


def test_a_narrow_legend_takes_more_lines() -> None:
    legend = Legend()
    wide = legend.sizeHint()
    assert legend.heightForWidth(wide.width()) == wide.height()
    assert legend.heightForWidth(wide.width() // 2) >= 2 * wide.height() - 4


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
    meter.set_count(tokens, 8_192)
    assert meter.level == level
    assert meter.text() == beside
    assert meter.toolTip().startswith(f"{tokens:,} of 8,192 tokens")
    assert ("start a new conversation" in meter.toolTip()) == (level != "room")


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_the_meter_has_the_colours_of_its_level(look: Look) -> None:
    meter = ContextMeter(look)
    for tokens, colour in ((3_000, look.faint), (7_000, look.warning), (8_192, look.error)):
        meter.set_count(tokens, 8_192)
        meter.resize(meter.sizeHint())
        assert colour in colours(meter)


def test_the_meter_has_a_value_for_assistive_technology() -> None:
    meter = ContextMeter()
    meter.set_count(1_234, 8_192)
    interface = QAccessible.queryAccessibleInterface(meter)
    assert interface.role() == QAccessible.Role.ProgressBar
    assert (meter.value(), meter.maximum()) == (1_234, 8_192)
    assert meter.accessibleName() == "Context used"
    assert meter.accessibleDescription() == meter.said


def test_the_meter_tells_when_its_level_changes_and_only_then() -> None:
    meter = ContextMeter()
    levels: list[str] = []
    meter.level_changed.connect(levels.append)
    for tokens in (10, 20, 7_000, 7_100, 8_192, 30):
        meter.set_count(tokens, 8_192)
    assert levels == ["room", "nearly full", "full", "room"]


def test_a_context_that_is_not_known_is_said() -> None:
    meter = ContextMeter()
    QApplication.processEvents()
    assert meter.level == "unknown"
    assert "not known" in meter.toolTip()
