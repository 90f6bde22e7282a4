"""Keys one by one, from a terminal that is put back as it was."""

from __future__ import annotations

import io
import os
import pty
import termios

from app.cli.terminal.keyboard import LEFT, RIGHT, key_presses


def test_keys_come_without_enter_and_the_terminal_is_put_back() -> None:
    ours, theirs = pty.openpty()
    with open(theirs, closefd=False) as stream:
        before = termios.tcgetattr(stream)
        with key_presses(stream) as pressed:
            assert pressed() == []
            os.write(ours, f" {RIGHT}+{LEFT}".encode())
            assert pressed() == [" ", RIGHT, "+", LEFT]
            assert pressed() == []
        assert termios.tcgetattr(stream) == before
    for end in (ours, theirs):
        os.close(end)


def test_what_is_no_terminal_has_no_keys() -> None:
    with key_presses(io.StringIO(" ")) as pressed:
        assert pressed() == []
