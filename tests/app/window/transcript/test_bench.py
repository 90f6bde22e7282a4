"""What the window promises while a reply streams and when a conversation opens: bounds on the GUI thread's own time,
which other programs do not lengthen. `tests.programs.transcript_bench` measures what a user waits."""

import pytest
from PySide6.QtWidgets import QApplication

from app.reply import Reply
from tests.app.window.transcript.samples import question
from tests.machine_speed import assert_quick
from tests.programs.transcript_bench import load_parsers, open_long, share_ms, shown, sources, stream


@pytest.mark.timing
@pytest.mark.parametrize("name", ["markdown", "one line", "one code block"])
def test_a_fast_stream_leaves_the_window_free(app: QApplication, name: str) -> None:
    def of_its_bounds() -> float:  # the largest share, where 1 is a bound
        transcript = shown()
        transcript.show_branch([question(1)], lambda _: Reply())
        done = stream(sources(3000)[name], 2000.0, transcript)
        transcript.close()
        return max(share_ms(done.busy_s, 0.99) / 33, share_ms(done.busy_s, 1.0) / 150, done.behind_s / 1.5)

    load_parsers()
    assert_quick(of_its_bounds, 1.0)


@pytest.mark.timing
def test_a_long_conversation_opens_and_resizes_at_once(app: QApplication) -> None:
    def of_its_bounds() -> float:  # the larger share
        opened = open_long(500, 200_000)
        assert opened.told <= 4
        return max(opened.first_paint.busy_ms / 300, opened.resize.busy_ms / 100)

    load_parsers()
    assert_quick(of_its_bounds, 1.0)
