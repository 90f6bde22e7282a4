"""Trees are accepted exactly: by enumeration, of the rules themselves.

Nothing of a rule is written down again here. Where a rule takes noise, the chance of each of its turns is found
from where the turn changes as the noise grows: the uniform at which a child begins to be refused, and by how much
the noise of one token must lead for it to win over another.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import acceptance
from engine.tree import Tree
from tests.engine.trees import forests, way

Text = tuple[int, ...]
Laws = dict[Text, np.ndarray]
TOLERANCE = 1e-5


@pytest.fixture(scope="module", autouse=True)
def sound_vmap() -> Iterator[None]:
    """mlx 0.32.2's vmap gets `&` and `|` wrong where one side has no batch: here they are spelled `where`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mx.array, "__and__", lambda a, b: mx.where(a, b, False))
        patch.setattr(mx.array, "__or__", lambda a, b: mx.where(a, True, b))
        yield


@given(forests(least=1), st.data())
@settings(max_examples=150, deadline=None)
def test_match_descends_into_the_child_that_equals_the_choice(parents: list[int], data: st.DataObject) -> None:
    """Against a walk in plain Python."""
    n = len(parents)
    size = n + 1  # siblings stand for different tokens
    choices = data.draw(st.lists(st.integers(0, min(size, 3)), min_size=n + 1, max_size=n + 1))
    draft: list[int] = []
    for node, parent in enumerate(parents):
        taken = {draft[i] for i in range(node) if parents[i] == parent}
        draft.append(data.draw(st.sampled_from([t for t in range(size) if t not in taken][:3])))
    here, path = -1, []
    while True:
        down = [i for i in range(n) if parents[i] == here and draft[i] == choices[here + 1]]
        if not down:
            break
        here = down[0]
        path.append(here)
    verdict = acceptance.match_tree(mx.array(choices), mx.array(draft, mx.int32), Tree.of(parents))
    assert verdict.path is not None
    assert verdict.accepted.item() == len(path)
    assert verdict.path.tolist()[: len(path)] == path
    assert verdict.tokens.tolist()[: len(path) + 1] == [*(draft[i] for i in path), choices[here + 1]]


# --- laws of texts ------------------------------------------------------------------------------


def random_law(rng: np.random.Generator, size: int, zeros: bool) -> np.ndarray:
    law = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 5.0])))
    if zeros:
        law = law * (rng.random(size) > 0.4)
        law[rng.integers(size)] += 0.1
    return law / law.sum()


def random_laws(rng: np.random.Generator, size: int, depth: int, zeros: bool) -> Laws:
    """A law behind every text shorter than `depth`."""
    texts = itertools.chain.from_iterable(itertools.product(range(size), repeat=n) for n in range(depth))
    return {text: random_law(rng, size, zeros) for text in texts}


def law_of_texts(p: Laws, size: int, length: int) -> dict[Text, float]:
    texts = itertools.product(range(size), repeat=length)
    return {text: math.prod(float(p[text[:i]][token]) for i, token in enumerate(text)) for text in texts}


def completed(outcomes: dict[Text, float], p: Laws, size: int, length: int) -> dict[Text, float]:
    """The law of `length` tokens when what was emitted goes on by plain decoding."""
    out: dict[Text, float] = {}
    for text, chance in outcomes.items():
        for rest in itertools.product(range(size), repeat=length - len(text)):
            whole, tail = text, chance
            for token in rest:
                tail *= float(p[whole][token])
                whole = (*whole, token)
            out[whole] = out.get(whole, 0.0) + tail
    return out


def agree(outcomes: dict[Text, float], p: Laws, size: int, length: int) -> None:
    wanted, found = law_of_texts(p, size, length), completed(outcomes, p, size, length)
    assert max(abs(found.get(text, 0.0) - chance) for text, chance in wanted.items()) < TOLERANCE


def words(parents: Sequence[int], draft: Sequence[int], node: int) -> Text:
    """The tokens on the way to a node."""
    return tuple(draft[i] for i in way(parents, node))


def logs(laws: np.ndarray) -> mx.array:
    with np.errstate(divide="ignore"):
        return mx.array(np.log(laws).astype(np.float32))


SHAPES = {
    "chain": (-1, 0),
    "star": (-1, -1, -1),
    "binary": (-1, -1, 0, 0),
    "uneven": (-1, -1, 1, 1, 1),
    "levels interleaved": (-1, 0, -1, 2, 0),
    "children before siblings": (-1, 0, 0, -1, 3),
    "alone below the last": (-1, -1, -1, 2),
}


