"""A conversation on a loaded pair: what was said, and how it is answered. Knows no terminal.

Invariant: `messages` holds whole turns, a question and its reply each. A reply that said nothing, because it was
stopped or refused, leaves `messages` as it was. So does a change that Ctrl-C stops leave options, drafter and costs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.inference.options import BUILTIN, Options
from engine.errors import UsageError
from engine.events import Event, Finished, Round
from engine.policy.cost_correction import CostCorrection
from models.paths import name_of

if TYPE_CHECKING:  # these load mlx-lm, which takes seconds; `open_conversation` does so when it must
    from app.inference.calibration import Calibration
    from app.inference.pair_loader import NamedDrafter
    from engine.audit.receipt import Receipt
    from engine.drafters import Drafter
    from engine.policy.costs import Costs
    from engine.policy.fixed import Policy
    from engine.session import Session
    from engine.settings import SamplingSettings
    from models.loader import Loaded

Message = dict[str, str]
Notice = Callable[[str], None]


@dataclass(frozen=True)
class Answer:
    """The last reply, to be checked: what it answered, how, and what came. whole: it ended by itself."""

    asked: list[Message]
    settings: SamplingSettings
    rounds: list[Round]
    whole: bool


@dataclass
class Conversation:
    """target: None where a recorded session stands in. calibration: of what passes cost here, which draft length auto
    goes by; drift: what the clock says of that since. note: what the user should know of the context, or "". answer:
    the last reply, if there is one."""

    options: Options
    session: Session
    drafter: NamedDrafter
    target: Loaded | None = None
    system: str = ""
    messages: list[Message] = field(default_factory=list)
    notice: Notice = lambda text: None
    calibration: Calibration | None = None
    drift: CostCorrection = field(default_factory=CostCorrection)
    note: str = ""
    answer: Answer | None = None

    def say(self, text: str, cancelled: Callable[[], bool]) -> Generator[Event]:
        """Answer `text`. What was said when it ends, or when the iterator is closed, is kept.

        Raises ContextError when the conversation has grown past the context, ModelError when the model's template
        refuses it.
        """
        return self._reply(self.messages, text, cancelled)

    def say_again(self, cancelled: Callable[[], bool]) -> Generator[Event]:
        """Answer the last question again; there must be one. The old reply goes when there is a new one.

        Raises what `say` raises.
        """
        return self._reply(self.messages[:-2], self.messages[-2]["content"], cancelled)

    def verify(self, cancelled: Callable[[], bool]) -> Receipt:
        """Decode the last reply again plainly, from nothing, and hold it against that.

        Raises UsageError where there is none, KeyboardInterrupt where it was cancelled.
        """
        if self.answer is None or self.target is None:
            raise UsageError("nothing was answered yet: ask something first")
        from app.inference.fresh_check import recheck

        asked, pause = self.answer, _pause(cancelled)
        prompt = self.session.tokenizer.chat(asked.asked)
        steps = recheck(self.target, self.session, asked.settings, prompt, asked.rounds, asked.whole, pause)
        of = sum(len(round_.tokens) for round_ in asked.rounds)
        try:
            while True:
                step = next(steps)
                self.notice(f"verifying: {step if isinstance(step, int) else 0} of {of} tokens")
                pause()
        except StopIteration as done:
            receipt: Receipt = done.value
            return receipt
        except KeyboardInterrupt:
            self._reset_caches()
            raise
        finally:
            self.notice("")

    def clear(self) -> None:
        """Forget what was said; the system prompt stays."""
        self.messages, self.answer = [], None

    def change(self, options: Options) -> None:
        """Go on with other options of the same target; a new drafter is opened, and refused before the old one goes.

        Raises UsageError, ModelError, PairError.
        """
        drafter, calibration = self.drafter, self.calibration
        if options.drafter != self.options.drafter and self.target is not None:
            from app.inference import pair_loader

            self.notice(f"loading {options.drafter}")
            self.session.forget()  # trying whether the target can do what the drafter needs uses its cache
            drafter = pair_loader.open_drafter(options.drafter, self.target, options.tree)
            calibration = calibration_of(self.target, drafter, self.session, options)
        self._costs(options, calibration)
        self.notice("")
        # Together: Ctrl-C may come anywhere above.
        self.options, self.drafter, self.calibration, self.drift = options, drafter, calibration, CostCorrection()

    def prepare(self) -> None:
        """Measure what draft length auto needs to know, once a drafter, before anyone waits for a reply."""
        self._costs(self.options, self.calibration)

    def reseed(self) -> None:
        """Let the next reply draw other tokens."""
        self.options = replace(self.options, seed=self.options.seed + 1)

    @property
    def speculating(self) -> bool:
        return _speculating(self.options)

    def describe(self) -> str:
        """Target, drafter and law, in a line."""
        options, temperature = self.options, self.options.temperatures[0]
        length = "auto" if options.draft_length is None else options.draft_length
        drafting = f"drafter {self.drafter.name}, draft length {length}" if self.speculating else "plain decoding"
        said = f" ({self.drafter.said})" if self.drafter.said and self.speculating else ""
        law = f"temperature {temperature:g}, seed {options.seed}, {options.rule}" if temperature else "temperature 0"
        about = [target_name(options), f"{drafting}{said}", law, *([self.note] if self.note else [])]
        return " · ".join(about)

    def _reply(self, before: list[Message], text: str, cancelled: Callable[[], bool]) -> Generator[Event]:
        """Answer `text` behind the turns `before`. `messages` is replaced at the end, if anything was said."""
        turns = [*before, {"role": "user", "content": text}]
        head = [{"role": "system", "content": self.system}] if self.system else []
        policy = self._policy([*head, *turns], cancelled)
        said: list[str] = []
        answer = Answer([*head, *turns], self.options.settings(), [], whole=False)
        try:
            drafter = None if policy is None else self._drafter(policy)
            for event in self.session.reply(answer.asked, answer.settings, drafter, policy, cancelled):
                said.append(text_of(event))
                if isinstance(event, Round):
                    answer.rounds.append(event)
                elif isinstance(event, Finished):
                    answer = replace(answer, whole=event.reason != "cancelled")
                yield event
        except KeyboardInterrupt:
            self._reset_caches()
            raise
        finally:
            if self.options.by_the_clock:
                self.reseed()
            if reply := "".join(said):
                self.messages, self.answer = [*turns, {"role": "assistant", "content": reply}], answer

    def _costs(
        self,
        options: Options,
        calibration: Calibration | None,
        messages: list[Message] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Costs | None:
        """What the reply to `messages` goes by, measured now if it is not known yet; None where nothing is needed."""
        if calibration is None or options.draft_length is not None or not _speculating(options):
            return None
        context = len(self.session.tokenizer.chat(messages)) if messages else 0
        try:
            if calibration.knows(context):
                return calibration.costs(context)
            _, *far = calibration.milestones(context)
            where = f" behind {far[0]:,} tokens" if far else ""
            self.notice(f"measuring what a pass costs here{where}, once for this pair")
            self.session.forget()
            costs = calibration.costs(context, _pause(cancelled))
            self.notice("")
            return costs
        except KeyboardInterrupt:
            self._reset_caches()
            raise

    def _reset_caches(self) -> None:
        """After Ctrl-C, which breaks passes off."""
        if self.target is None:
            return
        from app.inference import pair_loader

        pair_loader.reset_target(self.target, self.session)
        self.drafter = pair_loader.renew(self.drafter, self.target, self.options.tree)

    def _drafter(self, policy: Policy) -> Drafter | None:
        from app.inference.pair_loader import wanted

        return wanted(self.drafter.drafter, policy)

    def _policy(self, messages: list[Message], cancelled: Callable[[], bool]) -> Policy | None:
        """A policy for the reply to `messages`: None is plain decoding."""
        from app.inference.pair_loader import make_policy

        if not self.speculating:
            return None
        options = self.options
        costs = self._costs(options, self.calibration, messages, cancelled)
        drift = self.drift if options.by_the_clock else None
        return make_policy(self.drafter, options.draft_length, costs, options.exact, drift)


def open_conversation(options: Options, system: str, notice: Notice) -> Conversation:
    """Load target and drafter. Raises UsageError, ModelError, PairError."""
    notice(f"loading {target_name(options)}")
    from app.inference import pair_loader

    target = pair_loader.open_target(options)
    drafter = pair_loader.open_drafter(options.drafter, target, options.tree)
    session, note = pair_loader.open_session(target, options)
    calibration = calibration_of(target, drafter, session, options)
    conversation = Conversation(
        options, session, drafter, target, system, notice=notice, calibration=calibration, note=note
    )
    conversation.prepare()
    return conversation


def calibration_of(target: Loaded, drafter: NamedDrafter, session: Session, options: Options) -> Calibration:
    """What passes of this pair cost here, nothing of it measured yet."""
    from app.inference.calibration import Calibration

    return Calibration(target, drafter, session.context, options.cache_root)


def target_name(options: Options) -> str:
    """What to call the target."""
    return "SmolLM2-135M-Instruct" if options.target == BUILTIN else name_of(Path(options.target))


def _pause(cancelled: Callable[[], bool]) -> Callable[[], None]:
    """To be called between passes: raises KeyboardInterrupt where it was cancelled."""

    def pause() -> None:
        if cancelled():
            raise KeyboardInterrupt

    return pause


def _speculating(options: Options) -> bool:
    return options.drafter != "none" and options.draft_length != 0


def text_of(event: Event) -> str:
    """The text that an event tells."""
    if isinstance(event, Round):
        return "".join(event.texts)
    return event.text if isinstance(event, Finished) else ""
