"""A child's lines come as it writes them, and its end is told once, however it ends."""

import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QObject

from app.window.common.child_process import ChildProcess, Ending
from tests.app.window.waiting import until


class Child:
    """What was told of one run of a program."""

    def __init__(self, *command: str, given: bytes = b"", keeps_output: bool = True) -> None:
        self.owner, self.lines, self.endings = QObject(), list[bytes](), list[Ending]()
        self.process = ChildProcess(self.owner, keeps_output)
        self.process.line.connect(self.lines.append)
        self.process.ended.connect(self.endings.append)
        self.process.begin(command, given)


def python(code: str, given: bytes = b"") -> Child:
    return Child(sys.executable, "-c", code, given=given)


def test_whole_lines_come_before_the_end_and_the_rest_with_it() -> None:
    child = python("import sys; print('one', flush=True); print(sys.stdin.read(), end='')", given=b"two")
    until(lambda: child.endings)
    assert child.lines == [b"one\n"]
    assert child.endings == [Ending(failed=False, output=b"one\ntwo")]


def test_lines_that_are_not_kept_are_only_told() -> None:
    child = Child(sys.executable, "-c", "print('one')", keeps_output=False)
    until(lambda: child.endings)
    assert child.lines == [b"one\n"] and child.endings == [Ending(failed=False)]


def test_a_status_other_than_0_is_a_failure_with_its_errors() -> None:
    child = python("import sys; sys.exit('no room')")
    until(lambda: child.endings)
    assert child.endings == [Ending(errors="no room\n")]


def test_a_line_that_a_killed_program_has_begun_is_not_told_as_one() -> None:
    child = python("import signal; print('one\\ntw', end='', flush=True); signal.pause()")
    until(lambda: child.lines)
    child.process.kill()
    until(lambda: child.endings)
    assert child.lines == [b"one\n"]
    assert child.endings == [Ending(output=b"one\ntw")]


def test_a_program_that_does_not_start_is_told_later_and_once(tmp_path: Path) -> None:
    child = Child(str(tmp_path / "nothing"))
    assert not child.endings
    until(lambda: child.endings)
    assert child.endings[0].not_started and child.endings[0].failed and not child.lines


def test_a_stopped_program_has_ended_at_once() -> None:
    child = python("import signal; print('begun', flush=True); signal.pause()")
    until(lambda: child.lines)
    child.process.stop()
    assert child.endings == [Ending(stopped=True)]


def test_a_stopped_program_that_did_not_start_has_ended_at_once_and_is_not_told_of_again(tmp_path: Path) -> None:
    child, later = Child(str(tmp_path / "nothing")), Child(str(tmp_path / "nothing"))
    child.process.stop()
    assert child.endings == [Ending(stopped=True)]
    until(lambda: later.endings)
    assert child.endings == [Ending(stopped=True)]


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (b'{"done": 1}\n{"pages": ["a"]}\n', {"pages": ["a"]}),
        (b'{"error": "no"}', {"error": "no"}),
        (b'{"pages": ["a"]}\n{"err', {}),
        (b"[1]", {}),
        (b"\xff", {}),
        (b"", {}),
    ],
)
def test_its_answer_is_the_json_object_in_its_last_line(output: bytes, answer: dict[str, object]) -> None:
    assert Ending(output=output).answer == answer


def test_another_program_may_be_started_from_the_end_of_one(tmp_path: Path) -> None:
    nothing, second = Child(str(tmp_path / "nothing")), list[Child]()
    nothing.process.ended.connect(lambda _: second.append(python("print('well')")))
    until(lambda: second and second[0].endings)
    assert second[0].lines == [b"well\n"]
