"""A drafter that fails within a reply: it is reported, and the text stays the same. A target that fails: reported."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from app import protocol as p
from app.command_line import AGAIN
from app.host.engine_loop import TaskRunner
from app.host.model_worker import ModelWorker
from app.task_queue import Task, TaskQueue
from engine.drafters.draft_model import DraftModel
from engine.errors import MachineLostError, ModelError
from engine.target.cached_model import CachedModel
from engine.verify_pass import PendingRound
from tests.app.host.process import asked, of_kind
from tests.app.host.replies import LENGTH, QUESTION, SAMPLINGS, ask, end_of, ids_of, served, text_of, worker_with

LOST = RuntimeError("the device\nwas lost")
FAULTS = [
    ("propose", 1, LOST),
    ("propose", 3, LOST),
    ("propose", 3, MemoryError()),
    ("propose", 3, ModelError("its file is gone: get it again")),
    ("rewind", 4, LOST),
    ("sync", 1, LOST),
]


def _named(value: object) -> str:
    return type(value).__name__ if isinstance(value, Exception) else str(value)


def fails_at(call: int, error: BaseException, original: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, but raising from the `call`th call on."""
    calls = 0

    def failing(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= call:
            raise error
        return original(*arguments, **more)

    return failing


def fell_back(answers: list[p.AnyAnswer], why: str) -> int:
    """Checks that one stream of rounds falls back for the reason `why`; returns how many rounds came before."""
    said = of_kind(answers, p.FellBack)
    assert len(said) == 1
    assert why in said[0].reason
    assert "\n" not in said[0].reason
    at = answers.index(said[0])
    before, after = of_kind(answers[:at], p.RoundDone), of_kind(answers[at:], p.RoundDone)
    assert after
    assert all(told.round.drafted == () and told.round.reason == said[0].reason for told in after)
    assert of_kind(answers[at:], p.PrefillProgress) == [] or not before
    rounds = [told.round for told in [*before, *after]]
    assert [r.index for r in rounds] == list(range(len(rounds)))
    assert [r.time_s for r in rounds] == sorted(r.time_s for r in rounds)
    assert end_of(answers).finished.time_s >= rounds[-1].time_s
    assert end_of(answers).finished.tokens == len(ids_of(answers))
    return len(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLINGS)
@pytest.mark.parametrize(("method", "call", "error"), FAULTS, ids=_named)
def test_the_text_is_the_same_whatever_of_the_drafter_fails(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch, method: str, call: int, name: str, error: BaseException
) -> None:
    whole = ask(worker, SAMPLINGS[name])
    worker.recover()
    monkeypatch.setattr(DraftModel, method, fails_at(call, error, getattr(DraftModel, method)))
    answers = ask(worker, SAMPLINGS[name])
    before = fell_back(answers, " ".join(str(error).split()) or type(error).__name__)
    assert (before > 0) == (call > 1)
    assert ids_of(answers) == ids_of(whole)
    assert text_of(answers) == text_of(whole)


def test_an_error_in_the_pass_over_a_draft_is_blamed_on_the_drafter(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLX is lazy: a draft may break only when the round lands."""
    whole, original = ask(worker, SAMPLINGS["greedy"]), PendingRound.wait
    worker.recover()

    def wait(self: PendingRound, index: int, began_s: float) -> Any:
        if not self.is_plain and index == 2:
            raise RuntimeError("out of memory")
        return original(self, index, began_s)

    monkeypatch.setattr(PendingRound, "wait", wait)
    answers = ask(worker, SAMPLINGS["greedy"])
    assert fell_back(answers, "out of memory") == 2
    assert ids_of(answers) == ids_of(whole)


@pytest.mark.parametrize("place", ["draft", "plain", "idle"])
def test_a_lost_machine_is_no_fault_of_the_drafter(
    toy_folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """MLX raises it from whatever is evaluated next: in a round with a draft or a plain one, or between replies."""
    worker, error = worker_with(toy_folder, "lookup"), RuntimeError("[ring] connection to a peer was lost")
    part, name, call = (ModelWorker, "prepare", 1) if place == "idle" else (PendingRound, "wait", 3)
    failing = fails_at(call, error, getattr(part, name))
    sampling = p.SamplingSettings(max_tokens=LENGTH, draft_length=3 if place == "draft" else 0)
    monkeypatch.setattr("app.host.engine_loop.IDLE_S", 0.0)
    tasks = TaskQueue()
    tasks.put(Task(p.Reply(id=7, messages=QUESTION, sampling=sampling), lambda _: None))
    if place != "idle":
        tasks.close(stop=False)

    def fail(*arguments: Any, **options: Any) -> Any:
        tasks.close(stop=False)  # whoever forgets the error has nothing left to wait for
        return failing(*arguments, **options)

    monkeypatch.setattr(part, name, fail)
    with pytest.raises(MachineLostError, match=f"model is gone{AGAIN}$"):
        TaskRunner(tasks, lambda _: None, lambda: worker).run()


def test_drafter_probabilities_that_are_not_numbers_are_not_sent(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, original = ask(worker, SAMPLINGS["greedy"]), DraftModel.propose
    worker.recover()

    def propose(self: Any, standing: Any, length: int) -> Any:
        draft = original(self, standing, length)
        return replace(draft, q=mx.full(draft.tokens.shape, math.nan))

    monkeypatch.setattr(DraftModel, "propose", propose)
    answers = ask(worker, SAMPLINGS["greedy"])
    assert fell_back(answers, "not numbers: its files are damaged") == 0
    assert ids_of(answers) == ids_of(whole)


def test_a_reply_with_a_stop_string_falls_back_to_the_same_text(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds that were held back for the stop string were never sent, and are decoded again."""
    texts = [t for told in of_kind(ask(worker, SAMPLINGS["greedy"]), p.RoundDone) for t in told.round.texts]
    stop = next("".join(texts[i : i + 3]) for i in range(8, LENGTH) if "".join(texts[i : i + 3]).strip())
    sampling = p.SamplingSettings(max_tokens=LENGTH, draft_length=3, stop=(stop, texts[2] + texts[3] + "never"))
    worker.recover()
    whole = ask(worker, sampling)
    assert end_of(whole).finished.reason == "stop"
    for call in (1, 3, 5):
        worker.recover()
        with monkeypatch.context() as patch:
            patch.setattr(DraftModel, "propose", fails_at(call, RuntimeError("gone"), DraftModel.propose))
            answers = ask(worker, sampling)
        assert (ids_of(answers), text_of(answers)) == (ids_of(whole), text_of(whole))
        assert end_of(answers).finished.reason == "stop"


# --- the target -------------------------------------------------------------------------------


@pytest.mark.slow_for("3")
@pytest.mark.parametrize("drafts", [0, 3])
def test_an_error_of_the_target_fails_the_reply_and_keeps_its_rounds(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], drafts: int
) -> None:
    sampling = p.SamplingSettings(max_tokens=LENGTH, draft_length=drafts)
    request = p.Reply(id=3, messages=QUESTION, sampling=sampling)
    whole = ask(worker, sampling)
    worker.recover()
    with monkeypatch.context() as patch:
        patch.setattr(CachedModel, "_run", fails_at(8, RuntimeError("the device was lost"), CachedModel._run))
        answers = served(worker, request)
    failed = answers[-1]
    assert isinstance(failed, p.Failed)
    assert (failed.id, failed.kind) == (3, "RuntimeError")
    assert "the device was lost" in failed.message
    assert failed.kept_pair is None
    assert "Traceback" in capfd.readouterr().err
    told = ids_of(answers)
    assert told
    assert told == ids_of(whole)[: len(told)]
    assert ids_of(served(worker, request)) == ids_of(whole)
    assert (
        ids_of(ask(worker, sampling, continuation_ids=tuple(told)))[: LENGTH - len(told)] == ids_of(whole)[len(told) :]
    )


def test_target_probabilities_that_are_not_numbers_fail_the_reply(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = PendingRound.wait

    def wait(self: PendingRound, index: int, began_s: float) -> Any:
        return replace(original(self, index, began_s), p=(math.nan,), tokens=(5,), accepted=0, drafted=(), q=())

    monkeypatch.setattr(PendingRound, "wait", wait)
    answers = served(worker, p.Reply(id=3, messages=QUESTION, sampling=p.SamplingSettings(draft_length=0)))
    assert isinstance(answers[-1], p.Failed)
    assert answers[-1].kind == "ModelError"
    assert of_kind(answers, p.RoundDone) == []


def test_a_worker_that_cannot_recover_ends_the_process(worker: ModelWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CachedModel, "_run", fails_at(3, RuntimeError("lost"), CachedModel._run))
    monkeypatch.setattr("app.inference.loaded_pair.release_memory", fails_at(1, RuntimeError("still lost"), ask))
    with pytest.raises(RuntimeError, match="still lost"):
        served(worker, p.Reply(id=3, messages=asked("Hi"), sampling=p.SamplingSettings(draft_length=0)))
