"""What the window promises while a reply streams and when a conversation opens, with room for a busy machine: bounds
are on the GUI thread's own time, which other programs do not lengthen. `bench.py` measures what a user waits."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from app.reply import Reply
from tests.app.window.transcript.samples import question, reply
from tests.machine_speed import assert_quick
from tests.programs.transcript_bench import Gaps, open_long, share_ms, shown, sources, stream


@pytest.mark.timing
@pytest.mark.parametrize("name", ["markdown", "one line", "one code block"])
def test_a_fast_stream_leaves_the_window_free(app: QApplication, name: str) -> None:
    transcript = shown()
    transcript.show_branch([question(1)], lambda _: Reply())
    done = stream(sources(3000)[name], 2000.0, transcript)
    transcript.close()
    assert share_ms(done.busy_s, 0.99) <= 33
    assert share_ms(done.busy_s, 1.0) <= 150
    assert done.behind_s <= 1.5


@pytest.mark.timing
def test_a_long_conversation_opens_and_resizes_at_once(app: QApplication) -> None:
    opened = open_long(500, 200_000)
    assert opened.first_paint.busy_ms <= 300
    assert opened.resize.busy_ms <= 100
    assert opened.told <= 4


COSTLY = {
    "a line that is no fence": "```" + "a" * 2100 + "```x\n" + "x\n" * 6000,
    "a table of 500 kB": "| a | b |\n| - | - |\n" + "| x | y |\n" * 50_000,
    "nested lists of 2 MB": "".join("  " * (i % 12) + "- a\n" for i in range(130_000)),
    "a line of 10 MB": "word " * 2_000_000,
    "10 MB without a space": "x" * 10_000_000,
}


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("name", COSTLY)
def test_a_costly_reply_never_stops_the_window_for_long(app: QApplication, name: str) -> None:
    def largest_gap_s() -> float:
        transcript, gaps = shown(), Gaps()
        gaps.start()
        transcript.show_branch([question(1), reply(2, COSTLY[name], 1)], lambda _: Reply())
        for _ in range(300):
            QApplication.processEvents()
        transcript.column.verticalScrollBar().setValue(0)
        QApplication.processEvents()
        gaps.stop()
        transcript.close()
        return max(gaps.busy_s)

    assert_quick(largest_gap_s, 0.1)
