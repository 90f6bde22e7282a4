"""A tree that is drawn: which places of it are filled tells nothing of what stands in them.

Target and head are tables over a few tokens, so distributions are known exactly and a trial costs little. Each absolute
position is a trial of its own.
"""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters import Draft, DraftContext
from engine.drafters import dynamic_tree as growth_module
from engine.drafters.dynamic_tree import DynamicTree, TreeHead
from engine.sampling import Distribution, Sampler, TokenCounts
from engine.settings import SamplingSettings
from engine.verify_pass import verify
from tests.engine.test_sampler import chi_square
from tests.engine.trees import way
from tests.toys.tables import random_tables, text_distribution

SIZE = 4
START = (2, 1)
TRIALS = 600


class TableHead:
    """A head whose state is the last two tokens: `ids` are those that it can say."""

    def __init__(self, table: np.ndarray, ids: list[int] | None = None) -> None:
        self.config = SimpleNamespace(draft_vocab_size=len(ids) if ids else SIZE)
        self.ids = mx.array(ids) if ids else None
        self._table = mx.array((table if ids is None else table[..., ids]).astype(np.float32))
        self.passes: list[tuple[mx.array, mx.array, int, mx.array]] = []

    def logits(self, hidden: mx.array) -> mx.array:
        return self._table[hidden[:, 0], hidden[:, 1]]

    def steps(self, hidden: mx.array, tokens: mx.array, position: int, mask: mx.array) -> mx.array:
        self.passes.append((hidden, tokens, position, mask))
        return mx.stack([hidden[:, 1], tokens], -1)


def grown(head: TableHead, sampler: Sampler, position: int, length: int, known: int = 0) -> Draft:
    standing = DraftContext(range(position), TokenCounts(sampler.distribution, []), sampler)
    tree = DynamicTree(TreeHead(head.steps, head.logits, head.ids, known), standing, length)
    return tree.draft(mx.array([START]))


def target_rows(table: mx.array, draft: Draft) -> mx.array:
    """The target's logits after the root and after each node."""
    assert draft.tree is not None
    last = mx.concatenate([mx.array([START[1]]), draft.tokens])
    before = mx.concatenate([mx.array([START[0]]), last[draft.tree.parents + 1]])
    return table[before, last]


def distribution_after(table: np.ndarray, text: tuple[int, ...]) -> np.ndarray:
    p = np.exp(table[(*START, *text)[-2], (*START, *text)[-1]].astype(float))
    return p / p.sum()


