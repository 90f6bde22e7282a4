"""What two runs of a race have in common, and what their first difference is."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace as changed

from app.measure import Reply
from app.protocol.racing import PairReceipt, Parting
from engine.choice import Chooser
from engine.receipt import first_difference
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
    if position is None:
        return PairReceipt(run=number, promised=promised, tokens=len(first))
    tokens = tuple(ids[position] if position < len(ids) else None for ids in (first, second))
    texts = tuple(None if token is None else target.tokenizer.piece(token) for token in tokens)
    parting = Parting(position=position, tokens=tokens, texts=texts)
    if promised:
        parting = _weighed(parting, target, choosers[0], plain, replies)
    return PairReceipt(run=number, promised=promised, tokens=position, parting=parting)


def _weighed(
    parting: Parting, target: Loaded, chooser: Chooser, plain: Sequence[bool], replies: Sequence[Reply]
) -> Parting:
    """With its gap. The plain reply is what the other is held against; of two that drafted, either may be the one that
    rounding took elsewhere."""
    first, second = replies
    ways = [(second, first)] if plain[1] and not plain[0] else [(first, second)]
    if not any(plain):
        ways.append((second, first))
    for mine, theirs in ways:
        found = compare(target.model, chooser, mine.prompt, mine.tokens, theirs.rounds)
        if found is None or found.difference is None:
            continue
        at = found.difference
        parting = changed(parting, gap_ulps=at.gap_ulps, noise_ulps=at.noise_ulps, near_tie=at.near_tie)
        if at.near_tie:
            break
    return parting
