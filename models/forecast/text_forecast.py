"""Forecasts what each draft length and policy would bring for a target and its drafters on the target's texts."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from engine.policy.costs import Costs

from engine.drafters import Drafter
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.prompt_lookup import PromptLookup
from engine.policy import Policy
from engine.sampling import Distribution
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from models.expected_rounds import ChainAcceptance, Counts, Floats, expected_rounds, survival_probs
from models.forecast.distribution_overlap import OverlapStatistics, acceptance_probs, compare_distributions
from models.forecast.loop_simulation import can_simulate, simulate
from models.forecast.round_totals import RoundTotals, expected_totals
from models.forecast.teacher_forcing import ChainLogits, TargetOutputs, TargetText, chain_logits, target_outputs


class TextForecast:
    """drafters: one, or the members of a group in their order. longest: the longest chain considered. eos: ids that end
    a reply. Uses the caches of target and drafters and leaves them empty.

    has_distributions: whether every drafter copies a chain of tokens or is one of those that `chain_logits` knows, so
    that `compare` works.
    """

    def __init__(self, target: CachedModel, drafters: Sequence[Drafter], longest: int, eos: frozenset[int]) -> None:
        self._target, self._drafters, self._longest, self._eos = target, list(drafters), longest, eos
        found = [chain_logits(drafter, target, longest) for drafter in drafters]
        self._sampling_member = next((place for place, one in enumerate(found) if one is not None), 0)
        self._chain: ChainLogits | None = found[self._sampling_member] if found else None
        simple = [one is not None or _copies(own) for one, own in zip(found, drafters, strict=True)]
        self.has_distributions = self._chain is not None and all(simple)

    def can_simulate(self, sampling: SamplingSettings, rule: AcceptanceRule) -> bool:
        """Returns whether `simulate` works: see `models.forecast.loop_simulation.can_simulate`."""
        return can_simulate(self._drafters, sampling, rule)

    def outputs(self, text: TargetText) -> TargetOutputs:
        """Runs the target over `text` once."""
        return target_outputs(self._target, text, DrafterGroup(self._drafters).needs)

    def compare(
        self, outputs: TargetOutputs, sampling: SamplingSettings, rules: Sequence[AcceptanceRule]
    ) -> dict[AcceptanceRule, tuple[ChainAcceptance, OverlapStatistics]]:
        """Returns, by rule, how far chains are accepted, and how the distributions of target and drafter compare where
        a draft starts. Raises ValueError if no drafter has a distribution."""
        if self._chain is None:
            raise ValueError("these drafters have no distribution to compare")
        accepted, statistics = self._accepted(outputs, self._chain, sampling, rules)
        copied = self._copied(outputs.text)
        return {rule: (self._acceptance(accepted[rule], copied), statistics[rule]) for rule in rules}

    def expect(self, text: TargetText, acceptance: ChainAcceptance, length: int, costs: Costs) -> RoundTotals:
        """Returns the expected totals with chains of `length` tokens."""
        return expected_totals(acceptance, expected_rounds(acceptance, length, text.limit), costs)

    def simulate(
        self,
        outputs: TargetOutputs,
        policy: Policy,
        sampling: SamplingSettings,
        rule: AcceptanceRule,
        costs: Costs,
    ) -> RoundTotals:
        """Returns the totals with whatever `policy` drafts."""
        return simulate(outputs, self._drafters, policy, sampling, rule, costs, self._eos)

    def _accepted(
        self,
        outputs: TargetOutputs,
        chain: ChainLogits,
        sampling: SamplingSettings,
        rules: Sequence[AcceptanceRule],
    ) -> tuple[dict[AcceptanceRule, Floats], dict[AcceptanceRule, OverlapStatistics]]:
        """Returns the acceptance probabilities (depths, n) of each token by depth, and the statistics of depth 0."""
        distribution = Distribution(sampling, outputs.logits.shape[-1])
        accepted = {rule: np.zeros((chain.depths, len(outputs.text.reply))) for rule in rules}
        statistics = dict.fromkeys(rules, OverlapStatistics())
        chain.begin(outputs)
        for start, end in outputs.chunks():
            counts, tokens = outputs.counts(distribution, start, end), outputs.tokens(start, end)
            logp = distribution.logprobs(distribution.adjust(outputs.logits[start:end], counts))
            for depth in range(chain.depths):
                logits = distribution.adjust(chain.logits(depth, start, end), counts, chain.ids)
                logq = distribution.logprobs(logits)
                for rule in rules:
                    probs = acceptance_probs(logp, logq, tokens, chain.ids, None if sampling.greedy else rule)
                    accepted[rule][depth, start:end] = np.array(probs)
                    if depth == 0:
                        statistics[rule] += compare_distributions(logp, logq, chain.ids, probs)
        mx.clear_cache()
        return accepted, statistics

    def _acceptance(self, accepted: Floats, copied: dict[int, tuple[Floats, Counts]]) -> ChainAcceptance:
        """Returns the acceptance of the drafter that samples, or of an earlier one that copies and has a proposal."""
        survival = survival_probs(accepted, self._longest)
        member = np.full(len(survival), self._sampling_member)
        most = np.full(len(survival), self._longest)
        for place in sorted((place for place in copied if place < self._sampling_member), reverse=True):
            copied_survival, lengths = copied[place]
            found = lengths > 0
            survival[found], member[found], most[found] = copied_survival[found], place, lengths[found]
        return ChainAcceptance(survival, member, most)

    def _copied(self, text: TargetText) -> dict[int, tuple[Floats, Counts]]:
        """Returns the survival and the lengths of the drafts of those that copy, by their places."""
        found: dict[int, tuple[Floats, Counts]] = {}
        for place, drafter in enumerate(self._drafters):
            if isinstance(drafter, PromptLookup):
                drafter.rewind(0)
                rows = [self._copied_row(drafter, text, root) for root in range(len(text.reply))]
                found[place] = np.stack([row for row, _ in rows]), np.array([length for _, length in rows], np.int64)
                drafter.rewind(0)
        return found

    def _copied_row(self, drafter: PromptLookup, text: TargetText, root: int) -> tuple[Floats, int]:
        """Returns the survival of a draft before token `root` of the reply, and its length."""
        drafter.sync(text.tokens[: text.prompt + root])
        draft, reply = drafter.continuation(self._longest), text.reply[root:]
        known = min(len(draft), len(reply))
        matches = [place < known and draft[place] == reply[place] for place in range(self._longest)]
        survival: Floats = np.cumprod([1.0, *matches], dtype=np.float64)
        return survival, len(draft)


def _copies(drafter: Drafter) -> bool:
    """Returns whether it copies a chain of tokens, not a tree."""
    return isinstance(drafter, PromptLookup) and drafter.traits.shape != "tree"
