"""What the log has of the engine: enough for a report, and nothing of any conversation."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.log_file import close_log, open_log
from app.protocol import MemoryShort
from app.window.chat.host_connection import SHORT_OF_MEMORY
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import until


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    file = open_log(tmp_path / "logs")
    assert file is not None
    yield file
    close_log()


def test_a_death_is_logged_after_all_that_the_engine_wrote_to_standard_error(tmp_path: Path, log: Path) -> None:
    with Scene(tmp_path, stderr="out of tea\nand mi\xedlk") as scene:
        scene.ready()
        scene.kill_host()
        until(lambda: scene.notice("is restarting"))
        text = log.read_text()
    order = ("out of tea", "engine: and mi", "ERROR The engine was killed (SIGKILL")
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)


def test_loads_and_failed_loads_are_logged_with_the_reason(tmp_path: Path, log: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.ready()
    assert "INFO Loaded target " in log.read_text()
    with Scene(tmp_path, fail_load="auto"):
        until(lambda: "WARNING Could not load target builtin with drafter auto: " in log.read_text())


def test_nothing_of_a_conversation_is_logged_even_where_everything_fails(tmp_path: Path, log: Path) -> None:
    behaviour = {"rounds": 40, "fail_after": 30, "fall_back_after": 2, "bad_line": '{"my secret diary'}
    with Scene(tmp_path, **behaviour) as scene:
        record = scene.ask("my secret diary")
        until(lambda: scene.notice("could not be read"))
    text = log.read_text()
    assert record.state == "failed" and "failed: " in text and "plain decoding" in text
    assert "secret" not in text and text_of(3) not in text and record.note not in text


def test_the_error_report_says_where_the_log_is_and_not_who_the_user_is(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scene(tmp_path) as scene:
        scene.controller.host.log_file = log
        monkeypatch.setattr(Path, "home", lambda: tmp_path)
        report = scene.controller.host.error_report()
        assert "Log: ~/logs/redline.log\n" in report and str(tmp_path) not in report
        scene.controller.host.log_file = None
        assert "Log: none\n" in scene.controller.host.error_report()


@pytest.mark.usefixtures("not_installed")
def test_redline_that_is_not_installed_has_an_error_report(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        assert scene.controller.host.error_report().startswith("Redline unknown, Python ")


@pytest.mark.slow
def test_short_memory_is_reported_in_one_calm_line_once(tmp_path: Path, log: Path) -> None:
    with Scene(tmp_path, short_of_memory=True) as scene:
        scene.ready()
        scene.kill_host()  # the next engine says it again
        until(lambda: len([one for one in scene.answers if isinstance(one, MemoryShort)]) == 2)
    found = [notice for notice in scene.notices if "short of memory" in notice.text]
    assert [(notice.level, notice.text) for notice in found] == [("info", SHORT_OF_MEMORY)]
    assert "WARNING Memory is short" in log.read_text()


@pytest.mark.slow
def test_a_character_that_comes_in_two_parts_is_logged_whole(tmp_path: Path, log: Path) -> None:
    written = "café au lait\n".encode()
    with Scene(tmp_path) as scene:
        for part in (written[:4], written[4:]):
            scene.process._log.write(part)
    assert "engine: café au lait" in log.read_text()
