"""What two runs of a race have in common, and what their first difference is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace as changed

from app.measure import Reply
from app.protocol.racing import PairReceipt, Parting
from engine.choice import Chooser
from engine.fingerprint import first_other_bits
from engine.receipt import Receipt, first_difference
from engine.recheck import compare
from engine.settings import Settings
from models.load import Loaded


def receipt_of(
    target: Loaded, settings: Sequence[Settings], plain: Sequence[bool], number: int, replies: Sequence[Reply]
) -> PairReceipt:
    """Of the runs of pair `number`. settings, plain: of each side, whether it never drafts. Replies that differ where
    the same text was promised cost a run of the target, which is left empty."""
    choosers = [Chooser(one.sampling, one.rule, target.model.vocabulary) for one in settings]
    promised = all(chooser.matches for chooser in choosers)
    first, second = (reply.tokens for reply in replies)
    position = first_difference(first, second)
    exact = promised and all(one.exact for one in settings)
    if position is None:
        bits = first_other_bits(*(reply.rounds for reply in replies)) is None if exact else None
        return PairReceipt(run=number, promised=promised, tokens=len(first), same_bits=bits)
    tokens = tuple(ids[position] if position < len(ids) else None for ids in (first, second))
    texts = tuple(None if token is None else target.tokenizer.piece(token) for token in tokens)
    parting = Parting(position=position, tokens=tokens, texts=texts)
    if promised:
        held = partial(compare, target.model, choosers[0], exact=exact)
        parting = _weighed(parting, held, plain, replies)
    return PairReceipt(run=number, promised=promised, tokens=position, parting=parting)


def _weighed(
    parting: Parting, held: Callable[..., Receipt | None], plain: Sequence[bool], replies: Sequence[Reply]
) -> Parting:
    """With its gap. held: the rounds of one reply against the tokens of another, see `engine.recheck.compare`. The
    plain reply is what the other is held against; of two that drafted, either may be the one that rounding took
    elsewhere."""
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