def told(
    logits: mx.array, table: np.ndarray, head: TableHead, sampling: SamplingSettings, length: int
) -> tuple[np.ndarray, int]:
    """Three tokens of each trial, (TRIALS, 3): what the round commits, completed by the target's `table`; and how
    many were accepted in all."""
    sampler, rows, done = Sampler(sampling, SIZE), [], []
    for position in range(2, 2 + TRIALS):
        draft = grown(head, sampler, position, length)
        assert draft.logq is not None
        verdict = verify(sampler, target_rows(logits, draft), TokenCounts(sampler.distribution, []), draft, position)
        rows.append(mx.concatenate([verdict.accepted[None], verdict.tokens]))
        head.passes.clear()
        if position % 100 == 1:
            mx.eval(rows[-100:])
            done += [row.tolist() for row in rows[-100:]]
    rng, texts = np.random.default_rng(0), []
    for accepted, *tokens in done:
        text = tuple(tokens[: accepted + 1][:3])
        while len(text) < 3:
            text = (*text, int(rng.choice(SIZE, p=distribution_after(table, text))))
        texts.append(text)
    return np.array(texts), sum(row[0] for row in done)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three children a node and three levels, so that a few nodes are few of the candidates."""
    monkeypatch.setattr(growth_module, "BREADTH", 3)
    monkeypatch.setattr(growth_module, "DEEPEST", 3)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("length", "top_p"), [(3, 1.0), pytest.param(7, 0.8, marks=pytest.mark.slow)])
def test_trees_that_are_drawn_and_cut_keep_the_targets_distribution(length: int, top_p: float) -> None:
    """600 trials of three tokens, refused beyond 6 standard deviations of the statistic: once in ten million seeds.

    Power: places ranked by what was drawn in them give 25 to 50 at 500 trials. A sharp head under top-p has one
    possible token a node, so that most of the tree stands where there was nothing left to draw.
    """
    table, other = random_tables(SIZE, closeness=0.5, seed=3)
    if top_p < 1:
        table, other = table / 5, other * 4
    sampling = SamplingSettings(temperature=1, seed=length, top_p=top_p)
    logits = mx.array(table.astype(np.float32))
    table = np.array(Distribution(sampling, SIZE).logprobs(logits))
    texts, accepted = told(logits, table, TableHead(other), sampling, length)
    counts = Counter(map(tuple, texts.tolist()))
    distribution = {text: chance for text, chance in text_distribution(table, START, 3).items() if chance > 0}
    assert counts.keys() <= distribution.keys()
    statistic, freedom = chi_square(counts, distribution, len(texts))
    found = (statistic - freedom) / (2 * freedom) ** 0.5
    print(f"{length} nodes: {found:.1f} standard deviations, {accepted / TRIALS:.2f} accepted a round")
    assert found < 6
    assert accepted > TRIALS / 4


class Tampering(Sampler):
    """Draws as `Sampler` does, but for one place: child `place` of row `row` in level `level` is another token."""

    level, row, place = -1, 0, 0

    def children(self, *given: Any, **named: Any) -> Any:
        found = super().children(*given, **named)
        self.level -= 1
        if self.level != -1:
            return found
        told = found.tokens.tolist()
        other = next(t for t in range(SIZE) if t not in told[self.row])
        told[self.row][self.place] = other
        tokens = mx.array(told, mx.int32)
        return found._replace(tokens=tokens, q=mx.exp(mx.take_along_axis(found.logprobs, tokens, -1)))


@pytest.mark.slow_for("8")
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("length", [2, 4, 8])
def test_whether_a_place_is_filled_does_not_hang_on_what_is_drawn_there(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every place in turn gets another token than it drew: it stays filled or empty, and so do its elder siblings and
    the places above it."""
    filled: list[list[int]] = []
    greatest = growth_module._greatest

    def watched(ranks: mx.array, count: int) -> mx.array:
        best = greatest(ranks, count)
        filled.append(best.tolist())
        return best

    monkeypatch.setattr(growth_module, "_greatest", watched)
    _, other = random_tables(SIZE, closeness=0.0, seed=1, sharpness=3.0)
    head, sampling = TableHead(other), SamplingSettings(temperature=1, seed=1)

    def tree(position: int, level: int = -1, row: int = 0, place: int = 0) -> list[list[int]]:
        sampler = Tampering(sampling, SIZE)
        sampler.level, sampler.row, sampler.place = level, row, place
        filled.clear()
        grown(head, sampler, position, length)
        return list(filled)

    for position in range(2, 7):
        *expanded, kept = tree(position)
        levels = len(expanded) + 1
        for level in range(levels):
            for row, place in np.ndindex(3 if level else 1, 3):
                number = 3 * (row + (3 * (level - 1) + 1 if level else 0)) + place
                *others, left = tree(position, level, row, place)
                assert others[:level] == expanded[:level]
                fixed = set(range(number - place, number + 1))
                fixed |= above(level, row, expanded)
                assert fixed & set(left) == fixed & set(kept)


def above(level: int, row: int, expanded: list[list[int]]) -> set[int]:
    """The places on the way to row `row` of a level, with their elder siblings."""
    places: set[int] = set()
    while level > 0:
        within = expanded[level - 1][row]
        first = 3 * (3 * (level - 2) + 1) if level > 1 else 0
        number = first + within
        places |= set(range(number - number % 3, number + 1))
        level, row = level - 1, within // 3
    return places


# --- what a tree is made of ---------------------------------------------------------------------


def parts(draft: Draft) -> tuple[list[int], list[int]]:
    assert draft.tree is not None
    return draft.tokens.tolist(), draft.tree.parents.tolist()


def state_at(tokens: list[int], parents: list[int], node: int) -> tuple[int, int]:
    text = (*START, *(tokens[i] for i in way(parents, node)))
    return text[-2], text[-1]


