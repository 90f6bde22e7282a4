"""The legend shows every kind of token with its second cue."""

import pytest

from app.window.common import theme
from app.window.common.appearance import APPEARANCES, Appearance
from app.window.inspector import Legend
from tests.app.window.inspector.inspector_views import colours

pytestmark = pytest.mark.usefixtures("app")


@pytest.mark.parametrize("look", APPEARANCES.values(), ids=APPEARANCES)
def test_the_legend_shows_each_kind_in_its_tint_and_says_its_second_cue(look: Appearance) -> None:
    theme.show(look)
    legend = Legend()
    legend.resize(legend.sizeHint())
    assert set(look.tints.values()) <= colours(legend)
    said = legend.accessibleDescription().lower()
    for word in ("accepted", "corrected", "bonus", "refused", "solid underline", "dotted underline", "struck through"):
        assert word in said


def test_the_legend_leaves_out_refused_tokens_that_are_not_shown() -> None:
    legend = Legend()
    width = legend.sizeHint().width()
    legend.set_refused(False)
    assert legend.sizeHint().width() < width
    assert "struck through" not in legend.accessibleDescription()
