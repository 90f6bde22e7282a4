"""A reply in a terminal: a fold over its events. Knows no model, so a recorded stream replays it.

On a terminal: a legend, the tokens in their tints, one line of statistics. Anywhere else `out` gets the text and
nothing but the text, and the statistics go to `notes` (standard error).

The token of a round without a draft is the target's own, a bonus, but it is shown as plain text: nothing was
speculated, and a reply that drafts little should not be tinted from end to end.
"""

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TextIO

from rich.cells import cell_len

from app.cli.terminal.token_style import FAINT, RESET, Look
from app.inference.reply_events import FellBack, ReplyEvent
from app.reply_statistics import count, in_words, thought_in_words
from app.safe_text import safe, trusted
from engine.events import Event, Finished, Origin, PromptProgress, Reason
from engine.metrics import Metrics

LONG_PROMPT = 256  # tokens; shorter ones are read before anyone wonders

_LEGEND: dict[Origin, str] = {"accepted": "drafted", "corrected": "draft refused", "bonus": "extra"}
# An end that the model chose itself needs no word.
_ENDINGS: dict[Reason, str] = {
    "stop": "ended at a stop string",
    "length": "cut at --max-tokens",
    "thought": "cut off while thinking, at --max-thought-tokens",
    "context": "cut: the context is full",
    "cancelled": "stopped by Ctrl-C",
}
_CLEAR_LINE = "\r\x1b[K"
_TAB, _MIN_WIDTH = 4, 16
# Letters of scripts written with spaces, one cell each in any terminal, and the punctuation between them.
_LETTER = re.compile(r"[\x21-\x7e\xa1-\xac\xae-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027]")


class Wrapper:
    """Breaks styled text that arrives in pieces into lines between words. width: columns of the terminal.

    Invariants
    ----------
    1. No style is open when a line ends, and the last column stays empty: a terminal paints the rest of a line, or a
       line that it scrolls in, with the background that is set when it gets there.
    2. Only letters, which are surely one cell wide, are ever moved: the unfinished word at the end of the line.
    """

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._line: list[tuple[str, str]] = []  # characters since the last break and their styles
        self._shown = 0  # how many of them have been written
        self._broken = False  # whether the line begins after a break of ours, so that spaces do not begin it

    def write(self, text: str, style: str = "") -> str:
        """Returns `text` ready to be written. A style is an escape sequence, or "" for none."""
        limit, out = max(self._width() - 1, _MIN_WIDTH), ""
        for character in text:
            if character == "\n":
                out += self._end_line(len(self._line), broken=False)
            elif character == "\t":
                out += self.write(" " * (_TAB - _cells(self._line) % _TAB), style)
            elif character != " " or self._line or not self._broken:
                self._line.append((character, style))
            if _cells(self._line) > limit:
                out += self._end_line(self._break(limit), broken=True)
        out += _styled(self._line[self._shown :])
        self._shown = len(self._line)
        return out

    def _break(self, limit: int) -> int:
        """Returns where the line breaks: before its last word, or where it is full if it is one word."""
        letters = [bool(_LETTER.match(character)) for character, _ in self._line]
        word = len(letters) - 1
        while word and letters[word] and letters[word - 1]:
            word -= 1
        return word if word and _cells(self._line[word:]) <= limit else len(self._line) - 1

    def _end_line(self, place: int, broken: bool) -> str:
        """Ends the line before the character at `place`; those after it begin the next one."""
        moved = self._shown - place
        back = f"\x1b[{moved}D\x1b[K" if moved > 0 else ""
        out = f"{_styled(self._line[self._shown : place])}{back}\n"
        rest = [one for one in self._line[place:] if one[0] != " " or not broken]
        self._line, self._shown, self._broken = rest, 0, broken
        return out


def _cells(line: Sequence[tuple[str, str]]) -> int:
    """Returns the columns of a line, or rather more: an emoji of several characters is counted as all of them."""
    return sum(cell_len(character) for character, _ in line)


def _styled(line: Sequence[tuple[str, str]]) -> str:
    parts = ((style, "".join(character for character, _ in part)) for style, part in groupby(line, lambda one: one[1]))
    return "".join(f"{style}{text}{RESET}" if style else text for style, text in parts)


