"""Which conversations are trained on together, and as what arrays.

The order is a function of (seed, epoch). Conversations of like length go together, so that little is padding; the
batches of an epoch are shuffled again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from models.fit.corpus import Conversation
from models.fit.reading import Reader

_POOL = 16  # batches that are sorted by length together
_ROUND = 32  # lengths are padded to multiples of this

States = Callable[[int], mx.array]


@dataclass(frozen=True)
class Batch:
    """tokens: (conversations, length) int32, padded at the end. states: (conversations, length, width + hidden), the
    features of each token and, behind them, its normed state.

    rows: (n,) places in the flattened (conversations * length) that come right before a token of a reply. law:
    (n, columns) the target's law there. said: (n,) int32 the token that follows. starts: how many rows each
    conversation has.
    """

    tokens: mx.array
    states: mx.array
    rows: mx.array
    law: mx.array
    said: mx.array
    starts: tuple[int, ...]


class Batches:
    """Makes batches. states: rows of a conversation by its number, as `reader` makes them. ids: the columns of the
    law, None for every token.

    lead: tokens that a row must have before it, as many as the drafter's depths look back.
    """

    def __init__(
        self,
        conversations: Sequence[Conversation],
        states: States,
        reader: Reader,
        ids: mx.array | None,
        lead: int,
    ) -> None:
        self._conversations, self._states = conversations, states
        self._law, self._width, self._lead = reader.lawgiver(ids), reader.width, lead

    def make(self, numbers: Sequence[int]) -> Batch:
        """The batch of these conversations, evaluated."""
        chosen = [self._conversations[number] for number in numbers]
        length = -(-max(len(c.tokens) for c in chosen) // _ROUND) * _ROUND
        tokens = np.zeros((len(chosen), length), np.int32)
        states, rows, said, starts = [], [], [], []
        for line, (number, c) in enumerate(zip(numbers, chosen, strict=True)):
            tokens[line, : len(c.tokens)] = c.tokens
            states.append(mx.pad(self._states(number), [(0, length - len(c.tokens)), (0, 0)]))
            first = max(c.prompt - 1, self._lead)
            rows.append(np.arange(first, len(c.tokens) - 1) + line * length)
            said.append(c.tokens[first + 1 :])
            starts.append(max(len(c.tokens) - 1 - first, 0))
        stacked, places = mx.stack(states), mx.array(np.concatenate(rows).astype(np.int32))
        law = self._law(stacked.reshape(-1, stacked.shape[-1])[places, self._width :])
        follows = mx.array(np.concatenate(said))
        batch = Batch(mx.array(tokens), stacked[..., :-1], places, law, follows, tuple(starts))
        mx.eval(batch.tokens, batch.states, batch.rows, batch.law, batch.said)
        return batch


def schedule(lengths: Sequence[int], batch_tokens: int, seed: int) -> Iterator[list[int]]:
    """Places in `lengths`, batch after batch, epoch after epoch, without end. A batch has at most `batch_tokens`
    tokens, padding included, or one conversation."""
    epoch = 0
    while True:
        chance = random.Random(f"{seed}/order/{epoch}")
        order = list(range(len(lengths)))
        chance.shuffle(order)
        mean = sum(lengths) / len(lengths)
        pool = max(1, round(_POOL * batch_tokens / mean))
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            batches += _pack(sorted(order[start : start + pool], key=lambda n: (lengths[n], n)), lengths, batch_tokens)
        chance.shuffle(batches)
        yield from batches
        epoch += 1


def _pack(order: Sequence[int], lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Neighbours in `order` together, as many as fit."""
    packed: list[list[int]] = [[]]
    for number in order:
        padded = -(-lengths[number] // _ROUND) * _ROUND
        if packed[-1] and padded * (len(packed[-1]) + 1) > batch_tokens:
            packed.append([])
        packed[-1].append(number)
    return packed
