"""What a drafter proposes before each token of a text, and how far that is accepted.

A drafter that draws from a distribution q goes on with the text's own tokens in place of those that it would draw
(teacher forcing), so one draft before a token gives q for the tokens after it too. Other drafts, copies and trees, are
compared with the text. All of this uses what every drafter has: `engine.drafters.Drafter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from engine.acceptance import gather
from engine.backend import to_numpy
from engine.drafters import Draft, DraftContext, Drafter, empty_draft
from engine.errors import UsageError
from engine.sampling import DraftRows, Sampler, TokenCounts, draft_row
from engine.settings import SamplingSettings
from models.expected_rounds import Counts, Floats, survival_probs
from models.forecast.target_text import RecordedView, TargetOutputs

_LEAST = 1e-30  # probability


@dataclass(frozen=True)
class TextDrafts:
    """The drafts before each of the n tokens of a reply.

    survival: as in `models.expected_rounds`. levels: (n,) tokens of the longest chain of each draft. drafted: (n,) all
    of its tokens. member: (n,) which of several drafters proposes it.
    """

    survival: Floats
    levels: Counts
    drafted: Counts
    member: Counts

    def cut(self, length: int) -> TextDrafts:
        """Returns chains of at most `length` tokens."""
        survival, levels = self.survival[:, : length + 1], np.minimum(self.levels, length)
        return TextDrafts(survival, levels, np.minimum(self.drafted, length), self.member)

    @classmethod
    def of_group(cls, members: Sequence[TextDrafts]) -> TextDrafts:
        """Returns the drafts of several drafters, of which the first that has something to propose drafts. Where none
        has, the loop submits the next plain step ahead, so what could be drafted there comes too late."""
        first = np.argmax([one.drafted > 0 for one in members], 0)
        columns = zip(*((one.survival, one.levels, one.drafted) for one in members), strict=True)
        survival, levels, drafted = (np.stack(column)[first, np.arange(len(first))] for column in columns)
        late = np.flatnonzero(drafted[:-1] == 0) + 1
        levels[late] = drafted[late] = 0
        survival[late, 1:] = 0.0
        return cls(survival, levels, drafted, first)


def acceptance_probs(logp: mx.array, logq: mx.array, tokens: mx.array, sampling: SamplingSettings) -> mx.array:
    """Returns the probability (n,) that a token drafted from q is accepted where the text has `tokens` (n,).

    logp, logq: (n, vocabulary), the latter -inf for tokens that the drafter does not have.
    """
    if sampling.greedy:
        return (mx.argmax(logq, -1) == tokens).astype(mx.float32)
    px, qx = mx.maximum(mx.exp(gather(logp, tokens)), _LEAST), mx.exp(gather(logq, tokens))
    if sampling.acceptance == "rejection":
        return mx.minimum(1.0, qx / px)
    ratio = px / mx.maximum(qx, _LEAST)
    return mx.where(qx > 0, 1.0 / mx.sum(mx.maximum(mx.exp(logp), mx.exp(logq) * ratio[:, None]), -1), 0.0)


class TextSampler(Sampler):
    """Gives a drafter the text's own tokens in place of those that it would draw. logq: (1, vocabulary) each, the
    distributions that it would have drawn them from, since this was last emptied."""

    def __init__(self, sampling: SamplingSettings, outputs: TargetOutputs) -> None:
        super().__init__(sampling, outputs.logits.shape[-1])
        self.logq: list[mx.array] = []
        self._tokens = outputs.text.tokens

    def draw(
        self, logits: mx.array, counts: TokenCounts, position: int, ids: mx.array | None = None, place: int = 0
    ) -> DraftRows:
        """A token that the drafter does not have is replaced by one that it has: nothing after it counts."""
        logprobs = self.distribution.logprobs(self.distribution.adjust(logits, counts.rows(), ids))
        self.logq.append(self.widen(logprobs, ids))
        token = self._tokens[min(position + place, len(self._tokens) - 1)]
        column = mx.array([token]) if ids is None else mx.argmax(ids == token, keepdims=True)
        return draft_row(column, logprobs, ids)


def drafts_along(outputs: TargetOutputs, drafter: Drafter, sampling: SamplingSettings, length: int) -> TextDrafts:
    """Returns the drafts of at most `length` tokens. Leaves the drafter's caches empty.

    Raises UsageError for a tree that is drawn for rejection sampling: how often it is accepted, given that the reply
    became this text, is not known.
    """
    reader: Any = drafter
    own = reader.target if drafter.needs.taps else None
    view = own and RecordedView(own.model, outputs)
    drafter.rewind(0)
    try:
        if view:
            reader.target = view
        return _Drafting(outputs, drafter, sampling, view).along(length)
    finally:
        drafter.rewind(0)
        if view:
            reader.target = own


class _Drafting:
    """One drafter along one text. view: what it reads of the target, None if it reads nothing."""

    def __init__(
        self, outputs: TargetOutputs, drafter: Drafter, sampling: SamplingSettings, view: RecordedView | None
    ) -> None:
        self._outputs, self._text, self._drafter, self._view = outputs, outputs.text, drafter, view
        self._sampler = TextSampler(sampling, outputs)
        # What a drafter draws a token from, if it reads the text alone, is the same wherever the draft began.
        self._reads_text_alone = drafter.traits.in_steps and view is None

    def along(self, length: int) -> TextDrafts:
        n, place = len(self._text.reply), 0
        accepted = np.zeros((length, n))  # by depth
        levels, drafted = np.zeros(n, np.int64), np.zeros(n, np.int64)
        rooms = np.clip(self._text.limit - 1 - np.arange(n), 0, length)  # a round has a token of the target's as well
        while place < n:
            draft, found = self._draft(place, int(rooms[place])) if rooms[place] else (empty_draft(), np.zeros(0))
            if self._reads_text_alone and self._sampler.logq:
                stride = slice(place, place + max(1, len(found)))
                accepted[:, place : place + len(found)] = found
                levels[stride] = drafted[stride] = rooms[stride]
                place = stride.stop
            else:
                accepted[np.arange(len(found)), place + np.arange(len(found))] = found
                drafted[place] = draft.tokens.size
                levels[place] = drafted[place] if draft.tree is None else mx.max(draft.tree.depths).item()
                place += 1
        return TextDrafts(survival_probs(accepted, length), levels, drafted, np.zeros_like(levels))

    def _draft(self, place: int, length: int) -> tuple[Draft, Floats]:
        """Returns a draft before this token of the reply, and the probability that each of its levels is accepted if
        those before it were, up to the first that cannot be."""
        tokens = self._text.tokens[: self._text.prompt + place]
        self._drafter.rewind(len(tokens) - 1)
        if self._view is not None:
            self._view.seen = len(tokens) - 1
        self._sampler.logq.clear()
        context = DraftContext(tokens, TokenCounts(self._sampler.distribution, tokens), self._sampler)
        draft = self._drafter.propose(context, length)
        if self._sampler.logq:
            return draft, self._acceptance(context, place)
        if draft.logq is not None:
            raise UsageError("trees cannot be forecast with rejection sampling: choose coupled sampling, or chains")
        return draft, self._agreement(draft, place)

    def _acceptance(self, context: DraftContext, place: int) -> Floats:
        text = mx.array(self._text.reply[place : place + len(self._sampler.logq)], mx.int32)
        logq, distribution = mx.concatenate(self._sampler.logq[: text.size]), self._sampler.distribution
        logits = self._outputs.logits[place : place + text.size]
        logp = distribution.logprobs(distribution.adjust(logits, context.counts.rows(text[:-1])))
        accepted = acceptance_probs(logp, logq, text, distribution.sampling)
        lacking = np.flatnonzero(to_numpy(gather(logq, text)) == -np.inf)  # tokens that the drafter does not have
        known = int(lacking[0]) + 1 if lacking.size else text.size
        return to_numpy(accepted).astype(np.float64)[:known]

    def _agreement(self, draft: Draft, place: int) -> Floats:
        tokens: Any = draft.tokens.tolist()
        parents: Any = range(-1, len(tokens) - 1) if draft.tree is None else draft.tree.parents.tolist()
        children = {key: node for node, key in enumerate(zip(parents, tokens, strict=True))}
        node, followed = -1, 0
        for token in self._text.reply[place:]:
            if (node, token) not in children:
                break
            node, followed = children[node, token], followed + 1
        return np.ones(followed)
