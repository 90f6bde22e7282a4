"""A drafter that knows nothing: an EAGLE-3 head of random weights, of the size that `redline fit` would train.

It costs what a head costs and is hardly ever right: the worst that can befall someone who pairs the wrong files.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from app.pair import NamedDrafter
from engine.anatomy import layers_of
from engine.drafters.eagle import Eagle
from engine.errors import FitError, UsageError
from engine.features import Features
from engine.heads.eagle3 import Eagle3Head
from models.fit.eagle3 import geometry, points
from models.load import Loaded

NAME = "random"
DRAFT_VOCABULARY = 8192
SEED = 0


def random_drafter(target: Loaded) -> NamedDrafter:
    """The same weights each time. Raises UsageError for a target that no such head fits."""
    read = points(len(layers_of(target.network)))
    try:
        config = geometry(
            target, read, Features(target.network, read).width, min(DRAFT_VOCABULARY, target.model.vocabulary)
        )
    except FitError as error:
        raise UsageError(f"no head of random weights fits {target.name}: leave --random out ({error})") from error
    mx.random.seed(SEED)
    head: Any = Eagle3Head(config)
    head.speak(mx.arange(config.draft_vocab_size))
    mx.eval(head.parameters())
    return NamedDrafter(NAME, Eagle(head, target.model), gated=True)
