"""Reading, batches and the optimiser: what is learnt from, in what order, and that it is learnt."""

from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_map

from engine.errors import FitError
from models.loader import Loaded
from models.parameters import flat_parameters
from models.safetensors_file import write_tensors
from models.training.batches import Batches, schedule
from models.training.corpus import Conversation, ConversationWriter, choose_draft_vocabulary, draft_vocabulary_coverage
from models.training.target_states import StoredStates, TargetStateReader, store_states
from models.training.trainee_kinds import make_reader, make_trainee
from models.training.trainer import Trainer, loss_of
from models.training.training_plan import MAX_DEPTHS, MIN_TOKENS, TrainingKind
from tests.models.training.training_plans import conversation, plan_for, ready

KINDS: tuple[TrainingKind, ...] = ("eagle3", "medusa", "draft")


@pytest.fixture(scope="module")
def talk(target: Loaded) -> list[Conversation]:
    return [
        c for c in ConversationWriter(target, plan_for(target, "eagle3")).write(range(8)) if isinstance(c, Conversation)
    ]


# --- reading ------------------------------------------------------------------------------------


def test_the_distribution_is_the_targets_own(target: Loaded, talk: list[Conversation]) -> None:
    c, ids = talk[3], mx.array([7, 90, 250], mx.int32)
    reader = make_reader(target, "eagle3")
    ends = reader.read(c)[c.prompt - 1 :, reader.width :]
    probs = mx.softmax(target.network(mx.array(c.tokens)[None])[0], -1)[c.prompt - 1 :]
    assert mx.allclose(reader.target_distribution(None)(ends), probs, atol=1e-5).item()
    assert mx.allclose(reader.target_distribution(ids)(ends), probs[:, ids], atol=1e-5).item()


@pytest.mark.parametrize("after", ["factor", "cap", "bias of its own"])
def test_functions_of_the_logits_are_recognized_or_refused(target: Loaded, after: str) -> None:
    class Bent:
        """The target with something done to its logits, as some architectures do."""

        layers = target.network.layers

        def __init__(self) -> None:
            self.args = target.network.args

        def __getattr__(self, name: str) -> object:
            return getattr(target.network, name)

        def __call__(self, tokens: mx.array, cache: object = None) -> mx.array:
            logits = target.network(tokens, cache=cache)
            if after == "factor":
                return logits * 0.25
            return mx.tanh(logits / 5) * 5 if after == "cap" else logits + mx.sin(mx.arange(logits.shape[-1])) * 3

    config = {"final_logit_softcapping": 5.0} if after == "cap" else {}
    if after == "bias of its own":
        with pytest.raises(FitError, match="does not support"):
            TargetStateReader(Bent(), (), config)
        return
    reader, c = TargetStateReader(Bent(), (), config), conversation((5, 6, 7, 8), 1)
    probs = mx.softmax(Bent()(mx.array(c.tokens)[None])[0], -1)
    assert mx.allclose(reader.target_distribution(None)(reader.read(c)), probs, atol=1e-5).item()
    assert mx.allclose(
        reader.target_distribution(mx.array([3, 9]))(reader.read(c)), probs[:, mx.array([3, 9])], atol=1e-5
    ).item()


def test_stored_states_are_those_that_were_read(target: Loaded, talk: list[Conversation], tmp_path: Path) -> None:
    reader, path = make_reader(target, "eagle3"), tmp_path / "00000.npy"
    assert list(store_states(path, reader, talk[:3])) == [len(c.tokens) for c in talk[:3]]
    stored = StoredStates([path], [[len(c.tokens) for c in talk[:3]]], reader)
    for number in (2, 0):
        kept, read = stored(number), reader.read(talk[number])
        assert mx.allclose(kept, read, rtol=1e-3, atol=1e-3).item()
        assert mx.allclose(kept[:, -1], read[:, -1], rtol=1e-6, atol=1e-5).item()
    np.save(path, np.load(path)[:, 1:])
    with pytest.raises(FitError, match="wrong size: remove it"):
        stored(0)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FitError, match="remove it and continue with --resume"):
        stored(2)


