"""Trains any kind of drafter: AdamW with warm-up and cosine decay, and checkpoints that resume exactly.

The loss is the share that rejection sampling would refuse (one minus the overlap of the two distributions, that is the
total variation; Zhou 2024, arXiv 2310.08461) plus half their cross-entropy, which has a gradient even where they do not
overlap. Both are computed over the draft vocabulary only: other tokens cannot be learnt. Later depths weigh less,
because they are reached less often.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_unflatten

from engine.errors import FitError
from models.durable_files import replace_with
from models.safetensors_file import write_tensors
from models.training.batches import Batch
from models.training.trainee import Trainee, trainable_parameters
from models.training.training_plan import CHECKPOINT_S

DEPTH_WEIGHT = 0.8
CROSS_ENTROPY_WEIGHT = 0.5
WARM_UP = 0.05  # of all steps
LAST_RATE = 0.02  # of the learning rate
CLIP = 1.0
_clipped: Any = optim.clip_grad_norm
_CHECKPOINT = "checkpoint.safetensors"


@dataclass
class History:
    """The losses of a training. losses: of each step. checks: (step, loss on held-out text)."""

    losses: list[float] = field(default_factory=list)
    checks: list[tuple[int, float]] = field(default_factory=list)


def loss_of(trainee: Trainee, batch: Batch, depths: int) -> mx.array:
    """Returns the mean loss of `batch`, weighted by depth: the refused share plus half the cross-entropy in nats."""
    total, weights = mx.array(0.0), 0.0
    for depth, logits in enumerate(trainee.predict(batch, depths)):
        logprobs = logits - mx.logsumexp(logits, -1, keepdims=True)
        overlap = mx.sum(mx.minimum(batch.target_probs, mx.exp(logprobs)), -1)
        entropy = -mx.sum(batch.target_probs * logprobs, -1)
        total = total + DEPTH_WEIGHT**depth * mx.mean(1 - overlap + CROSS_ENTROPY_WEIGHT * entropy)
        weights += DEPTH_WEIGHT**depth
    return total / weights


def learning_rate_at(step: int, steps: int, most: float) -> float:
    """Returns the learning rate of a step, counted from 0: a linear warm-up, then half a cosine."""
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return most * (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    return most * (LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * done)))


class Trainer:
    """Trains `trainee` for `steps` steps. place: the folder of its checkpoint, None for no checkpoint."""

    def __init__(self, trainee: Trainee, steps: int, learning_rate: float, place: Path | None = None) -> None:
        self.trainee, self.steps, self.step = trainee, steps, 0
        self.history = History()
        self._rate, self._place = learning_rate, place
        self._optimizer: Any = optim.AdamW(learning_rate, betas=[0.9, 0.95], weight_decay=0.01, bias_correction=True)
        self._optimizer.init(trainee.network.trainable_parameters())
        self._grad = nn.value_and_grad(trainee.network, lambda batch: loss_of(trainee, batch, trainee.depths))

    def resume(self) -> bool:
        """Restores the checkpoint; returns False if there is none. Raises FitError for a damaged one."""
        path = self._place / _CHECKPOINT if self._place else None
        if path is None or not path.exists():
            return False
        try:
            arrays: Any = mx.load(str(path))
            groups: dict[str, list[tuple[str, mx.array]]] = {"network": [], "optimizer": []}
            for name, value in arrays.items():
                group, _, rest = name.partition("/")
                if group in groups:
                    groups[group].append((rest, value))
            _need_all(trainable_parameters(self.trainee.network), groups["network"])
            _need_all(dict(tree_flatten(self._optimizer.state)), groups["optimizer"])
            self.trainee.network.update(tree_unflatten(groups["network"]))
            self._optimizer.state = tree_unflatten(groups["optimizer"])
            self.history.losses = arrays["losses"].tolist()
            self.history.checks = [(int(step), loss) for step, loss in arrays["checks"].tolist()]
        except (RuntimeError, KeyError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise FitError(f"{path} is damaged ({reason}): remove it and continue with --resume") from error
        self.step = len(self.history.losses)
        return True

    def save(self) -> None:
        """Writes a checkpoint with everything that the next step depends on. Raises OSError."""
        if self._place is None:
            return
        arrays = {f"network/{name}": value for name, value in trainable_parameters(self.trainee.network).items()}
        arrays |= {f"optimizer/{name}": value for name, value in dict(tree_flatten(self._optimizer.state)).items()}
        arrays["losses"] = mx.array(self.history.losses, mx.float32)
        arrays["checks"] = mx.array(self.history.checks or mx.zeros((0, 2)), mx.float32)
        replace_with(self._place / _CHECKPOINT, lambda draft: write_tensors(draft, arrays))

    def run(
        self,
        schedule: Iterator[list[int]],
        make: Callable[[Sequence[int]], Batch],
        check: Callable[[], float],
    ) -> Iterator[int]:
        """Trains on the rest of `schedule`; yields the number of steps done after each step.

        check: computes the loss on held-out text; called ten times. A checkpoint is written every half minute, when
        the iterator is closed between two steps, and at the end. Raises FitError if the loss is not finite.
        """
        saved_s = time.monotonic()
        every = max(1, self.steps // 10)
        try:
            for numbers in islice(schedule, self.step, self.steps):
                self.train(make(numbers))
                if self.step % every == 0 or self.step == self.steps:
                    self.history.checks.append((self.step, check()))
                if time.monotonic() - saved_s > CHECKPOINT_S:
                    self.save()
                    saved_s = time.monotonic()
                yield self.step
        except GeneratorExit:
            self.save()
            raise
        self.save()

    def train(self, batch: Batch) -> float:
        """Makes one step; returns the loss before it."""
        network = self.trainee.network
        self._optimizer.learning_rate = learning_rate_at(self.step, self.steps, self._rate)
        loss, gradients = self._grad(batch)
        gradients, _ = _clipped(gradients, CLIP)
        self._optimizer.update(network, gradients)
        mx.eval(loss, network.trainable_parameters(), self._optimizer.state)
        loss_value = float(loss.item())
        if not math.isfinite(loss_value):
            raise FitError(
                f"the loss of step {self.step + 1} is {loss_value}: start again with a lower --learning-rate"
            )
        self.step += 1
        self.history.losses.append(loss_value)
        return loss_value


def _need_all(here: Mapping[str, mx.array], kept: Sequence[tuple[str, mx.array]]) -> None:
    """Raises ValueError unless the stored arrays have the same names and shapes as the current ones."""
    for name in here.keys() ^ dict(kept).keys():
        raise ValueError(f"{name} is missing on one side")
    for name, value in kept:
        if value.shape != here[name].shape:
            raise ValueError(f"{name} has the shape {value.shape} instead of {here[name].shape}")
