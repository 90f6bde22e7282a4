"""The window is told how other programs are served, by whoever knows it last."""

from pathlib import Path
from typing import cast

import pytest

from app import protocol
from app.host.engine_loop import EngineLoop
from app.host.server import AnswerWriter, _Programs
from tests.app.window.chat.fake_host import round_of
from tests.waiting import until


class Told(list[protocol.AnyAnswer]):
    """Takes the place of what writes to the window."""

    write = list[protocol.AnyAnswer].append


def test_a_thread_that_ends_says_nothing_of_the_reply_that_the_engine_has_not_stopped_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window would wait for the engine to go on with it, and keep the Mac awake."""
    monkeypatch.setattr("app.api.api_thread.REPORT_S", 0.0)
    told = Told()
    programs = _Programs(EngineLoop(told.write, lambda: pytest.fail("no model is needed")), cast(AnswerWriter, told))
    programs.serve(protocol.Serve(id=0, port=0, key_file=str(tmp_path / "key")))
    until(lambda: bool(told))
    thread = programs._thread
    assert thread is not None and cast(protocol.Serving, told[0]).port
    client, end = thread.client, thread.client.end

    def end_after_a_round() -> None:
        client._call(client._deliver, 1, protocol.RoundDone(id=1, round=round_of(0, 0, 0.1)))
        end()

    monkeypatch.setattr(client, "end", end_after_a_round)
    programs.serve(protocol.Serve(id=0, port=None))
    thread.join()
    assert told[-1] == protocol.Serving()
