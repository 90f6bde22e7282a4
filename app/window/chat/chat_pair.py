"""The pair of models of the open conversation: loaded when it is needed, unloaded when idle, and used for counting."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed
from PySide6.QtCore import QObject

from app.protocol import AnyAnswer, Count, Counted, Failed, Loaded, Pair
from app.store.records import Attachment, MessageRecord, messages_of
from app.window.chat.host_process import milliseconds
from app.window.chat.notices import Action, Notice, SpeculationStatus
from app.window.common.sentence import sentence
from app.window.common.timer import Timer

if TYPE_CHECKING:
    from app.window.chat.controller import Controller

PAUSE_MS = 150  # of typing, before the message is counted
MINUTE_S = 60.0


class ChatPair(QObject):
    """Keeps the pair of the open conversation loaded while it is needed, unless the host is in use for another.

    Status and counts are emitted as signals of the controller.

    status: of speculation for the open conversation, whose pair may not be the one that is loaded.
    """

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        host = controller.host
        self.status = host.status
        self._controller, self._host = controller, host
        self._load_later = False  # once the host is not in use any more
        self._draft = MessageRecord(id=0, conversation=0, parent=None, role="user", text="")
        self._count_request = 0  # 0 while nothing is being counted
        self._count_timer = Timer(self, singleShot=True, interval=PAUSE_MS)
        self._count_timer.timeout.connect(self._count)
        self._idle_minutes = 0.0
        self._idle_timer = Timer(self, singleShot=True)
        self._idle_timer.timeout.connect(self._unload_idle)
        host.status_changed.connect(self.update_status)
        host.became_ready.connect(self.load)
        host.race_ended.connect(self.load)
        host.pair_loaded.connect(self._handle_loaded)
        host.frame_ended.connect(self._restart_idle)
        host.died.connect(self.cancel_count)

    def load(self) -> None:
        """Loads the pair of the open conversation, unless another is in use or it has failed to load."""
        pair, failure = self._controller.conversation.settings.pair, self._host.failure
        if self._controller.in_use:
            self._load_later = self._host.pair != pair
        elif failure is None or failure.pair != pair:
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
        if (failure := self._host.failure) is not None and failure.fits_alone:
            actions.append(("Use This Computer Alone", partial(self._use_alone, pair)))
        self._controller.notice.emit(Notice("error", sentence(reason), tuple(actions)))

    def _load_again(self, pair: Pair) -> None:
        self._host.failure = None
        if not self._controller.in_use:
            self._host.load(pair)

    def _use_alone(self, pair: Pair) -> None:
        """Has the open conversation use no other machines, if it still would use these."""
        settings = self._controller.conversation.settings
        if settings.pair == pair:
            self._controller.change_settings(changed(settings, pair=changed(pair, hosts="")))

    def _handle_loaded(self, loaded: Loaded) -> None:
        self._controller.pair_loaded.emit(loaded)
        self.schedule_count()

    def update_status(self, _: object = None) -> None:
        """Works the status out again."""
        status, settings = self._host.status, self._controller.conversation.settings
        failure, pair = self._host.failure, self._host.pair
        if failure is not None and failure.pair == settings.pair and self._host.ready:
            status = SpeculationStatus("unsupported", detail=sentence(failure.reason))
        elif pair is not None and pair != settings.pair:
            detail = "Different models are loaded. This conversation's models load when you start typing."
            status = SpeculationStatus("off", detail=detail)
        elif status.state == "on" and settings.sampling.draft_length == 0:
            status = replace(status, state="off", detail="The draft length is 0.")
        if status != self.status:
            self.status = status
            self._controller.status_changed.emit(status)

    # --- unloading -----------------------------------------------------------------------------

    def unload(self) -> None:
        """Unloads the models to free their memory, unless they are in use; writing loads them again."""
        if not self._controller.in_use:
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
        if self._controller.in_use:
            self._restart_idle()
        else:
            self._host.unload()

    # --- counting ------------------------------------------------------------------------------

    def set_draft(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        """Takes what is being typed: it is counted when typing pauses, and the pair is loaded meanwhile."""
        self._draft = MessageRecord(id=0, conversation=0, parent=None, role="user", text=text, attachments=attachments)
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
        controller, loaded = self._controller, self._host.loaded
        settings = controller.conversation.settings
        if controller.busy:
            return
        if loaded is None or not self._host.has(settings.pair):
            controller.context_counted.emit(0, 0)
            return
        draft = [self._draft] if self._draft.content.strip() else []
        if messages := messages_of(settings.system, [*controller.path, *draft]):
            history = controller.replies.history
            cache = history.written_cache_file(controller.conversation.id) if history is not None else ""
            count = Count(id=0, messages=messages, sampling=settings.sampling, cache=cache)
            self._count_request = self._host.request(count, self._receive_count)
        else:
            controller.context_counted.emit(0, loaded.context)

    def _receive_count(self, answer: AnyAnswer) -> None:
        if isinstance(answer, Counted | Failed):
            self.cancel_count()
        if isinstance(answer, Counted):
            self._controller.context_counted.emit(answer.tokens, answer.context)