class Terminal:
    """Shows replies. out: where text goes. notes: where what is not text goes when `look` is plain.

    speculating: whether there is a drafter at all, and so a legend. thoughts: whether thoughts are shown, dimmed; else
    only how long they took.
    """

    def __init__(
        self,
        out: TextIO,
        notes: TextIO,
        look: Look,
        width: Callable[[], int] | None = None,
        speculating: bool = True,
        thoughts: bool = True,
    ) -> None:
        self._out, self._notes, self._look = trusted(out), trusted(notes), look
        self.thoughts = thoughts
        self._thought = Metrics()  # of the reply, for its thought
        self._in_thought = self._after_thought = False
        self._width = width or (lambda: shutil.get_terminal_size().columns)
        self.speculating = speculating
        self._wrapper = Wrapper(self._width)
        self._ends_line = True
        self._progress = False

    def introduce(self, line: str) -> None:
        """Shows a line about what follows, and the legend. Shows nothing where `out` is not a terminal."""
        if self._look.escapes:
            self.note(line)
            self._out.write(f"{legend_line(self._look)}\n\n" if self.speculating else "\n")
            self._out.flush()

    def play(
        self, events: Iterable[ReplyEvent], about: str = "", compared: Callable[[Metrics], str] = lambda metrics: ""
    ) -> Metrics:
        """Shows a reply as it happens, then its statistics, and returns its metrics. about: stands at the end of the
        statistics. compared: returns what stands before them."""
        metrics = Metrics()
        self._wrapper = Wrapper(self._width)
        self._ends_line, self._thought, self._in_thought, self._after_thought = True, metrics, False, False
        try:
            for event in events:
                if isinstance(event, FellBack):
                    self._show_fallback(event)
                    continue
                metrics.add(event)
                self._show(event)
        finally:
            self._end_progress()
            self._end_thought()
            self._end_reply()
        self.note(" · ".join(filter(None, [compared(metrics), statistics(metrics), about])))
        return metrics

    def note(self, text: str) -> None:
        """Shows a line that is not part of the reply."""
        if self._look.escapes:
            self._out.write(Wrapper(self._width).write(safe(text), FAINT) + "\n")
            self._out.flush()
        else:
            self._notes.write(f"{safe(text)}\n")
            self._notes.flush()

    def _show(self, event: Event) -> None:
        if isinstance(event, PromptProgress):
            self._show_progress(event)
            return
        self._end_progress()
        if isinstance(event, Finished):
            self._write(event.text, "")
        else:
            channels = event.channels or ("answer",) * len(event.texts)
            for text, origin, channel in zip(event.texts, event.origins, channels, strict=True):
                style = self._look.start(origin) if event.drafted else ""
                if channel == "thought":
                    self._show_thought(text, style)
                elif text:
                    self._end_thought()
                    text = text.lstrip("\n") if self._after_thought else text
                    self._after_thought = self._after_thought and not text
                    self._write(text, style)
        if self._in_thought and not self.thoughts and self._look.escapes:
            self._out.write(self._look.faint(f"thinking: {count(self._thought.thought_tokens, 'token')}"))
            self._progress = True
        self._out.flush()

    def _show_thought(self, text: str, style: str) -> None:
        """Shows some of a thought, dimmed, or only that there is one."""
        if not self._in_thought:
            text = text.lstrip("\n")
            self._in_thought = bool(text.strip())
        if self._in_thought and self.thoughts:
            self._write(text, style + FAINT if self._look.escapes else "")

    def _end_thought(self) -> None:
        """Says how long a thought took, after the thought or in its place."""
        if not self._in_thought:
            return
        self._in_thought, self._after_thought = False, True
        self._end_progress()
        if not self._ends_line:
            self._out.write("\n")
        self._wrapper, self._ends_line = Wrapper(self._width), True
        self.note(f"{thought_in_words(self._thought)}{chr(10) if self._look.escapes else ''}")

    def _show_fallback(self, event: FellBack) -> None:
        """Says on a line of its own that drafting ended, and leaves the reply to continue after it."""
        self._end_progress()
        if not self._ends_line and self._look.escapes:
            self._out.write("\n")
            self._ends_line = True
        self._wrapper = Wrapper(self._width)
        self.note(fallback_line(event))

    def _write(self, text: str, style: str) -> None:
        text = safe(text)
        if text:
            self._ends_line = text.endswith("\n")
            self._out.write(self._wrapper.write(text, style) if self._look.escapes else text)

    def _end_reply(self) -> None:
        """Ends the line, and on a terminal leaves an empty one before the statistics."""
        self._out.write(("" if self._ends_line else "\n") + ("\n" if self._look.escapes else ""))
        self._out.flush()

    def _show_progress(self, event: PromptProgress) -> None:
        """Shows how much of a long prompt has been read, on the line where the reply will begin."""
        if self._look.escapes and event.total - event.reused > LONG_PROMPT and event.done < event.total - 1:
            share = event.done / event.total
            self._out.write(_CLEAR_LINE + self._look.faint(f"reading the prompt: {share:.0%} of {event.total} tokens"))
            self._out.flush()
            self._progress = True

    def _end_progress(self) -> None:
        if self._progress:
            self._out.write(_CLEAR_LINE)
            self._progress = False


def fallback_line(event: FellBack) -> str:
    """Returns what to tell the user when a reply continues without its drafter."""
    return f"continuing with plain decoding: {event.reason}"


def legend_line(look: Look) -> str:
    """Returns the three kinds as they look, and what they mean, on one line."""
    parts = [f"{look.start(kind)} {kind} {RESET} {look.faint(meaning)}" for kind, meaning in _LEGEND.items()]
    return "  ".join([*parts, look.faint("plain: no draft")])


def statistics(metrics: Metrics) -> str:
    """Returns the statistics in one line."""
    endings = [text for reason, text in _ENDINGS.items() if reason == metrics.reason]
    return in_words(metrics, endings)


def details(metrics: Metrics) -> str:
    """Returns the statistics, a line each. Speed-up is not among them: it takes plain decoding of the same prompt."""
    tau = metrics.mean_acceptance_length
    by_position = " ".join(f"{share:.0%}" for share in metrics.acceptance_by_position)
    lines = [
        ("prompt", f"{count(metrics.prompt_tokens, 'token')}, {metrics.reused_tokens} of them reused"),
        ("reply", f"{count(metrics.tokens, 'token')} in {count(metrics.rounds, 'round')}"),
        ("TTFT", None if metrics.ttft_s is None else f"{metrics.ttft_s:.2f} s"),
        ("decode speed", None if metrics.tokens_per_s is None else f"{metrics.tokens_per_s:.1f} tok/s"),
        ("accepted", f"{metrics.accepted} of {metrics.drafted} drafted"),
        ("acceptance rate", None if metrics.acceptance_rate is None else f"{metrics.acceptance_rate:.0%}"),
        ("by draft position", by_position or None),
        ("mean acceptance length", None if tau is None else f"{tau:.2f}"),
        ("speed-up", "`redline race` measures it"),
    ]
    return "\n".join(f"{name:24}{value}" for name, value in lines if value is not None)
