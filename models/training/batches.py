"""Batches of conversations as arrays, and the order in which they are trained on.

The order is a function of (seed, epoch). Conversations of similar length are batched together, so that there is
little padding; the batches of an epoch are then shuffled.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from models.training.corpus import Conversation
from models.training.target_states import TargetStateReader

_POOL = 16  # batches whose conversations are sorted by length together
_ROUND = 32  # lengths are padded to multiples of this

States = Callable[[int], mx.array]


@dataclass(frozen=True)
class Batch:
    """Conversations as arrays.

    tokens: (conversations, length) int32, padded at the end. states: (conversations, length, width + hidden), the
    features and then the normed state of each token. rows: (n,) indices into the flattened (conversations * length),
    each right before a token of a reply. target_probs: (n, columns), the target's distribution there. labels: (n,)
    int32, the token that follows.
    """

    tokens: mx.array
    states: mx.array
    rows: mx.array
    target_probs: mx.array
    labels: mx.array


class Batches:
    """Makes batches. states: returns the rows of a conversation by its number, as `reader` makes them. ids: the columns
    of the distribution, None for every token. lead: the number of tokens that must precede a row.
    """

    def __init__(
        self,
        conversations: Sequence[Conversation],
        states: States,
        reader: TargetStateReader,
        ids: mx.array | None,
        lead: int,
    ) -> None:
        self._conversations, self._states = conversations, states
        self._target_probs, self._width, self._lead = reader.target_distribution(ids), reader.width, lead

    def make(self, numbers: Sequence[int]) -> Batch:
        """Returns the batch of these conversations, evaluated."""
        chosen = [self._conversations[number] for number in numbers]
        length = -(-max(len(c.tokens) for c in chosen) // _ROUND) * _ROUND
        tokens = np.zeros((len(chosen), length), np.int32)
        states, rows, labels = [], [], []
        for line, (number, c) in enumerate(zip(numbers, chosen, strict=True)):
            tokens[line, : len(c.tokens)] = c.tokens
            states.append(mx.pad(self._states(number), [(0, length - len(c.tokens)), (0, 0)]))
            first = max(c.prompt - 1, self._lead)
            rows.append(np.arange(first, len(c.tokens) - 1) + line * length)
            labels.append(c.tokens[first + 1 :])
        stacked, places = mx.stack(states), mx.array(np.concatenate(rows).astype(np.int32))
        target_probs = self._target_probs(stacked.reshape(-1, stacked.shape[-1])[places, self._width :])
        follows = mx.array(np.concatenate(labels))
        batch = Batch(mx.array(tokens), stacked[..., :-1], places, target_probs, follows)
        mx.eval(batch.tokens, batch.states, batch.rows, batch.target_probs, batch.labels)
        return batch


def schedule(lengths: Sequence[int], batch_tokens: int, seed: int) -> Iterator[list[int]]:
    """Yields batches of indices into `lengths`, one epoch after another, without end. A batch has at most
    `batch_tokens` tokens, padding included, or a single conversation."""
    epoch = 0
    while True:
        rng = random.Random(f"{seed}/order/{epoch}")
        order = list(range(len(lengths)))
        rng.shuffle(order)
        mean = sum(lengths) / len(lengths)
        pool = max(1, round(_POOL * batch_tokens / mean))
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            batches += _pack(sorted(order[start : start + pool], key=lambda n: (lengths[n], n)), lengths, batch_tokens)
        rng.shuffle(batches)
        yield from batches
        epoch += 1


def _pack(order: Sequence[int], lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Groups neighbours in `order` into batches of at most `batch_tokens` tokens."""
    packed: list[list[int]] = [[]]
    for number in order:
        padded = -(-lengths[number] // _ROUND) * _ROUND
        if packed[-1] and padded * (len(packed[-1]) + 1) > batch_tokens:
            packed.append([])
        packed[-1].append(number)
    return packed
