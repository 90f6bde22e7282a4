"""What two runs of a race have in common, and what their first difference is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace as changed

from app.inference.measured_reply import Reply
from app.protocol.race_messages import Divergence, PairReceipt
from engine.audit.fingerprints import first_other_bits
from engine.audit.receipt import Receipt, first_difference
from engine.audit.reply_check import compare_replies
from engine.sampling import Sampler
from engine.settings import SamplingSettings
from models.loader import Loaded


def receipt_of(
    target: Loaded, settings: Sequence[SamplingSettings], plain: Sequence[bool], number: int, replies: Sequence[Reply]
) -> PairReceipt:
    """Of the runs of pair `number`. settings, plain: of each side, whether it never drafts. Replies that differ where
    the same text was promised cost a run of the target, which is left empty."""
    samplers = [Sampler(one, target.model.vocabulary) for one in settings]
    promised = all(sampler.accepts_by_match for sampler in samplers)
    first, second = (reply.tokens for reply in replies)
    position = first_difference(first, second)
    exact = promised and all(one.exact for one in settings)
    if position is None:
        bits = first_other_bits(*(reply.rounds for reply in replies)) is None if exact else None
        return PairReceipt(run=number, promised=promised, tokens=len(first), same_bits=bits)
    tokens = tuple(ids[position] if position < len(ids) else None for ids in (first, second))
    texts = tuple(None if token is None else target.tokenizer.piece(token) for token in tokens)
    parting = Divergence(position=position, tokens=tokens, texts=texts)
    if promised:
        held = partial(compare_replies, target.model, samplers[0], exact=exact)
        parting = _weighed(parting, held, plain, replies)
    return PairReceipt(run=number, promised=promised, tokens=position, divergence=parting)


def _weighed(
    parting: Divergence, held: Callable[..., Receipt | None], plain: Sequence[bool], replies: Sequence[Reply]
) -> Divergence:
    """With its gap. held: the rounds of one reply against the tokens of another, see
    `engine.audit.reply_check.compare_replies`. The plain reply is what the other is held against; of two that
    drafted, either may be the one that rounding took elsewhere."""
    first, second = replies
    ways = [(second, first)] if plain[1] and not plain[0] else [(first, second)]
    if not any(plain):
        ways.append((second, first))
    for mine, theirs in ways:
        found = held(mine.prompt, mine.tokens, theirs.rounds)
        if found is None or found.difference is None:
            continue
        at = found.difference
        parting = changed(parting, gap_ulps=at.gap_ulps, noise_ulps=at.noise_ulps, near_tie=at.near_tie)
        if at.near_tie:
            break
    return parting
