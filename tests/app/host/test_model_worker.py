"""Loading, replacing and counting, in this process and with toy models."""

import shutil
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app import protocol as p
from app.host import engine_loop
from app.host.model_worker import ModelWorker, NotLoaded
from app.inference import memory_check
from app.inference import pair_loader as parts
from app.inference.host_file import Host, write_hosts
from app.reply_history import ReplyHistory
from engine.errors import BackendError, ModelError, RedlineError
from engine.target.model_layout import layers_of, output_of
from models import loader as loading
from models.drafters.eagle3 import save_eagle3
from tests.app.host.process import asked, of_kind, pair
from tests.app.host.replies import ask, end_of, ids_of, served, text_of, worker_with
from tests.toys.folders import CONTEXT, make_stranger
from tests.toys.heads import random_eagle3


def load(worker: ModelWorker, wanted: p.Pair, number: int = 1) -> list[p.AnyAnswer]:
    return list(worker.load(p.Load(id=number, pair=wanted)))


def load_pair(worker: ModelWorker, wanted: p.Pair) -> p.Loaded:
    answers = load(worker, wanted)
    assert [type(answer) for answer in answers[:-1]] == [p.Loading] * (len(answers) - 1)
    assert isinstance(answers[-1], p.Loaded), answers[-1]
    return answers[-1]


def refusal_of(worker: ModelWorker, wanted: p.Pair) -> str:
    with pytest.raises(RedlineError) as caught:
        load(worker, wanted)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def works(worker: ModelWorker) -> bool:
    sampling = p.SamplingSettings(max_tokens=2, draft_length=0)
    return isinstance(
        list(worker.reply(p.Reply(id=1, messages=asked("Hi"), sampling=sampling), Event()))[-1], p.ReplyDone
    )


