"""The reply that is being written: asked for when its pair is loaded, heard, kept, ended one way or another."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import (
    Answers,
    Ended,
    Failed,
    FellBack,
    Loaded,
    Measuring,
    Message,
    Pair,
    Progress,
    Reply,
    Stop,
    Told,
)
from app.records import CONTEXT_FULL, MessageRecord, State
from app.window.controller.engine import Engine
from app.window.controller.keeper import Keeper
from app.window.controller.reply import Incoherent, Run
from app.window.controller.values import Notice
from app.window.patience import milliseconds
from engine.events import Finished, PromptProgress


class Replies(QObject):
    """One at a time. told(int, list[Told]) and progress(int, PromptProgress): of a message, once a frame.
    ended(MessageRecord): kept, or as well as could be. notice(Notice)."""

    told = Signal(int, object)
    progress = Signal(int, object)
    ended = Signal(object)
    notice = Signal(object)

    def __init__(self, engine: Engine, keeper: Keeper, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.run: Run | None = None
        self.timed = False
        self._engine = engine
        self._keeper = keeper
        self._messages: tuple[Message, ...] = ()
        self._pair = Pair()
        self._request = 0  # 0 while it has not been asked for
        self._stopping = False
        self._progress: PromptProgress | None = None
        self._watch = QTimer(self)
        self._watch.setSingleShot(True)
        self._watch.timeout.connect(self._be_silent)
        engine.up.connect(self._go_on)
        engine.loaded_changed.connect(self._be_loaded)
        engine.load_failed.connect(self._fail_to_load)
        engine.frame_ended.connect(self.flush)
        engine.died.connect(self._die)

    def begin(self, record: MessageRecord, pair: Pair, messages: tuple[Message, ...], before: list[Told]) -> None:
        """Have `record` written, from `before` on. pair: what is to write it."""
        assert self.run is None
        self.run = Run(record, before)
        self._pair, self._messages = pair, messages
        self._request, self._stopping, self._progress = 0, False, None
        self._engine.start()
        self._go_on()

    def stop(self) -> None:
        """By the user."""
        if self.run is None or self._stopping:
            return
        if not self._request:
            self._end("stopped", "")
            return
        self._stopping = True
        self._engine.tell(Stop(id=self._request))
        self._watch.start(milliseconds(self._engine.client.patience.stop_s))

    def cut_short(self, note: str) -> None:
        """The window goes: what there is stays, as stopped."""
        if self.run is not None:
            self.flush()
            self._end("stopped", note)

    # --- asking --------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Ask for the reply, or for its pair first."""
        run = self.run
        if run is None or self._request or not self._engine.ready:
            return
        if not self._engine.has(self._pair):
            self._engine.want(self._pair)
            return
        law, said, timed = run.record.law, run.said, self.timed
        assert law is not None
        self._engine.say_loaded()
        self._request = self._engine.ask(
            lambda request: Reply(id=request, messages=self._messages, law=law, said=said, timed=timed), self._hear
        )
        self._look_again()

    def _be_loaded(self, _: Loaded) -> None:
        self._go_on()

    def _fail_to_load(self, pair: Pair, said: str) -> None:
        if self.run is not None and pair == self._pair and not self._request:
            self._end("failed", said)

    # --- hearing -------------------------------------------------------------------------------

    def _hear(self, answer: Answers) -> None:
        run = self.run
        if run is None:
            return
        self._look_again()
        if isinstance(answer, Told):
            self._hear_round(run, answer)
        elif isinstance(answer, Progress):
            self._progress = answer.progress
            run.progress(answer.progress)
        elif isinstance(answer, Measuring):
            self._engine.say_of_reply("loading", answer.said)
        elif isinstance(answer, FellBack):
            run.note = f"Fell back to plain decoding: {answer.said}"
            self._engine.say_of_reply("fell back", answer.said)
        elif isinstance(answer, Ended):
            state, note = _ending(answer.finished)
            run.be_answer_to(answer.prompt)
            self._end(state, note, answer.finished.text, answer.seed)
        elif isinstance(answer, Failed):
            if answer.kind == "Cancelled":
                self._end("stopped", "")
            else:
                self._end("failed", answer.said)
        else:
            self._break(f"the engine answered a reply with {type(answer).__name__}")

    def _hear_round(self, run: Run, told: Told) -> None:
        try:
            run.hear(told)
        except Incoherent as error:
            self._break(str(error))

    def _break(self, said: str) -> None:
        """What follows would not be what the model wrote."""
        self._engine.tell(Stop(id=self._request))
        note = f"The engine's answers did not fit together ({said}): the reply is kept up to there."
        self.notice.emit(Notice("error", note, (("Restart the Engine", self._engine.restart),)))
        self._end("failed", note)

    def flush(self) -> None:
        """The end of a frame: show and keep what it brought."""
        run = self.run
        if run is None:
            return
        if self._progress is not None:
            self.progress.emit(run.record.id, self._progress)
            self._progress = None
        if run.fresh:
            if self._engine.speculating.state == "loading":
                self._engine.say_loaded()  # it has been measured
            fresh, run.fresh = run.fresh, []
            self._keeper.add(run.record.id, fresh)
            self.told.emit(run.record.id, fresh)

    def _end(self, state: State, note: str, tail: str = "", seed: int | None = None) -> None:
        run = self.run
        if run is None:
            return
        self.flush()
        self._watch.stop()
        if self._request:
            self._engine.forget(self._request)
        record = self._keeper.end(run.over(state, note, tail, seed), tail)
        self.run, self._request, self._stopping = None, 0, False
        self.ended.emit(record)

    # --- when it goes wrong --------------------------------------------------------------------

    def _die(self, said: str) -> None:
        """The engine went. A reply that it had not begun waits for the next one."""
        asked = self._request > 0
        if not asked and self._engine.client.phase != "left":
            return
        if self._stopping:
            self._end("stopped", "")
        else:
            self._end("cut", f"The engine {said} {'while it wrote' if asked else 'before it could write'} this.")

    def _look_again(self) -> None:
        """An answer came: the next may take its time."""
        if not self._stopping:
            self._watch.start(milliseconds(self._engine.client.patience.silent_s))

    def _be_silent(self) -> None:
        patience = self._engine.client.patience
        if self._stopping:
            text = "The engine has not stopped yet. Restarting it ends the reply; what is written is kept."
        else:
            text = f"The engine has said nothing for {patience.silent_s:.0f} seconds. It may be busy, or stuck."
        self.notice.emit(Notice("warning", text, (("Restart the Engine", self._engine.restart),)))


def _ending(finished: Finished) -> tuple[State, str]:
    """What a reply's state is for why it ended, and what to say about it."""
    if finished.reason == "cancelled":
        return "stopped", ""
    if finished.reason == "length":
        return "complete", "It reached the longest reply that the settings allow."
    if finished.reason == "context":
        return "complete", CONTEXT_FULL
    return "complete", ""
