"""The papers in slow numpy, float64, written without looking at the engine.

Leviathan 2023 (algorithm 1) and Chen 2023: keep x ~ q with probability min(1, p(x)/q(x)), else draw
from (p - q)+ normalised. Everything is enumerated; nothing is drawn.
"""

import itertools

import numpy as np


def keep_probability(p: np.ndarray, q: np.ndarray, x: int) -> float:
    """The chance that token x, drawn from q, is kept."""
    return 1.0 if p[x] >= q[x] else float(p[x] / q[x])


def correction(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The distribution of the token that replaces a refused one."""
    rest = np.where(p > q, p - q, 0.0)
    return rest / rest.sum() if rest.sum() > 0 else p


def committed(p: np.ndarray, q: np.ndarray, keep, correct) -> dict[tuple[int, ...], float]:
    """The distribution of what one round commits, for distributions that do not depend on the tokens before.

    p: (k + 1, V), q: (k, V). keep(i, x) and correct(i) are the rule under test: chance to keep x in
    row i, and the distribution (V,) of the target's own token in row i.
    """
    k, size = q.shape
    out: dict[tuple[int, ...], float] = {}
    for draft in itertools.product(range(size), repeat=k):
        alive = float(np.prod([q[i, x] for i, x in enumerate(draft)])) if k else 1.0
        for n in range(k + 1):
            if alive == 0:
                break
            stop = 1.0 if n == k else 1.0 - keep(n, draft[n])
            for token, chance in enumerate(correct(n)):
                outcome = (*draft[:n], token)
                out[outcome] = out.get(outcome, 0.0) + alive * stop * chance
            if n < k:
                alive *= keep(n, draft[n])
    return out


def completed(outcomes: dict[tuple[int, ...], float], p: np.ndarray) -> dict[tuple[int, ...], float]:
    """The distribution of k + 1 tokens when a round that committed fewer goes on by plain decoding."""
    rows, size = p.shape
    out: dict[tuple[int, ...], float] = {}
    for tokens, chance in outcomes.items():
        for rest in itertools.product(range(size), repeat=rows - len(tokens)):
            tail = np.prod([p[len(tokens) + i, t] for i, t in enumerate(rest)]) if rest else 1.0
            out[(*tokens, *rest)] = out.get((*tokens, *rest), 0.0) + chance * float(tail)
    return out


def plain(p: np.ndarray) -> dict[tuple[int, ...], float]:
    """The distribution of k + 1 tokens of plain decoding."""
    rows, size = p.shape
    return {
        tokens: float(np.prod([p[i, t] for i, t in enumerate(tokens)]))
        for tokens in itertools.product(range(size), repeat=rows)
    }


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
