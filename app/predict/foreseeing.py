"""From prompts to forecasts: replies first, then each is read once for all rules, lengths and the policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app import pair
from app.bench.questions import Question
from app.calibration import Calibration
from app.pair import LONGEST_CHAIN, NamedDrafter
from app.predict.forecast import Forecast, Foreseen, Way, rules_at
from app.predict.prices import PriceList
from app.predict.replies import Replies
from engine.choice import Rule
from engine.outlook import SHAPE
from engine.policy import FixedLength, Policy
from engine.session import Session
from engine.settings import Settings
from models.load import Loaded
from models.predict.along import Along
from models.predict.reading import Read, Text
from models.predict.rounds import Chances
from models.predict.tally import Tally

Step = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """A question and the ids of its prompt."""

    question: Question
    prompt: tuple[int, ...]


class Foreseer:
    """For one pair. root: of the cache, None for the user's. step: told before each reply what comes. notice: told
    what takes a while besides."""

    def __init__(
        self,
        target: Loaded,
        drafter: NamedDrafter,
        session: Session,
        root: Path | None = None,
        notice: Step = lambda text: None,
    ) -> None:
        self._target, self._drafter, self._session, self._root = target, drafter, session, root
        self._notice = notice
        self._calibration = Calibration(target, drafter, session.context, root)
        self.step: Step = lambda text: None
        parts = [part.drafter for part in drafter.parts if part.drafter is not None]
        longest = min(max(part.longest for part in drafter.parts), LONGEST_CHAIN)
        self.lengths: Sequence[int] = list(SHAPE) if drafter.branches else list(range(1, longest + 1))
        self._along = Along(target.model, parts, longest, target.tokenizer.eos)
        self._texts: dict[str, Replies] = {}
        self._lists: dict[str, PriceList] = {}

    def can(self, settings: Settings) -> bool:
        """Whether anything can be told: not of trees whose children are drawn under rejection."""
        return self._along.can_walk(settings.sampling, settings.rule)

    def steps(self, asked: Sequence[Asked], settings: Sequence[Settings]) -> int:
        """How often `step` will be called. settings: one for each law, whatever their rules."""
        return self.lacking(asked, settings) + len(settings) * len(asked)

    def lacking(self, asked: Sequence[Asked], settings: Sequence[Settings]) -> int:
        """Replies that are still to be written."""
        return sum(not self._replies(one).has(each.prompt) for one in settings for each in asked)

    def write(self, asked: Sequence[Asked], settings: Sequence[Settings]) -> None:
        """Have every reply that is not there yet written; what is there stays if this is stopped."""
        for one in settings:
            for each in asked:
                if not self._replies(one).has(each.prompt):
                    self.step(f"the target replies · question {each.question.id}")
                    self._replies(one).text(each.prompt)

    def measure(self, asked: Sequence[Asked], settings: Sequence[Settings], rules: Sequence[Rule]) -> None:
        """Whatever `foresee` needs prices of; replies must have been written."""
        for one in settings:
            for each in asked:
                self._measure(len(each.prompt))
                text = self._replies(one).text(each.prompt)
                for rule in rules_at(one, rules):
                    self._price_list(replace(one, rule=rule)).behind(_middle(text))

    def forget_prices(self, settings: Sequence[Settings]) -> None:
        """What passes cost under these laws and rules is measured again."""
        for one in settings:
            self._price_list(one).forget()

    def foresee(self, asked: Sequence[Asked], settings: Settings, rules: Sequence[Rule]) -> list[Forecast]:
        """A forecast for each rule; replies must have been written and prices measured."""
        rules = rules_at(settings, rules)
        found: dict[Rule, list[Foreseen]] = {rule: [] for rule in rules}
        for each in asked:
            self.step(f"the drafter reads · question {each.question.id}")
            read = self._along.read(self._replies(settings).text(each.prompt))
            compared = self._along.compared(read, settings.sampling, rules) if self._along.expects else {}
            for rule in rules:
                chances, statistics = compared.get(rule, (None, None))
                tallies = self._tallies(read, chances, replace(settings, rule=rule))
                found[rule].append(Foreseen(each.question, tallies, statistics))
        return [Forecast(replace(settings, rule=rule), tuple(found[rule])) for rule in rules]

    def _tallies(self, read: Read, chances: Chances | None, settings: Settings) -> dict[Way, Tally]:
        """Of one reply: every draft length, and the adaptive policy."""
        prices = self._price_list(settings).behind(_middle(read.text))

        def walked(policy: Policy) -> Tally:
            return self._along.walked(read, policy, settings.sampling, settings.rule, prices)

        tallies: dict[Way, Tally] = {}
        for length in self.lengths:
            if chances is not None:
                tallies[length] = self._along.expected(read.text, chances, length, prices)
            else:
                tallies[length] = walked(FixedLength(length))
        return {
            **tallies,
            None: walked(pair.make_policy(self._drafter, None, self._calibration.costs(read.text.prompt))),
        }

    def _measure(self, prompt: int) -> None:
        """What the policy of a reply to so many tokens goes by."""
        if not self._calibration.knows(prompt):
            behind = self._calibration.milestones(prompt)[-1]
            self._notice(
                f"measuring what a pass costs here behind {behind} tokens, at temperature 0, once for this pair"
            )
        self._calibration.costs(prompt)

    def _replies(self, settings: Settings) -> Replies:
        name = repr(settings.sampling)
        if name not in self._texts:
            self._texts[name] = Replies(self._target, self._session, settings, self._root)
        return self._texts[name]

    def _price_list(self, settings: Settings) -> PriceList:
        name = f"{settings.rule} {settings.sampling!r}"
        if name not in self._lists:
            self._lists[name] = PriceList(self._calibration, settings, self._notice)
        return self._lists[name]


def _middle(text: Text) -> int:
    """Tokens of context halfway through the reply."""
    return (text.prompt + len(text.tokens)) // 2
