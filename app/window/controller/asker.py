"""Questions and replies: what sending, editing, regenerating and continuing mean for the tree of messages."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace as changed
from PySide6.QtCore import QObject, Signal

from app.protocol import Law, Pair, Told
from app.records import Attachment, MessageRecord, messages_of
from app.window.controller.desk import Desk
from app.window.controller.library import Library
from app.window.controller.replies import Replies
from app.window.controller.values import Action, Notice, title_of


class Asker(QObject):
    """began(MessageRecord): a reply streams from now on; under_way(): the engine has been asked for it. refused():
    nothing, since another one does."""

    began = Signal(object)
    under_way = Signal()
    refused = Signal()
    notice = Signal(object)

    def __init__(self, desk: Desk, library: Library, replies: Replies, parent: QObject) -> None:
        super().__init__(parent)
        self._desk = desk
        self._library = library
        self._replies = replies

    def send(self, text: str, attachments: Sequence[Attachment]) -> bool:
        """A question at the end of the way shown; whether it was taken."""
        if not text.strip() and not attachments:
            return False
        last = self._desk.path[-1] if self._desk.path else None
        # A question that never got its reply makes place for this one, and stays as a version of it.
        parent = last.parent if last is not None and last.role == "user" else last.id if last is not None else None
        return self._ask(parent, text, tuple(attachments), partial(self.send, text, attachments))

    def edit(self, message: int, text: str) -> bool:
        """Another version of a question, with its attachments, and a reply to it."""
        record = self._desk.find(message)
        if record is None or record.role != "user" or not (text.strip() or record.attachments):
            return False
        return self._ask(record.parent, text, record.attachments, partial(self.edit, message, text))

    def regenerate(self, message: int) -> bool:
        """Another version of a reply; or the reply to a question that has none."""
        record = self._desk.find(message)
        if record is None or self._busy():
            return False
        question = record if record.role == "user" else self._desk.find(record.parent or 0)
        return question is not None and self._answer(question)

    def resume(self, message: int) -> bool:
        """Go on with the last reply of the way shown, by the law and the system prompt that it began with."""
        record = self._desk.find(message)
        if record is None or record.role != "assistant" or self._busy():
            return False
        if record.id != self._desk.path[-1].id or (record.state == "complete" and not record.note):
            self.notice.emit(Notice("info", "Only the last reply can be continued, where it broke off."))
            return False
        before = self._desk.told_of(message)
        again: Action = ("Try Again", partial(self.resume, message))
        resumed = self._library.attempt(lambda: self._library.store.resume_reply(message), None, (again,))
        if resumed is None:
            return False
        known = resumed.law  # noise of its seed may have served drafts that were lost
        law = changed(known, fresh=False) if known else _seeded(self._desk.conversation.settings.law)
        self._begin(changed(resumed, law=law), self._pair_of(resumed), before)
        return True

    def select(self, message: int) -> None:
        """Show the way through this version."""
        if self._library.change(lambda: self._library.store.select(message)):
            self._desk.reload()

    def _ask(
        self, parent: int | None, text: str, attachments: tuple[Attachment, ...], again: Callable[[], object]
    ) -> bool:
        if self._busy():
            return False
        desk, store = self._desk, self._library.store

        def put() -> MessageRecord:
            title = title_of(text) or (attachments[0].name if attachments else "")
            return store.add_question(desk.stored(title).id, parent, text, attachments)

        question = self._library.attempt(put, None, (("Try Again", again),))
        if question is None:
            return False
        desk.show([*desk.up_to(parent), question])
        self._answer(question)
        return True

    def _answer(self, question: MessageRecord) -> bool:
        """Begin a reply to a question on the way shown."""
        conversation = self._desk.conversation
        settings = conversation.settings
        pair, law = settings.pair, _seeded(settings.law)
        reply = self._library.attempt(
            lambda: self._library.store.begin_reply(conversation.id, question.id, pair, law, settings.system),
            None,
            (("Try Again", partial(self.regenerate, question.id)),),
        )
        if reply is None:
            return False
        way = self._desk.up_to(question.id)
        if len(way) < len(self._desk.path):
            self._desk.show(way)
        self._begin(reply, pair, [])
        return True

    def _begin(self, reply: MessageRecord, pair: Pair, before: list[Told]) -> None:
        way = [record for record in self._desk.path if record.id != reply.id]
        system = self._desk.conversation.settings.system if reply.system is None else reply.system
        messages = messages_of(system, way)
        self._desk.path = [*way, reply]
        self.began.emit(reply)
        self._replies.begin(reply, pair, messages, before)
        self.under_way.emit()
        self._library.changed.emit()

    def _pair_of(self, reply: MessageRecord) -> Pair:
        """What goes on with a reply: the models it began with; but a drafter that was changed since stays changed, for
        it may be the reason why the reply broke off. The text is the target's either way."""
        pair = self._desk.conversation.settings.pair
        return pair if reply.pair is None or reply.pair.target == pair.target else reply.pair

    def _busy(self) -> bool:
        """One reply at a time: says which one goes on."""
        if self._replies.run is not None:
            self.refused.emit()
        return self._replies.run is not None


def _seeded(law: Law) -> Law:
    """With a seed from the start, so that a reply that is cut can go on with it."""
    return law if law.seed is not None else changed(law, seed=secrets.randbelow(2**31), fresh=True)
