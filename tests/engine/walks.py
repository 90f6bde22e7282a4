"""What `reject_tree` does on every draft that may be drawn for a tree, and with which chance: by enumeration.

Nothing of the rule is written down again. The chance of each of its turns is found from where the turn changes as
the noise grows: the uniform at which a child begins to be refused, and by how much the noise of one token must lead
for it to win over another.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import mlx.core as mx
import numpy as np

from engine import acceptance
from engine.tree.draft_tree import DraftTree
from tests.engine.trees import way

Text = tuple[int, ...]
Distributions = dict[Text, np.ndarray]
TOLERANCE = 1e-5


def text_distribution(p: Distributions, size: int, length: int) -> dict[Text, float]:
    """The chance of each text of `length` tokens. p: after every shorter text."""
    texts = itertools.product(range(size), repeat=length)
    return {text: math.prod(float(p[text[:i]][token]) for i, token in enumerate(text)) for text in texts}


def completed_by_plain(outcomes: Mapping[Text, float], p: Distributions, size: int, length: int) -> dict[Text, float]:
    """The chance of each text of `length` tokens when what was committed goes on by plain decoding."""
    whole: dict[Text, float] = dict.fromkeys(itertools.product(range(size), repeat=length), 0.0)
    for text, chance in outcomes.items():
        for rest in itertools.product(range(size), repeat=length - len(text)):
            found, tail = text, chance
            for token in rest:
                tail *= float(p[found][token])
                found = (*found, token)
            whole[found] += tail
    return whole


def assert_is_the_targets(outcomes: Mapping[Text, float], p: Distributions, size: int, length: int) -> None:
    wanted, found = text_distribution(p, size, length), completed_by_plain(outcomes, p, size, length)
    assert max(abs(found[text] - chance) for text, chance in wanted.items()) < TOLERANCE


def words(parents: Sequence[int], draft: Sequence[int], node: int) -> Text:
    """The tokens on the way to a node."""
    return tuple(draft[i] for i in way(parents, node))


def logs(distributions: np.ndarray) -> mx.array:
    with np.errstate(divide="ignore"):
        return mx.array(np.log(distributions).astype(np.float32))


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


def drafts(parents: Sequence[int], q: Distributions) -> Iterator[tuple[Text, float]]:
    """Every labelling of the tree by draws from `q`, and its chance."""
    unlabelled: dict[int, int] = {}

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

    inner = sorted(set(parents))
    for whole, chance in grown(unlabelled, inner):
        yield tuple(whole[node] for node in range(len(parents))), chance


class Walks:
    """What `reject_tree` does on many drafts of one shape, and the chance of each of its turns.

    A case is a draft and a node: the uniforms lead there, the way to it accepted and everything else refused.
    """

    def __init__(self, parents: Sequence[int], labels: Sequence[Text], p: Distributions, q: Distributions) -> None:
        self.parents, self.drafts, nodes = parents, len(labels), range(len(parents))
        self.shape = DraftTree.of(parents)
        self.logp = logs(np.array([[p[words(parents, d, node)] for node in (-1, *nodes)] for d in labels]))
        self.logq = logs(np.array([[q[words(parents, d, parents[node])] for node in nodes] for d in labels]))
        self.labels = mx.array(labels, mx.int32)
        self.size = self.logp.shape[-1]

    def judged(self, nodes: np.ndarray, uniforms: np.ndarray, gumbel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each case, (cases, n) and (cases, vocabulary): whether the walk ended at `nodes`, and the last token."""
        drafts = mx.array(np.resize(np.arange(self.drafts), len(nodes)))

        def one(draft: mx.array, u: mx.array, g: mx.array) -> tuple[mx.array, ...]:
            noise = mx.broadcast_to(g[None], (self.shape.depth + 1, self.size))
            verdict = acceptance.reject_tree(
                self.logp[draft], self.labels[draft], self.logq[draft], self.shape, u, noise
            )
            assert verdict.path is not None
            return verdict.accepted, verdict.tokens, verdict.path

        told = mx.vmap(one)(drafts, mx.array(uniforms), mx.array(gumbel))
        accepted, tokens, path = (np.array(x) for x in told)
        every = np.arange(len(nodes))
        ended = np.where(accepted > 0, path[every, np.maximum(accepted - 1, 0)], -1) == nodes
        return ended, tokens[every, accepted]

    def cases(self, nodes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The node of each case, all drafts of one before the next, and the uniforms that lead there."""
        uniforms = np.full((len(nodes), self.drafts, len(self.parents)), 2.0**100, np.float32)
        for number, node in enumerate(nodes):
            uniforms[number][:, way(self.parents, node)] = -1.0
        return np.repeat(nodes, self.drafts), uniforms.reshape(-1, len(self.parents))

    def kept(self) -> np.ndarray:
        """The chance that a node is accepted once it is tried, (n, drafts): the uniform at which that ends."""
        nodes, uniforms = self.cases(range(len(self.parents)))
        gumbel, every = np.zeros((len(nodes), self.size), np.float32), np.arange(len(nodes))
        low, high = np.zeros(len(nodes)), np.ones(len(nodes))

        def at(u: np.ndarray) -> np.ndarray:
            uniforms[every, nodes] = u
            return self.judged(nodes, uniforms, gumbel)[0]

        sure, never = at(np.nextafter(np.ones(len(nodes), np.float32), 0)), ~at(low)
        for _ in range(21):
            middle = (low + high) / 2
            yes = at(middle)
            low, high = np.where(yes, middle, low), np.where(yes, high, middle)
        return np.where(sure, 1.0, np.where(never, 0.0, low)).reshape(-1, self.drafts)

    def last(self) -> tuple[np.ndarray, np.ndarray]:
        """How the target's token is distributed where a walk ends, at the root or a node: (n + 1, drafts, vocabulary),
        from by how much a token's noise must lead; and where the walk can end, (n + 1, drafts)."""
        nodes, uniforms = self.cases(range(-1, len(self.parents)))
        every, flat = np.arange(len(nodes)), np.zeros((len(nodes), self.size), np.float32)
        ended, best = self.judged(nodes, uniforms, flat)
        odds = np.zeros((len(nodes), self.size))
        for token in range(self.size):
            low, high = np.zeros(len(nodes)), np.full(len(nodes), 40.0)
            for _ in range(26):
                middle = (low + high) / 2
                gumbel = np.full_like(flat, -1e9)
                gumbel[:, token], gumbel[every, best] = middle, 0
                wins = self.judged(nodes, uniforms, gumbel)[1] == token
                low, high = np.where(wins, low, middle), np.where(wins, middle, high)
            odds[:, token] = np.where(high > 39, 0.0, np.exp(-(low + high) / 2))
        odds[every, best] = 1.0
        odds = odds / odds.sum(-1, keepdims=True)
        return odds.reshape(-1, self.drafts, self.size), ended.reshape(-1, self.drafts)


def emitted(parents: Sequence[int], p: Distributions, q: Distributions) -> dict[Text, float]:
    """The distribution of what one round over a tree commits."""
    labels, chances = zip(*drafts(parents, q), strict=True)
    walks = Walks(parents, labels, p, q)
    kept, (last, ends) = walks.kept(), walks.last()
    outcomes: dict[Text, float] = {}
    for number, draft in enumerate(labels):
        alive = {-1: chances[number]}  # chance to stand at a node with all children so far refused
        for node, parent in enumerate(parents):
            arrived = alive[parent] * kept[node][number]
            alive[parent] -= arrived
            alive[node] = arrived
        for node, chance in alive.items():
            assert ends[node + 1, number] or chance < TOLERANCE
            for token, share in enumerate(last[node + 1, number]):
                text = (*words(parents, draft, node), token)
                outcomes[text] = outcomes.get(text, 0.0) + chance * float(share)
    return outcomes
