"""Measures how good a drafter is on held-out text, and what speed-up that gives with the round times of this machine.

At temperature 0 nothing is estimated: in a greedy reply every token is the target's choice, so a draft is accepted just
as far as it agrees with the text, and following the text as the loop does counts the rounds that it would take. At
temperature 1 a token sampled from q is accepted with probability sum(min(p, q)) (Leviathan 2023); later tokens are
evaluated where the earlier ones are those of the text. Replies sampled at temperature 1 serve for that.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.backend import to_numpy
from engine.policy.expected_length import TREE_SIZES
from engine.policy.step_times import DrafterTimes
from models.expected_rounds import expected_rounds, survival_probs
from models.training.batches import Batch
from models.training.trainee import Trainee

LONGEST = 8  # drafts that are considered
RELIABLE_COUNT = 50  # times that a position must have been reached for a policy to rely on its acceptance
WORTH = 1.1  # a speed-up that a user notices, and larger than the differences between runs
CONTEXT = 256  # tokens after which rounds are timed: that of a short conversation


@dataclass
class HeldOutScores:
    """Counts over held-out replies, by depth. roots: drafts begun, warm ones at temperature 1.

    rounds, tokens: by draft length k, at temperature 0. reached, kept: by depth, for the longest draft at temperature
    0, how many tokens were verified and how many of them accepted. reach: sums over warm roots of the probability that
    a draft is accepted up to each depth.
    """

    rounds: NDArray[np.int64] = field(default_factory=lambda: np.zeros(LONGEST + 1, np.int64))
    tokens: NDArray[np.int64] = field(default_factory=lambda: np.zeros(LONGEST + 1, np.int64))
    reached: NDArray[np.int64] = field(default_factory=lambda: np.zeros(LONGEST, np.int64))
    kept: NDArray[np.int64] = field(default_factory=lambda: np.zeros(LONGEST, np.int64))
    warm_roots: int = 0
    reach: NDArray[np.float64] = field(default_factory=lambda: np.zeros(LONGEST))

    @property
    def acceptance(self) -> list[float]:
        """The share accepted of the tokens that were verified, by position, at temperature 0."""
        return [float(k / n) for k, n in zip(self.kept, self.reached, strict=True) if n]

    @property
    def reliable_acceptance(self) -> list[float]:
        """The same, for the first positions that were verified often enough to be reliable."""
        return [share for share, n in zip(self.acceptance, self.reached, strict=False) if n >= RELIABLE_COUNT]

    def add(self, agreed: NDArray[np.bool_], overlap: NDArray[np.float32], temperature: float) -> None:
        """Adds one reply. agreed, overlap: (depths, n), for each token of the reply, drafted at each depth: whether the
        drafter's most likely token was that token, and the overlap of the two distributions. A single row serves for
        every depth."""
        if temperature == 0:
            self._walk(agreed)
        elif temperature == 1:
            self._expect(overlap)

    def _walk(self, agreed: NDArray[np.bool_]) -> None:
        depths, n = agreed.shape
        longest = LONGEST if depths == 1 else min(LONGEST, depths)
        survival = survival_probs(agreed.astype(np.float64), longest)
        for length in range(longest + 1):
            walked = expected_rounds(survival[:, : length + 1], np.full(n, length))
            self.rounds[length] += round(walked.rounds)
            self.tokens[length] += n
        self.reached[:longest] += walked.reached.astype(np.int64)
        self.kept[:longest] += walked.kept.astype(np.int64)

    def _expect(self, overlap: NDArray[np.float32]) -> None:
        depths, n = overlap.shape
        longest = LONGEST if depths == 1 else min(LONGEST, depths)
        roots = n - longest + 1
        if roots < 1:
            return
        share = np.ones(roots)
        self.warm_roots += roots
        for depth in range(longest):
            share = share * overlap[min(depth, depths - 1), depth : depth + roots]
            self.reach[depth] += float(share.sum())


def evaluate(trainee: Trainee, batch: Batch, temperature: float, scores: HeldOutScores) -> list[mx.array]:
    """Adds the one conversation of `batch` to `scores`; returns the logits by depth."""
    logits = trainee.predict(batch, trainee.max_depth)
    agreed, overlap = [], []
    for one in logits:
        best = mx.argmax(one, -1)
        agreed.append((best if trainee.ids is None else trainee.ids[best]) == batch.labels)
        overlap.append(mx.sum(mx.minimum(batch.target_probs, mx.softmax(one, -1)), -1))
        mx.eval(agreed[-1], overlap[-1])
    scores.add(to_numpy(mx.stack(agreed)), to_numpy(mx.stack(overlap)), temperature)
    return logits


# --- the verdict ------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingVerdict:
    """Whether a drafter is worth using on this machine. tau, speedup: by draft length from 0; warm: at temperature 1.

    acceptance: share of the verified tokens, by position, at temperature 0; warm_acceptance: at 1. best, warm_best:
    the draft lengths with the greatest speed-up. tree_tau, tree_speedup: by nodes of a static tree from 0, at
    temperature 0, the latter up to the largest tree of auto; empty where none is verified. words: one sentence.
    """

    acceptance: list[float]
    warm_acceptance: list[float]
    tau: list[float]
    warm_tau: list[float]
    speedup: list[float]
    warm_speedup: list[float]
    best: int
    warm_best: int
    tree_tau: list[float]
    tree_speedup: list[float]
    worth: bool
    words: str


def assess(
    scores: HeldOutScores, times: DrafterTimes, tree: Sequence[float] = (), trouble: str | None = None
) -> TrainingVerdict:
    """Returns rates from counts, and speed-ups from rates and round times. tree: the acceptance probabilities of
    the nodes of a static tree. trouble: why the target cannot verify one, None where it can."""
    tau = [float(t / r) for t, r in zip(scores.tokens, scores.rounds, strict=True) if r] or [1.0]
    reach = [float(one) / scores.warm_roots for one in scores.reach if one] if scores.warm_roots else []
    warm_tau = [1.0 + sum(reach[:length]) for length in range(len(reach) + 1)]
    warm = [now / before for before, now in zip([1.0, *reach], reach, strict=False)]
    speedup, warm_speedup = _speedups(tau, times), _speedups(warm_tau, times)
    best, warm_best = _greatest(speedup), _greatest(warm_speedup)
    tree_tau = list(accumulate(tree, initial=1.0)) if tree and not trouble else []
    tree_speedup = _speedups(tree_tau[: TREE_SIZES[-1] + 1], times) if tree_tau else []
    rates = (scores.acceptance, warm, tau, warm_tau, speedup, warm_speedup, best, warm_best)
    most = max(speedup[best], warm_speedup[warm_best], *tree_speedup)
    found = TrainingVerdict(*rates, tree_tau, tree_speedup, most >= WORTH, "")
    words = _praise(found) if found.worth else _advise(scores, most, times)
    return replace(found, words=f"{words}; no trees on this target: {trouble}" if tree and trouble else words)


def _speedups(tau: Sequence[float], times: DrafterTimes) -> list[float]:
    """Returns the speed-up over plain decoding for draft lengths from 0, where it is 1."""
    return [1.0, *(t * _share(times, length) for length, t in enumerate(tau) if length)]


def _share(times: DrafterTimes, length: int) -> float:
    """Returns a plain step as a share of a round. No round takes less than a step."""
    return min(1.0, times.plain_s(CONTEXT) / times.round_s(length, CONTEXT))


def _greatest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"


def _praise(verdict: TrainingVerdict) -> str:
    """Returns the sentence for a drafter that is worth using: which speed-up, and with what."""

    def gain(speedup: float, temperature: int, means: str) -> str:
        return f"{speedup:.2f}x expected at temperature {temperature} with {means}"

    gains = []
    if verdict.best:
        gains.append(gain(verdict.speedup[verdict.best], 0, f"{_tokens(verdict.best)} a round"))
    if verdict.tree_speedup and max(verdict.tree_speedup) > verdict.speedup[verdict.best]:
        nodes = _greatest(verdict.tree_speedup)
        gains.append(gain(verdict.tree_speedup[nodes], 0, f"a tree of {nodes}"))
    if verdict.warm_best:
        gains.append(gain(verdict.warm_speedup[verdict.warm_best], 1, f"{_tokens(verdict.warm_best)} a round"))
    return f"worth using: {', '.join(gains)}"


def _advise(scores: HeldOutScores, best: float, times: DrafterTimes) -> str:
    """Returns the sentence for a drafter that is not worth using: why, and what would help."""
    if not scores.tokens[0] and not scores.warm_roots:
        return "not known to be worth using: no text was left to judge it by; give more minutes, or more prompts"
    first = scores.acceptance[0] if scores.acceptance else scores.reach[0] / scores.warm_roots
    if max((length + 1) * _share(times, length) for length in range(1, LONGEST + 1)) < WORTH:
        why = (
            f"a round of one drafted token takes {1 / _share(times, 1):.1f} plain steps, so even perfect drafts would "
            "not be worthwhile; a smaller drafter may do better"
        )
    else:
        why = f"only {first:.0%} of first guesses are right; more minutes give it more to learn from"
    return f"not worth using on this machine: {best:.2f}x at best, because {why}"


def report_fields(scores: HeldOutScores, verdict: TrainingVerdict, times: DrafterTimes) -> dict[str, Any]:
    """Returns the fields of the report, ready for JSON, with rounded numbers."""

    def short(values: Sequence[float]) -> list[float]:
        return [round(value, 4) for value in values]

    return {
        "worth_using": verdict.worth,
        "verdict": verdict.words,
        "best_draft_length": verdict.best,
        "best_draft_length_warm": verdict.warm_best,
        "acceptance_by_position": short(verdict.acceptance),
        "acceptance_by_position_warm": short(verdict.warm_acceptance),
        "tau_by_draft_length": short(verdict.tau),
        "tau_by_draft_length_warm": short(verdict.warm_tau),
        "speedup_by_draft_length": short(verdict.speedup),
        "speedup_by_draft_length_warm": short(verdict.warm_speedup),
        "tau_by_tree_size": short(verdict.tree_tau),
        "speedup_by_tree_size": short(verdict.tree_speedup),
        "held_out_tokens": int(scores.tokens[0]),
        "held_out_roots_warm": scores.warm_roots,
        "times_learnt": times.learnt,  # on this machine; else they are typical ones
        "plain_s": times.plain_s(CONTEXT),
        "round_s": {  # by draft length, in a tree its nodes
            str(length): times.round_s(length, CONTEXT)
            for length in range(1, max(LONGEST + 1, len(verdict.tree_speedup)))
        },
    }


# Okabe-Ito, as in the terminal: what is accepted is green, what the target says itself is blue.
COLD, WARM, PLAIN, TREE = "#009E73", "#D55E00", "#56606B", "#56B4E9"
_GRID = "#E3E6E8"


def draw_report(path: Path, report: Mapping[str, Any]) -> None:
    """Draws a report as a PNG: loss, acceptance by position, how long rounds take, and the expected speed-up.

    report: as `models.training.pipeline` writes it. Raises OSError.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.6), dpi=110, layout="constrained", facecolor="white")
    axes = figure.subplots(2, 2)
    title = f"{report['kind']} for {report['target']}\n{textwrap.fill(report['verdict'], 110)}"
    figure.suptitle(title, fontsize=11.5, parse_math=False)
    _plot_loss(axes[0, 0], report["loss"])
    _plot_acceptance(axes[0, 1], report)
    _plot_times(axes[1, 0], report)
    _plot_speedup(axes[1, 1], report)
    figure.savefig(path, format="png", metadata={"Software": None})


