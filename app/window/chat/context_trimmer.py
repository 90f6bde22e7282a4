"""Continues where the context is full, as the user chose: with the last messages that fit, or also with a summary of
the others that the model writes. Both need the host, which alone can count tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from msgspec.structs import replace as replace_fields
from PySide6.QtCore import QObject, Signal

from app.protocol import AnyAnswer, Count, Counted, Failed, Loaded, Message, ReplyDone, RoundDone, Stop
from app.protocol import Reply as ReplyRequest
from app.reply import InconsistentRound, Reply
from app.store.records import Attachment, ChatSettings, ContextTrim, MessageRecord, messages_of
from app.window.chat.host_connection import HostConnection
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


@dataclass(frozen=True)
class _Search:
    """The search for how many turns at the end of `path` fit into `room` tokens with a question after them: `fit` of
    them do, -1 until the question alone is known to fit; `too_many` do not. then: takes the number of messages."""

    path: list[MessageRecord]
    question: MessageRecord
    room: int
    then: Callable[[int], None]
    fit: int
    too_many: int


class ContextTrimmer(QObject):
    """Finds a ContextTrim for a question, one at a time. active: whether it is doing so.

    found(ContextTrim): send the question with it. failed(str): why there is none. progressed(str): the summary so far.
    """

    found = Signal(object)
    failed = Signal(str)
    progressed = Signal(str)

    def __init__(self, host: HostConnection, parent: QObject) -> None:
        super().__init__(parent)
        self._host, self._settings = host, ChatSettings()
        self._request = 0  # of the host; 0 while nothing is asked
        self._before: list[MessageRecord] = []
        self._carried = ""  # the summary of an earlier trim
        self._summary = Reply()
        self._host.died.connect(lambda cause: self._fail(f"The engine {cause}. Nothing was sent."))

    @property
    def active(self) -> bool:
        return self._request > 0

    def begin(
        self,
        settings: ChatSettings,
        before: Sequence[MessageRecord],
        text: str,
        attachments: tuple[Attachment, ...],
        summarize: bool,
    ) -> None:
        """Finds how many of the messages `before` a question fit with it, and has the others summarized, if that is
        wanted."""
        loaded = self._host.loaded
        if self.active or loaded is None:
            return
        self._settings = settings
        self._before, self._carried = _visible(before)
        self._summary = Reply()
        question = MessageRecord(id=0, conversation=0, parent=None, role="user", text=text, attachments=attachments)
        if summarize:  # which is worthwhile only if it leaves room for some turns
            room, then = loaded.context // 2, self._summarize
        else:
            longest = self._settings.sampling.max_tokens
            room, then = loaded.context - min(longest, loaded.context // 4), self._keep
        self._search(_Search(self._before, question, room, then, -1, len(self._before) // 2 + 1))

    def stop(self) -> None:
        """Gives up, as the user asked for it."""
        self._give_up(STOPPED)

    def _give_up(self, why: str) -> None:
        """Fails before the host is done, which stops."""
        if self.active:
            self._host.send(Stop(id=self._request))
            self._fail(why)

    def _search(self, search: _Search) -> None:
        if search.too_many - search.fit > 1:
            turns = (search.fit + search.too_many) // 2
            self._ask(Count(id=0, messages=self._messages(search, turns)), partial(self._receive_count, search, turns))
        elif search.fit < 0:
            self._fail(TOO_LONG)
        else:
            search.then(2 * search.fit)

    def _messages(self, search: _Search, turns: int) -> tuple[Message, ...]:
        """Returns what the model would be given."""
        trim = ContextTrim(kept=2 * turns, summary=self._carried)
        path = [*search.path, replace_fields(search.question, trim=trim)]
        return messages_of(self._settings.system, path)

    def _receive_count(self, search: _Search, turns: int, answer: AnyAnswer) -> None:
        if isinstance(answer, Failed):
            self._fail(sentence(answer.message))
        elif isinstance(answer, Counted):
            fits = answer.tokens <= search.room
            self._search(replace(search, fit=turns) if fits else replace(search, too_many=turns))

    def _keep(self, kept: int) -> None:
        self._finish(ContextTrim(kept=kept, summary=self._carried))

    def _summarize(self, kept: int) -> None:
        """Has the model summarize what is not kept: as many of its last messages as fit."""
        loaded = self._host.loaded
        assert loaded is not None  # it has just counted
        rest = self._before[: len(self._before) - kept]
        request = MessageRecord(id=0, conversation=0, parent=None, role="user", text=REQUEST)
        room = loaded.context - SUMMARY_TOKENS - _thought_tokens(loaded)
        then = partial(self._request_summary, rest, request, kept)
        self._search(_Search(rest, request, room, then, -1, len(rest) // 2 + 1))

    def _request_summary(self, rest: list[MessageRecord], request: MessageRecord, kept: int, read: int) -> None:
        settings, loaded = self._settings, self._host.loaded
        assert loaded is not None  # it has just counted
        sampling = replace(
            settings.sampling,
            max_tokens=SUMMARY_TOKENS,
            max_thought_tokens=_thought_tokens(loaded) or SUMMARY_TOKENS,
            thinking=False if loaded.thinking else None,
            effort="low" if "low" in loaded.efforts else "",
            seed=None,
        )
        trim = ContextTrim(kept=read, summary=self._carried)
        messages = messages_of(settings.system, [*rest, replace_fields(request, trim=trim)])
        self._ask(ReplyRequest(id=0, messages=messages, sampling=sampling), partial(self._receive_summary, kept))

    def _receive_summary(self, kept: int, answer: AnyAnswer) -> None:
        if isinstance(answer, RoundDone):
            self._add_round(answer)
        elif isinstance(answer, Failed):
            self._fail(sentence(answer.message))
        elif isinstance(answer, ReplyDone):
            tail = answer.finished.text if answer.finished.reason != "thought" else ""
            if summary := f"{self._summary.answer_since(0)}{tail}".strip():
                self._finish(ContextTrim(kept=kept, summary=summary))
            else:
                self._fail(EMPTY)

    def _add_round(self, answer: RoundDone) -> None:
        try:
            self._summary.add(answer)
        except InconsistentRound as error:
            self._give_up(f"The engine sent inconsistent data ({error}). Nothing was sent.")
        else:
            self.progressed.emit(self._summary.answer_since(0))

    def _ask(self, request: Count | ReplyRequest, on_answer: Callable[[AnyAnswer], None]) -> None:
        self._host.forget(self._request)
        self._request = self._host.request(request, on_answer)

    def _finish(self, trim: ContextTrim) -> None:
        self._host.forget(self._request)
        self._request = 0
        self.found.emit(trim)

    def _fail(self, why: str) -> None:
        if self.active:
            self._host.forget(self._request)
            self._request = 0
            self.failed.emit(why)


def _thought_tokens(loaded: Loaded) -> int:
    """Returns how many tokens a model may think before its summary: none where its template can turn that off."""
    return 0 if loaded.thinking else min(THOUGHT_TOKENS, loaded.context // 4)


def _visible(path: Sequence[MessageRecord]) -> tuple[list[MessageRecord], str]:
    """Returns the messages of a branch that the model is still given, as if nothing had been trimmed before, and the
    summary of the others."""
    trimmed = [place for place, record in enumerate(path) if record.trim is not None]
    trim = path[trimmed[-1]].trim if trimmed else None
    if trim is None:
        return list(path), ""
    return [replace_fields(record, trim=None) for record in path[max(0, trimmed[-1] - trim.kept) :]], trim.summary
