"""The open conversation: its current branch, and what sending, editing, regenerating and continuing do to its tree.

A new conversation is not on disk until its first message is sent; its id is UNSAVED until then.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from msgspec.structs import replace as changed
from PySide6.QtCore import QObject, Signal

from app.protocol import Pair, RoundDone, SamplingSettings
from app.store.records import Attachment, ChatSettings, ConversationRecord, MessageRecord, messages_of
from app.window.chat.conversation_library import LAST_OPEN, ConversationLibrary
from app.window.chat.notices import Action, Notice, title_of
from app.window.chat.reply_in_progress import ReplyController
from app.window.chat.reply_writer import ReplyWriter

UNSAVED = 0


class CurrentConversation(QObject):
    """opened(ConversationRecord), path_changed(list[MessageRecord]). reply_began(MessageRecord): it streams from now
    on. reply_requested(): the runner has it. refused(): another reply is being written. notice(Notice).

    record: of the conversation. path: its current branch, from the first message to the last.
    """

    opened = Signal(object)
    path_changed = Signal(object)
    reply_began = Signal(object)
    reply_requested = Signal()
    refused = Signal()
    notice = Signal(object)

    def __init__(
        self, library: ConversationLibrary, runner: ReplyController, writer: ReplyWriter, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._library = library
        self._runner = runner
        self._writer = writer
        self.record = _unsaved(library.default_settings())
        self.path: list[MessageRecord] = []

    # --- which conversation --------------------------------------------------------------------

    def new(self) -> None:
        """Opens an empty conversation with the settings used last."""
        self._open(_unsaved(self._library.default_settings()))

    def open(self, conversation: int) -> bool:
        """Opens a conversation; returns whether it exists."""
        record = self._library.find(conversation)
        if record is not None:
            self._open(record)
        return record is not None

    def open_last(self) -> None:
        """Opens the conversation that was open when the window closed, or a new one."""
        last = self._library.value(LAST_OPEN) or ""
        if not (last.isdecimal() and int(last) != UNSAVED and self.open(int(last))):
            self.new()

    def refresh(self) -> None:
        """Reads the record again, whose title or settings have changed."""
        if self.record.id != UNSAVED and (found := self._library.find(self.record.id)):
            self.record = found

    def change_settings(self, settings: ChatSettings) -> bool:
        """Changes the settings of this conversation and of new ones; returns whether that succeeded."""
        if self.record.id == UNSAVED:
            self.record = _unsaved(settings)
        elif not self._library.change(lambda: self._library.store.change_settings(self.record.id, settings)):
            return False
        self._library.set_default_settings(settings)
        return True

    # --- the branch ----------------------------------------------------------------------------

    def find(self, message: int) -> MessageRecord | None:
        """Returns a message of the branch."""
        return next((record for record in self.path if record.id == message), None)

    def up_to(self, message: int | None) -> list[MessageRecord]:
        """Returns the branch up to this message, which is included; nothing for None."""
        ids = [record.id for record in self.path]
        return self.path[: ids.index(message) + 1] if message in ids else []

    def replace(self, record: MessageRecord) -> bool:
        """Puts a record in place of its older state; returns whether it is on the branch."""
        for place, older in enumerate(self.path):
            if older.id == record.id:
                self.path[place] = record
                return True
        return False

    def rounds_of(self, message: int) -> list[RoundDone]:
        """Returns the rounds of a message, the newest included."""
        reply = self._runner.reply
        if reply is not None and reply.record.id == message:
            return list(reply.rounds)
        return self._library.rounds_of(message) + self._writer.unsaved_rounds(message)

    def select(self, message: int) -> None:
        """Switches to the branch of this version of a message."""
        if self._library.change(lambda: self._library.store.select(message)):
            self._reload()

    # --- messages ------------------------------------------------------------------------------

    def send(self, text: str, attachments: Sequence[Attachment]) -> bool:
        """Adds a question to the branch and has it answered; returns whether it was saved."""
        if not text.strip() and not attachments:
            return False
        last = self.path[-1] if self.path else None
        # A question that never got its reply stays as another version of this one.
        parent = last.parent if last is not None and last.role == "user" else last.id if last is not None else None
        return self._ask(parent, text, tuple(attachments), partial(self.send, text, attachments))

    def edit(self, message: int, text: str) -> bool:
        """Adds another version of a question, with the same attachments, and has it answered."""
        record = self.find(message)
        if record is None or record.role != "user" or not (text.strip() or record.attachments):
            return False
        return self._ask(record.parent, text, record.attachments, partial(self.edit, message, text))

    def regenerate(self, message: int) -> bool:
        """Has another version of a reply written, or the reply to a question that has none."""
        record = self.find(message)
        if record is None or self._refuse_second_reply():
            return False
        question = record if record.role == "user" else self.find(record.parent or 0)
        return question is not None and self._answer(question)

    def resume(self, message: int) -> bool:
        """Continues the last reply of the branch with the sampling settings and system prompt that it began with."""
        record = self.find(message)
        if record is None or record.role != "assistant" or self._refuse_second_reply():
            return False
        if record.id != self.path[-1].id or (record.state == "complete" and not record.note):
            text = "Only the last reply can be continued, and only if it was interrupted."
            self.notice.emit(Notice("info", text))
            return False
        earlier = self.rounds_of(message)
        retry: Action = ("Try Again", partial(self.resume, message))
        resumed = self._library.attempt(lambda: self._library.store.resume_reply(message), None, (retry,))
        if resumed is None:
            return False
        sampling = resumed.sampling  # noise of its seed may have been used for drafts that were lost
        sampling = replace(sampling, fresh=False) if sampling else _with_seed(self.record.settings.sampling)
        self._begin_reply(changed(resumed, sampling=sampling), self._pair_to_resume(resumed), earlier)
        return True

    def _ask(
        self, parent: int | None, text: str, attachments: tuple[Attachment, ...], retry: Callable[[], object]
    ) -> bool:
        if self._refuse_second_reply():
            return False

        def add_question() -> MessageRecord:
            self._save(title_of(text) or (attachments[0].name if attachments else ""))
            return self._library.store.add_question(self.record.id, parent, text, attachments)

        question = self._library.attempt(add_question, None, (("Try Again", retry),))
        if question is None:
            return False
        self._show([*self.up_to(parent), question])
        self._answer(question)
        return True

    def _answer(self, question: MessageRecord) -> bool:
        """Begins a reply to a question of the branch; returns whether the store has taken it."""
        settings = self.record.settings
        pair, sampling = settings.pair, _with_seed(settings.sampling)
        reply = self._library.attempt(
            lambda: self._library.store.begin_reply(self.record.id, question.id, pair, sampling, settings.system),
            None,
            (("Try Again", partial(self.regenerate, question.id)),),
        )
        if reply is None:
            return False
        branch = self.up_to(question.id)
        if len(branch) < len(self.path):
            self._show(branch)
        self._begin_reply(reply, pair, [])
        return True

    def _begin_reply(self, reply: MessageRecord, pair: Pair, earlier: list[RoundDone]) -> None:
        before = [record for record in self.path if record.id != reply.id]
        system = self.record.settings.system if reply.system is None else reply.system
        self.path = [*before, reply]
        self.reply_began.emit(reply)
        self._runner.begin(reply, pair, messages_of(system, before), earlier)
        self.reply_requested.emit()
        self._library.changed.emit()

    def _pair_to_resume(self, reply: MessageRecord) -> Pair:
        """Returns the pair that began a reply, but with today's drafter: an earlier one may be why it was interrupted,
        and the text is the target's with either."""
        pair = self.record.settings.pair
        return pair if reply.pair is None or reply.pair.target == pair.target else reply.pair

    def _refuse_second_reply(self) -> bool:
        if self._runner.reply is not None:
            self.refused.emit()
        return self._runner.reply is not None

    # --- state ---------------------------------------------------------------------------------

    def _open(self, record: ConversationRecord) -> None:
        self.record = record
        self._library.set_value(LAST_OPEN, str(record.id))
        self.opened.emit(record)
        self._reload()

    def _save(self, title: str) -> None:
        """Makes sure that the conversation is on disk and has a title. Raises StoreError."""
        if self.record.id == UNSAVED:
            self.record = self._library.store.create(self.record.settings)
            self._library.set_value(LAST_OPEN, str(self.record.id))
        if title and not self.record.title:
            self._library.store.rename(self.record.id, title)
        self.refresh()

    def _reload(self) -> None:
        """Shows the branch as the store has it, with what is not saved yet."""
        stored = [] if self.record.id == UNSAVED else self._library.path(self.record.id)
        self._show([self._current(record) for record in stored])

    def _show(self, path: list[MessageRecord]) -> None:
        self._runner.flush()  # rounds of the branch shown so far belong to it
        self.path = path
        self.path_changed.emit(list(path))

    def _current(self, record: MessageRecord) -> MessageRecord:
        reply = self._runner.reply
        if reply is not None and reply.record.id == record.id:
            return reply.current_record()
        return self._writer.unsaved_ending(record.id) or record


def _unsaved(settings: ChatSettings) -> ConversationRecord:
    return ConversationRecord(id=UNSAVED, title="", pinned=False, created_s=0.0, updated_s=0.0, settings=settings)


def _with_seed(sampling: SamplingSettings) -> SamplingSettings:
    """Returns the settings with a seed, so that a reply that is interrupted can be continued with the same one."""
    return sampling if sampling.seed is not None else replace(sampling, seed=secrets.randbelow(2**31), fresh=True)
