"""No state is silent: nothing loaded, no reply, plain decoding, speculation off or impossible, a note."""

from dataclasses import replace as replace_fields
from typing import Any

import pytest
from msgspec.structs import replace
from PySide6.QtWidgets import QApplication

from app.protocol import Loaded, Pair
from app.reply import Reply
from tests.app.window.inspector.inspector_views import open_inspector, record, tiles, words
from tests.app.window.inspector.sample_rounds import chains, mixed, plains

pytestmark = pytest.mark.usefixtures("app")

ON = Loaded(
    id=1, pair=Pair(), target="SmolLM2", drafter="eagle3", speculation="on", note="", drafts_trees=False, context=8192
)


def test_without_a_reply_it_says_what_will_be_here() -> None:
    inspector = open_inspector(mixed(20))
    inspector.clear()
    QApplication.processEvents()
    assert "No Rounds Yet" in words(inspector)
    assert set(tiles(inspector)) == {"-"}


def test_plain_decoding_says_that_nothing_was_drafted_and_why() -> None:
    inspector = open_inspector(plains(12))
    assert "Nothing was drafted: plain decoding" in words(inspector)
    assert "no acceptance to show" in inspector.charts.charts[0].accessibleDescription()
    assert tiles(inspector)[3] == "-"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"note": "auto chose eagle3"}, ("Speculation: on", "eagle3 drafts chains for SmolLM2", "auto chose eagle3")),
        ({"drafts_trees": True}, ("eagle3 drafts trees for SmolLM2",)),
        ({"speculation": "off"}, ("Speculation: off", "SmolLM2 decodes alone")),
        ({"speculation": "unsupported", "note": "no states"}, ("Speculation: unsupported", "no states")),
    ],
)
def test_the_state_of_speculation_is_said(values: dict[str, Any], expected: tuple[str, ...]) -> None:
    inspector = open_inspector()
    assert "Speculation: no model loaded" in words(inspector)
    inspector.set_loaded(replace(ON, **values))
    for part in expected:
        assert part in words(inspector)


def test_the_note_of_a_reply_is_said_until_another_is_shown() -> None:
    inspector = open_inspector(mixed(20))
    inspector.end(record(None, note="fell back: the drafter ran out of memory"))
    assert "fell back: the drafter" in words(inspector)
    inspector.show_reply(Reply(mixed(10)), None)
    assert "fell back" not in words(inspector)


@pytest.mark.parametrize(("waits", "said"), [(1, "1 device wait · 6 rows verified"), (2, "2 device waits · 6 rows")])
def test_a_round_in_full_says_its_times_and_how_often_it_waited_for_the_device(waits: int, said: str) -> None:
    told = chains(1)[0]
    shown = words(open_inspector([replace(told, round=replace_fields(told.round, waits=waits))]))
    assert "expects 1.62x plain speed · draft 6.0 · verify " in shown
    assert said in shown
