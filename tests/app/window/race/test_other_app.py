"""A race against another program, by clicks in the real window, with the real engine on a toy target."""

import socket
import struct
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.protocol import Pair, Race
from app.protocol.race_messages import RaceProgress
from app.race.race_text import NONE
from app.store.records import ChatSettings
from app.window.main_window.main_window import MainWindow
from app.window.race.race_board import RaceBoard
from app.window.race.race_form import SERVER, SIDES
from app.window.race.race_window import RaceWindow
from engine.metrics import Metrics
from tests.app.remote.toy_servers import END, TEXT, Handler, Script, delta, honest, serving, words
from tests.app.window.chat.scene import Scene
from tests.app.window.chats import end
from tests.app.window.waiting import until

NO_USAGE = "It does not say how many tokens it wrote."


@pytest.fixture
def window(
    app: QApplication, tmp_path: Path, toy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RaceWindow]:
    """The race window over a main window. Side A always goes first, and no run waits for the machine to cool down."""
    monkeypatch.setattr("app.window.race.race_request.Race", partial(Race, pause_s=0.0))
    monkeypatch.setattr("app.window.race.race_window.secrets.randbelow", lambda _: 3)  # draws A, A
    scene = Scene(tmp_path, words=[sys.executable, "-m", "app.host", "--cache-dir", str(tmp_path / "cache")])
    scene.controller.open_last()
    scene.controller.change_settings(ChatSettings(pair=Pair(target=str(toy_folder), drafter="none")))
    main = MainWindow(scene.controller)
    main.show()
    shown = main.races.show("why?")
    shown.still = True
    yield shown
    end(main)
    scene.controller.close()


def race_against(script: Script, window: RaceWindow, runs: int) -> str:
    """Chooses a program for side B, presses Race, and waits for the end. Returns what the program is called."""
    form, other = window.form, window.form.sides[1]
    form.runs.setValue(runs)
    form.tokens.setValue(8)
    with serving(script) as server:
        QTest.keyClicks(other.drafter.box, SIDES[SERVER].rstrip("…"))
        assert other.url.isVisible() and not other.length.isVisible()
        QTest.keyClicks(other.url, server.url)
        QTest.mouseClick(form.start, Qt.MouseButton.LeftButton)
        assert window.request.busy and not form.start.isVisible()
        until(lambda: not window.request.busy)
        assert {one["messages"][0]["content"] for one in server.asked} == {"why?"}
    assert form.start.isVisible() and form.sides[1].isEnabled()
    return f"toy at 127.0.0.1:{server.server_port}"


def texts(board: RaceBoard) -> list[str]:
    return [pane.reader.toPlainText() for pane in board.panes]


def at_once(handler: Handler) -> None:
    """Sends all of its reply at one time, and no usage."""
    handler.stream(b"".join([*map(delta, words()), delta("", "stop"), END]))


def breaks_off(at: int) -> Script:
    """Goes away in the middle of its chat of this number, of which the first one warms it up."""

    def script(handler: Handler) -> None:
        if len(handler.server.asked) < at:
            return honest(handler)
        handler.stream(delta("one"))
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # resets it
        return handler.connection.close()

    return script


@pytest.mark.parametrize(("script", "says_usage"), [(at_once, False), (honest, True)])
def test_another_program_is_raced_to_the_end(window: RaceWindow, script: Script, says_usage: bool) -> None:
    progress, done = list[RaceProgress](), list[int]()
    window.request.progressed.connect(progress.append)
    window.request.progressed.connect(lambda _: done.append(window.measuring.order.done))
    name = race_against(script, window, runs=1)
    assert done == sorted(done) and max(done) == 2  # a pause forgets none of the runs that are over
    of_server = [one.tokens for one in progress if one.run and one.side == 1]
    board, document = window.board, window.document
    assert board is not None and document is not None and window._middle.currentWidget() is board
    assert not window.line.isVisible() and board.state.done
    assert all(texts(board)) and texts(board)[1] == TEXT
    assert [pane.accessibleName() for pane in board.panes] == ["Plain decoding", name]
    numbers = [[tile.value.text() for tile in pane.numbers.tiles] for pane in board.panes]
    last = max(of_server) + 1  # the end-of-sequence token has no text
    assert numbers[1][0] == f"{last} / {last}"  # however few times it sent something
    assert [one[3:] for one in numbers] == [["8", "1.00"], [NONE, NONE]]  # nobody sees the passes of a program
    ours, theirs = (Metrics.of(one.round for one in document.run(side, 1).rounds).tokens_per_s for side in (0, 1))
    same_speed = theirs is None or ours == theirs
    faster = "Plain decoding" if ours and theirs and ours > theirs else name
    assert board.comparison.winner.text() == ("Too close to call" if same_speed else f"{faster} is faster")
    if script is at_once:  # no time passes between the first and the last of its tokens
        assert numbers[1][1] == NONE and same_speed
    assert (NO_USAGE in board.comparison.noise.text()) != says_usage
    assert board.comparison.noise.text().count(name) == 1  # whatever it is warned of
    assert "Texts differ after 0 tokens: the loaded model prefers Redline's token by" in board.about.text()
    assert board._legend.isHidden()  # neither side drafts


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [0, 1])
def test_a_program_that_goes_away_ends_the_race_and_what_was_written_stays(window: RaceWindow, pairs: int) -> None:
    name = race_against(breaks_off(at=2 + pairs), window, runs=2)
    why = f"The server {name} broke off its reply (Connection reset by peer): look at its own messages, then try again."
    if not pairs:
        assert window.measuring.title.text() == why
        written = window.measuring.text
        assert written.isVisible() and written.toPlainText().startswith("Side A:\n")
        assert len(written.toPlainText()) > len("Side A:\n")
        return
    assert window.line.isVisible()
    assert window.line.text.text() == f"{why} Showing 1 complete pair of runs."
    assert window.board is not None and all(texts(window.board)) and texts(window.board)[1] == TEXT
