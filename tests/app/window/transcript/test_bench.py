"""What the window promises while a reply streams and when a conversation opens: bounds on the GUI thread's own time,
which other programs do not lengthen. `tests.programs.transcript_bench` measures what a user waits."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from app.reply import Reply
from tests.app.window.transcript.samples import question
from tests.machine_speed import assert_quick
from tests.programs.transcript_bench import Streamed, open_long, share_ms, shown, sources, stream


@pytest.mark.timing
@pytest.mark.parametrize("name", ["markdown", "one line", "one code block"])
def test_a_fast_stream_leaves_the_window_free(app: QApplication, name: str) -> None:
    def streamed() -> Streamed:
        transcript = shown()
        transcript.show_branch([question(1)], lambda _: Reply())
        done = stream(sources(3000)[name], 2000.0, transcript)
        transcript.close()
        return done

    assert_quick(lambda: share_ms(streamed().busy_s, 0.99) / 1000, 0.033)
    assert_quick(lambda: max(streamed().busy_s), 0.15)
    assert_quick(lambda: streamed().behind_s, 1.5)


@pytest.mark.timing
def test_a_long_conversation_opens_and_resizes_at_once(app: QApplication) -> None:
    assert_quick(lambda: open_long(500, 200_000).first_paint.busy_ms / 1000, 0.3)
    assert_quick(lambda: open_long(500, 200_000).resize.busy_ms / 1000, 0.1)


def test_a_conversation_that_opens_asks_for_the_rounds_of_few_messages(app: QApplication) -> None:
    assert open_long(500, 20_000).told <= 4
