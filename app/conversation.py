"""A conversation on a loaded pair: what was said, and how it is answered. Knows no terminal.

Invariant: `messages` never ends in a turn of the user's between replies. A reply that said nothing, because it was
stopped or refused, takes its question back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.options import BUILTIN, Options
from engine.events import Event, Finished, Round

if TYPE_CHECKING:  # these load mlx-lm, which takes seconds; `open_conversation` does so when it must
    from app.pair import NamedDrafter
    from engine.costs import Costs
    from engine.policy import Policy
    from engine.session import Session
    from models.load import Loaded

Message = dict[str, str]
Notice = Callable[[str], None]


@dataclass
class Conversation:
    """target: None where a recorded session stands in. costs: of passes here, which draft length auto goes by."""

    options: Options
    session: Session
    drafter: NamedDrafter
    target: Loaded | None = None
    system: str = ""
    messages: list[Message] = field(default_factory=list)
    notice: Notice = lambda text: None
    costs: Costs | None = None

    def say(self, text: str, cancelled: Callable[[], bool]) -> Iterator[Event]:
        """Answer `text`. What was said when it ends, or when the iterator is closed, is kept.

        Raises ContextError when the conversation has grown past the context, ModelError when the model's template
        refuses it.
        """
        policy = self._policy()
        self.messages.append({"role": "user", "content": text})
        head = [{"role": "system", "content": self.system}] if self.system else []
        said: list[str] = []
        settings = self.options.settings()
        try:
            for event in self.session.reply([*head, *self.messages], settings, self.drafter.drafter, policy, cancelled):
                said.append(text_of(event))
                yield event
        finally:
            self._keep("".join(said))

    def take_back(self) -> str | None:
        """Forget the last turn; returns its question, or None when there is none."""
        if not self.messages:
            return None
        question = self.messages[-2]["content"]
        del self.messages[-2:]
        return question

    def clear(self) -> None:
        """Forget what was said; the system prompt stays."""
        self.messages.clear()

    def change(self, options: Options) -> None:
        """Go on with other options of the same target; a new drafter is opened, and refused before the old one goes.

        Raises UsageError, ModelError, PairError.
        """
        if options.drafter != self.options.drafter and self.target is not None:
            from app import pair

            self.notice(f"loading {options.drafter}")
            self.drafter = pair.open_drafter(options.drafter, self.target)
            self.costs = None
        self.options = options
        self.prepare()

    def prepare(self) -> None:
        """Measure what draft length auto needs to know, once a drafter, before anyone waits for a reply."""
        if self.speculating and self.options.draft_length is None and self.costs is None and self.target is not None:
            from app import pair

            self.notice("measuring what a pass costs here")
            self.session.forget()
            self.costs = pair.measure_costs(self.target, self.drafter)

    def reseed(self) -> None:
        """Let the next reply draw other tokens."""
        self.options = replace(self.options, seed=self.options.seed + 1)

    @property
    def speculating(self) -> bool:
        return self.options.drafter != "none" and self.options.draft_length != 0

    def describe(self) -> str:
        """Target, drafter and law, in a line."""
        options, temperature = self.options, self.options.temperatures[0]
        length = "auto" if options.draft_length is None else options.draft_length
        drafting = (
            f"drafter {_last_name(options.drafter)}, draft length {length}" if self.speculating else "plain decoding"
        )
        law = f"temperature {temperature:g}, seed {options.seed}, {options.rule}" if temperature else "temperature 0"
        return f"{target_name(options)} · {drafting} · {law}"

    def _keep(self, said: str) -> None:
        if said:
            self.messages.append({"role": "assistant", "content": said})
        else:
            self.messages.pop()

    def _policy(self) -> Policy | None:
        """A policy for one reply: None is plain decoding."""
        from app.pair import make_policy

        return make_policy(self.drafter, self.options.draft_length, self.costs) if self.speculating else None


def open_conversation(options: Options, system: str, notice: Notice) -> Conversation:
    """Load target and drafter. Raises UsageError, ModelError, PairError."""
    notice(f"loading {target_name(options)}")
    from app import pair

    target = pair.open_target(options)
    drafter = pair.open_drafter(options.drafter, target)
    session = pair.open_session(target, options)
    conversation = Conversation(options, session, drafter, target, system, notice=notice)
    conversation.prepare()
    return conversation


def target_name(options: Options) -> str:
    """What to call the target."""
    return "SmolLM2-135M-Instruct" if options.target == BUILTIN else _last_name(options.target)


def _last_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def text_of(event: Event) -> str:
    """The text that an event tells."""
    if isinstance(event, Round):
        return "".join(event.texts)
    return event.text if isinstance(event, Finished) else ""
