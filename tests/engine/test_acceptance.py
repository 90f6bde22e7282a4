"""The papers' rule keeps the target's distribution, by enumeration, and the engine's rules are the papers'."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import acceptance
from engine.tree.draft_tree import DraftTree
from tests.engine.oracle import Distributions, assert_is_the_targets, committed, turns
from tests.engine.trees import forests, random_parents

SIZE = 3  # of the vocabulary where all texts are enumerated
SHAPES = {
    "nothing": (),
    "chain": (-1, 0, 1),
    "star": (-1, -1, -1),
    "binary": (-1, -1, 0, 0),
    "uneven": (-1, -1, 1, 1, 1),
    "levels interleaved": (-1, 0, -1, 2, 0),
    "children before siblings": (-1, 0, 0, -1, 3),
    "alone below the last": (-1, -1, -1, 2),
}
KINDS = ["free", "zeros in p", "zeros in q", "zeros in both", "q is p", "q is nearly a point", "q is a point"]


def random_rows(rng: np.random.Generator, rows: int, size: int, zeros: bool) -> np.ndarray:
    """Distributions (rows, size), some of them sparse, some peaked."""
    out = rng.dirichlet(np.full(size, rng.choice([0.2, 1.0, 5.0])), rows)
    if zeros:
        out *= rng.random(out.shape) > 0.4
        out[np.arange(rows), rng.integers(0, size, rows)] += 0.1
    return out / out.sum(-1, keepdims=True)


def pair(kind: str, rows: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the target's p and of the drafter's q, both (rows, size)."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    p = random_rows(rng, rows, size, kind in ("zeros in p", "zeros in both"))
    q = random_rows(rng, rows, size, kind in ("zeros in q", "zeros in both"))
    if kind.endswith("a point"):
        rest = 0.0 if kind == "q is a point" else 1e-3
        q = rest / size + (1 - rest) * np.eye(size)[rng.integers(size, size=rows)]
    return p, p if kind == "q is p" else q


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_papers_rule_commits_the_targets_distribution(shape: str, kind: str) -> None:
    """Over a chain and over trees, whatever is drafted."""
    parents = SHAPES[shape]
    depth = DraftTree.of(parents).depth
    texts = [text for n in range(depth + 1) for text in itertools.product(range(SIZE), repeat=n)]
    rows, drafted = pair(kind, len(texts), SIZE, len(parents))
    p: Distributions = dict(zip(texts, rows, strict=True))
    q = {text: row for text, row in zip(texts, drafted, strict=True) if len(text) < depth}
    assert_is_the_targets(committed(parents, p, q), p, SIZE, depth + 1)


def drawn(parents: list[int], q: np.ndarray, rng: np.random.Generator) -> list[int]:
    """A token for each node, siblings drawn without replacement from the row of q of their parent."""
    with np.errstate(divide="ignore"):
        keys = {above: np.log(q[above + 1]) + rng.gumbel(size=q.shape[-1]) for above in set(parents)}
    orders = {above: iter(np.argsort(-row)) for above, row in keys.items()}
    return [int(next(orders[above])) for above in parents]


def papers_walk(
    parents: list[int], draft: list[int], p: np.ndarray, q: np.ndarray, uniforms: np.ndarray, gumbel: np.ndarray
) -> tuple[list[int], int]:
    """The nodes that are accepted by these draws, and the target's token after them."""
    path: list[int] = []
    while True:
        here = path[-1] if path else -1
        children = [node for node, parent in enumerate(parents) if parent == here]
        chances, rest = turns(p[here + 1], q[here + 1], [draft[node] for node in children])
        kept = [n for n, chance in zip(children, chances, strict=True) if uniforms[n] < chance]
        if not kept:
            with np.errstate(divide="ignore"):
                return path, int(np.argmax(np.log(rest) + gumbel[len(path)]))
        path.append(kept[0])