@pytest.mark.parametrize("rule", ["greedy", "coupled", "rejection"])
@pytest.mark.parametrize(
    ("length", "top_k", "ids"), [(2, 0, None), (5, 2, [0, 1, 3]), (16, 0, [0, 1, 3]), (16, 1, None), (5, 0, None)]
)
def test_a_tree_is_in_order_and_names_the_distributions_it_was_drawn_from(
    length: int, top_k: int, rule: str, ids: list[int] | None
) -> None:
    """Parents before children, siblings that differ, and for each node the head's distribution at its parent."""
    _, other = random_tables(SIZE, closeness=0.0, seed=2)
    sampling = SamplingSettings(temperature=float(rule != "greedy"), top_k=top_k, seed=4)
    sampler = Sampler(replace(sampling, acceptance="coupled" if rule == "greedy" else rule), SIZE)  # type: ignore[arg-type]
    head = TableHead(other, ids)
    for position in (2, 3):
        draft = grown(head, sampler, position, length)
        tokens, parents = parts(draft)
        assert len(tokens) == length
        assert all(-1 <= parent < node for node, parent in enumerate(parents))
        assert len(set(zip(parents, tokens, strict=True))) == length
        assert set(tokens) <= set(ids or range(SIZE))
        assert (draft.logq is not None) == (rule == "rejection")
        for node, token in enumerate(tokens):
            logits = head.logits(mx.array([state_at(tokens, parents, parents[node])]))
            distribution = sampler.widen(sampler.distribution.logprobs(logits), head.ids)[0]
            if draft.logq is not None:
                assert np.allclose(np.exp(draft.logq[node]), np.exp(distribution), atol=1e-6)
            assert draft.q is not None
            assert draft.q[node].item() == pytest.approx(float(np.exp(distribution[token])), abs=1e-6)


@pytest.mark.parametrize("length", [2, 5, 16, 30])
def test_greedy_trees_are_those_of_eagle_2(length: int) -> None:
    """Expand the likeliest ways of a level, keep the likeliest of all: in plain Python."""
    breadth, deepest = growth_module.BREADTH, growth_module.DEEPEST
    _, other = random_tables(SIZE, closeness=0.0, seed=6)
    level: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]
    every: list[tuple[float, tuple[int, ...]]] = []
    for _ in range(min(length, deepest)):
        level = [(c * float(distribution_after(other, w)[t]), (*w, t)) for c, w in level for t in range(SIZE)]
        every += level
        level = sorted(level)[-breadth:]
    wanted = {text for _, text in sorted(every)[-length:]}
    tokens, parents = parts(grown(TableHead(other), Sampler(SamplingSettings(), SIZE), 2, length))
    assert {tuple(tokens[i] for i in way(parents, node)) for node in range(len(tokens))} == wanted


@pytest.mark.parametrize("rule", ["greedy", "coupled"])
def test_a_head_that_is_the_target_is_followed_while_the_tree_goes_on(rule: str) -> None:
    """Coupled children are the best under the target's own noise, at their own depth."""
    table, _ = random_tables(SIZE, closeness=0.0, seed=8)
    logits = mx.array(table.astype(np.float32))
    for seed in range(5):
        sampler = Sampler(SamplingSettings(temperature=float(rule == "coupled"), seed=seed, acceptance="coupled"), SIZE)
        draft = grown(TableHead(table), sampler, 10, 40)
        verdict = verify(sampler, target_rows(logits, draft), TokenCounts(sampler.distribution, []), draft, 10)
        assert verdict.path is not None
        last = verdict.path.tolist()[verdict.accepted.item() - 1]
        assert verdict.accepted.item() > 1
        assert last not in parts(draft)[1]


def test_a_drafted_row_sees_the_committed_pairs_and_its_own_way() -> None:
    """And stands after the committed ones by its depth."""
    _, other = random_tables(SIZE, closeness=0.0, seed=9)
    head, known = TableHead(other), 5
    grown(head, Sampler(SamplingSettings(temperature=1, seed=3), SIZE), 7, 30, known)
    drafted: list[int] = []
    for level, (hidden, tokens, position, mask) in enumerate(head.passes):
        assert position == known + level
        drafted += tokens.tolist()
        assert mask.shape == (len(hidden), known + len(drafted))
        for state, token, row in zip(hidden.tolist(), tokens.tolist(), mask.tolist(), strict=True):
            assert all(row[:known])
            seen = [t for t, open_ in zip(drafted, row[known:], strict=True) if open_]
            assert len(seen) == level + 1
            assert (*START, *seen)[-3:] == (*state, token)
