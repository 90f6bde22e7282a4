"""What a request asks for and its reply does without, reported in a header and in the reply's statistics.

A request that asks for something that cannot be honored is answered without it, unless the reply would mean something
else then; such a request is refused.
"""

from __future__ import annotations

HEADER = "x-redline-warning"
LONGEST_HEADER = 1000  # characters


class Omissions:
    """The notes of one request, in the order in which it was read."""

    def __init__(self) -> None:
        self._notes: list[str] = []

    def add(self, what: str, why: str) -> None:
        """Notes that a field or an item is left out."""
        note = f"{what[:80]}: {why}"
        if note not in self._notes:
            self._notes.append(note)

    @property
    def headers(self) -> dict[str, str]:
        """The header of the answer; empty where nothing was left out."""
        text = "; ".join(self._notes).encode("ascii", "replace").decode()
        printable = "".join(sign if sign.isprintable() else "?" for sign in text)
        return {HEADER: printable[:LONGEST_HEADER]} if printable else {}

    @property
    def statistics(self) -> dict[str, list[str]]:
        """The same for the reply's statistics."""
        return {"left_out": list(self._notes)} if self._notes else {}
