"""Acceptance, speed-ups and the verdict, from what was guessed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from app.inference import pair_loader
from app.inference.options import Options
from engine.metrics import Metrics
from engine.policy.fixed import FixedLength
from engine.settings import SamplingSettings
from models.loader import Loaded
from models.training import pipeline
from models.training.batches import Batch
from models.training.corpus import Conversation, ConversationWriter
from models.training.evaluation import HeldOutScores, assess, draw_report, evaluate, report_fields
from models.training.medusa_trainee import MedusaTrainee, Ranks, _ranks, best_tree
from models.training.trainee_kinds import make_reader, make_trainee
from models.training.training_plan import TrainingKind
from tests.engine.conversations import chat_reply
from tests.models.training.training_plans import CHEAP, DEAR, Steps, fit, plan_for, ready


def judged_from(agreed: NDArray[np.bool_], overlap: float = 0.5) -> HeldOutScores:
    judged = HeldOutScores()
    judged.add(agreed, np.zeros(agreed.shape, np.float32), 0.0)
    judged.add(agreed, np.full(agreed.shape, overlap, np.float32), 1.0)
    return judged


def test_rounds_are_counted_as_the_loop_counts_them() -> None:
    """Drafts of one: 2 tokens, 1, 2, 2, 1. Of two: 3, 3, 2. Of eight: 3, 5."""
    agreed = np.array([[1, 1, 0, 1, 1, 1, 1, 0]], np.bool_)
    judged = judged_from(agreed)
    assert judged.tokens[0] == judged.rounds[0] == 8
    assert (judged.rounds[1], judged.tokens[1]) == (5, 8)
    assert (judged.rounds[2], judged.tokens[2]) == (3, 8)
    assert (judged.rounds[8], judged.tokens[8]) == (2, 8)
    verdict = assess(judged_from(np.array([[1] * 6, [0] * 6], np.bool_)), CHEAP)  # a draft is evaluated at its depth
    assert (verdict.acceptance, verdict.tau) == ([1.0, 0.0], [1.0, 2.0, 2.0])


def test_expected_acceptance_at_temperature_1_is_the_distributions_overlap() -> None:
    verdict = assess(judged_from(np.zeros((3, 20), np.bool_), 0.5), CHEAP)
    assert verdict.warm_acceptance == pytest.approx([0.5, 0.5, 0.5])
    assert verdict.warm_tau == pytest.approx([1.0, 1.5, 1.75, 1.875])
    assert verdict.warm_speedup[1] == pytest.approx(1.5 * 0.010 / 0.011)


@pytest.mark.parametrize(
    ("agreed", "times", "why"),
    [
        (0, CHEAP, "only 0% of first guesses are right"),
        (1, DEAR, "a round of one drafted token takes 2.5 plain steps, so even perfect drafts would not be worthwhile"),
        (1, Steps(0.030, 0.020), "a smaller drafter may do better"),
    ],
)
def test_a_drafter_that_does_not_pay_is_not_worth_using_and_says_why(agreed: int, times: Steps, why: str) -> None:
    verdict = assess(judged_from(np.full((1, 200), agreed, np.bool_), 0.02), times)
    assert not verdict.worth
    assert verdict.words.startswith("not worth using on this machine: ") and why in verdict.words


def test_a_good_drafter_with_cheap_passes_is_worth_using() -> None:
    verdict = assess(judged_from(np.ones((1, 200), np.bool_)), CHEAP)
    assert verdict.worth and verdict.best == 8
    assert verdict.words.startswith("worth using: ") and "with 8 tokens a round" in verdict.words
    unknown = assess(HeldOutScores(), CHEAP)
    assert not unknown.worth and unknown.speedup == [1.0]
    assert unknown.words.startswith("not known to be worth using: no text was left to judge it by")


def test_nothing_is_faster_than_its_tau() -> None:
    verdict = assess(judged_from(np.zeros((1, 50), np.bool_), 0.02), Steps(0.005, 0.0))
    assert max(verdict.speedup) <= 1.0


# --- trees ----------------------------------------------------------------------------------------


def test_the_static_tree_is_nested_and_the_likeliest_first() -> None:
    probs = {(0,): 0.5, (1,): 0.2, (0, 0): 0.3, (0, 1): 0.25, (3,): 0.4, (0, 0, 0): 0.1}
    tree = best_tree(probs, 3, 10, 6)
    assert tree == [(0,), (0, 0), (0, 1), (1,), (0, 0, 0)]
    assert best_tree({}, 3, 10) == [(0,)]
    assert best_tree(probs, 3, 10, 2) == tree[:2]


def test_ranks_are_counted_along_the_text() -> None:
    ids = mx.array([4, 5, 6], mx.int32)
    logits = [mx.array([[3.0, 2, 1], [1, 2, 3], [3, 2, 1]]), mx.array([[0.0, 1, 2], [3.0, 2, 1], [0, 0, 1]])]
    ranks = Ranks()
    ranks.add(np.stack([_ranks(one, mx.array([4, 5, 9], mx.int32), ids) for one in logits]))
    assert ranks.probs() == {(0,): 0.5, (0, 1): 0.5, (1,): 0.5}


def test_a_tree_is_chosen_by_one_half_of_each_reply_and_scored_by_the_other(target: Loaded, tmp_path: Path) -> None:
    """So that a single one is enough."""
    trainee: Any = make_trainee(target, "medusa", (2, 0), make_reader(target, "medusa"), [4, 5, 6], 0)
    right = mx.array([[9.0, 0, 0], [0, 9.0, 0]])
    rows = mx.concatenate([right, -right])
    reply: Any = SimpleNamespace(labels=mx.array([4, 5, 4, 5], mx.int32))
    trainee.finalize()
    trainee.save(tmp_path / "unknown", {})
    assert trainee.tree_probs == [] and "tree_tau" not in (tmp_path / "unknown" / "config.json").read_text()
    trainee.observe([rows, rows], reply)
    assert trainee.tree_probs == [0.0, 0.0]
    trainee.observe([mx.concatenate([right, right])] * 2, reply)
    assert trainee.tree_probs == [0.5, 0.5]
    trainee.save(tmp_path / "known", {})
    assert "tree_tau" in (tmp_path / "known" / "config.json").read_text()


def test_trees_are_timed_as_large_as_auto_drafts_them() -> None:
    verdict = assess(judged_from(np.zeros((1, 50), np.bool_), 0.02), CHEAP, [0.5] * 40)
    assert len(verdict.tree_tau) == 41 and len(verdict.tree_speedup) == 32
    assert verdict.tree_speedup[8] == pytest.approx(5.0 * 0.010 / 0.018)
    assert verdict.worth and verdict.words.endswith("with a tree of 31")


def test_without_tree_support_only_chains_are_evaluated_and_the_report_says_so() -> None:
    judged, trouble = judged_from(np.zeros((1, 50), np.bool_), 0.02), "its memory is no tree's"
    verdict = assess(judged, CHEAP, [0.5] * 16, trouble)
    assert not verdict.worth and verdict.tree_tau == verdict.tree_speedup == []
    assert verdict.words.endswith("; no trees on this target: its memory is no tree's")
    assert assess(judged, CHEAP).words == verdict.words.partition("; no trees")[0]


@pytest.mark.slow
def test_a_fit_checks_tree_support_and_observes_greedy_replies(
    target: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temperatures: list[float] = []
    looked: list[Batch] = []

    def judged_too(*args: Any) -> list[mx.array]:
        temperatures.append(args[2])
        return evaluate(*args)

    def looked_too(self: MedusaTrainee, logits: list[mx.array], batch: Batch) -> None:
        looked.append(batch)
        observe(self, logits, batch)

    observe = MedusaTrainee.observe
    monkeypatch.setattr(MedusaTrainee, "observe", looked_too)
    monkeypatch.setattr(pipeline, "evaluate", judged_too)
    monkeypatch.setattr(pipeline, "why_no_trees", lambda model: f"{type(model).__name__} is no tree's")
    place = fit(target, tmp_path / "drafter", plan_for(target, "medusa"))
    assert 0 < len(looked) == temperatures.count(0.0) < len(temperatures)
    assert str(place.report()["verdict"]).endswith("; no trees on this target: CachedModel is no tree's")
    assert place.report()["tau_by_tree_size"] == []


# --- against the loop -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["eagle3", "medusa", "draft"])
def test_evaluation_agrees_with_what_the_loop_accepts(target: Loaded, kind: TrainingKind, tmp_path: Path) -> None:
    """tau at temperature 0, to the digit, of the drafter in its folder."""
    plan = plan_for(target, kind, reply_tokens=40)
    talk = [c for c in ConversationWriter(target, plan).write(range(0, 16, 2)) if isinstance(c, Conversation)]
    assert {c.temperature for c in talk} == {0.0}
    trainee, batches = ready(target, kind, talk)
    trainee.finalize()
    judged = HeldOutScores()
    for number in range(len(talk)):
        batch = batches.make([number])
        trainee.observe(evaluate(trainee, batch, 0.0, judged), batch)
    folder = tmp_path / "drafter"
    folder.mkdir()
    trainee.save(folder, {"kind": kind})
    longest = min(trainee.max_depth, 8) if trainee.max_depth > 1 else 8
    tau, acceptance = decode(target, folder, talk, longest)
    verdict = assess(judged, CHEAP)
    assert tau == pytest.approx(verdict.tau[longest], abs=1e-9)
    assert acceptance[0] == pytest.approx(verdict.acceptance[0], abs=0.02)  # which drafts the reply's end cut counts


def decode(target: Loaded, folder: Path, talk: list[Conversation], length: int) -> tuple[float, list[float]]:
    """tau and acceptance by position of chains of `length`, as decoding finds them."""
    session, *_ = pair_loader.open_session(target, Options())
    drafter = pair_loader.open_drafter(str(folder), target).drafter
    total = Metrics()
    for c in talk:
        settings = SamplingSettings(max_tokens=c.reply)
        prompt = target.tokenizer._fast.decode(list(c.tokens[: c.prompt]), skip_special_tokens=False)
        words = prompt.removeprefix("<|im_start|>user\n").partition("<|im_end|>")[0]
        for event in chat_reply(session, [{"role": "user", "content": words}], settings, drafter, FixedLength(length)):
            total.add(event)
    assert total.mean_acceptance_length is not None
    reached = [value for value, n in zip(total.acceptance_by_position, total.reached, strict=True) if n]
    return total.mean_acceptance_length, reached


# --- the report -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_any_report_can_be_drawn(tmp_path: Path) -> None:
    for judged in (judged_from(np.ones((1, 60), np.bool_)), HeldOutScores()):
        record = report_fields(judged, assess(judged, CHEAP, (0.5, 0.2)), CHEAP)
        loss = {"training": [3.0, 2.0], "steps_a_point": 1, "held_out": [[2, 2.5]]}
        draw_report(tmp_path / "report.png", {"kind": "eagle3", "target": "a$_$b", "loss": loss, **record})
        assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
