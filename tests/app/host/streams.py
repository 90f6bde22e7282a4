"""Long streams made of recorded rounds, for what must keep up with them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

from msgspec import structs

from app.protocol import AnyAnswer, ReplyDone, RoundDone


def stream_of(answers: Sequence[AnyAnswer], tokens: int, per_second: float) -> list[AnyAnswer]:
    """One reply of so many tokens at that pace from its first round on, made of the rounds of a recording."""
    told = [answer for answer in answers if isinstance(answer, RoundDone)]
    end = next(answer for answer in answers if isinstance(answer, ReplyDone))
    made: list[AnyAnswer] = []
    said = 0
    for answer in cycle(told):
        round_ = answer.round
        left = tokens - said
        if left <= 0:
            break
        kept = round_.tokens[:left]
        cut = replace(
            round_,
            index=len(made),
            tokens=kept,
            texts=round_.texts[:left],
            p=round_.p[:left],
            accepted=min(round_.accepted, len(kept)),
            time_s=said / per_second,
        )
        made.append(structs.replace(answer, id=end.id, round=cut))
        said += len(kept)
    return [*made, structs.replace(end, finished=replace(end.finished, tokens=said, time_s=said / per_second))]
