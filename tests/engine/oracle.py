"""The papers in slow numpy, float64, written without looking at the engine. All is enumerated, nothing is drawn."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tests.engine.trees import way

Text = tuple[int, ...]
Distributions = dict[Text, np.ndarray]  # after every text that is shorter than some length
TOLERANCE = 1e-5


def turns(p: np.ndarray, q: np.ndarray, children: Sequence[int]) -> tuple[list[float], np.ndarray]:
    """Children that were drawn from q without replacement, tried in order: with which chance each is accepted once it
    is tried, and how the target's own token is distributed where all are refused.

    With one child this is Leviathan 2023 (algorithm 1) and Chen 2023, with several Yang 2024 and Jeon 2024.
    """
    chances = []
    for x in children:
        chances.append(float(min(1.0, p[x] / q[x])) if q[x] > 0 else 0.0)
        if q[x] > 0:
            rest, others = np.maximum(p - q, 0.0), np.where(np.arange(q.size) == x, 0.0, q)
            p = rest / rest.sum() if rest.sum() > 1e-12 else p
            q = others / max(others.sum(), 1e-300)
    return chances, p


def committed(parents: Sequence[int], p: Distributions, q: Distributions) -> dict[Text, float]:
    """How what one round over a tree commits is distributed, whatever is drafted."""
    outcomes: dict[Text, float] = {}
    for draft, drawn in drafts(parents, q):
        arrived = {-1: drawn}
        for here in range(-1, len(parents)):
            before = words(parents, draft, here)
            children = [node for node, parent in enumerate(parents) if parent == here]
            chances, rest = turns(p[before], q.get(before, p[before]), [draft[node] for node in children])
            alive = arrived[here]
            for node, chance in zip(children, chances, strict=True):
                arrived[node], alive = alive * chance, alive * (1 - chance)
            for token, share in enumerate(rest):
                text = (*before, token)
                outcomes[text] = outcomes.get(text, 0.0) + alive * float(share)
    return outcomes


def words(parents: Sequence[int], draft: Sequence[int], node: int) -> Text:
    """The tokens on the way to a node."""
    return tuple(draft[i] for i in way(parents, node))


def drafts(parents: Sequence[int], q: Distributions) -> Iterator[tuple[Text, float]]:
    """Every labelling of the tree by draws from `q`, and its chance."""

    def grown(known: dict[int, int], todo: list[int]) -> Iterator[tuple[dict[int, int], float]]:
        if not todo:
            yield known, 1.0
            return
        above = todo[0]
        children = [node for node, parent in enumerate(parents) if parent == above]
        labels = [known.get(node, 0) for node in range(len(parents))]
        for tokens, chance in ordered_draws(q[words(parents, labels, above)], len(children)):
            told = known | dict(zip(children, tokens, strict=True))
            for whole, rest in grown(told, todo[1:]):
                yield whole, chance * rest

    for whole, chance in grown({}, sorted(set(parents))):
        yield tuple(whole[node] for node in range(len(parents))), chance


def ordered_draws(q: np.ndarray, count: int) -> Iterator[tuple[Text, float]]:
    """Every way to draw `count` tokens in order without replacement, and its chance. When nothing is left to draw,
    any tokens fill up, here the first ones: they carry a chance of zero."""
    for tokens in itertools.permutations(range(q.size), count):
        chance, left = 1.0, q.astype(float).copy()
        for i, token in enumerate(tokens):
            if left.sum() < 1e-9:
                chance *= tokens[i:] == tuple(t for t in range(q.size) if t not in tokens[:i])[: count - i]
                break
            chance *= left[token] / left.sum()
            left[token] = 0
        if chance > 0:
            yield tokens, chance


def assert_is_the_targets(outcomes: Mapping[Text, float], p: Distributions, size: int, length: int) -> None:
    """What was committed, gone on with by plain decoding, has the distribution of texts of `length` tokens."""
    whole = dict.fromkeys(itertools.product(range(size), repeat=length), 0.0)
    for text, chance in outcomes.items():
        for rest in itertools.product(range(size), repeat=length - len(text)):
            whole[(*text, *rest)] += chance * text_chance(p, (*text, *rest), len(text))
    assert max(abs(found - text_chance(p, text)) for text, found in whole.items()) < TOLERANCE


def text_chance(p: Distributions, text: Text, first: int = 0) -> float:
    """The chance of a text's tokens from the place `first` on, given those before."""
    return math.prod(float(p[text[:i]][text[i]]) for i in range(first, len(text)))


def distribution(logits: np.ndarray, context: list[int], s) -> np.ndarray:
    """One row of the target's distribution from its settings: bias, penalties, temperature, min-p, top-k, top-p."""
    x = logits.astype(np.float64).copy()
    counts = np.bincount(context, minlength=x.size) if context else np.zeros(x.size)
    for t in range(x.size):
        if counts[t]:
            x[t] = x[t] / s.repetition_penalty if x[t] > 0 else x[t] * s.repetition_penalty
            x[t] -= s.presence_penalty + s.frequency_penalty * counts[t]
        x[t] += s.logit_bias.get(t, 0.0)
    p = _normal(np.exp((x - x.max()) / s.temperature))
    p = _normal(np.where(p >= s.min_p * p.max(), p, 0))
    if 0 < s.top_k < p.size:
        p = _normal(np.where(p >= np.sort(p)[-s.top_k], p, 0))
    kept, mass = np.zeros(p.size, bool), 0.0
    for t in np.argsort(-p):
        if mass >= s.top_p and s.top_p < 1:
            break
        kept[t], mass = True, mass + p[t]
    return _normal(np.where(kept, p, 0))


def _normal(p: np.ndarray) -> np.ndarray:
    return p / p.sum()
