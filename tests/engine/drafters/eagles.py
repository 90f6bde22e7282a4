"""EAGLE-3 heads for toy targets that know one text by heart, more or less."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np

from engine.drafters.eagle3 import Eagle3, Eagle3Head
from engine.target.cached_model import CachedModel
from tests.engine.conversations import MODELS
from tests.engine.replies import PROMPT, reply
from tests.toys.architectures import build
from tests.toys.heads import random_eagle3

_STEPS = 4


class Remembering(Eagle3Head):
    """A head that has met all its states before: each step on a text `follow` tells what came next, at some places
    only as its second guess."""

    def remember(self, states: mx.array, follow: Sequence[int], wrong: Sequence[bool]) -> None:
        guesses = np.random.default_rng(0).normal(0, 0.7, (len(follow), self.config.draft_vocab_size))
        column = {token: i for i, token in enumerate(self.ids.tolist())}
        for row, (token, miss) in enumerate(zip(follow, wrong, strict=True)):
            guesses[row, column.get((token + 1) % self.config.vocab_size, 0)] = 3.0 + 2 * miss
            if token in column:
                guesses[row, column[token]] = 4.0
        self._guesses, self._states = mx.array(guesses.astype(np.float32)), states

    def logits(self, hidden: mx.array, project: Any = None) -> mx.array:
        far = mx.sum((hidden[..., None, :] - self._states) ** 2, -1)
        return self._guesses[mx.argmin(far, -1)]


@cache
def network_of(name: str) -> Any:
    return MODELS[name] if name in MODELS else build(name)


def eagle(name: str, trees: bool = False) -> Eagle3:
    """A new drafter for the toy target `name`, with one head for all."""
    network = network_of(name)
    return Eagle3(_head(name), CachedModel(network), trees)


@cache
def _head(name: str) -> Eagle3Head:
    network = network_of(name)
    text = [*PROMPT, *reply(network, tokens=70)[0]]
    return taught(network, text)


def taught(network: Any, text: Sequence[int]) -> Remembering:
    """A random head that remembers what follows in `text`, also where it stands on some of its own steps."""
    head: Any = random_eagle3(draft_vocab_size=56)
    head.__class__ = Remembering
    target = CachedModel(network)
    drafter = Eagle3(head, target)
    target.record(drafter.needs.taps)
    target.feed(text)
    first = drafter.steps(
        head.fuse(drafter.target.hidden(drafter.needs.taps, 0, len(text) - 1)), mx.array(list(text[1:]))
    )
    states, places = [first[: len(text) - 2]], list(range(2, len(text)))
    for pair in range(len(text) - _STEPS - 2):
        drafter.rewind(pair + 2)
        hidden = first[pair : pair + 1]
        for step in range(1, _STEPS + 1):
            hidden = drafter.steps(hidden, mx.array([text[pair + 1 + step]]))
            states.append(hidden)
            places.append(pair + 2 + step)
    target.record()
    head.remember(mx.concatenate(states), [text[i] for i in places], [i % 5 == 0 for i in places])
    mx.eval(head._guesses, head._states)
    return head
