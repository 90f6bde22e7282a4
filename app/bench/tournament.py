"""Every contestant answers every question, prompt by prompt, in an order that rotates.

Each reply starts from nothing, so each pays for its prompt. What passes cost is measured after the runs of each
prompt, at the widths that occurred in them, behind as many tokens as they had, under the same law: on a machine whose
speed wanders, costs and runs must be of the same minute. Contestants with the same drafter share what was measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from app.bench.contestants import PLAIN, PLAIN_EXACT, Contestant
from app.bench.questions import Question
from app.measure import Reply, ideal_speedup, warm_up
from app.speedup import decode_speedup, total_speedup
from engine import costs
from engine.choice import Chooser
from engine.costs import Costs
from engine.drafters import Drafter
from engine.errors import ContextError
from engine.fingerprint import first_other_bits
from engine.receipt import Receipt
from engine.recheck import compare
from engine.session import Session
from engine.settings import Settings

COST_REPEATS = 3
Progress = Callable[[str], None]
Done = Callable[[Question, Settings], bool]


def nothing_done(question: Question, settings: Settings) -> bool:
    """Of a tournament that begins."""
    return False


@dataclass(frozen=True)
class Run:
    """One reply of one contestant, held against plain decoding of the same prompt under the same settings.

    turn, repeat: from 0. rule, receipt and speed-ups are None where they mean nothing. costs: of this prompt's passes;
    None for the peer, whose passes aren't ours.
    """

    question: Question
    turn: int
    repeat: int
    contestant: Contestant
    settings: Settings
    rule: str | None
    reply: Reply
    receipt: Receipt | None = None
    speedup: float | None = None
    speedup_total: float | None = None
    speedup_ideal: float | None = None
    costs: Costs | None = None


@dataclass
class Tournament:
    """progress: told before each reply what comes, in a few words. turns: how many of each question's are used.
    repeats: of every prompt. begun: prompts that were answered before this, in the order that rotates."""

    session: Session
    contestants: Sequence[Contestant]
    settings: Sequence[Settings]
    turns: int | None = 1
    progress: Progress = lambda text: None
    notice: Progress = lambda text: None
    repeats: int = 1
    begun: int = 0

    def replies(self, questions: Sequence[Question], done: Done = nothing_done) -> int:
        """How many replies `play` will ask for."""
        held = [(question, law) for question in questions for law in self.settings if not done(question, law)]
        turns = sum(len(question.turns[: self.turns]) for question, _ in held)
        return turns * len(self.contestants) * self.repeats

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

    def play(self, questions: Sequence[Question], done: Done = nothing_done) -> Iterator[list[Run]]:
        """The runs of one prompt at a time, a run for each contestant and repeat, but of what is done."""
        for question in questions:
            for settings in self.settings:
                if not done(question, settings):
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
            heats = [self._heat(prompt, settings, f"question {question.id}") for _ in range(self.repeats)]
            costs = self._costs(settings, heats)
            messages.append(_said("assistant", heats[0][PLAIN].text))
            yield [
                self._run(Run(question, turn, repeat, who, settings, who.rule(settings), heat[who.name]), heat, costs)
                for repeat, heat in enumerate(heats)
                for who in self.contestants
            ]

    def _heat(self, prompt: list[int], settings: Settings, what: str) -> dict[str, Reply]:
        """Everyone's reply to one prompt; who begins changes from heat to heat."""
        first = self.begun % len(self.contestants)
        self.begun += 1
        replies: dict[str, Reply] = {}
        for contestant in [*self.contestants[first:], *self.contestants[:first]]:
            self.progress(f"{what} · {contestant.name}")
            replies[contestant.name] = contestant.reply(prompt, settings)
        return replies

    def _run(self, run: Run, replies: dict[str, Reply], measured: dict[int, Costs]) -> Run:
        """With what it is held against."""
        plain, reply = replies[PLAIN], run.reply
        own = None if run.contestant.peer else measured[id(run.contestant.drafter)]
        return replace(
            run,
            receipt=self._receipt(run.contestant, run.settings, replies),
            speedup=decode_speedup(plain.metrics, reply.metrics),
            speedup_total=total_speedup(plain.metrics, reply.metrics),
            speedup_ideal=ideal_speedup(own, reply.rounds) if own else None,
            costs=own,
        )

    def _costs(self, settings: Settings, heats: Sequence[dict[str, Reply]]) -> dict[int, Costs]:
        """Of each drafter of ours, and of none, by identity: at the widths of all replies that it had a part in."""
        replies: dict[int, tuple[Drafter | None, list[Reply]]] = {}
        for contestant in self.contestants:
            if not contestant.peer:
                _, mine = replies.setdefault(id(contestant.drafter), (contestant.drafter, []))
                mine += [heat[contestant.name] for heat in heats]
        chooser, found = self._chooser(settings), dict[int, Costs]()
        for key, (drafter, mine) in replies.items():
            widths = sorted({width for reply in mine for width in usual_widths(reply)})
            context = max(*(len(reply.prompt) + reply.metrics.tokens // 2 for reply in mine), *widths)
            self.session.forget()
            found[key] = costs.measure(self.session.target, chooser, drafter, widths, context, COST_REPEATS)
        return found

    def _receipt(self, contestant: Contestant, settings: Settings, replies: dict[str, Reply]) -> Receipt | None:
        """None also for the peer's samples: it draws with noise of its own."""
        if contestant.peer and not settings.sampling.greedy:
            return None
        reply, plain = replies[contestant.name], replies[PLAIN_EXACT if contestant.exact else PLAIN]
        self.session.forget()
        chooser, exact = self._chooser(settings), contestant.exact
        found = compare(self.session.target, chooser, reply.prompt, plain.tokens, reply.rounds, exact)
        if found is None or not contestant.exact:
            return found
        return replace(found, same_bits=first_other_bits(plain.rounds, reply.rounds) is None)

    def _chooser(self, settings: Settings) -> Chooser:
        return Chooser(settings.sampling, settings.rule, self.session.target.vocabulary)


def usual_widths(reply: Reply) -> list[int]:
    """The widths of passes that occurred more than once, the widest, and 1 and 2: what lies between is a line."""
    counts = Counter(round_.width for round_ in reply.rounds)
    often = {width for width, count in counts.items() if count > 1}
    return sorted(often | {1, 2, max(counts)})


def _said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}
