"""One pass over a tree is its ways one by one, and what is kept of it is a sequence again."""

import itertools
from collections.abc import Collection
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.cache.sliding_window import SLACK
from engine.loop import Limits
from engine.target.cached_model import CachedModel
from engine.target.tree_trial import why_no_trees
from engine.tree.draft_tree import DraftTree
from tests.engine.fewer import paired
from tests.engine.replies import CONTEXT, PROMPT, reply
from tests.engine.trees import Hidden, random_parents, way
from tests.toys.architecture_common import WINDOW
from tests.toys.architectures import build

SEQUENCE = [int(t) for t in np.random.default_rng(0).integers(0, 64, 400)]
NOTHING = mx.zeros(0, mx.int32)
# KV; windows among KV; the same with shared masks; layers without attention, whose caches stay empty
KINDS = ["qwen3", "llama", "gemma3_text", "nemotron-nas"]
LENGTHS = [2, WINDOW - 3, WINDOW - 1, WINDOW, WINDOW + 1, 40, SLACK + WINDOW + 5, 330]
PARENTS = [-1, -1, 0, 0, 2, 1, 4, 4, 7]


@pytest.fixture(scope="module", params=["llama", "gemma3_text"])
def network(request: pytest.FixtureRequest) -> nn.Module:
    return build(request.param)


def model_after(network: nn.Module, length: int, step: int = 50) -> CachedModel:
    model = CachedModel(network)
    for start in range(0, length, step):
        model.feed(SEQUENCE[start : min(start + step, length)])
    return model


def agree(a: mx.array, b: mx.array) -> bool:
    return bool(np.abs(np.array(a) - np.array(b)).max() < 1e-3 * max(1.0, np.abs(np.array(b)).max()))


def keys_and_values(model: CachedModel) -> list[np.ndarray]:
    """Keys and values of every layer, as far as a window may show them."""
    rows = []
    for entry in (e for e in model.cache.entries if e.keys is not None):
        end = entry.offset - getattr(entry, "start", 0)
        shown = min(end, getattr(entry, "max_size", end))
        rows += [np.array(a[..., end - shown : end, :]) for a in (entry.keys, entry.values)]
    return rows


def same_memory(a: CachedModel, b: CachedModel) -> None:
    assert a.length == b.length
    for mine, theirs in zip(keys_and_values(a), keys_and_values(b), strict=True):
        assert mine.shape == theirs.shape
        assert np.abs(mine - theirs).max() < 1e-3


@pytest.mark.slow_for("*-330-*")
@pytest.mark.parametrize(
    ("network", "length", "lacking"),
    [
        *(("llama", length, 1) for length in LENGTHS),
        *(("gemma3_text", 2, 8), ("gemma3_text", WINDOW - 1, 3), ("gemma3_text", WINDOW, 8), ("gemma3_text", 330, 3)),
        *(("qwen3", 40, 1), ("nemotron-nas", WINDOW, 8)),
    ],
    indirect=["network"],
)
def test_a_pass_over_a_tree_gives_each_node_the_logits_of_its_way(
    network: nn.Module, length: int, lacking: int
) -> None:
    """Before, at and past the edge of every window, with a part of the sequence riding in the same pass."""
    rng = np.random.default_rng([length, lacking])
    parents = PARENTS if lacking == 1 else random_parents(rng, 9)
    draft = [int(t) for t in rng.integers(0, 64, len(parents))]
    model, sequence = model_after(network, length), SEQUENCE[: length + lacking]
    rows, width = model.continue_from(sequence, mx.array(draft), DraftTree.of(parents))
    assert (rows.shape[0], width) == (1 + len(parents), lacking + len(parents))
    leaves = [node for node in range(len(parents)) if node not in parents]
    for leaf in leaves:
        nodes, alone = way(parents, leaf), model_after(network, length)
        wanted, _ = alone.continue_from(sequence, mx.array([draft[i] for i in nodes]))
        assert agree(rows[mx.array([0, *(i + 1 for i in nodes)])], wanted)


EDGES = [WINDOW - 2, WINDOW + 1, 253]
PATHS = [[], [0], [1], [0, 2], [0, 3], [1, 5], [0, 2, 4, 7, 8]]


@pytest.mark.parametrize(("length", "path"), [(EDGES[i % 3], path) for i, path in enumerate(PATHS)], ids=str)
def test_what_is_kept_of_a_tree_is_the_memory_of_a_chain(network: nn.Module, length: int, path: list[int]) -> None:
    """Arrays and what they say next, also after another tree on top; features of the same tokens beside them."""
    draft = [int(t) for t in np.random.default_rng(length).integers(0, 64, len(PARENTS))]
    trees, chains = model_after(network, length - 2), model_after(network, length - 2)
    logs = []
    for model in (trees, chains):
        model.record((0, 1, 2))
        logs.append(model.taps)
    sequence = SEQUENCE[: length + 1]
    trees.continue_from(sequence, mx.array(draft), DraftTree.of(PARENTS))
    trees.keep_path(path)
    kept = [draft[i] for i in path]
    chains.feed([*sequence[length - 2 :], *kept])
    same_memory(trees, chains)
    whole = [*sequence, *kept]
    assert logs[0].end == logs[1].end == len(whole)
    assert agree(logs[0].take(length - 2, len(whole)), logs[1].take(length - 2, len(whole)))
    for _ in range(2):
        whole.append(7)
        after, _ = trees.continue_from(whole, mx.array(draft), DraftTree.of(PARENTS))
        trees.keep_path([])
        wanted, _ = chains.continue_from(whole, NOTHING)
        assert agree(after[0], wanted[0])
    same_memory(trees, chains)


