"""Replies while they are written: their tokens are shown when they are due, and a screen reader gets whole sentences,
seldom enough to be listened to."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt

from app.protocol import RoundDone
from app.window.common.timer import Timer, clock_s
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.reply_tokens import TURN_TOKENS
from app.window.transcript.virtual_list import VirtualList

BETWEEN_S = 2.0
LONGEST_QUEUE = 4  # sentences; a reader that is further behind skips to what is new
LONGEST_SENTENCE = 300  # characters
_LATEST = 5_000  # characters that are looked at, of more that come at once
FRAME_MS = 16
_SHARE = 3  # at most one part in so many of the time is spent on drawing what streams

_END = re.compile(r"(?<=[.!?…:])[\"'”)\]*_]*\s+|\n+")
_MARKS = re.compile(r"[*_`#>|~]+|^\s*[-+]\s+", re.MULTILINE)

Say = Callable[[str], None]


class Announcer:
    """Collects the text of a reply as it is shown, and speaks a sentence of it at most every BETWEEN_S."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._rest = ""
        self._sentences: deque[str] = deque(maxlen=LONGEST_QUEUE)
        self._next_s = 0.0

    def begin(self) -> None:
        """Begins another reply, and forgets what was not spoken of the last one."""
        self._rest = ""
        self._sentences.clear()

    def receive(self, text: str, now_s: float) -> None:
        """Takes text that was shown, and may speak a sentence."""
        *whole, self._rest = _END.split((self._rest + text[-_LATEST:])[-_LATEST:])
        if len(self._rest) > LONGEST_SENTENCE:
            whole.append(self._rest)
            self._rest = ""
        self._sentences.extend(filter(None, map(spoken, whole)))
        if self._sentences and now_s >= self._next_s:
            self._speak(self._sentences.popleft(), now_s)

    def end(self, sentence: str, now_s: float) -> None:
        """Speaks how the reply ended, and nothing else of it."""
        self.begin()
        self._speak(sentence, now_s)

    def _speak(self, text: str, now_s: float) -> None:
        self._next_s = now_s + BETWEEN_S
        self._say(text)


def spoken(sentence: str) -> str:
    """Returns a sentence without the marks of Markdown, which would be read out one by one."""
    return " ".join(_MARKS.sub(" ", sentence).split())[:LONGEST_SENTENCE]


class ReplyStreams(QObject):
    """Shows the tokens of replies that are being written, at most once a frame."""

    def __init__(self, messages: VirtualList, announcer: Announcer, parent: QObject) -> None:
        super().__init__(parent)
        self.announcer = announcer
        self._messages = messages
        self._free_s = 0.0  # not before is anything drawn again
        self._frame = Timer(self, interval=FRAME_MS, timerType=Qt.TimerType.PreciseTimer)
        self._frame.timeout.connect(self.show_due)

    def receive(self, entry: MessageEntry, rounds: list[RoundDone]) -> None:
        """Takes rounds of a reply."""
        now_s = clock_s()
        for one in rounds:
            entry.tokens.receive(one, now_s, self._messages.options.still)
        if not self._frame.isActive():
            self._frame.start()

    def show_due(self) -> None:
        """Shows the tokens that are due by now. What takes long to draw is drawn less often, so that the window has
        time for all else."""
        began_s = clock_s()
        if began_s < self._free_s:
            return
        live = [entry for entry in self._messages.entries if entry.live and entry.tokens.waiting]
        shown = False
        for entry in live:
            before = len(entry.tokens.text)
            if entry.tokens.show(began_s, TURN_TOKENS):  # only the answer is read aloud
                self.announcer.receive(entry.tokens.answer_since(before), began_s)
                self._messages.touch(entry)
                shown = True
        if shown:
            self._messages.arrange()
            ended_s = clock_s()
            self._free_s = ended_s + _SHARE * (ended_s - began_s) - FRAME_MS / 1000
        if not any(entry.tokens.waiting for entry in live):
            self._frame.stop()
