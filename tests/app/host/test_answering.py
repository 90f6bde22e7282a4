"""Replies of toy models through the worker: the session's own text, continued, timed, stopped."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app import protocol as p
from app.host.engine_loop import carry_out
from app.host.model_worker import ModelWorker
from app.inference import pair_loader
from app.inference.loaded_pair import LoadedPair
from app.task_queue import Task, TaskQueue
from engine.errors import ContextError, UsageError
from engine.events import Round
from engine.metrics import Metrics
from engine.policy import Policy
from engine.session import Session
from engine.settings import SamplingSettings
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from models.loader import load
from tests.app.host.process import asked, of_kind, pair
from tests.app.host.replies import (
    LENGTH,
    QUESTION,
    SAMPLINGS,
    ask,
    ask_and_stop,
    end_of,
    ids_of,
    served,
    text_of,
    worker_with,
)
from tests.toys.folders import roomy_copy


def plain(folder: Path, sampling: SamplingSettings) -> list[int]:
    """The ids of plain decoding."""
    target = load(folder)
    messages = [{"role": m.role, "content": m.content} for m in QUESTION]
    events = Session(target.model, target.tokenizer, 512).reply(messages, sampling)
    return [token for round_ in of_kind(events, Round) for token in round_.tokens]


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_reply_equals_plain_decoding(worker: ModelWorker, toy_folder: Path, name: str) -> None:
    answers = ask(worker, SAMPLINGS[name])
    assert ids_of(answers) == plain(toy_folder, SAMPLINGS[name])
    kinds = [type(answer) for answer in answers]
    assert kinds == sorted(kinds, key=[p.PrefillProgress, p.RoundDone, p.ReplyDone].index)
    assert {answer.id for answer in answers} == {7}  # type: ignore[union-attr]
    assert [told.round.index for told in of_kind(answers, p.RoundDone)] == list(range(kinds.count(p.RoundDone)))
    assert end_of(answers).finished.tokens == LENGTH
    assert Metrics.of([told.round for told in of_kind(answers, p.RoundDone)]).accepted > 0


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_reply_continues_from_its_tokens_so_far(worker: ModelWorker, name: str) -> None:
    """From several rounds, with empty caches."""
    sampling = SAMPLINGS[name]
    whole = ask(worker, sampling)
    told = of_kind(whole, p.RoundDone)
    for at in range(1, len(told), 3):
        said = tuple(ids_of(list(told[:at])))
        worker.recover()
        rest = ask(worker, sampling, continuation_ids=said)
        assert [*said, *ids_of(rest)][:LENGTH] == ids_of(whole)
        assert text_of(list(told[:at])) + text_of(rest)[: len(text_of(list(told[at:])))] == text_of(whole)
        lengths = [of_kind(answers, p.PrefillProgress)[0].progress.total for answers in (whole, rest)]
        assert lengths[1] == lengths[0] + len(said)
        assert end_of(rest).finished.tokens == LENGTH  # of what is new


def test_a_stopped_reply_can_be_continued(worker: ModelWorker) -> None:
    whole = ask(worker, SAMPLINGS["greedy"])
    cut = ask_and_stop(worker, SAMPLINGS["greedy"])
    assert end_of(cut).finished.reason == "cancelled"
    assert end_of(cut).finished.tokens == len(ids_of(cut))
    rest = ask(worker, SAMPLINGS["greedy"], continuation_ids=tuple(ids_of(cut)))
    assert (ids_of(cut) + ids_of(rest))[:LENGTH] == ids_of(whole)


def test_a_reply_that_is_stopped_before_it_begins_is_empty(worker: ModelWorker) -> None:
    stop = Event()
    stop.set()
    answers = ask(worker, SAMPLINGS["greedy"], stop)
    assert [type(answer) for answer in answers] == [p.ReplyDone]
    assert (end_of(answers).finished.reason, end_of(answers).finished.tokens) == ("cancelled", 0)


def test_a_reply_can_be_stopped_between_chunks_of_the_prompt(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = CachedModel.prefill.__defaults__[1]  # type: ignore[index]
    monkeypatch.setattr("engine.target.cached_model.CachedModel.prefill.__defaults__", (8, never))
    seen = ask_and_stop(worker, SAMPLINGS["greedy"], p.PrefillProgress, after=3)
    done = [one.progress.done for one in of_kind(seen, p.PrefillProgress)]
    assert done[:3] == [0, 8, 16]
    assert len(done) <= 4
    assert of_kind(seen, p.RoundDone) == []
    assert end_of(seen).finished.reason == "cancelled"
    assert PREFILL_CHUNK > 8


def test_a_drawn_seed_is_reported_and_repeats_the_text(worker: ModelWorker) -> None:
    sampling = SamplingSettings(temperature=1.2, max_tokens=LENGTH, acceptance="coupled", draft_length=2)
    first = ask(worker, sampling)
    seeds = {end_of(ask(worker, sampling)).seed for _ in range(3)} | {end_of(first).seed}
    assert len(seeds) == 4
    again = ask(
        worker, SamplingSettings(temperature=1.2, max_tokens=LENGTH, acceptance="coupled", seed=end_of(first).seed)
    )
    assert ids_of(again) == ids_of(first)


def test_draft_and_verify_are_timed_on_request(worker: ModelWorker) -> None:
    sampling = SAMPLINGS["greedy"]
    untimed, timed = ask(worker, sampling), ask(worker, sampling, timed=True)
    assert {(t.round.draft_s, t.round.verify_s) for t in of_kind(untimed, p.RoundDone)} == {(None, None)}
    assert ids_of(timed) == ids_of(untimed)
    for told in of_kind(timed, p.RoundDone):
        if told.round.drafted:
            assert (told.round.draft_s or 0) > 0
            assert (told.round.verify_s or 0) > 0
    assert {t.round.draft_s for t in of_kind(ask(worker, sampling), p.RoundDone)} == {None}


def test_drafted_tokens_have_their_texts(worker: ModelWorker, toy_folder: Path) -> None:
    tokenizer = load(toy_folder).tokenizer
    answers = ask(worker, SAMPLINGS["greedy"])
    for told in of_kind(answers, p.RoundDone):
        assert told.drafted_texts == tuple(map(tokenizer.piece, told.round.drafted))
    assert tokenizer.piece(2) == "<|im_end|>"
    the = tokenizer.encode("a the")[-1]
    assert tokenizer.piece(the) == tokenizer.decode([the, the])[len(tokenizer.decode([the])) :]


def test_costs_are_estimated_once_and_only_for_automatic_lengths(toy_folder: Path, toy_drafter_folder: Path) -> None:
    worker = worker_with(toy_folder, toy_drafter_folder)
    auto, fixed, off = (SamplingSettings(max_tokens=4, draft_length=length) for length in (None, 2, 0))
    measured = [len(of_kind(ask(worker, sampling), p.Measuring)) for sampling in (fixed, off, auto, auto, fixed)]
    assert measured == [0, 0, 1, 0, 0]
    list(worker.load(p.Load(id=1, pair=pair(toy_folder, "lookup"))))
    assert len(of_kind(ask(worker, auto), p.Measuring)) == 1


def test_a_reply_that_comes_first_goes_by_an_estimate_until_costs_are_measured(
    toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs, make_policy = [], pair_loader.make_policy
    monkeypatch.setattr(pair_loader, "make_policy", lambda *given: (costs.append(given[2]), make_policy(*given))[1])
    worker, auto = worker_with(toy_folder, toy_drafter_folder), SamplingSettings(max_tokens=LENGTH)
    first = ask(worker, auto)
    calibration = worker._pair.calibration
    assert len(of_kind(first, p.Measuring)) == 1 and calibration.missing() == (64,)
    assert end_of(first).plain_s is None  # what was saved is not told from an estimate
    worker.prepare(lambda _: False)
    assert calibration.missing() == ()
    second = ask(worker, auto)
    assert of_kind(second, p.Measuring) == [] and end_of(second).plain_s == calibration.costs().plain_s
    assert ids_of(first) == ids_of(second) == plain(toy_folder, auto)
    assert costs == [calibration.estimate, calibration.costs()]
    another = worker_with(toy_folder, toy_drafter_folder)
    assert of_kind(ask(another, auto), p.Measuring) == []


def test_no_question_waits_for_costs_behind_a_long_prompt(
    toy_folder: Path, toy_drafter_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts, policy = list[int](), LoadedPair.policy

    def recorded(pair: LoadedPair, settings: SamplingSettings, context: int, timed: bool) -> Policy:
        contexts.append(context)
        return policy(pair, settings, context, timed)

    monkeypatch.setattr(LoadedPair, "policy", recorded)
    auto = SamplingSettings(max_tokens=4, draft_length=None)
    target, drafter = (roomy_copy(folder, tmp_path / folder.name) for folder in (toy_folder, toy_drafter_folder))
    worker = worker_with(target, drafter)
    long = "why is the sky blue? " * 40
    questions = QUESTION, asked(long), asked(long, "as it is", "but why?"), QUESTION
    answers = [ask(worker, auto, messages=messages) for messages in questions]
    assert [len(of_kind(one, p.Measuring)) for one in answers] == [1, 0, 0, 0]
    (first, *_), (second, *_) = (of_kind(one, p.PrefillProgress) for one in answers[1:3])
    assert first.progress.total > 128
    assert second.progress.reused > 128 and first.progress.reused < 20
    assert contexts[1] == first.progress.total and contexts[2] > contexts[1] > contexts[0]


@pytest.mark.slow
def test_what_replies_will_need_is_measured_while_the_model_is_idle(
    toy_folder: Path, toy_drafter_folder: Path, tmp_path: Path
) -> None:
    auto = SamplingSettings(max_tokens=4, draft_length=None)
    target, drafter = (roomy_copy(folder, tmp_path / folder.name) for folder in (toy_folder, toy_drafter_folder))
    worker = worker_with(target, drafter)
    worker.prepare(lambda _: False)
    loaded = worker._pair
    assert loaded.calibration.missing() == ()
    assert of_kind(ask(worker, auto), p.Measuring) == []
    long = asked("why is the sky blue? " * 8)
    told = text_of(ask(worker, auto, messages=long))
    loaded.calibration.forget()
    worker.prepare(lambda _: False)
    assert loaded.calibration.missing() == ()
    again = ask(worker, auto, messages=(*long, *asked("", told, "and why is it so?")[1:]))
    assert of_kind(again, p.PrefillProgress)[0].progress.reused > 64  # what was measured took the place of nothing
    loaded.calibration.forget()
    loaded.session.kept.limit_bytes = 0
    worker.prepare(lambda _: False)  # the conversation in the caches cannot be kept: it is worth more
    assert loaded.calibration.missing() == (64, 1024)


def test_what_is_measured_ahead_begins_with_an_estimate(toy_folder: Path, toy_drafter_folder: Path) -> None:
    worker, auto = worker_with(toy_folder, toy_drafter_folder), SamplingSettings(max_tokens=4)
    calibration = worker._pair.calibration
    worker.prepare(lambda _: calibration.estimate is not None)
    assert calibration.missing() == (64,)
    assert of_kind(ask(worker, auto), p.Measuring) == []


def test_a_request_ends_what_is_measured_ahead(toy_folder: Path, toy_drafter_folder: Path) -> None:
    worker, sampling = worker_with(toy_folder, toy_drafter_folder), SamplingSettings(max_tokens=LENGTH)
    passes = count()
    worker.prepare(lambda _: next(passes) == 3)
    assert next(passes) == 4
    assert worker._pair.calibration.missing() == (64,)
    assert ids_of(ask(worker, sampling)) == plain(toy_folder, sampling)


def test_the_server_prepares_while_it_has_nothing_to_answer(toy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.host.engine_loop.IDLE_S", 0.0)
    tasks, prepared = TaskQueue(), list[bool]()

    class Worker(ModelWorker):
        def prepare(self, wait: Callable[[float], bool]) -> None:
            prepared.append(wait(0))
            tasks.close(stop=False)
            prepared.append(wait(0))
            raise OSError("the disk is full")

    worker = Worker()
    tasks.put(Task(p.Load(id=1, pair=pair(toy_folder)), lambda _: None))
    carry_out(tasks, lambda _: None, lambda: worker)
    assert prepared == [False, True]


def test_a_host_sends_a_heartbeat_while_it_has_no_other_answer(
    toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In particular while it measures, and while a drafter reads the prompt."""
    answers = dict[float, list[p.AnyAnswer]]()
    for pause_s in (0.0, 1e9):
        monkeypatch.setattr("app.host.engine_loop.HEARTBEAT_S", pause_s)
        load = p.Load(id=1, pair=pair(toy_folder, str(toy_drafter_folder)))
        reply = p.Reply(id=2, messages=QUESTION, sampling=SamplingSettings(max_tokens=4))
        answers[pause_s] = served(ModelWorker(), load, reply)
    kinds = [type(answer) for answer in answers[0.0]]
    working = [answer.id for answer in of_kind(answers[0.0], p.Working)]
    assert len(working) > 20 and set(working) == {2} and of_kind(answers[1e9], p.Working) == []
    assert kinds[kinds.index(p.Measuring) + 1] == p.Working  # while costs are estimated
    whole = max(at for at, kind in enumerate(kinds) if kind == p.PrefillProgress)
    assert kinds[whole + 1] == p.Working  # while the drafter reads the prompt
    assert [one for one in kinds if one != p.Working] == [type(answer) for answer in answers[1e9]]