@pytest.fixture
def counted_loads(toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the folders whose weights are loaded. Their sizes, which are measured once, are known before."""
    load_pair(ModelWorker(), pair(toy_folder, toy_drafter_folder))
    names: list[str] = []
    original = loading.load_model  # type: ignore[attr-defined]

    def load_model(path: Path, **more: Any) -> Any:
        names.append(path.name)
        return original(path, **more)

    monkeypatch.setattr(loading, "load_model", load_model)
    yield names


def test_a_loaded_pair_is_described(toy_folder: Path, toy_drafter_folder: Path) -> None:
    worker = ModelWorker()
    answer = load_pair(worker, pair(toy_folder, toy_drafter_folder))
    assert (answer.target, answer.drafter, answer.speculation, answer.note) == ("target", "drafter", "on", "")
    assert (answer.context, answer.drafts_trees) == (CONTEXT, False)
    assert answer.pair == pair(toy_folder, toy_drafter_folder)
    assert works(worker)


def test_speculation_is_off_without_a_drafter_and_auto_reports_its_choice(toy_folder: Path) -> None:
    worker = ModelWorker()
    off = load_pair(worker, pair(toy_folder))
    assert (off.drafter, off.speculation, off.note) == ("none", "off", "")
    auto = load_pair(worker, pair(toy_folder, "auto"))
    assert (auto.drafter, auto.speculation) == ("lookup", "on")
    assert "auto took prompt lookup" in auto.note


def test_another_drafter_or_context_does_not_load_the_target_again(
    toy_folder: Path, toy_drafter_folder: Path, counted_loads: list[str]
) -> None:
    worker = ModelWorker()
    for wanted in (
        pair(toy_folder),
        pair(toy_folder, toy_drafter_folder),
        pair(toy_folder, toy_drafter_folder, context=40),
        pair(toy_folder, toy_drafter_folder, context=40),
        pair(toy_folder, "lookup"),
    ):
        answer = load_pair(worker, wanted)
        assert answer.pair == wanted
        assert answer.context == (wanted.context or CONTEXT)
        assert works(worker)
    assert counted_loads == ["target", "drafter"]


def test_a_target_that_is_replaced_or_unloaded_is_freed(toy_folder: Path, toy_drafter_folder: Path) -> None:
    worker = ModelWorker()
    load_pair(worker, pair(toy_folder, toy_drafter_folder))
    assert works(worker)
    old = [weakref.ref(worker._pair.target.model), weakref.ref(worker._pair.drafter.drafter.model)]
    load_pair(worker, pair(toy_drafter_folder))
    assert [one() for one in old] == [None, None]
    assert works(worker)
    network = weakref.ref(worker._pair.target.network)
    for number in (3, 4):
        assert list(worker.unload(p.Unload(id=number))) == [p.Unloaded(id=number)]
        assert worker.pair is None and network() is None
        with pytest.raises(NotLoaded):
            next(worker.count(p.Count(id=1, messages=asked("Hi")), Event()))
    sides = (p.Side(drafter="none"),) * 2
    (failed,) = served(worker, p.Race(id=9, prompt="Hi", sampling=p.SamplingSettings(), sides=sides, runs=1))
    assert isinstance(failed, p.Failed) and (failed.id, failed.kind) == (9, "NotLoaded")
    load_pair(worker, pair(toy_folder))
    assert works(worker)


def test_conversations_that_are_kept_do_not_keep_a_replaced_drafter(
    toy_folder: Path, toy_drafter_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory may not hold both: the old drafter is gone before the next one is loaded."""
    worker = ModelWorker()
    load_pair(worker, pair(toy_folder, toy_drafter_folder))
    long = asked("a question that is long enough to be kept over a switch " * 3)
    sampling = p.SamplingSettings(max_tokens=4, draft_length=2)
    first = list(worker.reply(p.Reply(id=1, messages=long, sampling=sampling), Event()))
    assert of_kind(first, p.PrefillProgress)[0].progress.total > 64
    old = weakref.ref(worker._pair.drafter.drafter.model)
    load_pair(worker, pair(toy_folder, "lookup"))
    (kept,) = worker._pair.session.kept._kept
    assert old() is None and kept.drafted is None
    again = list(worker.reply(p.Reply(id=2, messages=long, sampling=sampling), Event()))
    assert of_kind(again, p.PrefillProgress)[0].progress.reused > 64


def test_a_replaced_a_raced_and_a_refused_head_leave_no_hooks_on_the_target(
    toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pass would go on noting states that nobody reads."""
    worker = ModelWorker()
    load_pair(worker, pair(toy_folder))
    target = worker._pair.target
    head = random_eagle3(taps=(0, 1, 2), vocab_size=target.model.vocabulary, draft_vocab_size=64)
    save_eagle3(tmp_path / "eagle3", head, {})
    modules = [*layers_of(target.network), output_of(target.network)[0]]

    def hooked() -> bool:
        return any(vars(module).get("_hooks") for module in modules)

    load_pair(worker, pair(toy_folder, tmp_path / "eagle3"))
    long = asked("a question that is long enough to be kept over a switch " * 3)
    list(worker.reply(p.Reply(id=1, messages=long, sampling=p.SamplingSettings(max_tokens=4, draft_length=2)), Event()))
    assert hooked()
    load_pair(worker, pair(toy_folder, "lookup"))
    list(worker.reply(p.Reply(id=2, messages=long, sampling=p.SamplingSettings(max_tokens=4, draft_length=2)), Event()))
    assert not hooked()

    sides = p.Side(drafter="none"), p.Side(drafter=str(tmp_path / "eagle3"), draft_length=2)
    list(
        worker.race(p.Race(id=3, prompt="Hi", sampling=p.SamplingSettings(max_tokens=4), sides=sides, runs=1), Event())
    )
    assert not hooked()

    def refused(*_: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("models.drafters.eagle3.Eagle3Files.variants", refused)
    assert load_pair(worker, pair(toy_folder, tmp_path / "eagle3")).speculation == "unsupported"
    assert not hooked()


def test_a_drafter_that_does_not_fit_leaves_the_target_alone(toy_folder: Path, tmp_path: Path) -> None:
    stranger = make_stranger(tmp_path / "stranger")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "config.json").write_text("{")
    worker = ModelWorker()
    for spec, why in (
        (stranger, "different tokenizer"),
        (damaged, "damaged"),
        ("nobody", "a folder, or an installed model"),
    ):
        answer = load_pair(worker, pair(toy_folder, spec))
        assert answer.speculation == "unsupported"
        assert why in answer.note
        assert "\n" not in answer.note
        assert works(worker)
    assert load_pair(worker, pair(toy_folder, "lookup")).speculation == "on"


def test_an_unexpected_error_of_a_drafter_is_a_reason_too(toy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def burst(*_: object, **__: object) -> None:
        raise MemoryError("18 GB are not there")

    monkeypatch.setattr("app.inference.pair_loader.PromptLookup", burst)
    worker = ModelWorker()
    answer = load_pair(worker, pair(toy_folder, "lookup"))
    assert (answer.speculation, answer.note) == ("unsupported", "MemoryError: 18 GB are not there")
    assert works(worker)


@pytest.mark.parametrize(
    "wanted",
    [{"target": "nowhere"}, {"target": ""}, {"target": "a\0b"}, {"context": 1}, {"context": 10**30}],
    ids=["no folder", "empty", "no name", "context too short", "context too long"],
)
def test_a_load_that_is_refused_beforehand_leaves_the_loaded_pair(toy_folder: Path, wanted: dict[str, Any]) -> None:
    worker = ModelWorker()
    nonsense = p.Pair(**{"target": str(toy_folder), **wanted})
    refusal_of(worker, nonsense)
    assert worker.pair is None
    load_pair(worker, pair(toy_folder, "lookup"))
    failed = served(worker, p.Load(id=9, pair=nonsense))[-1]
    assert isinstance(failed, p.Failed) and (failed.id, failed.kept_pair) == (9, pair(toy_folder, "lookup"))
    assert worker.pair == pair(toy_folder, "lookup") and works(worker)


def test_machines_that_cannot_be_joined_leave_the_loaded_pair_and_say_whether_it_fits_here(
    toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: object) -> None:
        raise BackendError("studio cannot be reached: install ssh")

    hosts, worker = tmp_path / "hosts.json", ModelWorker()
    load_pair(worker, pair(toy_folder))
    shared = pair(toy_folder, hosts=str(hosts))
    failed = load(worker, shared)[-1]
    assert isinstance(failed, p.Failed) and "is not a list of machines" in failed.message
    write_hosts(hosts, [Host("localhost", "10.0.0.1"), Host("studio", "10.0.0.2")])
    monkeypatch.setattr("app.inference.cluster.connect", away)
    first, failed = load(worker, shared)
    assert isinstance(first, p.Loading) and first.message == "joining studio"
    assert isinstance(failed, p.Failed) and (failed.kind, failed.fits_alone) == ("BackendError", True)
    assert failed.kept_pair == worker.pair == pair(toy_folder)
    monkeypatch.setattr(memory_check, "memory", lambda: (1 << 20, 1 << 20))
    failed = load(worker, shared)[-1]
    assert isinstance(failed, p.Failed) and not failed.fits_alone


def test_a_target_that_breaks_while_it_loads_says_that_the_old_one_is_gone(
    toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise ModelError("the disk does not answer")

    broken = Path(shutil.copytree(toy_folder, tmp_path / "broken"))
    worker = ModelWorker()
    load_pair(worker, pair(toy_folder))
    with (
        monkeypatch.context() as patched,
        pytest.raises(ModelError, match=r"does not answer.*the model that was loaded before is gone"),
    ):
        patched.setattr(parts, "load", unreadable)
        load(worker, pair(broken))
    assert worker.pair is None
    with pytest.raises(NotLoaded):
        next(worker.count(p.Count(id=1, messages=asked("Hi")), Event()))
    with pytest.raises(NotLoaded):
        next(worker.reply(p.Reply(id=1, messages=asked("Hi"), sampling=p.SamplingSettings()), Event()))
    load_pair(worker, pair(toy_folder))
    assert works(worker)


def test_a_missing_library_is_reported_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "app.host.model_worker", None)
    engine_loop.open_model_worker.cache_clear()
    for _ in range(2):
        with pytest.raises(BackendError, match="redline doctor"):
            engine_loop.open_model_worker()
    monkeypatch.undo()
    assert engine_loop.open_model_worker() is engine_loop.open_model_worker()
    engine_loop.open_model_worker.cache_clear()


def test_a_count_is_what_a_reply_reads(toy_folder: Path) -> None:
    """It includes the template, the system prompt and the opening of the reply."""
    worker = ModelWorker()
    load_pair(worker, pair(toy_folder, context=300))
    turns = asked("Why is the sky blue?", "It is not.", "It is so.")
    for messages in (turns[:1], turns, (*asked("")[:1],), turns[:2]):
        count = next(worker.count(p.Count(id=3, messages=messages), Event()))
        assert isinstance(count, p.Counted)
        request = p.Reply(id=1, messages=messages, sampling=p.SamplingSettings(max_tokens=1, draft_length=0))
        read = of_kind(worker.reply(request, Event()), p.PrefillProgress)[-1].progress
        assert (count.id, count.tokens, count.context) == (3, read.total, 300)


def test_a_reply_is_drafted_from_earlier_ones_where_its_text_cannot_change(toy_folder: Path, tmp_path: Path) -> None:
    """The earlier reply is the same one, so it is copied; with a seed of the user's, rejection may not know of it."""
    worker, history = ModelWorker(), ReplyHistory(tmp_path / "history")
    vocabulary = load_pair(worker, pair(toy_folder, "lookup")).vocabulary

    def rounds(folder: Path | str, **sampling: Any) -> list[p.RoundDone]:
        settings = p.SamplingSettings(max_tokens=24, draft_length=6, **sampling)
        request = p.Reply(id=1, messages=asked("Hi"), sampling=settings, history=str(folder))
        worker.recover()
        return of_kind(worker.reply(request, Event()), p.RoundDone)

    def tokens(told: list[p.RoundDone]) -> list[int]:
        return [token for one in told for token in one.round.tokens]

    hot: dict[str, Any] = {"temperature": 1.0, "seed": 7}
    for number, sampling in enumerate(({}, {**hot, "acceptance": "coupled"}, hot)):
        alone = rounds("", **sampling)
        history.add(vocabulary, 1, number, tokens(alone))
        again = rounds(history.folder, **sampling)
        assert tokens(again) == tokens(alone)
        assert (len(again) < len(alone)) == (sampling is not hot)
        assert len(rounds("", **sampling)) == len(alone)
    assert tokens(rounds(history.folder, **hot, fresh=True)) and worker._pair.drafter.drafter.history is not None
    race = p.Race(
        id=2, prompt="Hi", sampling=p.SamplingSettings(max_tokens=2), sides=(p.Side(drafter="none"),) * 2, runs=1
    )
    list(worker.race(race, Event()))
    assert worker._pair.drafter.drafter.history is None


def _cut(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(2000)


@pytest.mark.parametrize(
    "edit",
    [
        _cut,
        shutil.rmtree,
        lambda folder: (folder / "config.json").write_text("{"),
        lambda folder: (folder / "tokenizer.json").unlink(),
    ],
    ids=["weights", "folder", "config", "tokenizer"],
)
def test_a_model_whose_files_change_while_it_is_loaded_goes_on_replying(
    toy_folder: Path, tmp_path: Path, edit: Callable[[Path], object]
) -> None:
    folder, worker = Path(shutil.copytree(toy_folder, tmp_path / "model")), ModelWorker()
    load_pair(worker, pair(folder))
    edit(folder)
    assert works(worker)
    worker.recover()
    assert works(worker)
    told = served(worker, p.Load(id=1, pair=pair(folder, context=40)))[-1]
    assert isinstance(told, p.Loaded) or (isinstance(told, p.Failed) and "unexpected" not in told.message)
    assert works(worker)
    told = served(worker, p.Load(id=1, pair=pair(toy_folder)), p.Load(id=2, pair=pair(folder)))[-1]
    assert isinstance(told, p.Failed) and told.kind == "ModelError"


def test_conversations_stay_warm_over_switches_verifications_and_races(
    toy_folder: Path, toy_drafter_folder: Path
) -> None:
    """The next turn of each reads what is new, and says what a worker says that has done nothing else."""
    worker = ModelWorker()
    load_pair(worker, pair(toy_folder, toy_drafter_folder))
    sampling = p.SamplingSettings(max_tokens=6, draft_length=2)

    def reply(to: ModelWorker, messages: tuple[p.Message, ...]) -> tuple[str, int, int]:
        answers = list(to.reply(p.Reply(id=1, messages=messages, sampling=sampling), Event()))
        progress = of_kind(answers, p.PrefillProgress)[0].progress
        text = "".join(text for one in of_kind(answers, p.RoundDone) for text in one.round.texts)
        return text + of_kind(answers, p.ReplyDone)[0].finished.text, progress.reused, progress.total

    questions = ["why is the sky blue? " * 6, "count the stars above the sea. " * 5]
    chats = [asked(question) for question in questions]
    for number, chat in enumerate(chats):
        text, reused, _ = reply(worker, chat)
        assert reused < 64
        chats[number] = (*chat, *asked("", text, "go on")[1:])
    done = of_kind(worker.reply(p.Reply(id=3, messages=chats[0][:1], sampling=sampling), Event()), p.RoundDone)
    kept = p.RoundTokens.of(one.round for one in done)
    request = p.Verify(id=4, messages=chats[0][:1], sampling=sampling, rounds=kept)
    assert of_kind(worker.verify(request, Event()), p.VerifyDone)[0].receipt.differences == ()
    sides = (p.Side(drafter="none"),) * 2
    race = p.Race(id=5, prompt=questions[1], sampling=p.SamplingSettings(max_tokens=2), sides=sides, runs=1)
    assert of_kind(worker.race(race, Event()), p.RaceDone)
    for chat in chats:
        fresh = ModelWorker()
        load_pair(fresh, pair(toy_folder, toy_drafter_folder))
        text, reused, total = reply(worker, chat)
        assert text == reply(fresh, chat)[0]
        assert total - reused < 40


def test_no_more_is_kept_than_memory_allows(toy_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = ModelWorker()
    load_pair(worker, pair(toy_folder))
    monkeypatch.setattr(memory_check, "memory", lambda: (8 << 30, 8 << 30))
    assert works(worker)
    roomy = worker._pair.session.kept.limit_bytes
    assert 2 << 30 < roomy <= 4 << 30
    monkeypatch.setattr(memory_check, "memory", lambda: (8 << 30, 1 << 20))
    assert works(worker)
    assert worker._pair.session.kept.limit_bytes == 1 << 19


def test_a_reply_is_drafted_from_its_prediction_where_its_text_cannot_change(toy_folder: Path) -> None:
    """The prediction is the reply itself, in part; with a seed of the user's, rejection may not know of it."""
    worker = worker_with(toy_folder, "lookup")
    pieces = worker._pair.target.tokenizer.pieces
    letters = {token: 30.0 for letter in "bdfgkqvz" for token in pieces(letter)}  # text that has one division

    def reply(prediction: str, **sampling: Any) -> list[p.AnyAnswer]:
        worker.recover()
        return ask(worker, p.SamplingSettings(max_tokens=24, logit_bias=letters, **sampling), prediction=prediction)

    hot: dict[str, Any] = {"draft_length": 6, "temperature": 1.0, "seed": 7}
    for sampling in ({"draft_length": 6}, {**hot, "acceptance": "coupled"}, hot):
        alone = reply("", **sampling)
        text, rounds = text_of(alone), len(of_kind(alone, p.RoundDone))
        for prediction in (f"Something else first. {text}", "nothing of the kind"):
            assert ids_of(reply(prediction, **sampling)) == ids_of(alone)
        predicted = reply(text, **sampling)
        assert ids_of(predicted) == ids_of(alone)
        assert (len(of_kind(predicted, p.RoundDone)) < rounds) == (sampling is not hot)
        assert (end_of(predicted).predicted > 8) == (sampling is not hot) and end_of(alone).predicted == 0
        assert ("must repeat a seed" in end_of(predicted).unused_prediction) == (sampling is hot)
        assert end_of(predicted).predicted <= sum(one.round.accepted for one in of_kind(predicted, p.RoundDone))
    assert end_of(reply(text, **{**hot, "draft_length": 0})).predicted == 0
    worker._loaded = worker._pair.try_drafter("none", trees=False)
    assert end_of(reply(text)).unused_prediction.startswith("only prompt lookup drafts from a prediction")


def test_a_reply_says_that_its_drafter_was_refused(toy_folder: Path) -> None:
    worker = worker_with(toy_folder, "lookup")
    worker._loaded = worker._pair.try_drafter(str(toy_folder / "nothing"), trees=False)
    rounds = [told.round for told in of_kind(ask(worker, p.SamplingSettings(max_tokens=3)), p.RoundDone)]
    assert {round_.reason for round_ in rounds} == {f"the drafter is not loaded ({worker._pair.refusal})"}


def test_a_request_for_another_target_is_refused(toy_folder: Path) -> None:
    worker = ModelWorker()
    load_pair(worker, pair(toy_folder, "none"))
    sampling = p.SamplingSettings(max_tokens=1, draft_length=0)
    for target in ("", str(toy_folder)):
        reply = p.Reply(id=1, messages=asked("Hi"), sampling=sampling, target=target)
        assert isinstance(list(worker.reply(reply, Event()))[-1], p.ReplyDone)
    with pytest.raises(RedlineError, match="another model") as refusal:
        list(worker.reply(p.Reply(id=1, messages=asked("Hi"), sampling=sampling, target="another"), Event()))
    assert type(refusal.value).__name__ == p.OTHER_MODEL
    with pytest.raises(RedlineError, match="another model"):
        list(worker.count(p.Count(id=1, messages=asked("Hi"), target="another"), Event()))
