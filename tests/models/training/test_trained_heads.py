"""What a head sees in training is what it sees while it drafts, at every depth, and it loads as it was saved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_map

from app.inference.pair_loader import open_drafter
from engine.backend.mlx_lm_imports import KVCache
from engine.drafters.dflash import DFlash
from engine.drafters.eagle3 import Eagle3
from engine.drafters.mtp import Mtp
from engine.target.cached_model import CachedModel
from models.drafters import kind_of
from models.drafters.dflash import FILES as DFLASH_FILES
from models.drafters.mtp import FILES as MTP_FILES
from models.loader import Loaded
from models.parameters import flat_parameters
from models.training.batches import Batch, Batches
from models.training.trainee import Trainee
from models.training.trainee_kinds import make_reader, make_trainee
from models.training.training_plan import TrainingKind
from tests.models.training.training_plans import conversation

TOKENS = tuple(int(t) for t in np.random.default_rng(0).integers(3, 300, 34))
IDS = list(range(5, 205))
DEPTHS = 4
ROOTS = (10, 17, 25)


def trainee_of(target: Loaded, kind: TrainingKind) -> Any:
    reader = make_reader(target, kind)
    made = make_trainee(target, kind, (DEPTHS, 2), reader, IDS, 1)
    mx.random.seed(2)  # as it begins, attention hardly matters
    made.network.update(tree_map(lambda x: x + 0.2 * mx.random.normal(x.shape), made.network.parameters()))
    return made


def batch_of(target: Loaded, kind: TrainingKind, trainee: Trainee) -> Batch:
    reader = make_reader(target, kind)
    talk = [conversation(TOKENS, 8), conversation(TOKENS[:20], 5)]
    return Batches(talk, lambda n: reader.read(talk[n]), reader, trainee.ids, trainee.min_context).make([0, 1])


def begin(drafter: Any, target: CachedModel, root: int) -> Any:
    """The drafter when `TOKENS[: root]` are in the target's cache and it has read a few fewer."""
    target.record(drafter.needs.taps)
    for _ in target.prefill(TOKENS[:root], chunk=7):
        pass
    drafter.sync(TOKENS[: root - 3])
    return drafter


def chain_guesses(drafter: Any, logits: Callable[[mx.array], mx.array], root: int) -> list[mx.array]:
    """Logits of a draft begun when `TOKENS[: root + 1]` stand, every guess being replaced by the true token."""
    hidden = drafter._catch_up(TOKENS[: root + 1], root)[-1:]
    found = [logits(hidden)[0]]
    for depth in range(1, DEPTHS):
        hidden = drafter.steps(hidden, mx.array([TOKENS[root + depth]], mx.int32))
        found.append(logits(hidden)[0])
    return found


def guesses(kind: TrainingKind, trainee: Any, target: Loaded, root: int) -> list[mx.array]:
    """Logits of what stands after `TOKENS[: root + 1]`, as drafting computes them."""
    cached, network = CachedModel(target.network), trainee.network
    if kind == "eagle3":
        return chain_guesses(begin(Eagle3(network, cached), cached, root), network.logits, root)
    if kind == "mtp":
        drafter = begin(Mtp(network, cached, ids=trainee.ids), cached, root)
        return chain_guesses(drafter, drafter.logits, root)
    block = begin(DFlash(network, cached), cached, root)
    block.sync(TOKENS[: root + 1])
    return list(block.head.logits(block._block(TOKENS[root], DEPTHS), block.target.unembed))


@pytest.mark.parametrize("kind", ["eagle3", "mtp", "dflash"])
def test_training_sees_what_drafting_sees(target: Loaded, kind: TrainingKind) -> None:
    """To 1e-4 of the largest logit: a random head amplifies rounding from step to step, more or less with the BLAS."""
    trainee = trainee_of(target, kind)
    batch = batch_of(target, kind, trainee)
    rows: Any = batch.rows.tolist()
    trained = trainee.predict(batch, DEPTHS)
    for root in ROOTS:
        for depth, drafted in enumerate(guesses(kind, trainee, target, root)):
            there = trained[depth][rows.index(root + depth)]
            apart, largest = mx.abs(there - drafted).max().item(), mx.abs(drafted).max().item()
            assert apart < 1e-4 * largest, (root, depth)


@pytest.mark.slow_for("dflash")
@pytest.mark.parametrize("kind", ["mtp", "dflash"])
def test_a_head_is_loaded_as_it_was_saved(target: Loaded, tmp_path: Path, kind: TrainingKind) -> None:
    """Through the loader that reads the published layout, with its draft vocabulary."""
    trainee = trainee_of(target, kind)
    trainee.finalize()
    trainee.save(tmp_path, {"kind": kind})
    loaded: Any = {"mtp": MTP_FILES.load_head, "dflash": DFLASH_FILES.load_head}[kind](tmp_path, target)
    wanted = flat_parameters(trainee.network)
    for name, value in flat_parameters(loaded).items():
        assert mx.array_equal(value, wanted[name].astype(value.dtype)).item(), name
    drafter = open_drafter(str(tmp_path), target).drafter
    assert drafter is not None and drafter.needs.token_map is not None
    assert drafter.needs.token_map.tolist() == IDS
    stored = sum(value.size for value in wanted.values())
    needed = 4 * (stored + (0 if kind == "dflash" else len(IDS) * make_reader(target, "mtp").hidden))
    assert needed <= kind_of(tmp_path).files.footprint(tmp_path, 4)(100).weights <= needed + 4000


@pytest.mark.parametrize("factor", [1, 30], ids=["quiet", "loud"])
def test_an_mtp_head_begins_with_the_best_linear_guess(target: Loaded, factor: float) -> None:
    """It explains a good part of the next states of the text that it was made from. Its layer changes that guess a
    little at first, however large what the target's last layer adds is, as it was trained on much larger states."""
    reader = make_reader(target, "mtp")
    made: Any = make_trainee(target, "mtp", (1, 0), reader, IDS, 1)
    output = made.network.layer.self_attn.o_proj
    output.update(tree_map(lambda x: factor * x, output.parameters()))
    rng = np.random.default_rng(3)
    talk = [conversation(tuple(int(t) for t in rng.integers(3, 60, 90)), 5) for _ in range(4)]
    rows = [reader.read(one) for one in talk]
    assert list(made.initialize(talk, lambda n: rows[n], 300))[-1] >= 270
    head, states = made.network, rows[0][:, :-1]
    embedded = made._embed(mx.array(talk[0].tokens[1:])).astype(mx.float32)
    guess = head.fc(head.read(states[:-1], embedded))
    far = mx.mean((guess * head.norm.weight - states[1:]) ** 2).item()
    assert far < 0.8 * mx.mean(states[1:] ** 2).item()
    out, alone = head(states[None, :-1], embedded[None], [KVCache()])[0], head.norm(guess)
    change = mx.sqrt(mx.mean((out - alone) ** 2) / mx.mean(alone**2)).item()
    assert 0.01 < change < 0.3
