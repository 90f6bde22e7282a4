"""A stop is heard wherever a reply may take long: in the chat template, the tokenizer, a chunk of the prompt, and a
drafter that catches up. Nothing is lost by it, and the next reply works."""

import json
from pathlib import Path
from threading import Event

import mlx.core as mx
import pytest

from app import protocol as p
from app.host.model_worker import ModelWorker
from engine.drafters import DraftContext
from engine.drafters.draft_model import DraftModel
from engine.errors import StoppedError
from engine.sampling import Sampler, TokenCounts
from engine.settings import SamplingSettings
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from tests.app.host.process import asked, of_kind
from tests.app.host.replies import SAMPLINGS, ask, end_of, served, worker_with
from tests.models.test_loader import change
from tests.toys.architectures import build
from tests.toys.folders import roomy_copy

PROMPT = [1 + i % 60 for i in range(40)]


@pytest.mark.parametrize("name", ["llama", "qwen3_next", "mamba2"])
def test_a_stop_within_a_chunk_waits_for_no_more_layers_and_loses_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, stopped = CachedModel(build(name)), CachedModel(build(name))
    list(plain.prefill(PROMPT[:20]))
    expected = plain.forward(mx.array(PROMPT[20:]))
    evaluated: list[int] = []
    evaluate = mx.eval
    with monkeypatch.context() as counting:
        counting.setattr(mx, "eval", lambda *arrays: evaluated.append(1) or evaluate(*arrays))
        assert list(stopped.prefill(PROMPT[:20], 10, lambda: True)) == [10]
    assert len(evaluated) == 1 and stopped.length == 10
    list(stopped.prefill(PROMPT[10:20]))
    assert mx.allclose(stopped.forward(mx.array(PROMPT[20:])), expected, atol=1e-4)


def test_a_drafter_that_has_much_to_catch_up_with_proposes_nothing_once_stopped() -> None:
    tokens = [1 + i % 60 for i in range(2 * PREFILL_CHUNK + 50)]
    drafter, sampler = DraftModel(CachedModel(build("llama")), 64), Sampler(SamplingSettings(), 64)
    context = DraftContext(tokens, TokenCounts(sampler.distribution, tokens), sampler, lambda: True)
    assert drafter.propose(context, 3).tokens.size == 0
    assert drafter.model.length <= PREFILL_CHUNK


def test_a_prompt_that_is_stopped_while_it_is_made_ends_the_request(
    worker: ModelWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ask(worker, SAMPLINGS["greedy"])

    def never_ends(*given: object) -> list[int]:
        raise StoppedError("stopped while the prompt was being made")

    count = p.Count(id=2, messages=asked("Hi"))
    with monkeypatch.context() as patched:
        patched.setattr("models.tokenizer.FolderTokenizer.chat", never_ends)
        ended = end_of(ask(worker, SAMPLINGS["greedy"]))
        failed = served(worker, count)[-1]
    assert (ended.finished.reason, ended.finished.tokens) == ("cancelled", 0)
    assert isinstance(failed, p.Failed) and failed.kind == p.CANCELLED
    again = ask(worker, SAMPLINGS["greedy"])
    assert [told.round.tokens for told in of_kind(again, p.RoundDone)] == [
        told.round.tokens for told in of_kind(whole, p.RoundDone)
    ]


class StopAtLook(Event):
    """A stop that comes while whoever may be stopped looks for the so-manieth time."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._left = looks

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


@pytest.mark.slow
@pytest.mark.parametrize("text", ["loop", "\u2603"], ids=["template", "tokenizer"])
def test_a_template_and_a_tokenizer_that_take_for_ever_are_stopped(toy_folder: Path, tmp_path: Path, text: str) -> None:
    folder = roomy_copy(toy_folder, tmp_path / "target")
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    template = "{% if messages[0].content == 'loop' %}" + loops + "{% endif %}{{ messages[0].content }}"
    change(folder, "tokenizer_config.json", "chat_template", template)
    content = json.loads((folder / "tokenizer.json").read_text())
    growth = {"type": "Replace", "pattern": {"String": "\u2603"}, "content": "ab" * 3_000_000}
    (folder / "tokenizer.json").write_text(json.dumps(content | {"normalizer": growth}))
    worker = worker_with(folder)
    ended = end_of(ask(worker, SAMPLINGS["greedy"], StopAtLook(20), messages=asked(text)))
    assert (ended.finished.reason, ended.finished.tokens) == ("cancelled", 0)
    assert end_of(ask(worker, SAMPLINGS["greedy"], messages=asked("hi"))).finished.tokens
