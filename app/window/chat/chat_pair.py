"""The pair of models of the open conversation: loaded when it is needed, unloaded when idle, and used for counting."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.protocol import AnyAnswer, Count, Counted, Failed, Pair
from app.store.records import Attachment, ChatSettings, MessageRecord, draft_of
from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import milliseconds
from app.window.chat.notices import Action, Notice, SpeculationStatus
from app.window.common.sentence import sentence
from app.window.common.timer import Timer

PAUSE_MS = 150  # of typing, before the message is counted
MINUTE_S = 60.0


class ChatPair(QObject):
    """Keeps the pair of the open conversation loaded while it is needed, unless the host is in use for another.

    status: of speculation for the open conversation, whose pair may not be the one that is loaded.

    settings: returns those of the open conversation. in_use: whether the host is in use for anything that another pair
    would disturb. request: returns the request to count the next message, given what is typed of it; None while nothing
    can be counted.
    """

    status_changed = Signal(object)  # SpeculationStatus
    counted = Signal(int, int)  # tokens that the next message takes of the context, and how many there may be
    use_alone_asked = Signal(object)  # Pair: the open conversation should use no other machines, if it uses this one
    notice = Signal(object)  # Notice

    def __init__(
        self,
        host: HostConnection,
        settings: Callable[[], ChatSettings],
        in_use: Callable[[], bool],
        request: Callable[[MessageRecord], Count | None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self.status = host.status
        self._host, self._settings, self._in_use, self._request = host, settings, in_use, request
        self._load_later = False  # once the host is not in use any more
        self._draft = draft_of("")
        self._count_request = 0  # 0 while nothing is being counted
        self._count_timer = Timer(self, singleShot=True, interval=PAUSE_MS)
        self._count_timer.timeout.connect(self._count)
        self._idle_minutes = 0.0
        self._idle_timer = Timer(self, singleShot=True)
        self._idle_timer.timeout.connect(self._unload_idle)
        host.status_changed.connect(self.update_status)
        host.became_ready.connect(self.load)
        host.race_ended.connect(self.load)
        host.pair_loaded.connect(lambda _: self.schedule_count())
        host.frame_ended.connect(self._restart_idle)
        host.died.connect(self.cancel_count)

    def load(self) -> None:
        """Loads the pair of the open conversation, unless another is in use or it has failed to load."""
        pair = self._settings().pair
        if self._in_use():
            self._load_later = self._host.pair != pair
        elif self._host.failure_of(pair) is None:
            self._load_later = False
            self._host.load(pair)
        self.update_status()

    def load_if_waiting(self) -> None:
        """Loads the pair, if it could not be loaded during a reply that has ended now."""
        if self._load_later:
            self.load()

    def handle_load_failure(self, pair: Pair, reason: str) -> None:
        """Reports that a pair could not be loaded. It is not tried again automatically."""
        self.update_status()
        actions: list[Action] = [("Try Again", partial(self._load_again, pair))]
        if (failed := self._host.failure_of(pair)) is not None and failed.fits_alone:
            actions.append(("Use This Computer Alone", partial(self.use_alone_asked.emit, pair)))
        self.notice.emit(Notice("error", sentence(reason), tuple(actions)))

    def _load_again(self, pair: Pair) -> None:
        self._host.failure = None
        if not self._in_use():
            self._host.load(pair)

    def update_status(self, _: object = None) -> None:
        """Recomputes the status."""
        status, settings = self._host.status, self._settings()
        failed, pair = self._host.failure_of(settings.pair), self._host.pair
        if failed is not None and self._host.ready:
            status = SpeculationStatus("unsupported", detail=sentence(failed.message))
        elif pair is not None and pair != settings.pair:
            detail = "Different models are loaded. This conversation's models load when you start typing."
            status = SpeculationStatus("off", detail=detail)
        elif status.state == "on" and settings.sampling.draft_length == 0:
            status = replace(status, state="off", detail="The draft length is 0.")
        if status != self.status:
            self.status = status
            self.status_changed.emit(status)

    # --- unloading -----------------------------------------------------------------------------

    def unload(self) -> None:
        """Unloads the models to free their memory, unless they are in use; writing loads them again."""
        if not self._in_use():
            self._host.unload()

    def set_idle_minutes(self, minutes: float) -> None:
        """Sets how many minutes after the last answer of the host models are unloaded; 0 is never."""
        self._idle_minutes = minutes
        self._restart_idle()

    def _restart_idle(self) -> None:
        self._idle_timer.stop()
        if self._idle_minutes and self._host.loaded is not None:
            self._idle_timer.start(milliseconds(self._idle_minutes * MINUTE_S))

    def _unload_idle(self) -> None:
        if self._in_use():
            self._restart_idle()
        else:
            self._host.unload()

    # --- counting ------------------------------------------------------------------------------

    def set_draft(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        """Takes what is being typed: it is counted when typing pauses, and the pair is loaded meanwhile."""
        self._draft = draft_of(text, attachments)
        if text:
            self.load()
        self.schedule_count()

    def schedule_count(self) -> None:
        """Counts how much of the context the next message would take, once typing has paused."""
        self._count_timer.start()

    def cancel_count(self, _: object = None) -> None:
        """Ignores the answer to the pending count, which is of something else by now."""
        self._host.forget(self._count_request)
        self._count_request = 0

    def _count(self) -> None:
        """Counts if the pair is there to do it; otherwise nothing is known."""
        self.cancel_count()
        loaded, count = self._host.loaded, self._request(self._draft)
        if count is None:
            return
        if loaded is None or not self._host.has(self._settings().pair):
            self.counted.emit(0, 0)
        elif count.messages:
            self._count_request = self._host.request(count, self._receive_count)
        else:
            self.counted.emit(0, loaded.context)

    def _receive_count(self, answer: AnyAnswer) -> None:
        if isinstance(answer, Counted | Failed):
            self.cancel_count()
        if isinstance(answer, Counted):
            self.counted.emit(answer.tokens, answer.context)
