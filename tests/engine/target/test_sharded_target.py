"""A target split over processes writes what it writes in one, whatever is drafted: see `sharded_ranks`."""

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import mlx.core as mx
import pytest

from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import BackendError, MachineLostError, ModelError
from engine.target.cached_model import CachedModel
from engine.target.layer_taps import LayerTaps
from engine.target.model_layout import is_pipelined
from engine.target.sharded_target import Leader, follow
from engine.target.target_view import TargetView
from engine.tree.draft_tree import DraftTree
from models.drafters.target_match import shape_of
from models.parallel import pipeline, shard, split
from models.parameters import weights_bytes
from tests.engine.replies import earlier_replies, reply
from tests.engine.target.sharded_ranks import whole
from tests.toys.architectures import build


class Group:
    """A group of MLX whose other ranks are nowhere: enough to split a network, not to run it."""

    def __init__(self, ranks: int, rank: int = 0) -> None:
        self._ranks, self._rank = ranks, rank

    def size(self) -> int:
        return self._ranks

    def rank(self) -> int:
        return self._rank


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "name", "kinds"),
    [
        (2, "qwen3_5", ["draft model", "eagle3"]),
        (2, "qwen3_next/pipeline", []),
        # What a machine between two others receives does not depend on the tokens, so MLX would be free to wait for it
        # before it hears of them.
        (3, "qwen2/pipeline", ["lookup trees"]),
        (2, "qwen2 with windows/pipeline", ["lookup", "draft model"]),
        (4, "deepseek_v3", ["eagle3"]),
    ],
    ids=["2", "2 one after the other", "3 one after the other", "windows one after the other", "4"],
)
def test_several_processes_write_what_one_writes(ranks: int, name: str, kinds: list[str]) -> None:
    """Other architectures by hand: `python -m tests.engine.target.sharded_ranks 2 NAME`, or NAME/pipeline."""
    command = [sys.executable, "-m", "tests.engine.target.sharded_ranks", str(ranks), name, *kinds]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["replies"] >= (12 if kinds else 42) and found["passes"] > 80


def test_what_cannot_be_split_says_why() -> None:
    two: Any = Group(2)
    with pytest.raises(ModelError, match="mlx-lm cannot split phi3 models"):
        shard(build("phi3"), two)
    three: Any = Group(3)
    with pytest.raises(ModelError, match=r"cannot be split evenly over 3 machines|which 3 machines do not divide"):
        shard(build("qwen3"), three)


def test_heads_that_do_not_divide_are_refused_even_where_their_weights_do() -> None:
    """The built-in model's 9 heads of 64 are 576 wide: two ranks would cut a head in two."""
    network = build("llama")
    for layer in network.layers:
        layer.self_attn.n_kv_heads = 3
    two: Any = Group(2)
    with pytest.raises(ModelError, match="n_kv_heads 3, which 2 machines do not divide"):
        shard(network, two)


# --- layers on different machines ---


@pytest.mark.parametrize("name", ["qwen3_next/pipeline", "qwen2"])
def test_where_no_layer_can_be_split_each_machine_has_some(name: str) -> None:
    """qwen3_next has no `shard` in mlx-lm; the toys' 4 heads cannot be divided by 3."""
    ranks = 2 if "/" in name else 3
    parts = [split(lambda: whole(name), cast(Any, Group(ranks, rank))) for rank in range(ranks)]
    one = whole(name)
    assert sum(len(part.layers) for part in parts) == len(one.layers)
    assert all(is_pipelined(part) for part in parts) and not is_pipelined(one)
    outside = weights_bytes(one) - sum(weights_bytes(layer) for layer in one.layers)
    assert sum(map(weights_bytes, parts)) == weights_bytes(one) + (ranks - 1) * outside
    assert all(weights_bytes(part) < weights_bytes(one) for part in parts)


