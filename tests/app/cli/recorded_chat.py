"""Conversations at the keyboard: lines that are typed, and what is shown."""

import io
from collections.abc import Callable, Iterator

from app.cli.interactive_chat import converse
from app.cli.terminal.reply_view import Terminal
from app.cli.terminal.token_style import PLAIN
from app.inference.conversation import Conversation
from app.inference.options import Options
from engine.events import Event
from engine.settings import SamplingSettings
from tests.app.recordings import REPLY, RecordedSession, recorded_pair

Take = Callable[[], Iterator[Event]]


def talk(conversation: Conversation, *lines: str) -> str:
    """Types the lines, then leaves; returns what was noted."""
    waiting, notes = iter([*lines, "/quit"]), io.StringIO()
    assert converse(conversation, Terminal(io.StringIO(), notes, PLAIN), lambda: next(waiting)) == 0
    return notes.getvalue()


def whole() -> Iterator[Event]:
    yield from REPLY


class _Takes:
    """A reply for each question, one after the other; the last one again and again."""

    def __init__(self, *takes: Take) -> None:
        self._takes = list(takes)

    def __iter__(self) -> Iterator[Event]:
        return (self._takes.pop(0) if len(self._takes) > 1 else self._takes[0])()


class RecordedChat:
    """A conversation with a session whose replies are recorded."""

    def __init__(self, *takes: Take, options: Options | None = None) -> None:
        self.session = RecordedSession()
        self.session.events = _Takes(*(takes or (whole,)))  # type: ignore[assignment]
        self.conversation = Conversation(
            options or Options(sampling=SamplingSettings(draft_length=4, seed=0)), recorded_pair(self.session)
        )
        self.out, self.notes = io.StringIO(), io.StringIO()

    def type(self, *lines: str, leave: type[BaseException] = EOFError) -> str:
        """Types the lines, then leaves; returns what was noted."""
        waiting = iter(lines)

        def ask() -> str:
            line = next(waiting, None)
            if line is None:
                raise leave
            return line

        assert converse(self.conversation, Terminal(self.out, self.notes, PLAIN), ask) == 0
        return self.notes.getvalue()

    @property
    def said(self) -> list[str]:
        """What all messages say."""
        return [message["content"] for message in self.conversation.messages]
