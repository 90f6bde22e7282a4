"""The decoding loop along a known text: the real drafter and the real policy, and a target that replays the text.

If choices are greedy or coupled, or drafts are point masses, the rounds are exactly those of writing this text. Under
rejection, chains and blocks are sampled from the drafter's distribution given that the reply became this text, so the
rounds are distributed as those of writing it. For a tree whose children are sampled that distribution is not known.

What a drafter reads of the target comes from one pass over the text, made before (`TargetOutputs`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import mlx.core as mx
from engine.policy.costs import Costs

from engine.cache.model_cache import LayerKV
from engine.cache.snapshot import Snapshot
from engine.drafters import Draft, DraftContext, Drafter
from engine.drafters.cross_tokenizer import CrossTokenizerModel
from engine.drafters.dflash import DFlash
from engine.drafters.draft_model import DraftModel
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.head_drafter import PairDrafter
from engine.drafters.medusa import Medusa
from engine.drafters.prompt_lookup import PromptLookup
from engine.events import Round
from engine.loop import Limits, decode
from engine.noise import Stream
from engine.policy import Policy
from engine.rotary_embedding import RotationByLength
from engine.sampling import DraftRows, Sampler, TokenCounts, draft_row
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from engine.target.target_view import TargetView
from engine.tree.draft_tree import DraftTree
from models.forecast.round_totals import RoundTotals, simulated_totals
from models.forecast.teacher_forcing import TargetOutputs, TargetText


def simulate(
    outputs: TargetOutputs,
    drafters: Sequence[Drafter],
    policy: Policy,
    sampling: SamplingSettings,
    rule: AcceptanceRule,
    costs: Costs,
    eos: frozenset[int],
) -> RoundTotals:
    """Returns the totals of the rounds of one reply under `policy`. eos: ids that end a reply.

    Raises ValueError if `can_simulate` is false.
    """
    if not can_simulate(drafters, sampling, rule):
        raise ValueError("the distribution of this tree given the text is not known")
    text, vocabulary = outputs.text, outputs.logits.shape[-1]
    sampling = replace(sampling, acceptance=rule)
    sampler = Sampler(replace(sampling, temperature=0.0), vocabulary)  # a replay needs no noise
    target, conditioned = ReplayedTarget(text, vocabulary), ConditionedSampler(sampling, outputs)
    timed = [TimedDrafter(one, conditioned, costs.of(member)) for member, one in enumerate(drafters)]
    together: Drafter = timed[0] if len(timed) == 1 else DrafterGroup(timed)
    tokens, limits = list(text.tokens[: text.prompt]), Limits(text.limit, 2**31, eos)
    with _recorded_target(drafters, outputs, target):
        together.sync(tokens)
        events = decode(target, together, policy, sampler, tokens, limits, time.monotonic())
        rounds = [event for event in events if isinstance(event, Round)]
    ahead = len(rounds) - target.launched
    return simulated_totals(rounds, sum(one.spent_s for one in timed), ahead, costs)


def can_simulate(drafters: Sequence[Drafter], sampling: SamplingSettings, rule: AcceptanceRule) -> bool:
    """Returns whether the drafts' distribution given the text is known. Under rejection it is not for trees whose
    children are sampled; those of Medusa and prompt lookup are fixed."""
    sampled = rule == "rejection" and not sampling.greedy
    trees = [one for one in drafters if one.traits.shape == "tree" and not isinstance(one, Medusa | PromptLookup)]
    return not (sampled and trees)


class ReplayedTarget(CachedModel):
    """A stand-in for the target in `engine.loop.decode` that replays a known text without a network.

    Whatever is drafted, each row's distribution is a point mass on the text's token at that position. So every
    acceptance rule accepts a draft as far as it matches the text, and the loop commits the text. A pass has a row for
    the last committed token and one for each drafted one. launched: passes that the loop did not launch ahead.
    """

    def __init__(self, text: TargetText, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.taps = None
        self.rotation = RotationByLength()
        self.launched = 0
        self._text, self._length = text, text.prompt - 1

    @property
    def length(self) -> int:
        return self._length

    def continue_from(
        self, sequence: Sequence[int], draft: mx.array, tree: DraftTree | None = None
    ) -> tuple[mx.array, int]:
        self.launched += 1
        self._length = len(sequence) + draft.size
        rows = mx.arange(draft.size + 1) if tree is None else tree.row_depths
        return self._logits(len(sequence) + rows), draft.size + 1

    def continue_after(self, sequence: Sequence[int], token: mx.array) -> tuple[mx.array, int]:
        self._length += token.size
        return self._logits(mx.array([self._length])), 1

    def keep_path(self, path: Sequence[int]) -> None:
        pass

    def rewind(self, length: int) -> int:
        self._length = min(self._length, length)
        return self._length

    def _logits(self, positions: mx.array) -> mx.array:
        """Returns (rows, vocabulary) for the tokens at `positions`; past the end of the text any will do."""
        tokens = mx.array(self._text.tokens, mx.int32)
        token = tokens[mx.minimum(positions, len(self._text.tokens) - 1)]
        return mx.where(mx.arange(self.vocabulary) == token[:, None], 0.0, -mx.inf)


class RecordedView(TargetView):
    """A view of a target that has read the whole text: it shows what was to be seen after as many tokens as `replayed`
    has now. Any hidden state can be read any number of times."""

    def __init__(self, view: TargetView, outputs: TargetOutputs, replayed: ReplayedTarget) -> None:
        self.model = view.model
        self._outputs, self._replayed = outputs, replayed

    @property
    def length(self) -> int:
        return self._replayed.length

    @property
    def recorded(self) -> tuple[int, int]:
        return 0, self._replayed.length

    def hidden(self, taps: Sequence[int], start: int, end: int) -> mx.array:
        assert self._outputs.states is not None
        return self._outputs.states[start:end]

    def kv(self, layer: int) -> LayerKV:
        return self._outputs.kv[layer].at(self._replayed.length)


@contextmanager
def _recorded_target(drafters: Sequence[Drafter], outputs: TargetOutputs, replayed: ReplayedTarget) -> Iterator[None]:
    """Gives the drafters that read the target what `outputs` has of it. All drafters start and end with nothing
    cached."""
    readers: list[Any] = [one for one in drafters if one.needs.taps]
    own: list[TargetView] = [one.target for one in readers]
    try:
        for drafter, view in zip(readers, own, strict=True):
            drafter.target = RecordedView(view, outputs, replayed)
        for one in drafters:
            one.rewind(0)
        yield
    finally:
        for one in drafters:
            one.rewind(0)
        for drafter, view in zip(readers, own, strict=True):
            drafter.target = view


def _unread(drafter: Drafter, tokens: int) -> int:
    """Returns how many of `tokens` committed tokens a draft reads first: the last one, and those of rounds without
    this drafter. Of a model with another tokenizer these are at most as many, as it may have drafted them itself."""
    if isinstance(drafter, DraftModel):
        return tokens - drafter.model.length
    if isinstance(drafter, PairDrafter):
        return tokens - 1 - drafter.known
    if isinstance(drafter, DFlash):
        return tokens - drafter.known
    return tokens - drafter.reusable_prefix() if isinstance(drafter, CrossTokenizerModel) else 1


def _drafted(drafter: Drafter, draft: Draft, length: int) -> int:
    """Returns how many tokens were drafted for a `draft` of at most `length`: a model that drafts in its own tokens
    proposes fewer where their text is that of fewer."""
    return length if isinstance(drafter, CrossTokenizerModel) else draft.tokens.size


class TimedDrafter(Drafter):
    """A drafter that adds up what its drafts would take. spent_s: the seconds so far."""

    def __init__(self, drafter: Drafter, sampler: ConditionedSampler, costs: Costs) -> None:
        self.name, self.needs, self.traits = drafter.name, drafter.needs, drafter.traits
        self.spent_s = 0.0
        self._drafter, self._sampler, self._costs = drafter, sampler, costs

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        self._drafter.sync(tokens, cancelled)

    def propose(self, context: DraftContext, length: int) -> Draft:
        self.spent_s += self._costs.reading_s(_unread(self._drafter, len(context.tokens)))
        draft = self._drafter.propose(replace(context, sampler=self._sampler), length)
        drafted = _drafted(self._drafter, draft, length)
        self.spent_s += self._costs.draft_s(drafted) - (self._costs.saved_s if drafted else 0.0)
        return draft

    def has_draft(self, context: DraftContext) -> bool:
        return self._drafter.has_draft(context)

    def draft_class(self, context: DraftContext) -> float | None:
        return self._drafter.draft_class(context)

    def rewind(self, length: int) -> None:
        self._drafter.rewind(length)

    def reusable_prefix(self) -> int:
        return self._drafter.reusable_prefix()

    def snapshot(self) -> Snapshot:
        return self._drafter.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        self._drafter.restore(snapshot)


class ConditionedSampler(Sampler):
    """Samples drafts from the drafter's distribution, given that the reply became the text.

    Under rejection, with x the token of the text: the draft is x and accepted with probability min(1, q(x) / p(x)).
    Otherwise it was refused: it follows max(0, q - p) / Z whatever x is, and the rest of the draft, which is never
    accepted, follows q.
    """

    def __init__(self, sampling: SamplingSettings, outputs: TargetOutputs) -> None:
        super().__init__(sampling, outputs.logits.shape[-1])
        self._outputs = outputs
        self._matching = mx.array(True)  # whether the draft so far equals the text

    def draw(
        self, logits: mx.array, counts: TokenCounts, position: int, ids: mx.array | None = None, place: int = 0
    ) -> DraftRows:
        if place == 0:
            self._matching = mx.array(True)
        text = self._outputs.text
        at_reply = position + place - text.prompt
        if self.accepts_by_match or at_reply >= len(text.reply):
            return super().draw(logits, counts, position, ids, place)
        rows, token = counts.rows(), text.reply[at_reply]
        logq = self.distribution.logprobs(self.distribution.adjust(logits, rows, ids))
        target_logits = self._outputs.logits[at_reply : at_reply + 1]
        logp = self.distribution.logprobs(self.distribution.adjust(target_logits, rows))
        uniform = self.noise.uniform(Stream.ACCEPT, mx.array([position + place]))
        gumbel = self.draft_noise(mx.array([position]), ids, 1 + place)
        return draft_row(self._conditioned(mx.exp(logq), mx.exp(logp), token, ids, uniform, gumbel), logq, ids)

    def _conditioned(
        self, q: mx.array, p: mx.array, token: int, ids: mx.array | None, uniform: mx.array, gumbel: mx.array
    ) -> mx.array:
        """Returns the column (1,) sampled from q (1, width). p: (1, vocabulary), the target's distribution."""
        at_token = (mx.arange(self.vocabulary) if ids is None else ids) == token
        kept = self._matching & mx.all(uniform * p[:, token] < mx.sum(mx.where(at_token, q, 0.0)))
        residual = mx.maximum(q - (p if ids is None else p[:, ids]), 0.0)
        refused = mx.where(self._matching & (mx.sum(residual) > 0), residual, q)
        self._matching = kept
        return mx.where(kept, mx.argmax(at_token), mx.argmax(mx.log(refused) + gumbel, -1))
