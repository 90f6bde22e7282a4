"""What the window shows when something happens: what sets the controller's signals off."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from app.protocol import Loaded, Message, Pair, Told
from app.records import ConversationRecord, MessageRecord, messages_of
from app.window.client import RESTARTED, HostClient
from app.window.controller.asker import Asker
from app.window.controller.counter import Counter
from app.window.controller.desk import Desk
from app.window.controller.engine import Engine
from app.window.controller.keeper import Keeper
from app.window.controller.library import Library
from app.window.controller.replies import Replies
from app.window.controller.report import copy_report
from app.window.controller.resting import Resting
from app.window.controller.signals import Signals
from app.window.controller.values import Action, Notice, Speculating
from app.window.controller.verifier import Verifier
from engine.events import PromptProgress

if TYPE_CHECKING:
    from app.store import Store

IDLE_MS = 500


class Events(Signals):
    """The signals, set off."""

    def __init__(self, store: Store, client: HostClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.library = Library(store, self)
        self.engine = Engine(client, self)
        self._keeper = Keeper(store, self)
        self._replies = Replies(self.engine, self._keeper, self)
        self._desk = Desk(self.library, self._replies, self._keeper, self)
        self._asker = Asker(self._desk, self.library, self._replies, self)
        self._verifier = Verifier(self._desk, self.library, self.engine, self._replies, self)
        self._resting = Resting(self.engine, lambda: self.in_use, self)
        self._counter = Counter(self.engine, self._turns, self)
        self._draft = MessageRecord(id=0, conversation=0, parent=None, role="user", text="")
        self._busy = self._load_later = False
        self._deleted: list[tuple[int, bool]] = []  # conversations that may be had back; whether they were open
        self._cut: MessageRecord | None = None  # by the death of the engine that is being told
        self._speculating = self.engine.speculating
        self._idle = QTimer(self)
        self._idle.setSingleShot(True)
        self._idle.setInterval(IDLE_MS)
        self._wire()

    def _wire(self) -> None:
        for part in (self.library, self.engine, self._keeper, self._replies, self._asker, self._verifier):
            part.notice.connect(self.notice)
        self.library.changed.connect(self._desk.look_again)
        self.library.changed.connect(self.conversations_changed)
        self.library.changed.connect(self._idle.start)
        self._idle.timeout.connect(self._tidy)
        self._desk.opened.connect(self._be_opened)
        self._desk.path_changed.connect(self._change_path)
        self._asker.began.connect(self._begin_reply)
        self._asker.under_way.connect(self._look_busy)
        self._asker.refused.connect(self._refuse)
        self._verifier.told.connect(self.verifying)
        self._verifier.kept.connect(self.verified)
        self._verifier.refused.connect(self.unverified)
        self._verifier.over.connect(self._prepare)
        self._replies.told.connect(self._tell)
        self._replies.progress.connect(self._tell_progress)
        self._replies.ended.connect(self._end_reply)
        self._counter.counted.connect(self.counted)
        self.engine.speculation_changed.connect(self._speculate)
        self.engine.up.connect(self._prepare)
        self.engine.loaded_changed.connect(self._be_loaded)
        self.engine.load_failed.connect(self._fail_to_load)
        self.engine.died.connect(self._mourn)
        self.engine.race_over.connect(self._prepare)

    # --- what is shown -------------------------------------------------------------------------

    @property
    def conversation(self) -> ConversationRecord:
        """That is open; its id is 0 until something is said in it."""
        return self._desk.conversation

    @property
    def path(self) -> list[MessageRecord]:
        """The way shown."""
        return list(self._desk.path)

    @property
    def busy(self) -> bool:
        """Whether a reply of the open conversation is being written."""
        run = self._replies.run
        return run is not None and run.record.conversation == self.conversation.id

    @property
    def in_use(self) -> bool:
        """Whether a reply, a check or a race goes on, in whichever conversation."""
        return self._replies.run is not None or self._verifier.message is not None or self.engine.racing

    @property
    def speculating(self) -> Speculating:
        """The state as it was told last."""
        return self._speculating

    @property
    def loaded_pair(self) -> Loaded | None:
        """What is loaded, if anything."""
        return self.engine.loaded

    def told_of(self, message: int) -> list[Told]:
        """Rounds of a reply, the newest included."""
        return self._desk.told_of(message)

    # --- conversations -------------------------------------------------------------------------

    def _be_opened(self, conversation: ConversationRecord) -> None:
        self._counter.forget()
        self.opened.emit(conversation)
        self._speculate()

    def _change_path(self, path: list[MessageRecord]) -> None:
        self.path_changed.emit(path)
        run = self._replies.run
        if run is not None and (shown := self._desk.find(run.record.id)):
            self.reply_began.emit(shown)
        self._look_busy()
        self._counter.refresh()

    def _tidy(self) -> None:
        """What the store puts off until nothing else is to be done, a little at a time."""
        if self._replies.run is not None or self.library.tidy():
            self._idle.start()

    # --- replies -------------------------------------------------------------------------------

    def _begin_reply(self, record: MessageRecord) -> None:
        self._verifier.stop()
        self._counter.forget()
        self.reply_began.emit(record)

    def _tell(self, message: int, told: list[Told]) -> None:
        if self._desk.find(message) is None:
            return
        self.told.emit(message, told)
        run, pair = self._replies.run, self.engine.loaded
        if run is not None and pair is not None:
            self.counted.emit(run.metrics.prompt_tokens + run.metrics.tokens, pair.context)

    def _tell_progress(self, message: int, progress: PromptProgress) -> None:
        if self._desk.find(message) is not None:
            self.progress.emit(message, progress)

    def _end_reply(self, record: MessageRecord) -> None:
        if self._desk.replace(record):
            self.reply_ended.emit(record)
        elif record.conversation != self.conversation.id and record.state in ("complete", "failed"):
            self._announce(record)
        self._look_busy()
        self.library.changed.emit()
        self._counter.refresh()
        if record.state == "cut":
            self._cut = record
        if self._load_later:
            self._prepare()

    def _announce(self, record: MessageRecord) -> None:
        """A reply behind another conversation is over."""
        found = self.library.find(record.conversation)
        if found is not None:
            said = "is complete" if record.state == "complete" else f"failed: {record.note}"
            show = ("Show It", partial(self._desk.open, record.conversation))
            self.notice.emit(Notice("info", f"The reply in “{found.title}” {said}", (show,)))

    def _refuse(self) -> None:
        """One reply is written at a time."""
        run = self._replies.run
        if run is None:
            return
        stop: Action = ("Stop It", self._replies.stop)
        if self.busy:
            self.notice.emit(Notice("info", "The reply is still being written. Stop it first, or wait.", (stop,)))
            return
        found = self.library.find(run.record.conversation)
        show: Action = ("Show It", partial(self._desk.open, run.record.conversation))
        text = f"A reply is being written in “{found.title if found else ''}”; Redline writes one at a time."
        self.notice.emit(Notice("info", text, (show, stop)))

    def _look_busy(self) -> None:
        if self.busy != self._busy:
            self._busy = self.busy
            self.busy_changed.emit(self._busy)

    # --- the engine ----------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Have the models of the open conversation loaded, unless a reply needs others, or they have been refused."""
        pair = self.conversation.settings.pair
        refusal = self.engine.refusal
        if self.in_use:
            self._load_later = self.engine.pair != pair
        elif refusal is None or refusal.pair != pair:
            self._load_later = False
            self.engine.want(pair)
        self._speculate()

    def _be_loaded(self, loaded: Loaded) -> None:
        self.loaded.emit(loaded)
        self._counter.refresh()

    def _fail_to_load(self, pair: Pair, said: str) -> None:
        if self._verifier.fail_to_load(pair, said):
            return
        self._speculate()
        again: Action = ("Try Again", partial(self._load_again, pair))
        self.notice.emit(Notice("error", said, (again,)))

    def _load_again(self, pair: Pair) -> None:
        self.engine.refusal = None
        if self._replies.run is None:
            self.engine.want(pair)

    def _mourn(self, said: str) -> None:
        """The engine died: a reply that it took along has ended by now."""
        cut, self._cut = self._cut, None
        if cut is not None:
            go_on: Action = ("Continue", partial(self._continue, cut))
            text = f"The engine {said} in the middle of a reply. What was written is kept."
            self.notice.emit(Notice("error", text, (go_on, ("Copy Report", partial(copy_report, self.engine)))))
        elif self.engine.client.phase == "down" and said != RESTARTED:
            text = f"The engine {said} and is being started again."
            self.notice.emit(Notice("warning", text, (("Copy Report", partial(copy_report, self.engine)),)))

    def _continue(self, record: MessageRecord) -> None:
        if self.conversation.id == record.conversation or self._desk.open(record.conversation):
            self._asker.resume(record.id)

    def _speculate(self, _: object = None) -> None:
        """The state for the open conversation, whose models may not be those that are loaded."""
        state, settings = self.engine.speculating, self.conversation.settings
        refusal, pair = self.engine.refusal, self.engine.pair
        if refusal is not None and refusal.pair == settings.pair and self.engine.ready:
            state = Speculating("unsupported", said=refusal.said)
        elif pair is not None and pair != settings.pair:
            state = Speculating("off", said="Other models are loaded. Those of this conversation load when you write.")
        elif state.state == "on" and settings.law.draft_length == 0:
            state = Speculating("off", state.target, state.drafter, "The draft length is 0: plain decoding.")
        if state != self._speculating:
            self._speculating = state
            self.speculation_changed.emit(state)

    # --- the context ---------------------------------------------------------------------------

    def _turns(self) -> tuple[Message, ...] | None:
        """What the next message would send, if the loaded models can count it."""
        settings = self.conversation.settings
        if self.busy or not self.engine.has(settings.pair):
            return None
        way = list(self._desk.path)
        if self._draft.content.strip():
            way.append(self._draft)
        return messages_of(settings.system, way)
