"""Every contestant answers every question, prompt by prompt, in an order that rotates.

Each reply starts from nothing, so each pays for its prompt. What passes cost is measured after the runs of each
prompt, at the widths that occurred in them, behind as many tokens as they had, under the same law: on a machine whose
speed wanders, costs and runs must be of the same minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.bench.contestants import PLAIN, Contestant
from app.bench.questions import Question
from app.measure import Reply, decode_speedup, ideal_speedup, total_speedup, warm_up
from engine import costs
from engine.choice import Chooser
from engine.costs import Costs
from engine.errors import ContextError
from engine.receipt import Receipt, compare
from engine.session import Session
from engine.settings import Settings

COST_REPEATS = 3
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One reply of one contestant, held against plain decoding of the same prompt under the same settings.

    turn: from 0. rule, receipt and speed-ups are None where they mean nothing. costs: of this prompt's passes;
    None for the peer, whose passes aren't ours.
    """

    question: Question
    turn: int
    contestant: str
    peer: bool
    settings: Settings
    rule: str | None
    reply: Reply
    receipt: Receipt | None
    speedup: float | None
    speedup_total: float | None
    speedup_ideal: float | None
    costs: Costs | None

    @property
    def failed(self) -> bool:
        """Whether Redline's text differs from plain decoding's by more than a near-tie."""
        return not self.peer and self.receipt is not None and not (self.receipt.identical or self.receipt.near_tie)


@dataclass
class Tournament:
    """progress: told before each reply what comes, in a few words. turns: how many of each question's are used."""

    session: Session
    contestants: Sequence[Contestant]
    settings: Sequence[Settings]
    turns: int | None = 1
    progress: Progress = lambda text: None
    notice: Progress = lambda text: None
    _heats: int = 0

    def replies(self, questions: Sequence[Question]) -> int:
        """How many replies `play` will ask for."""
        turns = sum(len(question.turns[: self.turns]) for question in questions)
        return turns * len(self.settings) * len(self.contestants)

    def check(self, questions: Sequence[Question]) -> None:
        """Before an hour has gone into the others: raises ContextError for a question that doesn't fit, UsageError
        or ModelError for a turn that tokenizer or chat template won't have."""
        for question in questions:
            chat = self.session.tokenizer.chat
            size, *_ = [len(chat([_said("user", text)])) for text in question.turns[: self.turns]]
            if size >= self.session.context:
                raise ContextError(
                    f"question {question.id} has {size} tokens and the context holds {self.session.context}, the reply "
                    "included: take it out, or give a larger --context"
                )

    def warm_up(self, question: Question) -> None:
        """A few tokens of everyone, under every law."""
        prompt = self.session.tokenizer.chat([_said("user", question.turns[0])])
        for settings in self.settings:
            for contestant in self.contestants:
                contestant.reply(prompt, warm_up(settings))

    def play(self, questions: Sequence[Question]) -> Iterator[list[Run]]:
        """The runs of one prompt at a time, a run for each contestant."""
        for question in questions:
            for settings in self.settings:
                yield from self._conversation(question, settings)

    def _conversation(self, question: Question, settings: Settings) -> Iterator[list[Run]]:
        """A question's turns. The replies before are plain decoding's, for everyone: all must have the same prompt."""
        messages: list[dict[str, str]] = []
        for turn, text in enumerate(question.turns[: self.turns]):
            messages.append(_said("user", text))
            prompt = self.session.tokenizer.chat(messages)
            if len(prompt) >= self.session.context:
                self.notice(f"question {question.id}: left out from turn {turn + 1} on, which the context cannot hold")
                return
            replies = self._heat(prompt, settings, f"question {question.id}")
            messages.append(_said("assistant", replies[PLAIN].text))
            yield [self._run(question, turn, settings, contestant, replies) for contestant in self.contestants]

    def _heat(self, prompt: list[int], settings: Settings, what: str) -> dict[str, Reply]:
        """Everyone's reply to one prompt; who begins changes from prompt to prompt."""
        first = self._heats % len(self.contestants)
        self._heats += 1
        replies: dict[str, Reply] = {}
        for contestant in [*self.contestants[first:], *self.contestants[:first]]:
            self.progress(f"{what} · {contestant.name}")
            replies[contestant.name] = contestant.reply(prompt, settings)
        return replies

    def _run(
        self, question: Question, turn: int, settings: Settings, contestant: Contestant, replies: dict[str, Reply]
    ) -> Run:
        plain, reply = replies[PLAIN], replies[contestant.name]
        measured = None if contestant.peer else self._costs(contestant, settings, reply)
        return Run(
            question=question,
            turn=turn,
            contestant=contestant.name,
            peer=contestant.peer,
            settings=settings,
            rule=contestant.rule(settings),
            reply=reply,
            receipt=self._receipt(contestant, settings, plain, reply),
            speedup=decode_speedup(plain.metrics, reply.metrics),
            speedup_total=total_speedup(plain.metrics, reply.metrics),
            speedup_ideal=ideal_speedup(measured, reply.rounds) if measured else None,
            costs=measured,
        )

    def _costs(self, contestant: Contestant, settings: Settings, reply: Reply) -> Costs:
        widths = usual_widths(reply)
        context = max(len(reply.prompt) + reply.metrics.tokens // 2, *widths)
        chooser = self._chooser(settings)
        return costs.measure(self.session.target, chooser, contestant.drafter, widths, context, COST_REPEATS)

    def _receipt(self, contestant: Contestant, settings: Settings, plain: Reply, reply: Reply) -> Receipt | None:
        """None also for the peer's samples: it draws with noise of its own."""
        if contestant.peer and not settings.sampling.greedy:
            return None
        return compare(self.session.target, self._chooser(settings), reply.prompt, plain.tokens, reply.rounds)

    def _chooser(self, settings: Settings) -> Chooser:
        return Chooser(settings.sampling, settings.rule, self.session.target.vocabulary)


def usual_widths(reply: Reply) -> list[int]:
    """The widths of passes that occurred more than once, the widest, and 1 and 2: what lies between is a line."""
    counts = Counter(round_.width for round_ in reply.rounds)
    often = {width for width, count in counts.items() if count > 1}
    return sorted(often | {1, 2, max(counts)})


def _said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}
