"""A conversation on a loaded pair: its messages, and how they are answered. Knows no terminal.

Invariant: `messages` holds whole turns, a question and its reply each. A reply without text, because it was stopped or
refused, leaves `messages` as it was. Likewise, a change interrupted by Ctrl-C leaves options and pair as they were.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace

from msgspec import convert

from app import protocol
from app.inference.loaded_pair import LoadedPair, open_target
from app.inference.options import Options, target_name
from app.inference.reply_events import ReplyEvent
from app.inference.reply_runner import ReplyInput, ReplyRunner
from app.inference.verification import verify
from app.protocol import Failed, RoundTokens, Verify, VerifyDone, VerifyProgress
from app.reply_statistics import exact_in_words
from engine.audit.receipt import Receipt
from engine.errors import UsageError
from engine.events import Finished, Round


@dataclass
class Conversation:
    """notice: shows a line about work that takes seconds; "" clears it. answer: the request that verifies the last
    reply, None before the first. plain_s: what a plain step took in the last reply, None if its rounds did not tell."""

    options: Options
    pair: LoadedPair
    system: str = ""
    messages: list[dict[str, str]] = field(default_factory=list)
    notice: Callable[[str], None] = lambda text: None
    answer: Verify | None = None
    plain_s: float | None = None

    def ask(self, text: str, cancelled: Callable[[], bool]) -> Generator[ReplyEvent]:
        """Replies to `text`. What was emitted when it ends, or when the iterator is closed, is kept.

        Raises ContextError when the conversation has grown past the context, ModelError when the model's template
        refuses it.
        """
        return self._reply(self.messages, text, cancelled)

    def regenerate(self, cancelled: Callable[[], bool]) -> Generator[ReplyEvent]:
        """Replies to the last question again; there must be one. The old reply goes when there is a new one.

        Raises what `ask` raises.
        """
        return self._reply(self.messages[:-2], self.messages[-2]["content"], cancelled)

    def verify(self, cancelled: Callable[[], bool]) -> Receipt:
        """Decodes the last reply again plainly and returns how the two compare.

        Raises UsageError where there is none, KeyboardInterrupt where it was cancelled.
        """
        if self.answer is None:
            raise UsageError("there is no reply to verify yet: ask something first")
        try:
            for step in verify(self.pair, self.answer, cancelled):
                if isinstance(step, VerifyDone):
                    receipt = step.receipt
                elif isinstance(step, VerifyProgress):
                    self.notice(f"verifying: {step.done} of {step.total} tokens")
                elif isinstance(step, Failed):
                    raise KeyboardInterrupt
                else:
                    self.notice("verifying: reading the prompt")
        except KeyboardInterrupt:
            self.pair.reset()
            raise
        finally:
            self.notice("")
        return receipt

    def trim(self, kept: int) -> int:
        """Forgets all but the last `kept` messages, from a question on; returns how many that were."""
        first = max(0, len(self.messages) - kept)
        first += first % 2  # a question
        self.messages = self.messages[first:]
        return first

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
        self.notice("")
        # Together: Ctrl-C may come anywhere above.
        self.options, self.pair = options, pair

    def reseed(self) -> None:
        """Lets the next reply draw other tokens."""
        sampling = self.options.sampling
        self.options = replace(self.options, sampling=replace(sampling, seed=(sampling.seed or 0) + 1))

    @property
    def speculating(self) -> bool:
        return self.options.drafter != "none" and self.options.sampling.draft_length != 0

    def describe(self) -> str:
        """Returns target, drafter and sampling settings in a line."""
        options, sampling, drafter = self.options, self.options.sampling, self.pair.drafter
        defaults = self.pair.defaults
        length = "auto" if sampling.draft_length is None else sampling.draft_length
        drafting = f"drafter {drafter.name}, draft length {length}" if self.speculating else "plain decoding"
        note = f" ({drafter.note})" if drafter.note and self.speculating else ""
        seeded = f", seed {sampling.seed}, {sampling.acceptance}" if sampling.temperature else ""
        own = " (model's default)" if "temperature" in sampling.from_model and defaults.values else ""
        sampled = f"temperature {sampling.temperature:g}{own}{seeded}"
        exact = exact_in_words(self.pair.with_identical_width(sampling))
        parts = [target_name(options), f"{drafting}{note}", sampled, exact, self.pair.note, defaults.note]
        return " · ".join(part for part in parts if part)

    def _reply(self, before: list[dict[str, str]], text: str, cancelled: Callable[[], bool]) -> Generator[ReplyEvent]:
        """Replies to `text` after the turns `before`. `messages` is replaced at the end, if there was any text."""
        turns = [*before, {"role": "user", "content": text}]
        system = [{"role": "system", "content": self.system}] if self.system else []
        settings, reply, thought = self.pair.with_identical_width(self.options.sampling), "", ""
        rounds, complete = list[Round](), False
        self.pair.draft_from(self.options.history, settings)
        self.pair.keep_conversations()
        runner = ReplyRunner(self.pair, settings, ReplyInput([*system, *turns]), cancelled)
        try:
            for event in runner.events():
                if isinstance(event, Round):
                    reply += event.text_in("answer")
                    thought += event.text_in("thought")
                    rounds.append(event)
                elif isinstance(event, Finished):
                    reply += event.text
                    complete = event.reason != "cancelled"
                    self.plain_s = runner.plain_s
                yield event
        except KeyboardInterrupt:
            self.pair.reset()
            raise
        finally:
            if settings.fresh and not settings.greedy and settings.draft_length is None:
                self.reseed()
            if reply or thought:
                message = {"role": "assistant", "content": reply, **({"thought": thought} if thought else {})}
                self.messages = [*turns, message]
                self.answer = Verify(
                    id=0,
                    messages=convert([*system, *turns], tuple[protocol.Message, ...]),
                    sampling=settings,
                    rounds=RoundTokens.of(rounds),
                    complete=complete,
                )


def open_conversation(options: Options, system: str, notice: Callable[[str], None]) -> Conversation:
    """Returns a conversation on a pair that is loaded now. Raises UsageError, also for a switch that the chat template
    does not have, as it would change nothing; ModelError, PairError."""
    pair = open_target(options).open_drafter(options.drafter, options.tree)
    sampling, switches = pair.resolved(options.sampling), pair.target.tokenizer.switches
    if sampling.thinking is not None and not switches.thinking:
        raise UsageError("this model's chat template has no switch for thinking: leave out --thinking")
    if sampling.effort and sampling.effort not in switches.efforts:
        known = f"give {' or '.join(switches.efforts)}" if switches.efforts else "leave out --effort"
        raise UsageError(f"this model has no effort level {sampling.effort!r}: {known}")
    return Conversation(replace(options, sampling=sampling), pair, system, notice=notice)
