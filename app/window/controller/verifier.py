"""The reply that is being verified: its model loaded first where another is, then decoded plainly again and compared.

A check waits for nobody and nobody waits for it: a reply that begins ends it, and it can be had again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from msgspec.structs import replace as changed
from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import Answers, Checking, Failed, Loaded, Pair, Progress, Stop, Told, Verified
from app.records import KeptReceipt, MessageRecord, verify_request
from app.window.controller.desk import Desk
from app.window.controller.engine import Engine
from app.window.controller.library import Library
from app.window.controller.replies import Replies
from app.window.controller.values import Notice
from app.window.patience import milliseconds
from engine.receipt import Receipt


@dataclass
class _Check:
    """way: to the reply, which is its last. system: of the conversation. request: 0 while it has not been asked for."""

    way: list[MessageRecord]
    told: list[Told]
    system: str
    pair: Pair
    request: int = 0
    stopping: bool = False

    @property
    def record(self) -> MessageRecord:
        return self.way[-1]


class Verifier(QObject):
    """told(int, str): how far the check of a message is, for people; "" once it is over. kept(MessageRecord): with its
    receipt. refused(int, str): why a message cannot be checked. over(): another may begin, whatever came of the last.
    notice(Notice)."""

    told = Signal(int, str)
    kept = Signal(object)
    refused = Signal(int, str)
    over = Signal()
    notice = Signal(object)

    def __init__(self, desk: Desk, library: Library, engine: Engine, replies: Replies, parent: QObject) -> None:
        super().__init__(parent)
        self._desk, self._library, self._engine, self._replies = desk, library, engine, replies
        self._check: _Check | None = None
        self._watch = QTimer(self)
        self._watch.setSingleShot(True)
        self._watch.timeout.connect(self._be_silent)
        engine.up.connect(self._go_on)
        engine.loaded_changed.connect(self._be_loaded)
        engine.died.connect(lambda _: self._end())

    @property
    def message(self) -> int | None:
        """Whose check goes on."""
        return self._check.record.id if self._check is not None else None

    def begin(self, message: int) -> bool:
        """Verify a reply of the way shown; whether that has begun."""
        record = self._desk.find(message)
        if record is None or record.role != "assistant" or self._busy():
            return False
        told = self._desk.told_of(message)
        if not told or record.law is None:
            self._refuse(message, "nothing is kept of how it was made: regenerate it and verify that")
            return False
        settings = self._desk.conversation.settings
        pair = record.pair or settings.pair
        self._check = _Check(self._desk.up_to(message), told, settings.system, pair)
        self.told.emit(message, "Starting the engine" if not self._engine.ready else "Verifying")
        self._engine.start()
        self._go_on()
        return True

    def stop(self) -> None:
        """End the check, if there is one: nothing is kept of it."""
        check = self._check
        if check is None or check.stopping:
            return
        if not check.request:
            self._end()
            return
        check.stopping = True
        self._engine.tell(Stop(id=check.request))
        self._watch.start(milliseconds(self._engine.client.patience.stop_s))

    def _busy(self) -> bool:
        """One thing at a time: says what goes on."""
        if self._replies.run is not None:
            self.notice.emit(Notice("info", "A reply is being written. Verify when it is complete, or stop it."))
        elif self._check is not None:
            text = "Another reply is being verified. Wait for it, or stop it first."
            self.notice.emit(Notice("info", text, (("Stop It", self.stop),)))
        elif self._engine.racing:
            self.notice.emit(Notice("info", "A race is being measured. Verify when it is over, or stop it."))
        return self._replies.run is not None or self._check is not None or self._engine.racing

    # --- asking --------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Ask, or have the model of the reply loaded first. Its drafter has no part in this."""
        check, engine = self._check, self._engine
        if check is None or check.request or not engine.ready:
            return
        wanted = self._wanted(check.pair)
        if engine.pair != wanted:
            name = wanted.target.rstrip("/").rpartition("/")[2]
            self.told.emit(check.record.id, f"Loading {name}, which wrote this")
            engine.want(wanted)
        elif engine.loaded is not None:
            make = partial(verify_request, system=check.system, way=check.way, told=check.told)
            check.request = engine.ask(make, self._hear)
            self._look_again()

    def _wanted(self, pair: Pair) -> Pair:
        """To check what `pair` wrote: its target and context. The drafter that is there stays where it can."""
        there = self._engine.pair
        if there is not None and there.target == pair.target:
            return changed(there, context=pair.context)
        return Pair(target=pair.target, drafter="none", context=pair.context)

    def _be_loaded(self, _: Loaded) -> None:
        self._go_on()

    def fail_to_load(self, pair: Pair, said: str) -> bool:
        """A pair cannot be loaded; whether that was for a check, which ends here."""
        check = self._check
        if check is None or check.request or pair.target != check.pair.target:
            return False
        self._engine.refusal = None  # nobody asked for it to chat with
        self._engine.say_loaded()
        self._end()
        self._refuse(check.record.id, f"the model that wrote it cannot be loaded ({said.rstrip('.')})")
        return True

    # --- hearing -------------------------------------------------------------------------------

    def _hear(self, answer: Answers) -> None:
        check = self._check
        if check is None:
            return
        self._look_again()
        if isinstance(answer, Progress):
            self.told.emit(check.record.id, "Reading the prompt")
        elif isinstance(answer, Checking):
            self.told.emit(check.record.id, f"Verifying, {answer.done:,} of {answer.total:,} tokens")
        elif isinstance(answer, Verified):
            self._keep(check, answer.receipt)
        elif isinstance(answer, Failed):
            self._end()
            if answer.kind != "Cancelled":
                self._refuse(check.record.id, answer.said.rstrip("."))

    def _refuse(self, message: int, why: str) -> None:
        """Nothing can be said of it: no receipt is made up, and one that there was stays."""
        self.refused.emit(message, why)
        again = ("Try Again", partial(self.begin, message))
        self.notice.emit(Notice("warning", f"The reply could not be verified: {why}.", (again,)))

    def _keep(self, check: _Check, receipt: Receipt) -> None:
        """With the message; where the store fails, as long as the window is open."""
        kept, message = KeptReceipt(receipt=receipt, made_s=time.time(), redline=_version()), check.record.id
        record = self._library.attempt(lambda: self._library.store.keep_receipt(message, kept), None)
        if record is None:
            record = changed(self._desk.find(message) or check.record, receipt=kept)
        self._desk.replace(record)
        self._end()
        self.kept.emit(record)

    def _end(self) -> None:
        check, self._check = self._check, None
        if check is None:
            return
        self._watch.stop()
        if check.request:
            self._engine.forget(check.request)
        self.told.emit(check.record.id, "")
        self.over.emit()

    # --- when it takes long --------------------------------------------------------------------

    def _look_again(self) -> None:
        if self._check is not None and not self._check.stopping:
            self._watch.start(milliseconds(self._engine.client.patience.silent_s))

    def _be_silent(self) -> None:
        text = "Nothing has been heard of the verification for a while. The engine may be busy, or stuck."
        self.notice.emit(Notice("warning", text, (("Restart the Engine", self._engine.restart),)))


def _version() -> str:
    try:
        return version("redline")
    except PackageNotFoundError:
        return ""
