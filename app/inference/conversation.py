"""A conversation on a loaded pair: its messages, and how they are answered. Knows no terminal.

Invariant: `messages` holds whole turns, a question and its reply each. A reply without text, because it was stopped or
refused, leaves `messages` as it was. So does a change that Ctrl-C stops leave options and pair.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.inference.options import Options, target_name
from engine.errors import UsageError
from engine.events import Finished, Round

if TYPE_CHECKING:  # these load mlx-lm, which takes seconds; `open_conversation` does so when it must
    from app.inference.loaded_pair import LoadedPair
    from app.inference.reply_events import ShownEvent
    from engine.audit.receipt import Receipt
    from engine.settings import SamplingSettings

Message = dict[str, str]
Notice = Callable[[str], None]


@dataclass(frozen=True)
class Answer:
    """The last reply, to be verified: the messages it answered, its settings and rounds, and whether it ended by
    itself."""

    messages: list[Message]
    settings: SamplingSettings
    rounds: list[Round]
    complete: bool


@dataclass
class Conversation:
    """notice: shows a line about work that takes seconds; "" clears it. answer: the last reply, if there is one."""

    options: Options
    pair: LoadedPair
    system: str = ""
    messages: list[Message] = field(default_factory=list)
    notice: Notice = lambda text: None
    answer: Answer | None = None

    def ask(self, text: str, cancelled: Callable[[], bool]) -> Generator[ShownEvent]:
        """Replies to `text`. What was emitted when it ends, or when the iterator is closed, is kept.

        Raises ContextError when the conversation has grown past the context, ModelError when the model's template
        refuses it.
        """
        return self._reply(self.messages, text, cancelled)

    def regenerate(self, cancelled: Callable[[], bool]) -> Generator[ShownEvent]:
        """Replies to the last question again; there must be one. The old reply goes when there is a new one.

        Raises what `ask` raises.
        """
        return self._reply(self.messages[:-2], self.messages[-2]["content"], cancelled)

    def verify(self, cancelled: Callable[[], bool]) -> Receipt:
        """Decodes the last reply again plainly, from nothing, and compares.

        Raises UsageError where there is none, KeyboardInterrupt where it was cancelled.
        """
        if self.answer is None:
            raise UsageError("there is no reply to verify yet: ask something first")
        from app.inference.replay_check import recheck

        answer, pause, pair = self.answer, _pause(cancelled), self.pair
        prompt = pair.prompt_ids(answer.messages)
        steps = recheck(pair.target, pair.session, answer.settings, prompt, answer.rounds, answer.complete, pause)
        total = sum(len(round_.tokens) for round_ in answer.rounds)
        try:
            while True:
                step = next(steps)
                self.notice(f"verifying: {step if isinstance(step, int) else 0} of {total} tokens")
                pause()
        except StopIteration as done:
            receipt: Receipt = done.value
            return receipt
        except KeyboardInterrupt:
            pair.reset()
            raise
        finally:
            self.notice("")

    def clear(self) -> None:
        """Forgets the messages; the system prompt stays."""
        self.messages, self.answer = [], None

    def change(self, options: Options) -> None:
        """Continues with other options of the same target. A new drafter is loaded before the old one goes.

        Raises UsageError, ModelError, PairError.
        """
        pair = self.pair
        if options.drafter != self.options.drafter:
            self.notice(f"loading {options.drafter}")
            pair = pair.open_drafter(options.drafter, options.tree)
        self._measure(pair, options)
        # Together: Ctrl-C may come anywhere above.
        self.options, self.pair = options, pair

    def prepare(self) -> None:
        """Measures what draft length auto needs to know, once for a drafter, before anyone waits for a reply."""
        self._measure(self.pair, self.options)

    def reseed(self) -> None:
        """Lets the next reply draw other tokens."""
        self.options = replace(self.options, seed=self.options.seed + 1)

    @property
    def speculating(self) -> bool:
        return self.options.drafter != "none" and self.options.draft_length != 0

    def describe(self) -> str:
        """Returns target, drafter and sampling settings in a line."""
        options, temperature, drafter = self.options, self.options.temperatures[0], self.pair.drafter
        length = "auto" if options.draft_length is None else options.draft_length
        drafting = f"drafter {drafter.name}, draft length {length}" if self.speculating else "plain decoding"
        note = f" ({drafter.note})" if drafter.note and self.speculating else ""
        seeded = f", seed {options.seed}, {options.rule}" if temperature else ""
        parts = [target_name(options), f"{drafting}{note}", f"temperature {temperature:g}{seeded}", self.pair.note]
        return " · ".join(part for part in parts if part)

    def _reply(self, before: list[Message], text: str, cancelled: Callable[[], bool]) -> Generator[ShownEvent]:
        """Replies to `text` behind the turns `before`. `messages` is replaced at the end, if there was any text."""
        from app.inference.reply_events import Measuring
        from app.inference.reply_runner import ReplyRunner

        turns = [*before, {"role": "user", "content": text}]
        system = [{"role": "system", "content": self.system}] if self.system else []
        reply, measuring = "", False
        answer = Answer([*system, *turns], self.options.settings(), [], complete=False)
        try:
            for event in ReplyRunner(self.pair, self.options, answer.messages, cancelled).events():
                if isinstance(event, Measuring):
                    self.notice(event.message)
                    measuring = True
                    continue
                if measuring:
                    self.notice("")
                    measuring = False
                if isinstance(event, Round):
                    reply += "".join(event.texts)
                    answer.rounds.append(event)
                elif isinstance(event, Finished):
                    reply += event.text
                    answer = replace(answer, complete=event.reason != "cancelled")
                yield event
        except KeyboardInterrupt:
            self.pair.reset()
            raise
        finally:
            if self.options.by_the_clock:
                self.reseed()
            if reply:
                self.messages, self.answer = [*turns, {"role": "assistant", "content": reply}], answer

    def _measure(self, pair: LoadedPair, options: Options) -> None:
        """Measures the costs of a short context, where draft length auto needs them and they are not known."""
        if options.draft_length is not None or not pair.has_drafter or pair.is_measured(0):
            self.notice("")
            return
        from app.inference.reply_runner import measuring_message

        self.notice(measuring_message(pair, 0))
        try:
            pair.costs(0)
        except KeyboardInterrupt:
            pair.reset()
            raise
        finally:
            self.notice("")


def open_conversation(options: Options, system: str, notice: Notice) -> Conversation:
    """Loads target and drafter. Raises UsageError, ModelError, PairError."""
    notice(f"loading {target_name(options)}")
    from app.inference import loaded_pair

    conversation = Conversation(options, loaded_pair.open_pair(options), system, notice=notice)
    conversation.prepare()
    return conversation


def _pause(cancelled: Callable[[], bool]) -> Callable[[], None]:
    """Returns what is called between passes: it raises KeyboardInterrupt where the user cancelled."""

    def pause() -> None:
        if cancelled():
            raise KeyboardInterrupt

    return pause