@pytest.mark.parametrize("tree", [None, DraftTree.of((-1, -1, 0))])
def test_parts_one_after_the_other_compute_what_the_whole_does(
    tree: DraftTree | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three ranks in one process: what one sends the next receives."""
    sent: dict[int, list[mx.array]] = {0: [], 1: []}
    monkeypatch.setattr(mx.distributed, "send", lambda states, to: sent[to].append(states) or states)
    monkeypatch.setattr(mx.distributed, "recv_like", lambda _, source: sent[source - 1].pop(0))
    monkeypatch.setattr(mx.distributed, "all_gather", lambda states: states)
    ids, one = mx.array([5, 2, 7, 3, 6, 4]), CachedModel(build("qwen2"))
    for rank in (2, 1, 0):
        part = CachedModel(split(lambda: build("qwen2"), cast(Any, Group(3, rank))))
        logits = [part.forward(ids), part.forward(mx.array([1, 8, 9, 3]), tree)]
    for mine, theirs in zip(logits, [one.forward(ids), one.forward(mx.array([1, 8, 9, 3]), tree)], strict=True):
        assert mx.array_equal(mine, theirs)
    assert sent == {0: [], 1: []}


def test_a_model_whose_layers_can_be_split_has_no_pipeline() -> None:
    two: Any = Group(2)
    network = split(lambda: build("qwen2"), two)
    assert not is_pipelined(network) and len(network.layers) == 3


def test_layers_that_cannot_be_divided_say_why() -> None:
    """A machine without a recurrent layer could rewind where the others cannot."""
    two, second = cast(Any, Group(2)), cast(Any, Group(2, 1))
    with pytest.raises(ModelError, match=r"too few layers of each kind \(ArraysCache, KVCache\) for 2 machines"):
        split(lambda: build("qwen3_next"), second)  # 3 layers, of which it has the first
    eight: Any = Group(8)
    with pytest.raises(ModelError, match="cannot be divided over 8 machines"):
        split(lambda: build("qwen2"), eight)
    with pytest.raises(ModelError, match="mlx-lm has no pipeline for phi3 models"):
        pipeline(build("phi3"), two)


def test_states_of_layers_elsewhere_are_not_shown() -> None:
    three: Any = Group(3)
    network = split(lambda: build("qwen2"), three)
    with pytest.raises(ModelError, match="layers are on several machines: choose lookup or a draft model"):
        LayerTaps(network, (0,))
    loaded: Any = SimpleNamespace(network=network)
    with pytest.raises(ModelError, match="layers are on several machines"):
        shape_of(loaded)


def test_the_output_matrix_stays_whole() -> None:
    """Drafters read it, and the logits of a pass need not travel."""
    network: Any = build("qwen3_5")
    before = network.language_model.lm_head.weight.shape
    two: Any = Group(2)
    shard(network, two)
    assert network.language_model.lm_head.weight.shape == before
    assert network.language_model.sharding_group is None
    up = [model.layers[0].mlp.up_proj.weight.shape[0] for model in (network, build("qwen3_5"))]
    assert up[0] * 2 == up[1]


# --- what rank 0 announces, with a group of one: it sums nothing ---


def group_of_one() -> mx.distributed.Group:
    return mx.distributed.init(backend="any")


def leading_target(name: str) -> tuple[CachedModel, list[Any]]:
    target, said = CachedModel(build(name)), []
    Leader(target, group_of_one(), said.append)
    return target, said


@pytest.mark.slow_for("qwen3_5")
@pytest.mark.parametrize("name", ["llama", "qwen3_5"])
def test_a_rank_that_follows_ends_with_the_same_cache(name: str) -> None:
    """The numbers that a real group would carry are put into its place."""
    target, said = leading_target(name)
    tokens: list[Any] = []
    target.leader.announce = _noting(target.leader.announce, tokens)  # type: ignore[method-assign,union-attr]
    ids, rounds, _ = reply(target, PromptLookup(1, earlier_replies(64)), 3, tokens=30)
    assert ids == reply(build(name), tokens=30)[0]
    assert any(r.accepted < len(r.drafted) for r in rounds)
    other = CachedModel(build(name))
    for message, numbers in zip(said, tokens, strict=True):
        _follow_with(other, message, numbers)
    for part, name_, args, named in target.leader._calls:  # type: ignore[union-attr]
        getattr(getattr(other, part), name_)(*args, **named)
    assert other.length == target.length
    for mine, theirs in zip(other.cache.arrays(), target.cache.arrays(), strict=True):
        assert mx.array_equal(mine, theirs)


def _noting(announce: Any, tokens: list[Any]) -> Any:
    def noted(rows: mx.array, tree: Any, logits: bool) -> None:
        tokens.append(rows)
        announce(rows, tree, logits)

    return noted


def _follow_with(model: CachedModel, message: Any, numbers: mx.array) -> None:
    class Numbers:
        """A group that sums to what rank 0 has."""

        size = staticmethod(lambda: 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mx.distributed, "all_sum", lambda _, group: numbers)
        follow(model, Numbers(), [message])  # type: ignore[arg-type]


@pytest.mark.parametrize("drafted", [0, 3])
def test_a_round_without_the_other_ranks_is_an_error(drafted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum whose other ranks are gone may go on with the numbers of this rank, and MLX does not always say so."""
    target, two = CachedModel(build("llama")), cast(Any, Group(2))
    Leader(target, two, lambda _: None)
    monkeypatch.setattr(mx.distributed, "all_sum", lambda values, group: values)
    with pytest.raises(MachineLostError, match="is gone: start Redline again"):
        reply(target, PromptLookup(1, earlier_replies(64)) if drafted else None, drafted)


def test_a_pass_that_nobody_could_build_is_no_mistake() -> None:
    class Broken:
        def __call__(self, *_: Any, **__: Any) -> Any:
            raise TypeError("one position a pass")

    target, said = leading_target("llama")
    target.model = Broken()
    with pytest.raises(TypeError):
        target.feed([1, 2])
    other = CachedModel(build("llama"))
    whole, other.model = other.model, Broken()
    follow(other, group_of_one(), said)
    other.model = whole
    with pytest.raises(BackendError, match="rank 0 could not build"):
        follow(other, group_of_one(), [said[0], {"failed": True}])
    other.model = Broken()
    with pytest.raises(TypeError):
        follow(other, group_of_one(), [said[0], said[0]])


def test_a_pass_that_was_interrupted_is_the_last() -> None:
    target, _ = leading_target("llama")
    whole = target.model

    class Interrupted:
        def __call__(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

    target.model = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        target.feed([1, 2])
    target.model = whole
    with pytest.raises(BackendError, match="interrupted"):
        target.feed([1, 2])


def test_keys_and_values_of_a_split_target_are_not_shown() -> None:
    target, _ = leading_target("qwen3")
    with pytest.raises(ModelError, match="split over several machines"):
        TargetView(target, kv_layers=(0,))
    with pytest.raises(BackendError, match="no conversation but the latest"):
        target.snapshot()
