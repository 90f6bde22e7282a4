"""The requests of other programs: they wait here, and go to the host one at a time while the window does not use it.

So a request of the window waits for at most one of them, which is not interrupted, and goes before all others.

A host that answers nothing for as long as the window allows is stuck, whatever it is working on: the request that it
has fails, and so do those that are waiting and those that arrive, until it answers again or is replaced.

Invariants: a request is waiting, or the one that runs, or over. The host has at most one of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from app.protocol import BUSY, CANCELLED, NOT_LOADED, AnyAnswer, Counted, Failed, ReplyDone, RoundDone, silence
from app.protocol.api_messages import PassedCount, PassedReply
from app.window.chat.host_connection import HostTask
from app.window.chat.notices import Notice
from app.window.common.timer import Timer

if TYPE_CHECKING:
    from app.window.chat import Controller

MAX_WAITING_BYTES = 64 << 20
RETRY_MS = 50  # between two looks at whether the host is free
SILENT = "The engine has not answered another app for a while. It may be busy or stuck."
STUCK = f"{silence.STUCK}: restart it in Redline's window, then try again"
GAVE_UP = "the engine has stopped: start it again in Redline's window"


@dataclass
class _Running:
    """The request that the host has. wanted: whether somebody waits for its answer. tokens: of the reply so far.
    reported: that the host has been silent for long, and it has not answered since."""

    id: int
    wanted: bool = True
    tokens: int = 0
    reported: bool = False


class ApiRequests(QObject):
    """Requests in, answers out, both with the ids of the API."""

    answered = Signal(object)  # AnyAnswer

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._controller, self._host = controller, controller.host
        self._waiting: deque[tuple[PassedReply | PassedCount, int]] = deque()  # with the bytes of each
        self._running: _Running | None = None
        self._task = HostTask(self._host, self)
        self._task.answered.connect(self._receive)
        self._task.silent.connect(self._report_silence)
        self._retry = Timer(self, interval=RETRY_MS)
        self._retry.timeout.connect(self._send_next)
        self._host.became_stuck.connect(self._give_up)
        self._host.died.connect(self._handle_death)

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._waiting)

    @property
    def running_tokens(self) -> int | None:
        """The tokens so far of the reply that runs, None while none does."""
        return None if self._running is None else self._running.tokens

    def put(self, request: PassedReply | PassedCount, size_bytes: int) -> None:
        """Queues a request. size_bytes: of its line."""
        if sum(size for _, size in self._waiting) + size_bytes > MAX_WAITING_BYTES:
            self._fail(request.id, BUSY, "too many requests are waiting: try again in a few seconds")
            return
        if self._host.stuck:
            self._fail(request.id, CANCELLED, STUCK)
            return
        self._waiting.append((request, size_bytes))
        self._send_next()

    def stop(self, number: int) -> None:
        """Ends a request whose client has gone."""
        self._waiting = deque(one for one in self._waiting if one[0].id != number)
        if self._running is not None and self._running.id == number:
            self._abandon()
        self._send_next()

    def drop_all(self) -> None:
        """Ends all requests: nobody waits for their answers."""
        self._waiting.clear()
        if self._running is not None:
            self._abandon()
        self._send_next()

    # --- one at a time -------------------------------------------------------------------------

    def _send_next(self) -> None:
        """Has the host answer the next request, if it is free and the models are loaded; else this is tried again."""
        if self._running is None and self._waiting and not self._controller.in_use and self._is_loaded():
            request, _ = self._waiting.popleft()
            self._running = _Running(request.id)
            self._host.serving = True
            self._task.begin(lambda: request)
        if self._waiting and self._running is None:
            self._retry.start()
        else:
            self._retry.stop()

    def _is_loaded(self) -> bool:
        """Returns whether the models of the open conversation are there. Loads them, or fails all that wait."""
        host, pair = self._host, self._controller.conversation.settings.pair
        if host.gave_up:
            self._fail_waiting(NOT_LOADED, GAVE_UP)
        elif host.failure is not None and host.failure.pair == pair:
            self._fail_waiting(NOT_LOADED, host.failure.reason)
        elif not host.has(pair):
            self._controller.pair.load()
        return bool(self._waiting) and host.has(pair)

    def _receive(self, answer: AnyAnswer) -> None:
        running = self._running
        if running is None:
            return
        running.reported = False
        if isinstance(answer, RoundDone):
            running.tokens += len(answer.round.tokens)
        over = isinstance(answer, ReplyDone | Counted | Failed)
        if over:
            self._finish()
        if running.wanted:
            self.answered.emit(replace(answer, id=running.id))
        if over:
            self._send_next()

    def _abandon(self) -> None:
        """Stops the running request; the host is free once it has said so."""
        assert self._running is not None
        self._running.wanted = False
        self._task.stop()

    def _finish(self) -> None:
        self._task.end()
        self._running, self._host.serving = None, False
        if self._host.status.state == "loading":
            self._host.show_pair_status()  # a reply of the window waited for this one

    # --- failures ------------------------------------------------------------------------------

    def _handle_death(self, cause: str) -> None:
        """Fails the request that ran. The others wait for the next host, if there will be one."""
        running = self._running
        if running is not None:
            self._finish()
            if running.wanted:
                self._fail(running.id, CANCELLED, f"the engine {cause} while it answered: try again")
        self._send_next()

    def _fail_waiting(self, kind: str, why: str) -> None:
        failed = list(self._waiting)
        self._waiting.clear()
        for request, _ in failed:
            self._fail(request.id, kind, why)

    def _fail(self, number: int, kind: str, message: str) -> None:
        self.answered.emit(Failed(id=number, kind=kind, message=message))

    def _report_silence(self) -> None:
        running = self._running
        if running is not None and not running.reported:
            running.reported = True
            self._host.notice.emit(Notice("warning", SILENT, (self._host.restart_action,)))

    def _give_up(self) -> None:
        """Fails all requests. The host is asked to stop the one that it has, in case it goes on."""
        self._report_silence()
        running = self._running
        if running is not None and running.wanted:
            self._fail(running.id, CANCELLED, STUCK)
            self._abandon()
        self._fail_waiting(CANCELLED, STUCK)
