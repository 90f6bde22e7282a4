"""Runs a benchmark: every contestant answers every question, in an order that rotates.

Contestants are plain decoding, each drafter and, on request, mlx-lm (`app.bench.contestants`).

Each reply starts with an empty cache, and draft length auto with what was known when the benchmark began: what earlier
replies have taught, or its warm-up.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from app.bench.bench_document import BenchRun, digest
from app.bench.contestants import PLAIN, PLAIN_EXACT, Contestant
from app.bench.prompt_file import Question
from app.bench.server_contestant import AskedReply, ServerContestant, drawn_order
from app.inference.measured_reply import Reply, round_seconds, warm_up
from engine.audit.fingerprints import first_other_bits
from engine.audit.receipt import Receipt
from engine.audit.reply_check import compare_replies
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.prompt_lookup import HISTORY_SHORTEST, PromptLookup
from engine.drafters.suffix_index import END, SuffixIndex
from engine.errors import ContextError
from engine.metrics import decode_speedup, total_speedup
from engine.sampling import Sampler
from engine.session import Session
from engine.settings import SamplingSettings

ReportProgress = Callable[[str], None]
IsDone = Callable[[Question, SamplingSettings], bool]


@dataclass
class Benchmark:
    """Runs contestants on questions.

    progress: receives a short text before each reply. turns: how many of each question are used. begun: how many
    times each contestant has replied before, which decides the rotation. learn: whether prompt lookup drafts from plain
    decoding's replies to earlier prompts too; each prompt then has a seed of its own, as such drafts must not depend on
    the noise that decides about them. order_seed, pause_s: with a server, draws the order of the contestants for each
    prompt, and how long the machine rests before each reply.
    """

    session: Session
    contestants: Sequence[Contestant]
    settings: Sequence[SamplingSettings]
    turns: int | None = 1
    progress: ReportProgress = lambda text: None
    notice: ReportProgress = lambda text: None
    repeats: int = 1
    begun: int = 0
    learn: bool = False
    order_seed: int = 0
    pause_s: float = 0.0
    _history: SuffixIndex = field(init=False, default_factory=lambda: SuffixIndex(HISTORY_SHORTEST))

    def __post_init__(self) -> None:
        drafters = [contestant.drafter for contestant in self.contestants if self.learn and not contestant.peer]
        for drafter in drafters:
            for member in drafter.members if isinstance(drafter, DrafterGroup) else [drafter]:
                if isinstance(member, PromptLookup):
                    member.history = self._history

    def replies(self, questions: Sequence[Question], done: IsDone = lambda *_: False) -> int:
        """Returns how many replies `run` will measure."""
        left = [question for question in questions for settings in self.settings if not done(question, settings)]
        turns = sum(len(question.turns[: self.turns]) for question in left)
        return turns * len(self.contestants) * self.repeats

    def check(self, questions: Sequence[Question]) -> None:
        """Raises ContextError for a question that does not fit, UsageError or ModelError for one that the tokenizer
        or chat template refuses."""
        for question in questions:
            chat = self.session.tokenizer.chat
            size, *_ = [len(chat([_message("user", text)])) for text in question.turns[: self.turns]]
            if size >= self.session.context:
                raise ContextError(
                    f"question {question.id} has {size} tokens, too many for a context of {self.session.context} "
                    "with the reply: remove it or use a larger --context"
                )

    def warm_up(self, question: Question) -> None:
        """Decodes a short reply with every contestant and settings, which teaches draft length auto."""
        prompt = self.session.tokenizer.chat([_message("user", question.turns[0])])
        for settings in self.settings:
            for contestant in self.contestants:
                if isinstance(contestant, ServerContestant):
                    contestant.ask([_message("user", question.turns[0])], warm_up(settings))
                else:
                    contestant.reply(prompt, warm_up(settings), learns=True)

    def run(self, questions: Sequence[Question], done: IsDone = lambda *_: False) -> Iterator[list[BenchRun]]:
        """Yields the runs of one prompt at a time, except for conversations that are done."""
        for question in questions:
            for settings in self.settings:
                if not done(question, settings):
                    yield from self._conversation(question, settings)

    def _conversation(self, question: Question, settings: SamplingSettings) -> Iterator[list[BenchRun]]:
        """Yields the runs of each turn. Earlier replies are plain decoding's, so that all get the same prompt."""
        messages: list[dict[str, str]] = []
        if self.learn:
            settings = replace(settings, seed=(settings.seed or 0) + self.begun)
        for turn, text in enumerate(question.turns[: self.turns]):
            messages.append(_message("user", text))
            prompt = self.session.tokenizer.chat(messages)
            if len(prompt) >= self.session.context:
                self.notice(f"question {question.id}: skipped from turn {turn + 1}, which does not fit the context")
                return
            replies = [
                self._replies(messages, prompt, settings, f"question {question.id}") for _ in range(self.repeats)
            ]
            messages.append(_message("assistant", replies[0][PLAIN].answer))
            self._history.extend([*replies[0][PLAIN].tokens, END])
            prompted = {
                "question_id": question.id,
                "category": question.category,
                "turn": turn,
                "prompt_digest": digest(text),
            }
            yield [
                msgspec.convert(prompted | {"repeat": repeat} | self._record(one, settings, by_name), BenchRun)
                for repeat, by_name in enumerate(replies)
                for one in self.contestants
            ]

    def _replies(
        self, messages: list[dict[str, str]], prompt: list[int], settings: SamplingSettings, what: str
    ) -> dict[str, Reply]:
        """Returns every contestant's reply to one prompt, by name."""
        replies: dict[str, Reply] = {}
        asked: list[tuple[ServerContestant, AskedReply]] = []
        for contestant in self._order():
            self.progress(f"{what} · {contestant.name}")
            if self._has_servers:
                time.sleep(self.pause_s)
            if isinstance(contestant, ServerContestant):
                asked.append((contestant, contestant.ask(messages, settings)))
            else:
                replies[contestant.name] = contestant.reply(prompt, settings)
        for server, reply in asked:
            replies[server.name] = server.in_tokens(reply, prompt, replies[PLAIN])
        return replies

    def _order(self) -> list[Contestant]:
        """Returns the contestants in their next order: each time another one begins; with a server it is drawn."""
        first = self.begun % len(self.contestants)
        self.begun += 1
        if self._has_servers:
            by_name = {contestant.name: contestant for contestant in self.contestants}
            return [by_name[name] for name in drawn_order(list(by_name), self.order_seed, self.begun)]
        return [*self.contestants[first:], *self.contestants[:first]]

    @property
    def _has_servers(self) -> bool:
        return any(isinstance(contestant, ServerContestant) for contestant in self.contestants)

    def drift(self, question: Question, rows: Sequence[BenchRun]) -> float | None:
        """Measures plain decoding's reply to a question again; returns its decode speed over the one in `rows`. None
        without a server, or if it is unknown."""
        settings, plain = self.settings[0], self.contestants[0]
        key = question.id, 0, settings.temperature, plain.name
        first = next((r for r in rows if (r.question_id, r.turn, r.temperature, r.drafter) == key), None)
        if not self._has_servers or first is None or isinstance(plain, ServerContestant):
            return None
        again = plain.reply(self.session.tokenizer.chat([_message("user", question.turns[0])]), settings)
        speed = again.metrics.tokens_per_s
        return speed / first.tokens_per_s if speed and first.tokens_per_s else None

    def _record(self, contestant: Contestant, settings: SamplingSettings, replies: dict[str, Reply]) -> dict[str, Any]:
        """Returns what the document keeps of a reply, compared with plain decoding of the same prompt."""
        plain, reply = replies[PLAIN], replies[contestant.name]
        metrics = reply.metrics
        receipt = self._receipt(contestant, settings, replies)
        # The end of the reply cuts the draft of the last round.
        drafts = Counter(len(round_.drafted) for round_ in reply.rounds[:-1])
        return {
            "drafter": contestant.name,
            **{name: getattr(contestant, name) for name in ("proposer", "draft_length", "peer", "exact")},
            "acceptance_rule": contestant.rule(settings),
            "temperature": float(settings.temperature),
            "seed": settings.seed or 0,
            **{name: getattr(metrics, name) for name in BenchRun.__struct_fields__ if hasattr(metrics, name)},
            "token_ids": list(reply.tokens),
            "total_s": metrics.last_s,
            "finish_reason": metrics.reason,
            "drafts": {str(length): drafts[length] for length in sorted(drafts)},
            "matches_plain": None if receipt is None else receipt.identical,
            "same_bits": None if receipt is None else receipt.same_bits,
            "first_difference": None if receipt is None else receipt.difference,
            "speedup": decode_speedup(plain.metrics, metrics),
            "speedup_total": total_speedup(plain.metrics, metrics),
            "round_s": {} if contestant.peer else round_seconds(reply.rounds),
            "report": reply.report,
            "arrivals_s": [] if reply.report is None else [round_.time_s for round_ in reply.rounds],
        }

    def _receipt(self, contestant: Contestant, settings: SamplingSettings, replies: dict[str, Reply]) -> Receipt | None:
        """Returns the comparison with plain decoding; None for the peer's samples, which have their own noise."""
        if contestant.peer and not settings.greedy:
            return None
        reply, plain = replies[contestant.name], replies[PLAIN_EXACT if contestant.exact else PLAIN]
        self.session.forget()
        sampler, exact = self._sampler(settings), contestant.exact
        found = compare_replies(self.session.target, sampler, reply.prompt, plain.tokens, reply.rounds, exact)
        if found is None or not contestant.exact:
            return found
        return replace(found, same_bits=first_other_bits(plain.rounds, reply.rounds) is None)

    def _sampler(self, settings: SamplingSettings) -> Sampler:
        return Sampler(settings, self.session.target.vocabulary)


def _message(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}
