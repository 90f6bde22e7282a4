"""A race with the engine's host, from the main window to the replay: asked, answered, stopped, lost."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtWidgets import QApplication

from app.protocol import Pair, SamplingSettings
from app.race.race_document import RaceDocument, race_json
from app.store.records import ChatSettings
from app.window.chat.host_process import Timeouts
from app.window.main_window.main_window import MainWindow
from app.window.main_window.secondary_windows import STOPPED_FOR_REPLY
from app.window.race.measurement_view import SILENT
from app.window.race.race_request import STOPPED
from app.window.race.race_window import RaceWindow
from tests.app.race.sample_races import simple
from tests.app.window.chat.fake_host import command as fake_host
from tests.app.window.chat.scene import Scene
from tests.app.window.chats import end
from tests.app.window.race.host_recording import replaying_host
from tests.app.window.waiting import until
from tests.waiting import HANG_S

PATIENT = Timeouts(ready_s=HANG_S, stop_s=HANG_S, load_s=HANG_S, silent_s=HANG_S)
Start = Callable[..., MainWindow]


@pytest.fixture
def start(app: QApplication, tmp_path: Path) -> Iterator[Start]:
    """Opens the main window on a host; the engine is not started."""
    windows: list[tuple[MainWindow, Scene]] = []

    def make(words: list[str], timeouts: Timeouts = PATIENT) -> MainWindow:
        scene = Scene(tmp_path, timeouts, words=words)
        scene.controller.open_last()
        window = MainWindow(scene.controller)
        window.show()
        windows.append((window, scene))
        return window

    yield make
    for window, scene in windows:
        end(window)
        scene.controller.close()


def begin_race(main: MainWindow, document: RaceDocument) -> RaceWindow:
    """Asks for this race in its window, which is returned."""
    window = main.races.show(document.prompt)
    window.still = True
    window.form.runs.setValue(document.pairs)
    window.form.tokens.setValue(document.sampling.max_tokens)
    window.form.start.click()
    assert window.request.busy
    assert window.form.stop.isVisible()
    return window


def test_a_race_is_loaded_asked_for_told_and_replayed(start: Start, tmp_path: Path) -> None:
    document = simple(parts_at=5, pairs=3)
    window = begin_race(start(replaying_host(tmp_path, document)), document)
    until(lambda: not window.request.busy)
    found = window.document
    assert found is not None
    assert found.created_s > 0
    assert race_json(replace(found, created_s=0.0, sampling=document.sampling)) == race_json(document)
    assert window.board is not None
    assert window.board.comparison.same.text() == "5"
    assert window.form.start.isVisible()
    assert not window.line.isVisible()


@pytest.mark.slow
def test_a_stop_keeps_the_pairs_that_are_whole_and_tells_everyone_that_the_race_is_over(
    start: Start, tmp_path: Path
) -> None:
    document = simple(pairs=3)
    main = start(replaying_host(tmp_path, document, runs=3))
    controller, over = main.races._controller, list[bool]()
    controller.host.race_ended.connect(lambda: over.append(controller.in_use))
    window = begin_race(main, document)
    assert controller.in_use
    until(lambda: window.request.builder is None or window.request.builder.pairs == 1)
    window.form.stop.click()
    assert not window.request.busy and over == [False]
    assert window.document is not None
    assert window.document.pairs == 1
    assert window.line.text.text() == f"{STOPPED} Showing 1 complete pair of runs."


@pytest.mark.slow
def test_a_stop_before_the_first_pair_says_so_and_lets_one_race_again(start: Start, tmp_path: Path) -> None:
    document = simple(pairs=2)
    window = begin_race(start(replaying_host(tmp_path, document)), document)
    window.form.stop.click()
    assert window.measuring.title.text() == STOPPED
    assert window.document is None
    window.form.start.click()
    until(lambda: window.document is not None)
    assert window.document is not None
    assert window.document.pairs == 2


@pytest.mark.slow
def test_a_host_that_dies_in_the_middle_ends_the_race(start: Start, tmp_path: Path) -> None:
    document = simple(pairs=2)
    main = start(replaying_host(tmp_path, document, runs=0))
    window = begin_race(main, document)
    until(lambda: window.request._task.sent and window.measuring.title.text().startswith("Run 1"))
    main.races._controller.host.process._process.kill()
    until(lambda: not window.request.busy)
    assert "during the race" in window.measuring.title.text()


@pytest.mark.slow
def test_a_silent_engine_is_reported_in_the_race_that_waits_for_it(start: Start, tmp_path: Path) -> None:
    """Also one that was silent before the race began."""
    document, timeouts = simple(pairs=2), dataclasses.replace(PATIENT, silent_s=0.2)
    window = begin_race(start(replaying_host(tmp_path, document, runs=0), timeouts), document)
    until(lambda: window.measuring.why.text() == SILENT)
    window.form.stop.click()
    assert window.measuring.why.text() != SILENT
    window.form.start.click()
    assert window.measuring.why.text() == SILENT


@pytest.mark.slow
def test_a_target_that_cannot_be_loaded_ends_the_race(start: Start) -> None:
    window = begin_race(start(fake_host(fail_load="auto")), simple())
    until(lambda: not window.request.busy)
    assert window.measuring.title.text() == "Auto does not fit."


def test_a_reply_goes_before_a_race(start: Start, tmp_path: Path) -> None:
    document = simple(pairs=2)
    main = start(replaying_host(tmp_path, document, runs=0))
    window = begin_race(main, document)
    until(lambda: window.request._task.sent)
    main.races._controller.reply_began.emit(None)
    assert not window.request.busy
    assert window.measuring.title.text() == STOPPED_FOR_REPLY


@pytest.mark.slow
def test_a_race_ends_with_its_window(start: Start, tmp_path: Path) -> None:
    document = simple(pairs=2)
    window = begin_race(start(replaying_host(tmp_path, document, runs=0)), document)
    until(lambda: window.request._task.sent)
    window.close()
    assert not window.request.busy


def test_it_begins_as_the_chat_decodes_that_it_is_opened_from(start: Start, tmp_path: Path) -> None:
    """Another chat's settings come in with it; what was changed by hand stays as long as they do."""
    main = start(replaying_host(tmp_path, simple()))
    window = main.races.show()
    window.form.runs.setValue(7)
    assert main.races.show().form.runs.value() == 7
    sampling = SamplingSettings(temperature=0.5, top_p=0.8, seed=3)
    main.races._controller.change_settings(ChatSettings(sampling=sampling))
    form = main.races.show().form.sampling()
    assert (form.temperature, form.top_p, form.seed) == (0.5, 0.8, 3)


@pytest.mark.slow
def test_the_target_of_the_chat_is_raced_whichever_is_loaded(start: Start) -> None:
    main = start(fake_host())
    controller, another = main.races._controller, Pair(target="models/another")
    controller.start()
    until(lambda: controller.host.loaded is not None)
    controller.host.load(another)
    until(lambda: (there := controller.host.loaded) and there.pair == another)
    begin_race(main, simple())
    assert controller.host.pair == controller.conversation.settings.pair  # asked for before the race is
    until(lambda: (there := controller.host.loaded) and there.pair == controller.conversation.settings.pair)