def _frame(axis: Any, title: str, across: str, up: str) -> None:
    axis.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    axis.set_xlabel(across, fontsize=9)
    axis.set_ylabel(up, fontsize=9)
    axis.tick_params(labelsize=8.5)
    axis.grid(axis="y", color=_GRID)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _plot_loss(axis: Any, loss: Mapping[str, Any]) -> None:
    width = loss["steps_a_point"]
    steps = [width * (place + 1) for place in range(len(loss["training"]))]
    axis.plot(steps, loss["training"], color=PLAIN, linewidth=1, label="training")
    if loss["held_out"]:
        axis.plot(*zip(*loss["held_out"], strict=True), color=COLD, marker="o", markersize=3.5, label="held out")
    _frame(axis, "Loss", "step", "share refused + half the nats, a guess")
    axis.legend(fontsize=8.5, frameon=False)


def _plot_acceptance(axis: Any, report: Mapping[str, Any]) -> None:
    both = (
        ("temperature 0", report["acceptance_by_position"], COLD, -0.2),
        ("temperature 1, expected", report["acceptance_by_position_warm"], WARM, 0.2),
    )
    for label, values, colour, shift in both:
        places = [place + 1 + shift for place in range(len(values))]
        axis.bar(places, values, 0.38, color=colour, label=label)
        for place, value in zip(places, values, strict=True):
            axis.text(place, value + 0.015, f"{value:.2f}", ha="center", fontsize=7.5, color=PLAIN)
    axis.set_ylim(0, 1.08)
    axis.set_xticks(range(1, 1 + max(len(both[0][1]), len(both[1][1]), 1)))
    _frame(axis, "Acceptance", "position in the draft", "kept of those that were reached")
    axis.legend(fontsize=8.5, frameon=False, loc="upper right")


