"""A model that thinks, in the host: what of a reply is thought, its limits, its own settings and its switches."""

from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app import protocol as p
from app.host.model_worker import ModelWorker
from engine.settings import MODEL_DEFAULTS
from tests.toys.reply_formats import FAMILIES, ThinkingFamily, make_thinking_folder

QWEN35 = next(family for family in FAMILIES if family.name == "qwen3.5")
OWN = {"do_sample": True, "temperature": 0.8, "top_p": 0.95, "top_k": 30}
QUESTION = (p.Message(role="user", content="why"),)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> ModelWorker:
    folder = make_thinking_folder(tmp_path_factory.mktemp("thinking") / "qwen", QWEN35, OWN)
    worker = ModelWorker()
    list(worker.load(p.Load(id=1, pair=p.Pair(target=str(folder), drafter="lookup"))))
    return worker


def settings(worker: ModelWorker, **changes: Any) -> p.SamplingSettings:
    """Coupled, with a closing tag that comes after a while and an end that does not."""
    tokenizer = worker._pair.target.tokenizer
    close, end = tokenizer.pieces("</think><|im_end|>")
    base = p.SamplingSettings(
        seed=2, acceptance="coupled", draft_length=4, max_tokens=12, max_thought_tokens=200,
        logit_bias={close: 7.0, end: -100.0}, from_model=MODEL_DEFAULTS,
    )  # fmt: skip
    return replace(base, **changes)


def reply_with(worker: ModelWorker, sampling: p.SamplingSettings, ids: tuple[int, ...] = ()) -> tuple[list[Any], Any]:
    *events, last = worker.reply(p.Reply(id=2, messages=QUESTION, sampling=sampling, continuation_ids=ids), Event())
    rounds = [event.round for event in events if isinstance(event, p.RoundDone)]
    assert isinstance(last, p.ReplyDone)
    return rounds, last


def tokens(rounds: list[Any]) -> tuple[int, ...]:
    return tuple(token for one in rounds for token in one.tokens)


def test_the_host_tells_what_the_model_has(worker: ModelWorker) -> None:
    *_, loaded = worker.load(p.Load(id=1, pair=worker.pair or p.Pair()))
    assert isinstance(loaded, p.Loaded)
    assert loaded.defaults == {"temperature": 0.8, "top_p": 0.95, "top_k": 30}
    assert (loaded.thinking, loaded.efforts) == (True, ())


def test_thought_and_answer_are_those_of_plain_decoding_under_the_models_own_settings(worker: ModelWorker) -> None:
    rounds, done = reply_with(worker, settings(worker))
    assert done.sampling is not None and (done.sampling.temperature, done.sampling.top_k) == (0.8, 30)
    channels = [channel for one in rounds for channel in one.channels]
    assert channels[0] == "thought" and channels.count("answer") == 12 and done.finished.reason == "length"
    plain, _ = reply_with(worker, settings(worker, draft_length=0))
    assert tokens(plain) == tokens(rounds)
    verified = list(worker.verify(p.Verify(
        id=3, messages=QUESTION, sampling=done.sampling, rounds=p.RoundTokens.of(rounds), complete=True,
        prompt_digest=done.prompt_digest,
    ), Event()))  # fmt: skip
    assert verified[-1].receipt.identical


def test_with_thinking_off_the_whole_reply_is_answer(worker: ModelWorker) -> None:
    rounds, _ = reply_with(worker, settings(worker, thinking=False, logit_bias={}))
    assert {channel for one in rounds for channel in one.channels} <= {"answer", "markup", "thought"}
    assert rounds[0].channels[0] == "answer"
    [counted] = worker.count(p.Count(id=4, messages=QUESTION, sampling=settings(worker, thinking=False)), Event())
    [thinking] = worker.count(p.Count(id=4, messages=QUESTION), Event())
    assert counted.tokens != thinking.tokens


@pytest.mark.slow_for("r1", "mistral", "longcat", "qwen3.5")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_family_replies_as_plain_decoding_does_and_goes_on_anywhere(
    family: ThinkingFamily, tmp_path: Path
) -> None:
    folder = make_thinking_folder(tmp_path / family.name, family)
    worker = ModelWorker()
    list(worker.load(p.Load(id=1, pair=p.Pair(target=str(folder), drafter="lookup"))))
    tokenizer = worker._pair.target.tokenizer
    marks = {token: 9.0 for name in family.tokens for token in tokenizer.pieces(name)}
    sampling = p.SamplingSettings(
        temperature=1.0, seed=4, acceptance="coupled", draft_length=4, max_tokens=12, max_thought_tokens=12,
        logit_bias={**marks, **dict.fromkeys(tokenizer.eos, -100.0)},
        thinking=family.switches.get("thinking"), effort=family.switches.get("effort", ""),  # type: ignore[arg-type]
    )  # fmt: skip
    rounds, done = reply_with(worker, sampling)
    plain, end = reply_with(worker, replace(sampling, draft_length=0))
    assert tokens(rounds) == tokens(plain) and done.finished.reason == end.finished.reason
    assert channels(rounds) == channels(plain) and len(set(channels(rounds))) > 1
    half = len(tokens(rounds)) // 2
    rest, _ = reply_with(worker, replace(sampling, max_tokens=20, max_thought_tokens=20), tokens(rounds)[:half])
    assert (tokens(rounds)[:half] + tokens(rest))[: len(tokens(rounds))] == tokens(rounds)
    assert channels(rest)[: len(tokens(rounds)) - half] == channels(rounds)[half:]


def channels(rounds: list[Any]) -> list[str]:
    return [channel for one in rounds for channel in one.channels]
