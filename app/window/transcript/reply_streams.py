"""Replies while they are written: rounds are received as they come, and their tokens shown when they are due.

Tokens are spread over the time that their round took, so that a burst does not look like pasting. A screen reader gets
whole sentences, seldom enough to be listened to.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer

from app.protocol import RoundDone
from app.store.records import MessageRecord
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.virtual_list import VirtualList

BETWEEN_S = 2.0
LONGEST_QUEUE = 4  # sentences; a reader that is further behind skips to what is new
LONGEST_SENTENCE = 300  # characters
LONGEST_LAG_S = 0.15  # what is shown is never further behind what was received
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
        *whole, self._rest = _END.split(self._rest + text)
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


class TokenPace:
    """A queue of the moments at which tokens are to be shown, in seconds of a clock that only goes forward.

    still: tokens are shown as soon as they are received, for reduced motion.
    """

    def __init__(self, still: bool = False) -> None:
        self.still = still
        self._due: deque[float] = deque()
        self._next_s = 0.0

    def __len__(self) -> int:
        """Returns how many tokens wait."""
        return len(self._due)

    def add(self, count: int, duration_s: float, now_s: float) -> None:
        """Adds `count` tokens of a round that took `duration_s`."""
        latest_s = now_s + (0.0 if self.still else LONGEST_LAG_S)
        begin_s = min(max(self._next_s, now_s), latest_s)
        step_s = min(max(duration_s, 0.0), LONGEST_LAG_S) / max(count, 1)
        self._due.extend(min(begin_s + i * step_s, latest_s) for i in range(count))
        self._next_s = min(begin_s + count * step_s, latest_s)

    def take(self, now_s: float) -> int:
        """Removes the tokens that are due by now, and returns how many there were."""
        count = 0
        while self._due and self._due[0] <= now_s:
            self._due.popleft()
            count += 1
        return count


class ReplyStreams(QObject):
    """Shows the tokens of replies that are being written, at most once a frame. still: as soon as they are received."""

    def __init__(
        self, messages: VirtualList, announcer: Announcer, clock: Callable[[], float], parent: QObject
    ) -> None:
        super().__init__(parent)
        self.announcer = announcer
        self.still = False
        self._messages, self._clock = messages, clock
        self._live: dict[int, tuple[MessageEntry, TokenPace]] = {}
        self._free_s = 0.0  # not before is anything drawn again
        self._frame = QTimer(self, interval=FRAME_MS, timerType=Qt.TimerType.PreciseTimer)
        self._frame.timeout.connect(self.show_due)

    def begin(self, entry: MessageEntry) -> None:
        """Begins to expect rounds of a reply."""
        if entry.record.id not in self._live:
            self._live[entry.record.id] = (entry, TokenPace())
            self.announcer.begin()

    def keep(self, entries: list[MessageEntry]) -> None:
        """Follows the replies `entries` only, which are those on the branch shown."""
        before = self._live
        self._live = {}
        for entry in entries:
            known = before.get(entry.record.id)
            self._live[entry.record.id] = known if known and known[0] is entry else (entry, TokenPace())

    def receive(self, message: int, rounds: list[RoundDone]) -> None:
        """Takes rounds of a reply. Those of a reply that is not shown are left to be requested later."""
        if message not in self._live:
            return
        entry, pace = self._live[message]
        pace.still = self.still
        now_s = self._clock()
        for one in rounds:
            count = entry.tokens.receive(one)
            pace.add(count, entry.tokens.duration_s(), now_s)
        if not self._frame.isActive():
            self._frame.start()

    def show_due(self) -> None:
        """Shows the tokens that are due by now."""
        now_s = self._clock()
        if now_s < self._free_s:
            return
        shown = False
        for entry, pace in self._live.values():
            count = pace.take(now_s)
            if count:
                self.announcer.receive(entry.tokens.show(count), now_s)
                self._messages.touch(entry)
                shown = True
        if shown:
            self._draw()
        if not any(len(pace) for _, pace in self._live.values()):
            self._frame.stop()

    def end(self, entry: MessageEntry, record: MessageRecord) -> None:
        """Shows all that waits: the reply is `record` in the end."""
        self._live.pop(record.id, None)
        entry.end(record)
        self._messages.touch(entry)

    def _draw(self) -> None:
        """Draws what changed. What takes long to draw is drawn less often, so that the window has time for all else."""
        began_s = self._clock()
        self._messages.arrange()
        ended_s = self._clock()
        self._free_s = ended_s + _SHARE * (ended_s - began_s) - FRAME_MS / 1000