# --- batches ------------------------------------------------------------------------------------


def test_every_epoch_has_every_conversation_once() -> None:
    lengths = [10 + 7 * n % 90 for n in range(50)]
    order = schedule(lengths, 256, 3)
    for _ in range(3):
        seen: list[int] = []
        while len(seen) < 50:
            batch = next(order)
            assert len(batch) == 1 or len(batch) * -(-max(lengths[n] for n in batch) // 32) * 32 <= 256
            seen += batch
        assert sorted(seen) == list(range(50))
    assert list(islice(schedule(lengths, 256, 3), 40)) == list(islice(schedule(lengths, 256, 3), 40))
    assert list(islice(schedule(lengths, 256, 4), 9)) != list(islice(schedule(lengths, 256, 3), 9))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_predicts_what_each_conversation_alone_does(
    target: Loaded, talk: list[Conversation], kind: TrainingKind
) -> None:
    trainee, batches = ready(target, kind, talk)
    together = batches.make([0, 5, 2])
    alone = [batches.make([n]) for n in (0, 5, 2)]
    assert together.labels.tolist() == [token for batch in alone for token in batch.labels.tolist()]  # type: ignore[union-attr]
    for depth, logits in enumerate(trainee.predict(together, trainee.depths)):
        each = mx.concatenate([trainee.predict(batch, trainee.depths)[depth] for batch in alone])
        assert mx.allclose(logits, each, atol=1e-4).item()


@pytest.mark.parametrize("kind", KINDS)
def test_the_shortest_conversation_has_a_draft_to_train_on(target: Loaded, kind: TrainingKind) -> None:
    """A batch without one has a loss that is no number."""
    reader, talk = make_reader(target, kind), [conversation(range(3, 3 + MIN_TOKENS), 1)]
    trainee = make_trainee(target, kind, (MAX_DEPTHS, 1), reader, range(200), 0)
    batches = Batches(talk, lambda n: reader.read(talk[n]), reader, trainee.ids, trainee.min_context)
    assert 0 < Trainer(trainee, 1, 1e-3).train(batches.make([0])) < 100


def test_the_draft_vocabulary_has_the_most_frequent_tokens() -> None:
    talk = [conversation((9, 9, 9, 5, 5, 7, 8, 5), 2)]
    assert choose_draft_vocabulary(talk, 2, 20) == [5, 7]
    assert choose_draft_vocabulary(talk, 6, 20) == [0, 1, 5, 7, 8, 9]
    assert draft_vocabulary_coverage(talk, [5, 7]) == pytest.approx(4 / 6)


# --- the optimiser ------------------------------------------------------------------------------


@pytest.mark.slow_for("eagle3", "mtp", "dflash")
@pytest.mark.parametrize("kind", [*KINDS, "mtp", "dflash"])
def test_the_loss_falls(target: Loaded, talk: list[Conversation], kind: TrainingKind) -> None:
    trainee, batches = ready(target, kind, talk)
    batch = batches.make(range(4))
    trainer = Trainer(trainee, 30, 5e-3)
    losses = [trainer.train(batch) for _ in range(30)]
    assert losses[-1] < 0.9 * losses[0]
    assert loss_of(trainee, batch, trainee.depths).item() < losses[0]  # type: ignore[operator]


def test_the_loss_is_what_rejection_refuses_and_half_the_cross_entropy() -> None:
    distribution, guesses = (
        np.array([[0.5, 0.25, 0.125], [0.1, 0.2, 0.3]]),
        np.array([[0.25, 0.25, 0.5], [0.6, 0.3, 0.1]]),
    )
    refused = [1 - (0.25 + 0.25 + 0.125), 1 - (0.1 + 0.2 + 0.1)]
    nats = -np.sum(distribution * np.log(guesses), 1)
    even = -np.sum(distribution * np.log(1 / 3), 1)
    refused_even = [1 - (1 / 3 + 0.25 + 0.125), 1 - (0.1 + 0.2 + 0.3)]
    first, second = np.mean(refused + 0.5 * nats), np.mean(refused_even + 0.5 * even)

    class Fixed:
        def predict(self, batch: object, depths: int) -> list[mx.array]:
            return [mx.array(np.log(guesses) + 3), mx.zeros((2, 3))][:depths]

    batch: Any = SimpleNamespace(target_probs=mx.array(distribution))
    trainee: Any = Fixed()
    assert float(loss_of(trainee, batch, 1).item()) == pytest.approx(first, rel=1e-5)
    assert float(loss_of(trainee, batch, 2).item()) == pytest.approx((first + 0.8 * second) / 1.8, rel=1e-5)


def test_training_stopped_between_steps_goes_on_to_the_same_weights(
    target: Loaded, talk: list[Conversation], tmp_path: Path
) -> None:
    def trainer(place: Path | None) -> tuple[Trainer, Batches]:
        trainee, batches = ready(target, "eagle3", talk)
        return Trainer(trainee, 6, 1e-2, place), batches

    order = [[0, 1], [2], [3, 4], [5], [6, 7], [0, 3]]
    whole, batches = trainer(None)
    assert list(whole.run(iter(order), batches.make, lambda: 1.0)) == [1, 2, 3, 4, 5, 6]
    for stop in (2, 1):
        part, batches = trainer(tmp_path)
        part.resume()
        run = part.run(iter(order), batches.make, lambda: 1.0)
        for _ in range(stop):
            next(run)
        run.close()  # type: ignore[attr-defined]
    last, batches = trainer(tmp_path)
    last.resume()
    assert last.step == 3
    list(last.run(iter(order), batches.make, lambda: 1.0))
    assert last.history.losses == pytest.approx(whole.history.losses, abs=0)
    ours, theirs = flat_parameters(last.trainee.network), flat_parameters(whole.trainee.network)
    assert all(mx.array_equal(ours[name], theirs[name]).item() for name in theirs)


def test_a_damaged_checkpoint_says_what_to_do(target: Loaded, talk: list[Conversation], tmp_path: Path) -> None:
    trainee, _ = ready(target, "medusa", talk)
    trainer = Trainer(trainee, 6, 1e-2, tmp_path)
    trainer.save()
    (path,) = tmp_path.iterdir()
    kept: Any = mx.load(str(path))
    mx.eval(kept)  # before the file is written again
    name = next(name for name in kept if name.startswith("network/"))
    moment = next(name for name in kept if name.startswith("optimizer/") and kept[name].ndim == 2)
    damaged: list[dict[str, mx.array]] = [
        {key: value for key, value in kept.items() if key != name},
        {f"{key}x" if key == moment else key: value for key, value in kept.items()},
        {**kept, moment: kept[moment][:1]},
        {**kept, name: kept[name][:1]},
    ]
    for wrong in damaged:
        write_tensors(path, wrong)
        with pytest.raises(FitError, match="remove it and continue with --resume"):
            trainer.resume()
    write_tensors(path, kept)
    assert trainer.resume()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FitError, match="remove it and continue with --resume"):
        trainer.resume()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_full_disk_is_an_error_of_the_disk() -> None:
    """And not one of MLX's own, which nobody who saves expects."""
    with pytest.raises(OSError, match="No space left"):
        write_tensors(Path("/dev/full"), {"x": mx.zeros(100_000)})


def test_a_loss_that_is_not_finite_ends_the_fit(target: Loaded, talk: list[Conversation]) -> None:
    trainee, batches = ready(target, "medusa", talk)
    trainee.network.update(tree_map(lambda x: x * mx.inf, trainee.network.parameters()))
    with pytest.raises(FitError, match="lower --learning-rate"):
        Trainer(trainee, 6, 1e-2).train(batches.make([0]))