def test_keeping_a_path_writes_into_the_caches_in_place(network: nn.Module) -> None:
    """What it takes on top of the caches is less than one of them: a gather that reads them would have them copied."""
    model, sequence = model_after(network, 300), (SEQUENCE * 3)[:1000]
    model.continue_from(sequence, mx.array([1] * len(PARENTS)), DraftTree.of(PARENTS))
    mx.eval(model.cache.arrays())
    mx.synchronize()
    whole = max(array.nbytes for array in model.cache.arrays())
    held = mx.get_active_memory()
    mx.reset_peak_memory()
    model.keep_path([0, 2, 4])
    mx.eval(model.cache.arrays())
    mx.synchronize()
    assert mx.get_peak_memory() - held < whole / 4


@pytest.mark.parametrize(("length", "back"), paired([30, 253], [0, 1, 5, 20]))
def test_a_tree_that_nobody_kept_is_forgotten_by_a_rewind(network: nn.Module, length: int, back: int) -> None:
    """Whatever length is asked for: rows after the root are no sequence."""
    model = model_after(network, length)
    model.continue_from(SEQUENCE[: length + 1], mx.array([1] * len(PARENTS)), DraftTree.of(PARENTS))
    left = model.rewind(length + 6 - back)
    assert left == min(length + 1, length + 6 - back)
    plain = model_after(network, left)
    same_memory(model, plain)
    rows, _ = model.continue_from(SEQUENCE[: left + 1], NOTHING)
    assert agree(rows, plain.continue_from(SEQUENCE[: left + 1], NOTHING)[0])
    with pytest.raises(ValueError, match="no tree"):
        model.keep_path([])


# --- whole replies ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def truth(network: nn.Module) -> list[int]:
    return reply(network, tokens=90)[0]


@pytest.mark.parametrize(
    ("network", "length", "wrong"),
    [
        *(("llama", 1, range(0, 90, 4)), ("llama", 16, ()), ("gemma3_text", 5, range(1, 90, 2))),
        *(("qwen3", 5, range(0, 90, 4)), ("nemotron-nas", 16, range(0, 90, 4))),
    ],
    indirect=["network"],
    ids=str,
)
def test_any_pattern_of_mistakes_in_trees_gives_the_same_text(
    network: nn.Module, truth: list[int], length: int, wrong: Collection[int]
) -> None:
    drafter = Hidden(len(PROMPT), truth, frozenset(wrong), seed=length)
    ids, rounds, _ = reply(network, drafter, length, tokens=60)
    assert ids == truth[:60]
    assert any(r.accepted > 1 for r in rounds) or length == 1 or len(wrong) > 40
    for r in rounds:
        assert r.width == len(r.drafted) + 1
        assert len(r.q) == len(r.drafted)
        assert len(r.tokens) == len(r.p) == r.accepted + 1
        assert tuple(r.drafted[i] for i in r.path) == r.tokens[: r.accepted]
        if r.parents is not None:
            assert [r.parents[i] for i in r.path] == [-1, *r.path][: r.accepted]
            assert r.refused == any(parent == [-1, *r.path][-1] for parent in r.parents)


@pytest.mark.slow_for("llama")
def test_eos_inside_an_accepted_way_ends_the_reply_there(network: nn.Module, truth: list[int]) -> None:
    """And the caches with it: what is gone on with is what would have been said."""
    at = next(i for i in range(6, 30) if truth[i] not in truth[:i])
    inside = 0
    for length, seed in itertools.product((2, 6, 16), range(4)):
        model = CachedModel(network)
        drafter = Hidden(len(PROMPT), truth, seed=seed)
        ids, rounds, end = reply(model, drafter, length, tokens=Limits(40, CONTEXT, frozenset([truth[at]])))
        assert ids == truth[: at + 1]
        assert end.reason == "eos"
        inside += rounds[-1].accepted == len(rounds[-1].tokens)
        assert all(len(r.path) == r.accepted and len(r.p) == len(r.tokens) for r in rounds)
        assert model.length == len(PROMPT) + at
        same_memory(model, chain_of([*PROMPT, *ids[:-1]], network))
    assert inside


def chain_of(tokens: list[int], network: nn.Module) -> CachedModel:
    model = CachedModel(network)
    model.feed(tokens)
    return model


# --- who can ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [("mamba2", "ArraysCache"), ("llama4", "ChunkedKVCache"), ("talkie", "position"), ("afm7", "different logits")],
)
def test_a_target_that_cannot_says_why_and_decodes_as_before(name: str, reason: str) -> None:
    """A pass that breaks off in the middle of the layers leaves no rows behind."""
    network = build(name)
    plain, _, _ = reply(network, tokens=20)
    model = CachedModel(network)
    assert reason in str(why_no_trees(model))
    assert model.length == 0
    assert reply(model, tokens=20)[0] == plain


def test_a_pass_that_breaks_off_is_forgotten_with_all_before_it(network: nn.Module) -> None:
    """Its first layers have seen what its last have not."""
    model, last = model_after(network, 20), list(network.layers)[-1]
    model.record((1,))
    features = model.taps
    assert features is not None
    model.feed(SEQUENCE[20:25])
    kind = type(last)

    class Broken(kind):  # type: ignore[misc, valid-type]
        def __call__(self, *given: Any, **named: Any) -> Any:
            raise KeyboardInterrupt

    last.__class__ = Broken
    try:
        with pytest.raises(KeyboardInterrupt):
            model.feed(SEQUENCE[25:30])
    finally:
        last.__class__ = kind
    assert (model.length, features.end) == (0, 0)
    model.feed(SEQUENCE[:25])
    same_memory(model, model_after(network, 25))
