"""What the window promises while a reply streams and when a conversation opens, with room for a busy machine: bounds
are on the GUI thread's own time, which other programs do not lengthen. `bench.py` measures what a user waits."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from app.reply import Reply
from tests.app.window.transcript.samples import question
from tests.programs.transcript_bench import open_long, share_ms, shown, sources, stream


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
