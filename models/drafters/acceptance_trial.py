"""A trial that measures the acceptance rate of a drafter whose folder does not say it: made once, and remembered.

Draft length auto begins each reply with the usual acceptance of a drafter (`engine.policy.expected_length`). Heads that
`redline fit` made have it in config.json. With any other drafter the target answers four prompts greedily. The share of
the drafted tokens that was accepted stands for every place of a draft; tokens after a refused one are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ModelError
from models.drafters.trial_results import keep_rates, kept_rates, trial_key
from models.drafters.variant_trial import drafted_along

if TYPE_CHECKING:
    from engine.drafters import Drafter
    from models.loader import Loaded

TOKENS = 24  # of each answer: texts differ more from each other than a text from its own beginning
DRAFT_LENGTH = 3
PROMPTS = (
    "Explain in plain words why the sky is blue.",
    "Write a Python function that returns the n-th prime number.",
    "Write a short story about a lighthouse keeper and a storm.",
    "A train leaves at 14:10 and arrives at 17:45. How long does it take?",
)
_PURPOSE = "acceptance"
_LEAST_JUDGED = 20  # drafted tokens, without which the rate would say nothing


def remembered_acceptance(folder: Path, target: Loaded, cache_root: Path | None = None) -> float | None:
    """Returns the acceptance rate of an earlier trial of the drafter in `folder` for this target, None without one."""
    with suppress(OSError):
        if rates := kept_rates(_key(folder, target), [_PURPOSE], cache_root):
            return rates[0]
    return None


def measure_acceptance(
    drafter: Drafter, folder: Path, target: Loaded, cache_root: Path | None, pause: Callable[[], None]
) -> float | None:
    """Returns the acceptance rate of a trial, and keeps it; None where the answers are too short to tell, or the chat
    template refuses the prompts.

    folder: of the drafter. pause: called between layers and passes; may raise to break off. Empties the target's cache.
    Raises whatever a drafter raises.
    """
    from engine.metrics import Metrics

    try:
        prompts = [target.tokenizer.chat([{"role": "user", "content": text}]) for text in PROMPTS]
    except ModelError:
        return None
    answers = (drafted_along(drafter, target, prompt, TOKENS, DRAFT_LENGTH, pause) for prompt in prompts)
    metrics = Metrics.of(chain.from_iterable(answers))
    judged = sum(metrics.reached)
    if judged < _LEAST_JUDGED:
        return None
    rate = sum(metrics.kept) / judged
    with suppress(OSError):  # the folder is gone
        keep_rates(_key(folder, target), [_PURPOSE], [rate], cache_root)
    return rate


def _key(folder: Path, target: Loaded) -> str:
    """Returns what stands for this drafter and this target; a target whose keys and values have fewer bits is another
    one."""
    return f"{trial_key(folder, target.folder.path)} {_PURPOSE} {target.model.kv_bits or ''}".rstrip()