def test_a_reply_can_be_stopped_while_costs_are_measured(toy_folder: Path, toy_drafter_folder: Path) -> None:
    worker, sampling = worker_with(toy_folder, toy_drafter_folder), SamplingSettings(max_tokens=LENGTH)
    answers = ask_and_stop(worker, sampling, p.Measuring, after=1)
    assert [type(answer) for answer in answers] == [p.Measuring, p.ReplyDone]
    assert (end_of(answers).finished.reason, end_of(answers).finished.tokens) == ("cancelled", 0)
    again = ask(worker, sampling)
    assert len(of_kind(again, p.Measuring)) == 1
    assert of_kind(again, p.FellBack) == []
    assert ids_of(again) == plain(toy_folder, sampling)


def test_invalid_settings_are_refused(worker: ModelWorker) -> None:
    invalid: list[dict[str, Any]] = [
        *({"temperature": -1.0}, {"top_p": 0.0}, {"min_p": 1.0}, {"repetition_penalty": 0.0}, {"stop": ("",)}),
        *({"seed": -1}, {"seed": 2**63}, {"max_tokens": 0}, {"draft_length": -1}, {"draft_length": 33}),
    ]
    for values in invalid:
        with pytest.raises(UsageError):
            ask(worker, SamplingSettings(**values))


def test_ids_that_are_not_tokens_are_refused(worker: ModelWorker) -> None:
    for said in ((-1,), (10**9,), (10**30,), (3, 310)):
        with pytest.raises(UsageError, match="are not tokens of the model"):
            ask(worker, SAMPLINGS["greedy"], continuation_ids=said)


def test_a_conversation_that_does_not_fit_is_refused_and_the_next_one_answered(worker: ModelWorker) -> None:
    request, told = p.Reply(id=7, messages=asked("why? " * 600), sampling=SAMPLINGS["greedy"]), list[p.AnyAnswer]()
    with pytest.raises(ContextError):
        told.extend(worker.reply(request, Event()))
    assert told == []
    assert of_kind(ask(worker, SAMPLINGS["greedy"]), p.FellBack) == []
