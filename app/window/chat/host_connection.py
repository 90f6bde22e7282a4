"""The connection to the host: requests and their answers, the loaded pair, and the status of speculation.

A `HostTask` is one long request, such as a reply.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication

from app import macos
from app.log_file import LOG, without_home
from app.protocol import (
    LONGEST_LINE,
    AnyAnswer,
    Failed,
    Load,
    Loaded,
    Loading,
    Malformed,
    MemoryShort,
    Pair,
    Parallel,
    Ready,
    Request,
    Serving,
    Stop,
    Unload,
    Working,
)
from app.protocol.watchdog import LATE_S, PendingRequests
from app.task_queue import PLACES
from app.window.chat.host_process import RESTARTED, HostProcess, milliseconds
from app.window.chat.notices import Action, Notice, SpeculationState, SpeculationStatus
from app.window.common.sentence import capitalised, sentence, without_backticks
from app.window.common.timer import Timer, call_later, clock_s
from engine.errors import ContextError
from models.package_versions import version_of

TOO_LONG = f"The conversation is longer than the {LONGEST_LINE >> 20} MB that the engine accepts. Start a new chat."
SHORT_OF_MEMORY = "This Mac is short of memory. Redline has freed what it was not using."
STARTING = SpeculationStatus("loading", detail="The engine is starting")


class HostConnection(QObject):
    """Sends requests and hands each answer to its requester; reports deaths and delays.

    tasks: those that have begun and not ended, in the order in which they began.
    """

    status_changed = Signal(object)  # SpeculationStatus, of the loaded pair
    became_ready = Signal()  # requests can be sent
    pair_loaded = Signal(object)  # Loaded
    load_failed = Signal(object, str)  # Pair, why
    frame_ended = Signal()  # every answer of a frame has been handled
    died = Signal(str)  # why; pending requests will not be answered
    became_stuck = Signal()  # it has been silent for too long, whatever it was asked for
    race_ended = Signal()
    use_changed = Signal()  # a task began or ended, and with it perhaps `in_use`
    serving_changed = Signal(object)  # Serving
    notice = Signal(object)  # Notice

    def __init__(self, process: HostProcess, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.process = process
        self.timeouts = process.timeouts
        self.status = STARTING
        self.loaded: Loaded | None = None
        self.pair: Pair | None = None  # loaded, or being loaded
        self.failure: tuple[Pair, Failed] | None = None  # of the last load, which is not tried again automatically
        self.racing = False  # a race is being measured; anything else would slow it down
        self.serving = Serving()  # how other programs are served
        self._parallel = PLACES
        self.tasks: list[HostTask] = []
        self.stuck = False  # it has been silent for too long, and has not gone on since
        self.log_file: Path | None = None  # of the window, for the error report
        self._previous: Loaded | None = None  # before the load in progress
        self._last_id = 0  # of a request
        self._handlers: dict[int, Callable[[AnyAnswer], None]] = {}
        self._reported_error = self._reported_memory = False
        self._pending = PendingRequests()
        self._watchdog = Timer(self, singleShot=True)
        self._due_s = 0.0  # when it ends
        self._awake = ExitStack()  # holds off App Nap, which slows down a window that nobody looks at
        self._is_awake = False
        self._watchdog.timeout.connect(self._check_watchdog)
        self._load_timer = Timer(self, singleShot=True)
        self._load_timer.timeout.connect(self._report_slow_load)
        process.frame_due.connect(self._read_frame)
        process.died.connect(self._handle_death)
        process.unreadable.connect(self._report_error)
        process.overdue.connect(self._report_slow_start)

    @property
    def ready(self) -> bool:
        """Whether requests can be sent."""
        return self.process.phase == "ready"

    @property
    def gave_up(self) -> bool:
        """Whether the host died and is not restarted automatically."""
        return self.process.phase == "failed"

    @property
    def silence(self) -> str:
        """What is said where it has not answered for too long."""
        return f"The engine has not responded for {self.timeouts.silent_s:.0f} seconds."

    @property
    def restart_action(self) -> Action:
        """The button of a notice that restarts the engine."""
        return ("Restart Engine", self.restart)

    @property
    def in_use(self) -> bool:
        """Whether the window has a request that is carried out alone, such as a race, or is about to make one: programs
        wait meanwhile."""
        return any(task.alone for task in self.tasks)

    def send_waiting(self) -> None:
        """Sends the requests of tasks that had to wait, such as for a reply of another model."""
        for task in list(self.tasks):
            task.send()

    def has(self, pair: Pair) -> bool:
        """Whether this pair is loaded, so that it would write the next reply."""
        return self.ready and self.loaded is not None and self.pair == pair

    def failure_of(self, pair: Pair) -> Failed | None:
        """Returns why this pair could not be loaded, if it was the last that was tried."""
        return self.failure[1] if self.failure is not None and self.failure[0] == pair else None

    def set_parallel(self, replies: int) -> None:
        """Has the host write so many replies at once, at most."""
        self._parallel = replies
        if self.ready:
            self.send(Parallel(id=0, replies=replies))

    def start(self) -> None:
        """Starts the host unless it runs."""
        if self.process.phase in ("down", "failed"):
            self.set_status(STARTING)
            self.process.start()

    def restart(self) -> None:
        """Starts another host at once, whatever this one is doing."""
        self.set_status(STARTING)
        self.process.restart()

    def request(self, request: Request, on_answer: Callable[[AnyAnswer], None]) -> int:
        """Sends `request` under a new id, which is returned; its answers go to `on_answer` until `forget`. A
        request that is too long for the protocol fails in the next turn of the event loop."""
        self._last_id += 1
        self._handlers[self._last_id] = on_answer
        numbered = replace(request, id=self._last_id)
        if self.process.send(numbered):
            if self.process.running and self._pending.add(numbered):
                self._watch()
        else:
            failed = Failed(id=self._last_id, kind=ContextError.__name__, message=TOO_LONG)
            call_later(self, partial(self._receive, failed))
        return self._last_id

    def send(self, request: Request) -> None:
        """Sends a request that has no answer of its own."""
        self.process.send(request)

    def forget(self, request: int) -> None:
        """Drops further answers to this request."""
        self._handlers.pop(request, None)

    def load(self, pair: Pair) -> None:
        """Loads this pair, unless it is loaded or being loaded. Must not be called during a reply."""
        if not self.ready or self.pair == pair:
            return
        self._previous = self.loaded or self._previous
        self.pair, self.loaded, self.failure = pair, None, None
        self.set_status(SpeculationStatus("loading", detail="Loading models"))
        self._load_timer.start(milliseconds(self.timeouts.load_s))
        self.request(Load(id=0, pair=pair), partial(self._handle_load, pair))

    def unload(self) -> None:
        """Unloads the pair to free its memory. Must not be called during a reply."""
        if not self.ready or self.loaded is None:
            return
        self.pair = self.loaded = self._previous = None
        self.forget(self.request(Unload(id=0), lambda _: None))
        self.set_status(SpeculationStatus("unloaded", detail="The models load again when you start typing"))

    # --- status --------------------------------------------------------------------------------

    def set_status(self, status: SpeculationStatus) -> None:
        """Replaces the status."""
        if status != self.status:
            self.status = status
            self.status_changed.emit(status)

    def show_pair_status(self) -> None:
        """Sets the status to what the loaded pair can do."""
        if (loaded := self.loaded) is not None:
            machines = len(loaded.machines.names) if loaded.machines else 1
            names, note = (loaded.target, loaded.drafter), without_backticks(loaded.note)
            self.set_status(SpeculationStatus(loaded.speculation, *names, note, machines))

    def show_reply_status(self, state: SpeculationState, detail: str) -> None:
        """Sets the status of what is in progress: a reply fell back, or a race or another request is served first."""
        names = (self.loaded.target, self.loaded.drafter) if self.loaded else ("", "")
        self.set_status(SpeculationStatus(state, *names, capitalised(detail)))

    def error_report(self) -> str:
        """Returns versions, the state of the engine and its last errors as text. It names models, but neither the user
        nor anything from a conversation."""
        import platform

        status, process = self.status, self.process
        lines = [
            f"Redline {version_of('redline')}, Python {platform.python_version()}, {platform.platform(terse=True)}",
            f"Qt {version_of('PySide6-Essentials')}, platform plugin {QGuiApplication.platformName()}",
            f"Engine: {process.phase}, speculation {status.state}: {status.detail}",
            f"Target: {status.target or 'none'}, drafter: {status.drafter or 'none'}",
            f"Log: {without_home(str(self.log_file)) if self.log_file else 'none'}",
            f"End of the engine's standard error:\n{process.stderr.strip() or '(nothing)'}",
        ]
        return "\n".join(lines) + "\n"

    def copy_error_report(self) -> None:
        """Copies the error report to the clipboard."""
        QGuiApplication.clipboard().setText(self.error_report())

    # --- answers -------------------------------------------------------------------------------

    def _read_frame(self) -> None:
        with self.process.frame() as answers:
            progress = [self._pending.note(answer) or isinstance(answer, Ready) for answer in answers]  # all of them
            if any(progress):
                self._watch()
            for answer in answers:
                self._receive(answer)
            if answers and self._load_timer.isActive():
                self._load_timer.start()  # the load waits for what is answered first
            if answers:
                self.frame_ended.emit()

    def _receive(self, answer: AnyAnswer) -> None:
        """Hands an answer to whoever asked for it."""
        if isinstance(answer, Ready):
            self.send(Parallel(id=0, replies=self._parallel))
            self.became_ready.emit()
            self.send_waiting()
        elif isinstance(answer, Malformed):
            self._report_error(f"The engine could not read a request: {answer.reason}.")
        elif isinstance(answer, MemoryShort):
            self._report_short_memory()
        elif isinstance(answer, Serving):
            self._handle_serving(answer)
        elif isinstance(answer, Working):
            pass
        elif handler := self._handlers.get(answer.id):
            handler(answer)
        elif not 0 < answer.id <= self._last_id:
            self._report_error("The engine sent an unexpected answer, which was ignored.")

    def _handle_serving(self, serving: Serving) -> None:
        """Notes how programs are served: while a reply is written for one, the host has to make progress."""
        before, self.serving = self.serving, serving
        self._pending.serves = serving.tokens is not None
        if (before.tokens is None) != (serving.tokens is None):
            self._watch()
        self.serving_changed.emit(serving)

    def _handle_load(self, pair: Pair, answer: AnyAnswer) -> None:
        if isinstance(answer, Loaded | Failed):
            self.forget(answer.id)
        if self.pair != pair:  # another pair has been asked for since
            return
        self._load_timer.start(milliseconds(self.timeouts.load_s))
        if isinstance(answer, Loaded):
            self._load_timer.stop()
            self.loaded = answer
            self.show_pair_status()
            self.pair_loaded.emit(answer)
            self.send_waiting()
        elif isinstance(answer, Failed):
            self._load_timer.stop()
            self._handle_load_failure(pair, answer)
        elif isinstance(answer, Loading):
            self.set_status(SpeculationStatus("loading", detail=capitalised(answer.message)))

    def _handle_load_failure(self, pair: Pair, answer: Failed) -> None:
        """Keeps the previous pair where the host still has it."""
        kept = self._previous is not None and self._previous.pair == answer.kept_pair
        self.loaded = self._previous if kept else None
        self.pair = answer.kept_pair if kept else None
        self.failure = pair, answer
        LOG.warning("Could not load target %s with drafter %s: %s", pair.target, pair.drafter, answer.message)
        self.set_status(SpeculationStatus("unsupported", detail=sentence(answer.message)))
        self.load_failed.emit(pair, answer.message)

    # --- failures and delays -------------------------------------------------------------------

    def _report_error(self, text: str) -> None:
        """Reports only the first error of a host: the same fault would keep causing errors."""
        if not self._reported_error:
            self._reported_error = True
            self.notice.emit(Notice("warning", text, (self.restart_action,)))

    def _report_short_memory(self) -> None:
        """Reports it once, however often the engine starts again."""
        if not self._reported_memory:
            self._reported_memory = True
            self.notice.emit(Notice("info", SHORT_OF_MEMORY))

    def _watch(self) -> None:
        """Gives the host its full time again for the next answer, if one is due; the Mac stays awake meanwhile."""
        self.stuck = False
        allowed_s = self._pending.allowed_s(self.timeouts)
        self._stay_awake(allowed_s is not None)
        if allowed_s is None:
            self._watchdog.stop()
        else:
            self._due_s = clock_s() + allowed_s
            self._watchdog.start(milliseconds(allowed_s))

    def _stay_awake(self, awake: bool) -> None:
        if awake and not self._is_awake:
            self._awake.enter_context(macos.activity("replies"))
        elif not awake:
            self._awake.close()
        self._is_awake = awake

    def _check_watchdog(self) -> None:
        if clock_s() - self._due_s > LATE_S:
            self._watch()  # this process stood still too, for example because the computer slept
        else:
            self._report_stuck()

    def _report_stuck(self) -> None:
        LOG.warning("The engine has been silent for too long")
        self.stuck = True
        self._stay_awake(False)  # nobody may be there to restart it
        self.became_stuck.emit()
        for task in list(self.tasks):
            task.report_stuck()

    def _handle_death(self, cause: str) -> None:
        self._handlers.clear()
        self._pending.clear()
        self.serving = Serving()
        self._watch()
        self.pair = self.loaded = self._previous = None
        self._reported_error = False
        self._load_timer.stop()
        outlook = "It will not restart automatically." if self.gave_up else "It is restarting."
        down = SpeculationStatus("host down", detail=f"The engine {cause}. {outlook}")
        self.set_status(STARTING if cause == RESTARTED else down)
        self.died.emit(cause)
        if self.gave_up:
            again = "" if self.process.refused else ", and stopped again each time it was restarted"
            self.notice.emit(Notice("error", f"The engine {cause}{again}.", (("Try Again", self.restart),)))

    def _report_slow_load(self) -> None:
        text = f"Loading the models has made no progress for {self.timeouts.load_s:.0f} seconds."
        self.notice.emit(Notice("warning", text, (self.restart_action,)))

    def _report_slow_start(self) -> None:
        self.set_status(SpeculationStatus("loading", detail="The engine is taking a long time to start"))
        text = f"The engine has not started after {self.timeouts.ready_s:.0f} seconds."
        self.notice.emit(Notice("warning", text, (self.restart_action,)))
        self._report_stuck()


class HostTask:
    """One long request to the host: sent once its models are loaded, watched for silence, and stopped when asked.

    alone: whether programs wait meanwhile, as nothing else is carried out beside it. silence, late_stop: what a notice
    says where the host has not answered anyone for long, or has not stopped in time; "" for no notice. stopping: `stop`
    was called, and the host has not ended the request yet.
    """

    def __init__(self, host: HostConnection, silence: str, late_stop: str = "", alone: bool = True) -> None:
        self.alone, self.stopping = alone, False
        self._host, self._silence, self._late_stop = host, silence, late_stop
        self._reset()

    def _reset(self) -> None:
        self._id = 0  # of the request; 0 until it is sent
        self._make_request: Callable[[], Request | None] = lambda: None
        self._on_answer: Callable[[AnyAnswer], None] = lambda _: None

    @property
    def sent(self) -> bool:
        """Whether the host has the request."""
        return self._id > 0

    def begin(self, make_request: Callable[[], Request | None], on_answer: Callable[[AnyAnswer], None]) -> None:
        """Starts the host if need be, and sends what `make_request` returns. It is called whenever the host is ready
        or has loaded a pair, until it returns a request; before, it may have another pair loaded and return None."""
        self._make_request, self._on_answer = make_request, on_answer
        self._host.tasks.append(self)
        self._host.use_changed.emit()
        self._host.start()
        self.send()

    def stop(self) -> bool:
        """Asks the host to stop; returns whether it has the request, and will therefore still answer."""
        if self.sent and not self.stopping:
            self.stopping = True
            self._host.send(Stop(id=self._id))
            late = partial(self._report_late_stop, self._id)
            call_later(self._host, late, milliseconds(self._host.timeouts.stop_s))
        return self.sent

    def end(self) -> None:
        """Ignores further answers, and waits for none."""
        if self in self._host.tasks:
            self._host.forget(self._id)
            self.stopping = False
            self._reset()
            self._host.tasks.remove(self)
            self._host.use_changed.emit()

    def send(self) -> None:
        """Sends the request if it is waiting and may be sent now."""
        if self.sent or not self._host.ready:
            return
        request = self._make_request()
        if request is not None:
            self._id = self._host.request(request, self._on_answer)
            if self._host.stuck:  # which was reported before this request
                call_later(self._host, self.report_stuck)

    def report_stuck(self) -> None:
        """Reports that the host has been silent for too long, if this is what it should answer."""
        if self.sent and not self.stopping and self._host.stuck:
            self._warn(self._silence)

    def _report_late_stop(self, request: int) -> None:
        if self._id == request and self.stopping:
            self._warn(self._late_stop)

    def _warn(self, text: str) -> None:
        if text:
            self._host.notice.emit(Notice("warning", text, (self._host.restart_action,)))