# --- point masses -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_children_that_are_point_masses_keep_the_targets_law(shape: str, seed: int) -> None:
    """Every combination of what the target may choose in the rows, with its chance."""
    parents, size = SHAPES[shape], 3
    rng = np.random.default_rng(seed)
    depth = Tree.of(parents).depth
    p = random_laws(rng, size, depth + 1, seed == 1)
    draft: list[int] = []
    for node, parent in enumerate(parents):
        taken = [draft[i] for i in range(node) if parents[i] == parent]
        draft.append(int(rng.choice([t for t in range(size) if t not in taken])))
    rows = [p[words(parents, draft, node)] for node in range(-1, len(parents))]
    choices = np.array(list(itertools.product(range(size), repeat=len(rows))))

    def judged(row: mx.array) -> tuple[mx.array, mx.array]:
        verdict = acceptance.match_tree(row, mx.array(draft, mx.int32), Tree.of(parents))
        return verdict.accepted, verdict.tokens

    accepted, tokens = (np.array(x) for x in mx.vmap(judged)(mx.array(choices, mx.int32)))
    outcomes: dict[Text, float] = {}
    for chosen, n, told in zip(choices, accepted, tokens, strict=True):
        text = tuple(int(t) for t in told[: n + 1])
        outcomes[text] = outcomes.get(text, 0.0) + math.prod(float(law[c]) for law, c in zip(rows, chosen, strict=True))
    agree(outcomes, p, size, depth + 1)


# --- children drawn without replacement ---------------------------------------------------------


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


def drafts(parents: Sequence[int], q: Laws) -> Iterator[tuple[Text, float]]:
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


def test_a_batch_of_walks_is_its_walks_one_by_one() -> None:
    """So that nothing below is a matter of vmap."""
    shape, rng = Tree.of(SHAPES["binary"]), np.random.default_rng(0)
    logp, logq = (logs(rng.dirichlet([0.7] * 3, (60, rows))) for rows in (5, 4))
    draft = mx.array([[0, 1, 1, 2]] * 60)
    uniforms, gumbel = (mx.array(rng.random(s).astype(np.float32)) for s in ((60, 4), (60, 3, 3)))

    def one(*given: mx.array) -> tuple[mx.array, mx.array]:
        logp, draft, logq, *noise = given
        verdict = acceptance.reject_tree(logp, draft, logq, shape, *noise)
        return verdict.accepted, verdict.tokens

    given = logp, draft, logq, uniforms, gumbel
    accepted, tokens = (np.array(x) for x in mx.vmap(one)(*given))
    for i, n in enumerate(accepted):
        alone = one(*(x[i] for x in given))
        assert alone[0].item() == n
        assert alone[1].tolist()[: n + 1] == tokens[i, : n + 1].tolist()
    assert set(accepted) == {0, 1, 2}


class Walks:
    """What `reject_tree` does on many drafts of one shape, and the chance of each of its turns.

    A case is a draft and a node: the uniforms lead there, the way to it accepted and everything else refused.
    """

    def __init__(self, parents: Sequence[int], labels: Sequence[Text], p: Laws, q: Laws) -> None:
        self.parents, self.drafts, nodes = parents, len(labels), range(len(parents))
        self.shape = Tree.of(parents)
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
        """The law of the target's own token when the walk ends at the root or a node, (n + 1, drafts, vocabulary),
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


def emitted(parents: Sequence[int], p: Laws, q: Laws) -> dict[Text, float]:
    """The law of what one round over a tree commits."""
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


KINDS = ["free", "zeros in p", "zeros in q", "zeros in both", "q is p", "q is nearly a point", "q is a point"]


def a_pair(kind: str, size: int, depth: int, seed: int) -> tuple[Laws, Laws]:
    """Target and drafter: a law behind every text."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    p = random_laws(rng, size, depth + 1, kind in ("zeros in p", "zeros in both"))
    q = random_laws(rng, size, depth, kind in ("zeros in q", "zeros in both"))
    if kind == "q is p":
        q = {text: p[text] for text in q}
    if kind.endswith("a point"):
        rest = 0.0 if kind == "q is a point" else 1e-3
        q = {text: rest / size + (1 - rest) * np.eye(size)[rng.integers(size)] for text in q}
    return p, q


@pytest.mark.parametrize(("shape", "kind"), [(s, KINDS[(3 * i + j) % 7]) for i, s in enumerate(SHAPES) for j in (0, 1, 2)])
def test_children_drawn_without_replacement_keep_the_targets_law(shape: str, kind: str) -> None:
    parents, size = SHAPES[shape], 3
    depth = Tree.of(parents).depth
    p, q = a_pair(kind, size, depth, len(parents))
    agree(emitted(parents, p, q), p, size, depth + 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_over_four_tokens(seed: int) -> None:
    parents, size = SHAPES["uneven" if seed else "binary"], 4
    p, q = a_pair(KINDS[seed], size, 2, seed)
    agree(emitted(parents, p, q), p, size, 3)
