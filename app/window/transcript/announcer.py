"""Replies read aloud while they are written: a screen reader gets whole sentences, seldom enough to be listened to."""

import re
from collections import deque
from collections.abc import Callable

from app.window.markdown.formula_text import text_and_places
from app.window.markdown.traced_parser import find_formulas

BETWEEN_S = 2.0
LONGEST_QUEUE = 4  # sentences; a reader that is further behind skips to what is new
LONGEST_SENTENCE = 300  # characters
_LATEST = 5_000  # characters that are looked at, of more that come at once

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
        self._sentences.extend(filter(None, map(without_marks, whole)))
        if self._sentences and now_s >= self._next_s:
            self._speak(self._sentences.popleft(), now_s)

    def end(self, sentence: str, now_s: float) -> None:
        """Speaks how the reply ended, and nothing else of it."""
        self.begin()
        self._speak(sentence, now_s)

    def _speak(self, text: str, now_s: float) -> None:
        self._next_s = now_s + BETWEEN_S
        self._say(text)


def without_marks(sentence: str) -> str:
    """Returns a sentence without the marks of Markdown, which would be read out one by one, and with its formulas as
    text."""
    said, done = "", 0
    for formula in find_formulas(sentence)[0] if "$" in sentence or "\\" in sentence else ():
        latex = sentence[formula.first : formula.last]
        said += _MARKS.sub(" ", sentence[done : formula.start]) + (text_and_places(latex)[0] or latex)
        done = formula.end
    return " ".join((said + _MARKS.sub(" ", sentence[done:])).split())[:LONGEST_SENTENCE]
