"""Bytes to lines to answers, whatever comes: what cannot be read is counted, what is too long is never kept."""

from __future__ import annotations

import time

from app.protocol import LONGEST_LINE, Answers, MalformedError, read_answer


class Lines:
    """Cuts a stream at newlines. Holds at most `longest` bytes of a line that has no end yet.

    overlong: how many lines were dropped because they were longer.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.longest = longest
        self.overlong = 0
        self._rest = bytearray()
        self._ready: list[bytes] = []
        self._next = 0
        self._dropping = False

    def __len__(self) -> int:
        """Whole lines that wait."""
        return len(self._ready) - self._next

    def push(self, data: bytes) -> None:
        """More bytes of the stream."""
        head, newline, rest = data.partition(b"\n")
        self._extend(head)
        if not newline:
            return
        self._end_line()
        lines = rest.split(b"\n")
        for line in lines[:-1]:
            self._extend(line)
            self._end_line()
        self._extend(lines[-1])

    def pop(self) -> bytes:
        """The oldest whole line, without its end."""
        line = self._ready[self._next]
        self._next += 1
        if self._next == len(self._ready):
            self._ready.clear()
            self._next = 0
        return line

    def _extend(self, part: bytes) -> None:
        if self._dropping:
            return
        if len(self._rest) + len(part) > self.longest:
            self._rest.clear()
            self._dropping = True
            self.overlong += 1
        else:
            self._rest += part

    def _end_line(self) -> None:
        if self._rest and not self._dropping:
            self._ready.append(bytes(self._rest))
        self._rest.clear()
        self._dropping = False


class Decoder:
    """Answers out of the bytes of one host process.

    unreadable: how many lines were no answer. complaint: about the first of them.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.unreadable = 0
        self.complaint = ""
        self._lines = Lines(longest)

    def __len__(self) -> int:
        """Whole lines that wait."""
        return len(self._lines)

    def push(self, data: bytes) -> None:
        """More bytes of the host's standard output."""
        before = self._lines.overlong
        self._lines.push(data)
        if self._lines.overlong > before:
            self._complain(f"a line is longer than {self._lines.longest} bytes", self._lines.overlong - before)

    def take(self, until_s: float) -> list[Answers]:
        """Answers in order, as many as can be read until then on the monotonic clock."""
        answers: list[Answers] = []
        while len(self._lines):
            line = self._lines.pop()
            try:
                answers.append(read_answer(line))
            except MalformedError as error:
                self._complain(f"{error}: {line[:80].decode(errors='replace')}")
            if time.monotonic() >= until_s:
                break
        return answers

    def _complain(self, said: str, lines: int = 1) -> None:
        self.unreadable += lines
        self.complaint = self.complaint or said
