"""Verifies a reply: its model is loaded where another is, and the host decodes the reply again and compares.

A reply that begins ends the verification, which can be started again later.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from app.protocol import AnyAnswer, Failed, Pair, PrefillProgress, RoundDone, Verify, VerifyDone, VerifyProgress
from app.store.records import ChatSettings, MessageRecord, StoredReceipt, verify_request
from app.window.chat.host_connection import HostConnection, HostTask
from app.window.chat.notices import Notice
from app.window.common.sentence import sentence
from models.package_versions import version_of

SILENCE = "The engine has stopped responding while verifying a reply."


@dataclass(frozen=True)
class _Job:
    """branch: up to the reply, which is its last. system: of the conversation. pair: that wrote the reply."""

    branch: list[MessageRecord]
    rounds: list[RoundDone]
    system: str
    pair: Pair

    @property
    def message(self) -> int:
        return self.branch[-1].id


class ReplyVerification(QObject):
    """Verifies one reply at a time.

    in_use: whether the host is in use for anything. save: saves a receipt with its message, and returns that; None
    where the store fails. again: verifies a message after a failure, as the user asked for it.
    """

    progressed = Signal(int, str)  # a message, the progress as text; "" once it is over
    verified = Signal(object)  # MessageRecord, with its receipt, which is saved
    failed = Signal(int, str)  # a message, why it cannot be verified
    ended = Signal()  # whatever came of it
    notice = Signal(object)  # Notice

    def __init__(
        self,
        host: HostConnection,
        in_use: Callable[[], bool],
        save: Callable[[int, StoredReceipt], MessageRecord | None],
        again: Callable[[int], object],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._host, self._in_use, self._store_receipt, self._again = host, in_use, save, again
        self._job: _Job | None = None
        self._task = HostTask(host, SILENCE, SILENCE)
        self._host.died.connect(self._end)

    @property
    def message(self) -> int | None:
        """The message that is being verified."""
        return self._job.message if self._job is not None else None

    def begin(
        self, branch: list[MessageRecord], rounds_of: Callable[[int], list[RoundDone]], chat: ChatSettings
    ) -> bool:
        """Verifies the reply that a branch ends with; returns whether that has begun. chat: the settings of the
        conversation, for what the reply does not know of itself."""
        if not branch or branch[-1].role != "assistant" or self._refuse_while_busy():
            return False
        record = branch[-1]
        rounds = rounds_of(record.id)
        if not rounds or record.sampling is None:
            self._fail(record.id, "there is no record of how it was generated. Regenerate it and verify the new reply")
            return False
        self._job = _Job(branch, rounds, chat.system, record.pair or chat.pair)
        self._show("Verifying" if self._host.ready else "Starting the engine")
        self._task.begin(self._make_request, self._receive)
        return True

    def stop(self) -> None:
        """Stops without a result."""
        if not self._task.stop():
            self._end()

    def handle_load_failure(self, pair: Pair, reason: str) -> bool:
        """Returns whether a pair that could not be loaded was for a verification, which ends here."""
        job = self._job
        if job is None or self._task.sent or pair.target != job.pair.target:
            return False
        self._host.failure = None  # it says nothing about the pair of the chat
        self._host.show_pair_status()
        self._end()
        self._fail(job.message, f"the model that wrote it could not be loaded ({reason.rstrip('.')})")
        return True

    def _refuse_while_busy(self) -> bool:
        """Returns whether something else is in progress, which a notice names."""
        if self._job is not None:
            text = "Another reply is being verified. Wait for it to finish, or stop it first."
            self.notice.emit(Notice("info", text, (("Stop Verifying", self.stop),)))
        elif self._host.racing:
            text = "A race is running. Wait for it to finish, or stop it, before you verify."
            self.notice.emit(Notice("info", text))
        elif self._in_use():
            text = "A reply is being written. Wait for it to finish, or stop it, before you verify another."
            self.notice.emit(Notice("info", text))
        return self._in_use()

    def _make_request(self) -> Verify | None:
        """Returns the request, or has the model of the reply loaded first. Its drafter is not needed."""
        job, host = self._job, self._host
        if job is None:
            return None
        needed = self._pair_to_load(job.pair)
        if host.pair != needed:
            self._show(f"Loading {needed.target.rstrip('/').rpartition('/')[2]}, which wrote this reply")
            host.load(needed)
        return verify_request(0, job.system, job.branch, job.rounds) if host.loaded is not None else None

    def _pair_to_load(self, pair: Pair) -> Pair:
        """Returns the target and context of `pair`, with the loaded drafter where it can stay."""
        loaded = self._host.pair
        if loaded is not None and loaded.target == pair.target:
            return replace(loaded, context=pair.context)
        return Pair(target=pair.target, drafter="none", context=pair.context, hosts=pair.hosts)

    def _receive(self, answer: AnyAnswer) -> None:
        job = self._job
        if job is None:
            return
        if isinstance(answer, PrefillProgress):
            self._show("Reading the prompt")
        elif isinstance(answer, VerifyProgress):
            self._show(f"Verifying, {answer.done:,} of {answer.total:,} tokens")
        elif isinstance(answer, VerifyDone):
            self._save(job, answer)
        elif isinstance(answer, Failed):
            self._end()
            if answer.kind != "Cancelled":
                self._fail(job.message, answer.message.rstrip("."))

    def _show(self, progress: str) -> None:
        if self._job is not None:
            self.progressed.emit(self._job.message, progress)

    def _save(self, job: _Job, found: VerifyDone) -> None:
        """Saves the receipt with the message; where the store fails, the window shows it until it closes."""
        redline = version_of("redline")
        stored = StoredReceipt(receipt=found.receipt, made_s=time.time(), redline=redline, reference=found.reference)
        record = self._store_receipt(job.message, stored)
        self._end()
        self.verified.emit(record or replace(job.branch[-1], receipt=stored))

    def _fail(self, message: int, reason: str) -> None:
        """Reports that nothing was found out. An earlier receipt stays."""
        self.failed.emit(message, reason)
        retry = ("Try Again", partial(self._again, message))
        text = sentence(f"The reply could not be verified: {reason}")
        self.notice.emit(Notice("warning", text, (retry,)))

    def _end(self, _: object = None) -> None:
        if self._job is not None:
            self._task.end()
            self._show("")
            self._job = None
            self.ended.emit()
