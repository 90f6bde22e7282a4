"""What the replies of a pair have taught on this machine: the times of rounds, and how many drafts are accepted.

It lies in one small file for each pair, which is written after replies. Nothing else is ever timed: a pair that has
never run begins with prices that are usual on its backend, and finds out within the budget of its replies. A file that
cannot be read is ignored and replaced; one that cannot be written is learnt again.
"""

import contextlib
import copy
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from app.inference import digests
from app.inference.machine import processor
from app.inference.pair_loader import NamedDrafter
from engine import backend
from engine.audit.identical_width import identical_width
from engine.audit.verify_blocks import BLOCK_WIDTH
from engine.drafters import Traits
from engine.drafters.dynamic_tree import DEEPEST
from engine.policy import Policy
from engine.policy.adaptive import Adaptive, Candidate
from engine.policy.expected_length import AcceptanceCounts, ChainExpectedLength, ExpectedLength, TreeExpectedLength
from engine.policy.fixed import FixedLength
from engine.policy.step_times import Belief, PriorPrices, StepTimes, pass_price
from engine.settings import SamplingSettings
from models.kept_files import KeptFiles
from models.loader import Loaded
from models.package_versions import version_of
from models.paths import cache_dir

FORMAT = 2
MAX_FILES = 200  # one for each pair


class _File(msgspec.Struct):
    """times: by conditions, replies at once and context class, mean and covariance of a `Belief`. counts: of each
    drafter."""

    format: int
    times: dict[str, dict[int, dict[int, tuple[list[float], list[list[float]]]]]]
    counts: list[AcceptanceCounts]


@dataclass
class LearntRounds:
    """What is known of one pair. root: of the cache, None for the user's."""

    target: Loaded
    drafter: NamedDrafter
    root: Path | None = None

    def __post_init__(self) -> None:
        self._files = KeptFiles(cache_dir(self.root) / "rounds", MAX_FILES)
        self.times: dict[str, StepTimes] = {}
        self.counts = [AcceptanceCounts() for _ in self.drafter.parts]
        self._read()

    def times_of(self, exact: bool = False, timed: bool = False) -> StepTimes:
        """Returns the times of rounds under these conditions. exact: all passes are of one width, as the blocks of
        exact-verify are where they are needed. timed: every draft is waited for."""
        conditions = ("exact" if exact else "free") + (", timed" if timed else "")
        return self.times.setdefault(conditions, StepTimes(self._prior(exact)))

    def policy(
        self,
        settings: SamplingSettings,
        context: int,
        timed: bool = False,
        frozen: bool = False,
        at_once: Callable[[], int] = lambda: 1,
    ) -> Policy:
        """Returns a policy for one reply after `context` tokens: with the draft length of `settings`, or for auto the
        best one. timed: drafts are waited for. frozen: what the reply teaches is forgotten after it, as in a
        comparison of replies. at_once: tells how many replies take part in rounds now.

        A reply whose rounds must repeat goes neither by the clock nor, unless it is compared with others, by what
        earlier replies have taught."""
        if self.drafter.drafter is None or settings.draft_length is not None:
            return FixedLength(settings.draft_length or 0 if self.drafter.drafter is not None else 0)
        width = identical_width(self.target.model).tokens if settings.exact else None
        in_blocks = width == 1
        times, counts = self.times_of(in_blocks, timed).for_reply(), self.counts
        if settings.repeats_rounds and not frozen:
            times, counts = StepTimes(self._prior(in_blocks), learns=False), [AcceptanceCounts() for _ in counts]
        elif frozen or not settings.teaches:
            times, counts = times.copy(learns=not settings.repeats_rounds), copy.deepcopy(counts)
        for each in counts:
            each.fade()
        pairs, longest = zip(self.drafter.parts, counts, strict=True), BLOCK_WIDTH if in_blocks else width
        candidates = [Candidate(part.name, expected_length(part, each, longest), each) for part, each in pairs]
        policy = Adaptive(candidates, times, context, at_once)
        if not policy.is_useful:
            times.neglect()
            return FixedLength(0, "drafting would not be worthwhile here, even if nearly all of it were accepted")
        return policy

    def save(self) -> None:
        """Writes the file."""
        times = {
            name: {replies: _plain(own.learnt) for replies, own in {1: alone, **alone.of_several}.items()}
            for name, alone in self.times.items()
        }
        self._files.write(self._key, msgspec.json.encode(_File(FORMAT, times, self.counts)))

    def _read(self) -> None:
        with contextlib.suppress(ValueError):  # msgspec's errors are ValueErrors
            found = msgspec.json.decode(self._files.read(self._key) or b"", type=_File)
            if found.format != FORMAT or len(found.counts) != len(self.counts):
                return
            times: dict[str, StepTimes] = {}
            for name, several in found.times.items():
                alone = times[name] = StepTimes(self._prior(name.startswith("exact")))
                for replies, beliefs in several.items():
                    own = alone if replies == 1 else alone.of_several.setdefault(replies, StepTimes(alone.drafters))
                    own.learnt = {number: Belief(*map(np.array, each)) for number, each in beliefs.items()}
                    if not all(map(own.is_sound, own.learnt.values())):
                        return
            if all(counts.is_sound for counts in found.counts):
                self.times, self.counts = times, found.counts

    @cached_property
    def _key(self) -> str:
        """What times depend on: machine, library and weights."""
        model, found = self.target.model, backend.describe()
        device = (found.device, found.library, found.detail, found.dtype, version_of("mlx"))
        weights = [self.target.name, digests.of_model(self.target.folder)]
        if model.kv_bits is not None:
            weights.append(f"keys and values in {model.kv_bits} bits")
        if model.leader is not None:
            weights.append(f"shared by {model.leader.ranks}")
        drafters = [text for part in self.drafter.identity for text in part]
        trees = "trees" if self.drafter.branches else "chains"
        return chr(0).join((str(FORMAT), processor(), str(os.cpu_count()), *device, *weights, *drafters, trees))

    def _prior(self, exact: bool) -> list[PriorPrices]:
        return [_prior_prices(part, exact) for part in self.drafter.parts]


