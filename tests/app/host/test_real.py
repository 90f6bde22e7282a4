"""The host as a process with the built-in model, as the window uses it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from app import protocol as p
from engine.events import Round
from engine.session import Session
from engine.settings import SamplingSettings
from models.builtin import builtin_folder
from models.loader import load
from tests.app.host.process import ROOT, HostProcess, asked, of_kind
from tests.app.host.replies import end_of, ids_of, text_of
from tests.engine.conversations import chat_reply

pytestmark = pytest.mark.real_model

QUESTION = asked("Name three colours of the rainbow.")
LENGTH = 12
SAMPLINGS = {
    "greedy": SamplingSettings(max_tokens=LENGTH, draft_length=2),
    "coupled": SamplingSettings(max_tokens=LENGTH, draft_length=2, temperature=0.8, seed=3, acceptance="coupled"),
}


@pytest.fixture(scope="module")
def host() -> Iterator[HostProcess]:
    with HostProcess() as host:
        host.ready()
        host.send(p.Load(id=1, pair=p.Pair(drafter="eagle3")))
        answers = host.until(p.Loaded)
        assert [type(answer) for answer in answers[:-1]] == [p.Loading] * (len(answers) - 1)
        loaded = of_kind(answers, p.Loaded)[0]
        assert (loaded.target, loaded.drafter, loaded.speculation) == ("SmolLM2-135M-Instruct", "eagle3", "on")
        yield host


@pytest.fixture(scope="module")
def plain() -> dict[str, tuple[list[int], str]]:
    """Ids and text of plain decoding, by sampling settings."""
    target = load(builtin_folder())
    session = Session(target.model, target.tokenizer, 8192)
    found = {}
    for name, sampling in SAMPLINGS.items():
        settings = sampling
        rounds = of_kind(chat_reply(session, [{"role": "user", "content": QUESTION[0].content}], settings), Round)
        found[name] = [t for r in rounds for t in r.tokens], "".join(t for r in rounds for t in r.texts)
    return found


def ask(host: HostProcess, number: int, sampling: SamplingSettings, said: tuple[int, ...] = ()) -> list[p.AnyAnswer]:
    host.send(p.Reply(id=number, messages=QUESTION, sampling=sampling, continuation_ids=said))
    return host.until(p.ReplyDone)


@pytest.mark.real_model
@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_reply_equals_plain_decoding_and_continues_where_it_was_stopped(
    host: HostProcess, plain: dict[str, tuple[list[int], str]], name: str
) -> None:
    ids, text = plain[name]
    whole = ask(host, 2, SAMPLINGS[name])
    assert (ids_of(whole), text_of(whole)) == (ids, text)
    assert any(told.round.accepted for told in of_kind(whole, p.RoundDone))
    host.send(p.Reply(id=3, messages=QUESTION, sampling=SAMPLINGS[name]))
    begun = host.until(p.RoundDone)
    host.send(p.Stop(id=3))
    begun += host.until(p.ReplyDone)
    said = tuple(ids_of(begun))
    assert list(said) == ids[: len(said)]
    assert end_of(begun).finished.reason == "cancelled" or len(said) == LENGTH
    host.send(p.Load(id=4, pair=p.Pair(drafter="lookup")), p.Load(id=5, pair=p.Pair(drafter="eagle3")))
    host.until(p.Loaded)
    host.until(p.Loaded)
    if len(said) < LENGTH:
        left = replace(SAMPLINGS[name], max_tokens=LENGTH - len(said))
        rest = ask(host, 6, left, said)
        assert [*said, *ids_of(rest)] == ids
        assert text_of(begun) + text_of(rest) == text


def test_ready_is_sent_before_anything_slow_is_imported() -> None:
    source = (
        "import sys, app.host.__main__; app.host.server.ready();"
        "print([name for name in ('mlx.core', 'mlx_lm', 'transformers', 'numpy', 'PySide6') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.real_model
def test_a_host_that_is_loading_leaves_at_once() -> None:
    """While MLX is imported."""
    with HostProcess(grace_s=0.0) as host:
        host.ready().send(p.Load(id=1, pair=p.Pair()))
        host.process.send_signal(signal.SIGTERM)
        assert host.wait() == 0
        assert "Traceback" not in host.said()


def test_nothing_but_answers_reaches_standard_output() -> None:
    """Libraries that print, and those that write to the descriptor, are sent to standard error."""
    source = (
        "import os, sys; from app.host.server import take_streams; requests, answers = take_streams();"
        "print('printed'); sys.stdout.flush(); os.write(1, b'written'); os.system('echo echoed');"
        "os.write(answers, b'answer'); print(repr(os.read(0, 9)), os.read(requests, 9))"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, input=b"asked", capture_output=True, check=True)
    assert done.stdout == b"answer"
    assert done.stderr.split() == [b"printed", b"writtenechoed", b"b''", b"b'asked'"]
