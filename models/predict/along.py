"""A target with its drafters, along its own texts: what each draft length and each policy would make of them."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from engine.choice import Rule
from engine.drafters import Drafter
from engine.drafters.prompt_lookup import PromptLookup
from engine.policy import Policy
from engine.sampling import Law, Sampling
from engine.target import CachedModel
from models.predict.chains import ChainLaws, laws_of
from models.predict.laws import Statistics, compare, keeping
from models.predict.prices import Prices
from models.predict.reading import Read, Text, read
from models.predict.rounds import Chances, Floats, course, reach_of
from models.predict.tally import Tally, of_course
from models.predict.walk import can_walk, walk


class Along:
    """drafters: one, or the members of several in their order. longest: tokens of a chain that are considered. eos: ids
    that end a reply. Uses the target's cache and the drafters', and leaves them empty."""

    def __init__(self, target: CachedModel, drafters: Sequence[Drafter], longest: int, eos: frozenset[int]) -> None:
        self._target, self._drafters, self._longest, self._eos = target, list(drafters), longest, eos
        found = [laws_of(drafter, target, longest) for drafter in drafters]
        self._laws: ChainLaws | None = next((laws for laws in found if laws is not None), None)
        simple = [law is not None or isinstance(one, PromptLookup) for law, one in zip(found, drafters, strict=True)]
        self.expects = self._laws is not None and all(simple)
        self._lawful = next((place for place, law in enumerate(found) if law is not None), 0)

    def can_walk(self, sampling: Sampling, rule: Rule) -> bool:
        """Whether `walked` can tell anything: not of trees whose children are drawn under rejection."""
        return can_walk(self._drafters, sampling, rule)

    def read(self, text: Text) -> Read:
        """One pass of the target over `text`."""
        points = [drafter.features.points for drafter in self._drafters if drafter.features is not None]
        return read(self._target, text, points[0] if points else None)

    def compared(self, read: Read, sampling: Sampling, rules: Sequence[Rule]) -> dict[Rule, tuple[Chances, Statistics]]:
        """For each rule the chances of chains, and how the laws of target and drafter compare where a draft begins.
        Only where `expects`: the drafters draw chains from laws, or copy."""
        if self._laws is None:
            raise ValueError("these drafters have no law to compare")
        kept, statistics = self._go_over(read, self._laws, sampling, rules)
        copies = self._copies(read.text)
        return {rule: (self._chances(kept[rule], copies), statistics[rule]) for rule in rules}

    def expected(self, text: Text, chances: Chances, length: int, prices: Prices) -> Tally:
        """With chains of `length` tokens."""
        return of_course(chances, course(chances, length, text.limit), prices)

    def walked(self, read: Read, policy: Policy, sampling: Sampling, rule: Rule, prices: Prices) -> Tally:
        """With whatever `policy` drafts."""
        return walk(read, self._drafters, policy, sampling, rule, prices, self._eos)

    def _go_over(
        self, read: Read, laws: ChainLaws, sampling: Sampling, rules: Sequence[Rule]
    ) -> tuple[dict[Rule, Floats], dict[Rule, Statistics]]:
        """Chances (depths, n) of each token at each depth, and statistics of depth 0."""
        law = Law(sampling, read.logits.shape[-1])
        kept = {rule: np.zeros((laws.depths, len(read.text.reply))) for rule in rules}
        statistics = dict.fromkeys(rules, Statistics())
        laws.begin(read)
        for start, end in read.chunks():
            counts, said = read.counts(law, start, end), read.said(start, end)
            logp = law.logprobs(law.shape(read.logits[start:end], counts))
            for depth in range(laws.depths):
                logq = law.logprobs(law.shape(laws.logits(depth, start, end), counts, laws.ids))
                for rule in rules:
                    one = keeping(logp, logq, said, laws.ids, None if sampling.greedy else rule)
                    kept[rule][depth, start:end] = np.array(one)
                    if depth == 0:
                        statistics[rule] += compare(logp, logq, laws.ids, one)
        mx.clear_cache()
        return kept, statistics

    def _chances(self, kept: Floats, copies: dict[int, Floats]) -> Chances:
        """Of the drafter that has a law, save where one that copies, and comes before it, has something to propose."""
        reach = reach_of(kept, self._longest)
        member = np.full(len(reach), self._lawful)
        for place in sorted((place for place in copies if place < self._lawful), reverse=True):
            found = ~np.isnan(copies[place][:, 0])
            reach[found], member[found] = copies[place][found], place
        return Chances(reach, member)

    def _copies(self, text: Text) -> dict[int, Floats]:
        """`Chances.reach` of the drafters that copy, by their places; rows of NaN where they have nothing."""
        found: dict[int, Floats] = {}
        for place, drafter in enumerate(self._drafters):
            if isinstance(drafter, PromptLookup):
                drafter.rewind(0)
                found[place] = np.stack([self._copied(drafter, text, root) for root in range(len(text.reply))])
                drafter.rewind(0)
        return found

    def _copied(self, drafter: PromptLookup, text: Text, root: int) -> Floats:
        """A row of `Chances.reach` for a draft before token `root` of the reply."""
        drafter.prefill(text.tokens[: text.prompt + root])
        draft, reply = drafter.continuation(self._longest), text.reply[root:]
        if not draft:
            return np.full(self._longest + 1, np.nan)
        good = [place < len(reply) and draft[place] == reply[place] for place in range(self._longest)]
        reach: Floats = np.cumprod([1.0, *good], dtype=np.float64)
        return reach