def _plot_times(axis: Any, report: Mapping[str, Any]) -> None:
    plain_s = report["plain_s"]
    rounds = [(int(length), seconds / plain_s) for length, seconds in report["round_s"].items()]
    axis.plot(*zip((0, 1.0), *rounds, strict=True), color=COLD, marker="o")
    axis.set_ylim(0, None)
    learnt = "of this machine" if report["times_learnt"] else "typical, not of this machine"
    _frame(axis, f"Time of a round, {learnt}", "tokens drafted a round", "plain steps")


def _plot_speedup(axis: Any, report: Mapping[str, Any]) -> None:
    for label, key, colour in (
        ("temperature 0", "speedup_by_draft_length", COLD),
        ("temperature 1, expected", "speedup_by_draft_length_warm", WARM),
    ):
        axis.plot(range(len(report[key])), report[key], color=colour, marker="o", markersize=4, label=label)
    if len(report["speedup_by_tree_size"]) > 1:
        tree = report["speedup_by_tree_size"][:17]
        axis.plot(range(len(tree)), tree, color=TREE, linestyle="--", label="static tree, temperature 0, by nodes")
    axis.axhline(1, color=PLAIN, linewidth=1, linestyle=":")
    axis.set_ylim(0, None)
    _frame(axis, "Expected speed-up", "tokens drafted a round", "times plain decoding")
    axis.legend(fontsize=8.5, frameon=False, loc="lower left")
