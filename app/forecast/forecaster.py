"""Makes forecasts from prompts: replies first, then each is read once for all rules, draft lengths and the policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.bench.prompt_file import Question
from app.forecast.forecast import DraftLength, Forecast, ReplyForecast, rules_at
from app.forecast.forecast_cache import PlainReplies, RoundCostCache
from app.inference import pair_loader
from app.inference.calibration import Calibration
from app.inference.pair_loader import NamedDrafter
from engine.policy import Policy
from engine.policy.expected_length import TREE_SHAPE
from engine.policy.fixed import FixedLength
from engine.session import Session
from engine.settings import AcceptanceRule, SamplingSettings
from models.drafters.drafter_kind import LONGEST_CHAIN
from models.expected_rounds import ChainAcceptance
from models.forecast.round_totals import RoundTotals
from models.forecast.teacher_forcing import TargetOutputs, TargetText
from models.forecast.text_forecast import TextForecast
from models.loader import Loaded

Step = Callable[[str], None]


@dataclass(frozen=True)
class QuestionPrompt:
    """A question and the ids of its prompt."""

    question: Question
    prompt: tuple[int, ...]


class Forecaster:
    """Makes the forecasts of one pair. root: of the cache, None for the user's. step: called with a line of text before
    each reply. notice: called before anything else that takes a while."""

    def __init__(
        self,
        target: Loaded,
        drafter: NamedDrafter,
        session: Session,
        root: Path | None = None,
        notice: Step = lambda text: None,
    ) -> None:
        self._target, self._session, self._root = target, session, root
        self._notice = notice
        self._calibration = Calibration(target, drafter, session.context, root)
        self.step: Step = lambda text: None
        parts = [part.drafter for part in drafter.parts if part.drafter is not None]
        longest = min(max(part.longest for part in drafter.parts), LONGEST_CHAIN)
        self.lengths: Sequence[int] = list(TREE_SHAPE) if drafter.branches else list(range(1, longest + 1))
        self._forecasts = TextForecast(target.model, parts, longest, target.tokenizer.eos)
        self._replies_by_settings: dict[str, PlainReplies] = {}
        self._costs: dict[str, RoundCostCache] = {}

    def can_simulate(self, settings: SamplingSettings) -> bool:
        """Returns whether a forecast is possible: not for trees whose children are sampled under rejection."""
        return self._forecasts.can_simulate(settings, settings.acceptance)

    def steps(self, prompts: Sequence[QuestionPrompt], settings: Sequence[SamplingSettings]) -> int:
        """Returns how often `step` will be called. settings: one for each distribution, whatever its rule."""
        return self.missing_replies(prompts, settings) + len(settings) * len(prompts)

    def missing_replies(self, prompts: Sequence[QuestionPrompt], settings: Sequence[SamplingSettings]) -> int:
        """Returns how many replies are still to be written."""
        return sum(not self._replies(one).has(each.prompt) for one in settings for each in prompts)

    def write(self, prompts: Sequence[QuestionPrompt], settings: Sequence[SamplingSettings]) -> None:
        """Writes every reply that is not there yet; those written stay if this is interrupted."""
        for one in settings:
            for each in prompts:
                if not self._replies(one).has(each.prompt):
                    self.step(f"target writes · question {each.question.id}")
                    self._replies(one).text(each.prompt)

    def measure(
        self, prompts: Sequence[QuestionPrompt], settings: Sequence[SamplingSettings], rules: Sequence[AcceptanceRule]
    ) -> None:
        """Measures all costs that `forecast` needs; replies must have been written."""
        for one in settings:
            for each in prompts:
                self._measure(len(each.prompt))
                text = self._replies(one).text(each.prompt)
                for rule in rules_at(one, rules):
                    self._round_costs(replace(one, acceptance=rule)).at(_middle(text))

    def forget_costs(self, settings: Sequence[SamplingSettings]) -> None:
        """Discards the costs with these settings, so that they are measured again."""
        for one in settings:
            self._round_costs(one).forget()

    def forecast(
        self, prompts: Sequence[QuestionPrompt], settings: SamplingSettings, rules: Sequence[AcceptanceRule]
    ) -> list[Forecast]:
        """Returns a forecast for each rule; replies must have been written and costs measured."""
        rules = rules_at(settings, rules)
        found: dict[AcceptanceRule, list[ReplyForecast]] = {rule: [] for rule in rules}
        for each in prompts:
            self.step(f"drafter reads · question {each.question.id}")
            outputs = self._forecasts.outputs(self._replies(settings).text(each.prompt))
            compared = self._forecasts.compare(outputs, settings, rules) if self._forecasts.has_distributions else {}
            for rule in rules:
                acceptance, statistics = compared.get(rule, (None, None))
                totals = self._totals(outputs, acceptance, replace(settings, acceptance=rule))
                found[rule].append(ReplyForecast(each.question, totals, statistics))
        return [Forecast(replace(settings, acceptance=rule), tuple(found[rule])) for rule in rules]

    def _totals(
        self, outputs: TargetOutputs, acceptance: ChainAcceptance | None, settings: SamplingSettings
    ) -> dict[DraftLength, RoundTotals]:
        """Returns the totals of one reply for every draft length and the adaptive policy."""
        costs = self._round_costs(settings).at(_middle(outputs.text))

        def simulated(policy: Policy) -> RoundTotals:
            return self._forecasts.simulate(outputs, policy, settings, settings.acceptance, costs)

        totals: dict[DraftLength, RoundTotals] = {}
        for length in self.lengths:
            if acceptance is not None:
                totals[length] = self._forecasts.expect(outputs.text, acceptance, length, costs)
            else:
                totals[length] = simulated(FixedLength(length))
        at_zero = self._calibration.costs(outputs.text.prompt)
        return {**totals, None: simulated(pair_loader.make_policy(self._calibration.drafter, None, at_zero))}

    def _measure(self, prompt: int) -> None:
        """Measures what the policy needs for a reply to so many tokens."""
        if not self._calibration.knows(prompt):
            milestone = self._calibration.milestones(prompt)[-1]
            self._notice(f"measuring pass times after {milestone} tokens, at temperature 0 (once for this pair)")
        self._calibration.costs(prompt)

    def _replies(self, settings: SamplingSettings) -> PlainReplies:
        name = repr(settings)
        if name not in self._replies_by_settings:
            self._replies_by_settings[name] = PlainReplies(self._target, self._session, settings, self._root)
        return self._replies_by_settings[name]

    def _round_costs(self, settings: SamplingSettings) -> RoundCostCache:
        name = f"{settings.acceptance} {settings!r}"
        if name not in self._costs:
            self._costs[name] = RoundCostCache(self._calibration, settings, self._notice)
        return self._costs[name]


def _middle(text: TargetText) -> int:
    """Returns the tokens of context halfway through the reply."""
    return (text.prompt + len(text.tokens)) // 2