def expected_length(drafter: NamedDrafter, counts: AcceptanceCounts, widest: int | None = None) -> ExpectedLength:
    """Returns what is expected of a drafter before a reply; its lengths are those that a draft may have. widest: the
    most rows of a pass, None where there is no limit."""
    if drafter.branches:
        return TreeExpectedLength(drafter.tree_tau)
    longest = drafter.longest if widest is None else min(drafter.longest, widest - 1)
    earlier = counts if counts.rates or not drafter.usual else AcceptanceCounts.of(drafter.usual)
    return ChainExpectedLength(longest, earlier)


def _prior_prices(drafter: NamedDrafter, exact: bool) -> PriorPrices:
    """Returns how long rounds are taken to be before any was seen: a verify pass by the backend's usual curve, and each
    pass of the drafter by what it reads and computes."""
    gpu, prices = backend.queues(), {}
    traits = drafter.drafter.traits if drafter.drafter is not None else Traits()

    def passes(rows: int) -> float:
        return 1.0 if exact and rows <= BLOCK_WIDTH else pass_price(rows, gpu)

    for length in expected_length(drafter, AcceptanceCounts()).expected(None):
        if length:
            steps = 1 if traits.one_pass else min(length, DEEPEST) if traits.branches else length
            prices[length] = passes(length + 1) + drafter.step_price * steps
    return PriorPrices(drafter.name, prices, passes)


def _plain(learnt: dict[int, Belief]) -> dict[int, tuple[list[float], list[list[float]]]]:
    return {number: (one.mean.round(5).tolist(), one.covariance.round(7).tolist()) for number, one in learnt.items()}