def logs(rows: np.ndarray) -> mx.array:
    with np.errstate(divide="ignore"):
        return mx.array(np.log(rows).astype(np.float32))


def engines_walk(
    parents: list[int], draft: list[int], p: np.ndarray, q: np.ndarray | None, uniforms: mx.array, gumbel: mx.array
) -> tuple[list[int], int]:
    """The same by the engine's rules, for chains and for trees. q: None for point masses."""
    tokens, logq = mx.array(draft, mx.int32), None if q is None else logs(q[np.array(parents) + 1])
    if parents != list(range(-1, len(parents) - 1)):
        assert logq is not None
        found = acceptance.reject_tree(logs(p), tokens, logq, DraftTree.of(parents), uniforms, gumbel)
        assert found.path is not None
        accepted = int(found.accepted.item())
        return found.path.tolist()[:accepted], found.tokens.tolist()[accepted]
    n = acceptance.rejection_length(logs(p), tokens, logq, uniforms)
    token, _ = acceptance.rejection_token(logs(p), tokens, logq, n, gumbel[n])
    told = acceptance.with_token_at(tokens, n, token).tokens.tolist()
    accepted = int(n.item())
    assert told[: accepted + 1] == [*draft[:accepted], token.item()]
    return list(range(accepted)), told[accepted]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_the_engines_rule_is_the_papers(shape: str, kind: str) -> None:
    """Draw by draw, over more tokens and wider trees than can be enumerated."""
    rng, ends = np.random.default_rng(KINDS.index(kind)), set()
    for turn in range(25):
        parents = random_parents(rng, int(rng.integers(1, 25)))
        if shape == "chain":
            parents = list(range(-1, len(parents) - 1))
        size = 200 if turn % 2 else 25
        p, q = pair(kind, len(parents) + 1, size, turn)
        p = p if turn % 3 else 0.7 * q + 0.3 * p  # so that many are accepted
        draft = drawn(parents, q, rng)
        uniforms = rng.random(len(parents)).astype(np.float32)
        gumbel = rng.gumbel(size=(len(parents) + 1, size)).astype(np.float32)
        depth = DraftTree.of(parents).depth
        noise = mx.array(uniforms), mx.array(gumbel[: depth + 1])
        found = papers_walk(parents, draft, p, q, uniforms, gumbel)
        assert engines_walk(parents, draft, p, q, *noise) == found
        if kind == "q is a point" and shape == "chain":
            assert engines_walk(parents, draft, p, None, *noise) == found
        ends.add(len(found[0]))
    assert len(ends) >= 3


def test_a_uniform_equal_to_the_chance_refuses() -> None:
    """u lies in [0, 1): accepting at u == chance would keep a token of probability zero when u is 0."""
    logp = logs(np.array([[0.0, 1.0], [0.5, 0.5]]))
    n = acceptance.rejection_length(logp, mx.array([0]), logs(np.array([[0.5, 0.5]])), mx.zeros(1))
    assert n.item() == 0


def test_equal_distributions_leave_no_residual_and_fall_back_to_p() -> None:
    p = np.array([0.25, 0.75])
    rest = np.array(acceptance.residual(logs(p), mx.array(p.astype(np.float32)) + 1e-3))
    assert rest == pytest.approx(p, abs=1e-6)


# --- matches with the target's own choice -------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "draft", "accepted"),
    [
        ([5, 6, 7, 8], [5, 6, 7], 3),
        ([5, 6, 7, 8], [5, 6, 9], 2),
        ([5, 6, 7, 8], [9, 6, 7], 0),
    ],
)
def test_match_keeps_the_agreeing_prefix(choices: list[int], draft: list[int], accepted: int) -> None:
    verdict = acceptance.match(mx.array(choices), mx.array(draft, mx.int32))
    assert verdict.accepted.item() == accepted
    assert verdict.tokens.tolist()[: accepted + 1] == choices[: accepted + 1]


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
