"""Trees are accepted exactly: by enumeration, of the rules themselves."""

import itertools
import math
from collections.abc import Iterator

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import acceptance
from engine.tree.draft_tree import DraftTree
from tests.engine.trees import forests, random_parents
from tests.engine.walks import Distributions, Text, assert_is_the_targets, emitted, logs, words


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
    verdict = acceptance.match_tree(mx.array(choices), mx.array(draft, mx.int32), DraftTree.of(parents))
    assert verdict.path is not None
    assert verdict.accepted.item() == len(path)
    assert verdict.path.tolist()[: len(path)] == path
    assert verdict.tokens.tolist()[: len(path) + 1] == [*(draft[i] for i in path), choices[here + 1]]


# --- distributions of texts ----------------------------------------------------


def random_distribution(rng: np.random.Generator, size: int, zeros: bool) -> np.ndarray:
    distribution = rng.dirichlet(np.full(size, rng.choice([0.3, 1.0, 5.0])))
    if zeros:
        distribution = distribution * (rng.random(size) > 0.4)
        distribution[rng.integers(size)] += 0.1
    return distribution / distribution.sum()


def random_distributions(rng: np.random.Generator, size: int, depth: int, zeros: bool) -> Distributions:
    """A distribution after every text shorter than `depth`."""
    texts = itertools.chain.from_iterable(itertools.product(range(size), repeat=n) for n in range(depth))
    return {text: random_distribution(rng, size, zeros) for text in texts}


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
def test_children_that_are_point_masses_keep_the_targets_distribution(shape: str, seed: int) -> None:
    """Every combination of what the target may choose in the rows, with its chance."""
    parents, size = SHAPES[shape], 3
    rng = np.random.default_rng(seed)
    depth = DraftTree.of(parents).depth
    p = random_distributions(rng, size, depth + 1, seed == 1)
    draft: list[int] = []
    for node, parent in enumerate(parents):
        taken = [draft[i] for i in range(node) if parents[i] == parent]
        draft.append(int(rng.choice([t for t in range(size) if t not in taken])))
    rows = [p[words(parents, draft, node)] for node in range(-1, len(parents))]
    choices = np.array(list(itertools.product(range(size), repeat=len(rows))))

    def judged(row: mx.array) -> tuple[mx.array, mx.array]:
        verdict = acceptance.match_tree(row, mx.array(draft, mx.int32), DraftTree.of(parents))
        return verdict.accepted, verdict.tokens

    accepted, tokens = (np.array(x) for x in mx.vmap(judged)(mx.array(choices, mx.int32)))
    outcomes: dict[Text, float] = {}
    for chosen, n, told in zip(choices, accepted, tokens, strict=True):
        text = tuple(int(t) for t in told[: n + 1])
        outcomes[text] = outcomes.get(text, 0.0) + math.prod(
            float(distribution[c]) for distribution, c in zip(rows, chosen, strict=True)
        )
    assert_is_the_targets(outcomes, p, size, depth + 1)


# --- children drawn without replacement ---------------------------------------------------------


def test_a_batch_of_walks_is_its_walks_one_by_one() -> None:
    """So that nothing below is a matter of vmap."""
    shape, rng = DraftTree.of(SHAPES["binary"]), np.random.default_rng(0)
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


def one_by_one(
    logp: np.ndarray, draft: np.ndarray, logq: np.ndarray, parents: list[int], uniforms: np.ndarray, gumbel: np.ndarray
) -> tuple[list[int], int]:
    """The walk as the papers write it, a child at a time: the accepted nodes, and the token at their end."""
    path: list[int] = []
    while True:
        here = path[-1] if path else -1
        p, q = np.exp(logp[here + 1].astype(float)), None
        for node in (node for node, parent in enumerate(parents) if parent == here):
            q = np.exp(logq[node].astype(float)) if q is None else q
            x = draft[node]
            if q[x] <= 0:
                continue
            if uniforms[node] * q[x] < p[x]:
                path.append(node)
                break
            p = np.maximum(p - q, 0)
            p, q = p / p.sum(), np.where(np.arange(q.size) == x, 0, q)
            q = q / max(q.sum(), 1e-300)
        else:
            with np.errstate(divide="ignore"):
                return path, int(np.argmax(np.log(p) + gumbel[len(path)]))


@pytest.mark.parametrize("seed", range(4))
def test_all_children_at_once_are_as_good_as_one_by_one(seed: int) -> None:
    """Over more tokens and wider trees than can be enumerated, with several siblings that would be accepted."""
    rng, ends = np.random.default_rng(seed), set()
    for _ in range(25):
        parents = random_parents(rng, int(rng.integers(1, 25)))
        shape, n, size = DraftTree.of(parents), len(parents), 200
        logp = np.log(rng.dirichlet(np.full(size, 0.2), n + 1) + 1e-9).astype(np.float32)
        after = np.log(rng.dirichlet(np.full(size, 0.2), n + 1) + np.exp(logp)).astype(np.float32)
        after -= np.log(np.exp(after).sum(-1, keepdims=True))
        drawn = {above: iter(np.argsort(-(after[above + 1] + rng.gumbel(size=size)))) for above in set(parents)}
        draft = np.array([next(drawn[above]) for above in parents], np.int32)
        uniforms = rng.random(n).astype(np.float32)
        gumbel = rng.gumbel(size=(shape.depth + 1, size)).astype(np.float32)
        logq = after[np.array(parents) + 1]
        found = acceptance.reject_tree(
            mx.array(logp), mx.array(draft), mx.array(logq), shape, mx.array(uniforms), mx.array(gumbel)
        )
        assert found.path is not None
        accepted: int = found.accepted.item()  # type: ignore[assignment]
        path, token = one_by_one(logp, draft, logq, parents, uniforms, gumbel)
        assert found.path.tolist()[:accepted] == path  # type: ignore[index]
        assert found.tokens.tolist()[accepted] == token  # type: ignore[index]
        ends.add(accepted)
    assert len(ends) >= 3


KINDS = ["free", "zeros in p", "zeros in q", "zeros in both", "q is p", "q is nearly a point", "q is a point"]


def a_pair(kind: str, size: int, depth: int, seed: int) -> tuple[Distributions, Distributions]:
    """Target and drafter: a distribution after every text."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    p = random_distributions(rng, size, depth + 1, kind in ("zeros in p", "zeros in both"))
    q = random_distributions(rng, size, depth, kind in ("zeros in q", "zeros in both"))
    if kind == "q is p":
        q = {text: p[text] for text in q}
    if kind.endswith("a point"):
        rest = 0.0 if kind == "q is a point" else 1e-3
        q = {text: rest / size + (1 - rest) * np.eye(size)[rng.integers(size)] for text in q}
    return p, q


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "kind"), [(s, KINDS[(3 * i + j) % len(KINDS)]) for i, s in enumerate(SHAPES) for j in (0, 1, 2)]
)
def test_children_drawn_without_replacement_keep_the_targets_distribution(shape: str, kind: str) -> None:
    parents, size = SHAPES[shape], 3
    depth = DraftTree.of(parents).depth
    p, q = a_pair(kind, size, depth, len(parents))
    assert_is_the_targets(emitted(parents, p, q), p, size, depth + 1)
