"""Streamed sentences for a screen reader: one at a time, seldom enough to be listened to."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

BETWEEN_S = 2.0
LONGEST_QUEUE = 4  # sentences; a reader that is further behind skips to what is new
LONGEST_SENTENCE = 300  # characters

_END = re.compile(r"(?<=[.!?…:])[\"'”)\]*_]*\s+|\n+")
_MARKS = re.compile(r"[*_`#>|~]+|^\s*[-+]\s+", re.MULTILINE)

Say = Callable[[str], None]


class Announcer:
    """Collects the text of a reply as it is shown, and says whole sentences of it at most every BETWEEN_S."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._rest = ""
        self._sentences: deque[str] = deque(maxlen=LONGEST_QUEUE)
        self._next_s = 0.0

    def begin(self) -> None:
        """Another reply: what was not said of the last one is forgotten."""
        self._rest = ""
        self._sentences.clear()

    def hear(self, text: str, now_s: float) -> None:
        """More text was shown; may say a sentence."""
        *whole, self._rest = _END.split(self._rest + text)
        if len(self._rest) > LONGEST_SENTENCE:
            whole.append(self._rest)
            self._rest = ""
        self._sentences.extend(filter(None, map(spoken, whole)))
        if self._sentences and now_s >= self._next_s:
            self._utter(self._sentences.popleft(), now_s)

    def end(self, said: str, now_s: float) -> None:
        """The reply is over: of what was not said yet nothing is, but how it ended."""
        self.begin()
        self._utter(said, now_s)

    def _utter(self, text: str, now_s: float) -> None:
        self._next_s = now_s + BETWEEN_S
        self._say(text)


def spoken(sentence: str) -> str:
    """Without the marks of Markdown, which would be read out one by one."""
    return " ".join(_MARKS.sub(" ", sentence).split())[:LONGEST_SENTENCE]


def announce(widget: QWidget, text: str) -> None:
    """Have an assistive technology read `text` once it is done with what it reads. Nothing where there is none."""
    if QAccessible.isActive():
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))
