"""The reply that is being verified: its model is loaded first where another is, then it is decoded again and compared.

A reply that begins ends the verification, which can be started again later.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from msgspec.structs import replace as changed
from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import AnyAnswer, Failed, Loaded, Pair, PrefillProgress, RoundDone, Stop, VerifyDone, VerifyProgress
from app.store.records import MessageRecord, StoredReceipt, verify_request
from app.window.chat.conversation_library import ConversationLibrary
from app.window.chat.current_conversation import CurrentConversation
from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import milliseconds
from app.window.chat.notices import Notice
from app.window.chat.reply_in_progress import ReplyController
from engine.audit.receipt import Receipt


@dataclass
class _Job:
    """branch: up to the reply, which is its last. system: of the conversation. request: 0 until it is sent."""

    branch: list[MessageRecord]
    rounds: list[RoundDone]
    system: str
    pair: Pair
    request: int = 0
    stopping: bool = False

    @property
    def record(self) -> MessageRecord:
        return self.branch[-1]


class ReplyVerification(QObject):
    """Verifies one reply at a time.

    progressed(int, str): the progress of a message as text; "" once it is over. verified(MessageRecord): with its
    receipt. failed(int, str): why a message cannot be verified. ended(): whatever came of it. notice(Notice).
    """

    progressed = Signal(int, str)
    verified = Signal(object)
    failed = Signal(int, str)
    ended = Signal()
    notice = Signal(object)

    def __init__(
        self,
        conversation: CurrentConversation,
        library: ConversationLibrary,
        host: HostConnection,
        runner: ReplyController,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._conversation, self._library, self._host, self._runner = conversation, library, host, runner
        self._job: _Job | None = None
        self._silence = QTimer(self, singleShot=True)
        self._silence.timeout.connect(self._report_silence)
        host.became_ready.connect(self._send_request)
        host.pair_loaded.connect(self._handle_loaded)
        host.died.connect(lambda _: self._end())

    @property
    def message(self) -> int | None:
        """The message that is being verified."""
        return self._job.record.id if self._job is not None else None

    def begin(self, message: int) -> bool:
        """Verifies a reply of the current branch; returns whether that has begun."""
        record = self._conversation.find(message)
        if record is None or record.role != "assistant" or self._refuse_while_busy():
            return False
        rounds = self._conversation.rounds_of(message)
        if not rounds or record.sampling is None:
            self._fail(message, "there is no record of how it was generated. Regenerate it and verify the new reply")
            return False
        settings = self._conversation.record.settings
        pair = record.pair or settings.pair
        self._job = _Job(self._conversation.up_to(message), rounds, settings.system, pair)
        self.progressed.emit(message, "Verifying" if self._host.ready else "Starting the engine")
        self._host.start()
        self._send_request()
        return True

    def stop(self) -> None:
        """Stops without a result."""
        job = self._job
        if job is None or job.stopping:
            return
        if not job.request:
            self._end()
            return
        job.stopping = True
        self._host.send(Stop(id=job.request))
        self._silence.start(milliseconds(self._host.timeouts.stop_s))

    def handle_load_failure(self, pair: Pair, reason: str) -> bool:
        """Returns whether a pair that could not be loaded was for a verification, which ends here."""
        job = self._job
        if job is None or job.request or pair.target != job.pair.target:
            return False
        self._host.failure = None  # it says nothing about the pair of the chat
        self._host.show_pair_status()
        self._end()
        self._fail(job.record.id, f"the model that wrote it could not be loaded ({reason.rstrip('.')})")
        return True

    def _refuse_while_busy(self) -> bool:
        """Returns whether something else is in progress, which a notice names."""
        if self._runner.reply is not None:
            text = "A reply is being written. Wait for it to finish, or stop it, before you verify another."
            self.notice.emit(Notice("info", text))
        elif self._job is not None:
            text = "Another reply is being verified. Wait for it to finish, or stop it first."
            self.notice.emit(Notice("info", text, (("Stop Verifying", self.stop),)))
        elif self._host.racing:
            self.notice.emit(Notice("info", "A race is running. Wait for it to finish, or stop it, before you verify."))
        return self._runner.reply is not None or self._job is not None or self._host.racing

    # --- the request ---------------------------------------------------------------------------

    def _send_request(self) -> None:
        """Requests the verification, or first the model of the reply. Its drafter is not needed."""
        job, host = self._job, self._host
        if job is None or job.request or not host.ready:
            return
        needed = self._pair_to_load(job.pair)
        if host.pair != needed:
            name = needed.target.rstrip("/").rpartition("/")[2]
            self.progressed.emit(job.record.id, f"Loading {name}, which wrote this reply")
            host.load(needed)
        elif host.loaded is not None:
            job.request = host.request(verify_request(0, job.system, job.branch, job.rounds), self._receive)
            self._restart_silence()

    def _pair_to_load(self, pair: Pair) -> Pair:
        """Returns the target and context of `pair`, with the loaded drafter where it can stay."""
        loaded = self._host.pair
        if loaded is not None and loaded.target == pair.target:
            return changed(loaded, context=pair.context)
        return Pair(target=pair.target, drafter="none", context=pair.context)

    def _handle_loaded(self, _: Loaded) -> None:
        self._send_request()

    # --- answers -------------------------------------------------------------------------------

    def _receive(self, answer: AnyAnswer) -> None:
        job = self._job
        if job is None:
            return
        self._restart_silence()
        if isinstance(answer, PrefillProgress):
            self.progressed.emit(job.record.id, "Reading the prompt")
        elif isinstance(answer, VerifyProgress):
            self.progressed.emit(job.record.id, f"Verifying, {answer.done:,} of {answer.total:,} tokens")
        elif isinstance(answer, VerifyDone):
            self._save(job, answer.receipt)
        elif isinstance(answer, Failed):
            self._end()
            if answer.kind != "Cancelled":
                self._fail(job.record.id, answer.message.rstrip("."))

    def _save(self, job: _Job, receipt: Receipt) -> None:
        """Saves the receipt with the message; where the store fails, the window shows it until it closes."""
        kept, message = StoredReceipt(receipt=receipt, made_s=time.time(), redline=_version()), job.record.id
        record = self._library.attempt(lambda: self._library.store.save_receipt(message, kept), None)
        if record is None:
            record = changed(self._conversation.find(message) or job.record, receipt=kept)
        self._conversation.replace(record)
        self._end()
        self.verified.emit(record)

    def _fail(self, message: int, reason: str) -> None:
        """Reports that nothing was found out. An earlier receipt stays."""
        self.failed.emit(message, reason)
        retry = ("Try Again", partial(self.begin, message))
        self.notice.emit(Notice("warning", f"The reply could not be verified: {reason}.", (retry,)))

    def _end(self) -> None:
        job, self._job = self._job, None
        if job is None:
            return
        self._silence.stop()
        if job.request:
            self._host.forget(job.request)
        self.progressed.emit(job.record.id, "")
        self.ended.emit()

    def _restart_silence(self) -> None:
        if self._job is not None and not self._job.stopping:
            self._silence.start(milliseconds(self._host.timeouts.silent_s))

    def _report_silence(self) -> None:
        text = "The engine has stopped responding while verifying a reply."
        self.notice.emit(Notice("warning", text, (self._host.restart_action,)))


def _version() -> str:
    try:
        return version("redline")
    except PackageNotFoundError:
        return ""
