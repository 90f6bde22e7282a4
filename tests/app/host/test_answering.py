"""Replies of toy models through the worker: the session's own text, continued, timed, stopped."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import mlx.core as mx
import pytest

from app import protocol as p
from app.host.engine_loop import TaskRunner
from app.host.model_worker import ModelWorker
from app.task_queue import Task, TaskQueue
from engine.errors import ContextError, UsageError
from engine.events import Round
from engine.metrics import Metrics
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
from tests.engine.conversations import chat_reply


def plain(folder: Path, sampling: SamplingSettings) -> list[int]:
    """The ids of plain decoding."""
    target = load(folder)
    messages = [{"role": m.role, "content": m.content} for m in QUESTION]
    events = chat_reply(Session(target.model, target.tokenizer, 512), messages, sampling)
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


def test_no_pass_is_run_but_those_of_replies(
    toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is measured after loading, before a reply, after it or while the model is idle: the rows of all passes
    are those that the rounds tell, and the prompt's."""
    rows, forward = [0], CachedModel.forward

    def counted(model: CachedModel, tokens: mx.array, *more: Any, **named: Any) -> Any:
        rows[0] += tokens.size
        return forward(model, tokens, *more, **named)

    monkeypatch.setattr(CachedModel, "forward", counted)
    worker, auto = worker_with(toy_folder, toy_drafter_folder), SamplingSettings(max_tokens=LENGTH, draft_length=None)
    assert rows == [2]  # one token each, for the shape of the logits: nothing is computed
    first = ask(worker, auto)
    once = rows[0]
    worker.prepare(lambda _: False)
    assert rows[0] == once > 0
    second = ask(worker, auto)
    assert ids_of(first) == ids_of(second) == plain(toy_folder, auto)


def test_the_next_reply_and_the_next_process_begin_with_what_replies_have_taught(
    toy_folder: Path, toy_drafter_folder: Path
) -> None:
    worker, auto = worker_with(toy_folder, toy_drafter_folder), SamplingSettings(max_tokens=LENGTH, draft_length=None)
    assert worker._pair.learnt.times == {}
    ask(worker, auto)
    learnt = worker._pair.learnt.times_of()
    another = worker_with(toy_folder, toy_drafter_folder)._pair.learnt
    assert another.times_of().learnt.keys() == learnt.learnt.keys() == {0}
    assert another.times_of().learnt[0].mean == pytest.approx(learnt.learnt[0].mean, abs=1e-4)
    assert [counts.reached for counts in another.counts] == [counts.reached for counts in worker._pair.learnt.counts]


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
    TaskRunner(tasks, lambda _: None, lambda: worker).run()
    assert prepared == [False, True]


def test_a_host_sends_a_heartbeat_while_it_has_no_other_answer(
    toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In particular while a drafter reads the prompt."""
    answers = dict[float, list[p.AnyAnswer]]()
    for pause_s in (0.0, 1e9):
        monkeypatch.setattr("app.host.engine_loop.HEARTBEAT_S", pause_s)
        load = p.Load(id=1, pair=pair(toy_folder, str(toy_drafter_folder)))
        reply = p.Reply(id=2, messages=QUESTION, sampling=SamplingSettings(max_tokens=4))
        answers[pause_s] = served(ModelWorker(), load, reply)
    kinds = [type(answer) for answer in answers[0.0]]
    working = [answer.id for answer in of_kind(answers[0.0], p.Working)]
    assert len(working) > 4 and set(working) == {2} and of_kind(answers[1e9], p.Working) == []
    whole = max(at for at, kind in enumerate(kinds) if kind == p.PrefillProgress)
    assert kinds[whole + 1] == p.Working  # while the drafter reads the prompt
    assert [one for one in kinds if one != p.Working] == [type(answer) for answer in answers[1e9]]


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
