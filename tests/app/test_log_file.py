"""The log: private, of bounded size, without what errors quote; and Redline runs where it cannot be written."""

import stat
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from app import log_file
from app.log_file import FILE, LOG, OLDER_FILES, close_log, name_of, open_log, traceback_of


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_log()


def test_the_log_is_for_its_user_alone(tmp_path: Path) -> None:
    file = open_log(tmp_path / "logs")
    assert file is not None
    LOG.info("one")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert file.read_text().endswith(" INFO one\n")


def test_the_log_never_grows_beyond_its_bound_and_older_files_are_private_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "MAX_BYTES", 1000)
    file = open_log(tmp_path)
    assert file is not None
    for number in range(200):
        LOG.info("line %s", number)
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == [FILE, *(f"{FILE}.{number + 1}" for number in range(OLDER_FILES))]
    assert all(path.stat().st_size <= 1000 and stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    assert "line 199" in file.read_text()


def test_a_second_start_goes_on_in_the_same_file_and_writes_each_line_once(tmp_path: Path) -> None:
    for text in ("first", "second"):
        file = open_log(tmp_path)
        LOG.info(text)
    assert file is not None
    assert [line.split()[-1] for line in file.read_text().splitlines()] == ["first", "second"]


def test_redline_runs_without_a_log_where_none_can_be_written(tmp_path: Path) -> None:
    in_the_way = tmp_path / "logs"
    in_the_way.write_text("")
    assert open_log(in_the_way) is None
    LOG.error("nobody hears this")


def test_a_disk_that_refuses_disturbs_nobody(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    open_log(tmp_path)
    next(handler for handler in LOG.handlers if isinstance(handler, RotatingFileHandler)).stream.close()
    LOG.error("nobody hears this")
    assert capfd.readouterr() == ("", "")


def test_the_log_names_no_home_and_steers_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/folder/ada"))
    file = open_log(tmp_path)
    LOG.info("Could not load /folder/ada/models/x \x1b]52;c;YQ==\x07")
    assert file is not None and "load ~/models/x" in file.read_text()
    assert "ada" not in file.read_text() and "\x1b" not in file.read_text()


def test_a_traceback_has_every_cause_and_nothing_that_an_error_quotes() -> None:
    with pytest.raises(RuntimeError) as caught:
        try:
            try:
                int("my secret diary")
            except ValueError:
                {}["my secret key"]
        except KeyError as error:
            raise RuntimeError("the device was lost") from error
    text = traceback_of(caught.value)
    assert text.index("ValueError") < text.index("KeyError") < text.index("RuntimeError: the device was lost")
    assert text.count("test_a_traceback_has_every_cause") == 3
    assert not [line for line in text.splitlines() if "secret" in line and not line.startswith("    ")]


def test_only_errors_that_cannot_quote_a_conversation_say_more_than_their_kind() -> None:
    assert name_of(KeyError("secret")) == "KeyError" and name_of(ValueError("secret")) == "ValueError"
    assert name_of(OSError(28, "No space left on device", "secret")) == "OSError: No space left on device"
    assert name_of(RuntimeError("[metal] out of memory")) == "RuntimeError: [metal] out of memory"


def test_errors_that_name_each_other_as_their_cause_have_a_traceback() -> None:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    assert traceback_of(one).count("RuntimeError") == 2
