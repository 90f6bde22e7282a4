"""Continues where the context is full, as the user chose: with the last messages that fit, or also with a summary of
the others that the model writes. Both need the host, which alone can count tokens."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.protocol import AnyAnswer, Count, Counted, Failed, Loaded, Message, ReplyDone, RoundDone, SamplingSettings
from app.protocol import Reply as ReplyRequest
from app.reply import InconsistentRound, Reply
from app.store.records import (
    ChatSettings,
    ContextTrim,
    MessageBody,
    MessageRecord,
    Visible,
    draft_of,
    turns_of,
    visible_of,
)
from app.window.chat.host_connection import HostConnection, HostTask
from app.window.common.sentence import sentence

SUMMARY_TOKENS = 400  # of a summary, at most
THOUGHT_TOKENS = 4096  # of a thought that cannot be turned off, at most; nor more than a quarter of the context
REQUEST = (
    "Summarize our conversation up to here in at most 200 words, so that it can be continued from the summary alone. "
    "Keep names, numbers, decisions and open questions. Write only the summary."
)
TOO_LONG = "Your message alone is longer than the context. Shorten it."
EMPTY = "The model wrote no summary. Continue with the recent messages instead."
STOPPED = "The summary was stopped, and nothing was sent."

Steps = Generator[Count | ReplyRequest, Counted | ReplyDone | None, ContextTrim]


class _NoTrimError(Exception):
    """Why there is no trim."""


class ContextTrimmer(QObject):
    """Finds a ContextTrim for a question, one at a time. active: whether it is doing so.

    found(ContextTrim): send the question with it. failed(str): why there is none. progressed(str): the summary so far.
    """

    found = Signal(object)
    failed = Signal(str)
    progressed = Signal(str)

    def __init__(self, host: HostConnection, parent: QObject) -> None:
        super().__init__(parent)
        self._host = host
        self._steps: Steps | None = None  # what is still to be asked
        self._task = HostTask(host, host.silence, alone=False)
        self._summary = Reply()
        self._host.died.connect(lambda cause: self._fail(f"The engine {cause}. Nothing was sent."))

    @property
    def active(self) -> bool:
        return self._steps is not None

    def begin(
        self, settings: ChatSettings, before: Sequence[MessageRecord], question: MessageRecord, summarize: bool
    ) -> None:
        """Finds how many of the messages `before` a question fit with it, and has the others summarized, if that is
        wanted."""
        if not self.active and self._host.loaded is not None:
            self._summary = Reply()
            self._steps = self._find(self._host.loaded, settings, visible_of(before), question, summarize)
            self._go_on()

    def stop(self) -> None:
        """Gives up, as the user asked for it."""
        self._give_up(STOPPED)

    def _give_up(self, why: str) -> None:
        """Fails before the host is done, which stops."""
        if self.active:
            self._task.stop()
            self._fail(why)

    def _find(
        self, loaded: Loaded, settings: ChatSettings, before: Visible, question: MessageRecord, summarize: bool
    ) -> Steps:
        """Yields what the host is to be asked, takes its last answer to that, and returns the trim."""
        visible, carried = before
        given = partial(_turns, settings.system, carried, visible, question)
        if not summarize:
            room = loaded.context - min(settings.sampling.max_tokens, loaded.context // 4)
            kept = yield from _most_that_fit(given, len(visible), room)
            return ContextTrim(kept=kept, summary=carried)
        # A summary is worthwhile only if it leaves room for some turns.
        kept = yield from _most_that_fit(given, len(visible), loaded.context // 2)
        rest = visible[: len(visible) - kept]
        given = partial(_turns, settings.system, carried, rest, draft_of(REQUEST))
        room = loaded.context - SUMMARY_TOKENS - _thought_tokens(loaded)
        read = yield from _most_that_fit(given, len(rest), room)
        done = yield ReplyRequest(id=0, messages=given(read), sampling=_sampling(settings, loaded))
        assert isinstance(done, ReplyDone)
        tail = done.finished.text if done.finished.reason != "thought" else ""
        if summary := f"{self._summary.answer_since(0)}{tail}".strip():
            return ContextTrim(kept=kept, summary=summary)
        raise _NoTrimError(EMPTY)

    def _go_on(self, answer: Counted | ReplyDone | None = None) -> None:
        """Asks the next thing, given the answer to the one before."""
        assert self._steps is not None
        try:
            request = self._steps.send(answer)
        except StopIteration as end:
            self._end()
            self.found.emit(end.value)
        except _NoTrimError as why:
            self._fail(str(why))
        else:
            self._task.end()  # the one before
            self._task.begin(lambda: request, self._receive)

    def _receive(self, answer: AnyAnswer) -> None:
        if isinstance(answer, RoundDone):
            self._add_round(answer)
        elif isinstance(answer, Failed):
            self._fail(sentence(answer.message))
        elif isinstance(answer, Counted | ReplyDone):
            self._go_on(answer)

    def _add_round(self, answer: RoundDone) -> None:
        try:
            self._summary.add(answer)
        except InconsistentRound as error:
            self._give_up(f"The engine sent inconsistent data ({error}). Nothing was sent.")
        else:
            self.progressed.emit(self._summary.answer_since(0))

    def _end(self) -> None:
        self._task.end()
        self._steps = None

    def _fail(self, why: str) -> None:
        if self.active:
            self._end()
            self.failed.emit(why)


def _most_that_fit(
    given: Callable[[int], tuple[Message, ...]], messages: int, room: int
) -> Generator[Count, Counted | ReplyDone | None, int]:
    """Returns how many of so many messages, in whole turns, may be kept so that what the model is `given` fits into
    `room` tokens. It is a binary search, which yields what is to be counted."""
    fit, too_many = -1, messages // 2 + 1  # turns; -1 until the question alone is known to fit
    while too_many - fit > 1:
        turns = (fit + too_many) // 2
        counted = yield Count(id=0, messages=given(2 * turns))
        assert isinstance(counted, Counted)
        if counted.tokens <= room:
            fit = turns
        else:
            too_many = turns
    if fit < 0:
        raise _NoTrimError(TOO_LONG)
    return 2 * fit


def _turns(
    system: str, carried: str, path: Sequence[MessageBody], question: MessageBody, kept: int
) -> tuple[Message, ...]:
    """Returns what the model is given where the last messages of `path` are kept before a question."""
    return turns_of(system, [*path[len(path) - kept :], question], carried)


def _sampling(settings: ChatSettings, loaded: Loaded) -> SamplingSettings:
    """Returns how a summary is written: short, and with as little thought as the model can be told."""
    return replace(
        settings.sampling,
        max_tokens=SUMMARY_TOKENS,
        max_thought_tokens=_thought_tokens(loaded) or SUMMARY_TOKENS,
        thinking=False if loaded.thinking else None,
        effort="low" if "low" in loaded.efforts else "",
        seed=None,
    )


def _thought_tokens(loaded: Loaded) -> int:
    """Returns how many tokens a model may think before its summary: none where its template can turn that off."""
    return 0 if loaded.thinking else min(THOUGHT_TOKENS, loaded.context // 4)
