"""Verification of toy models' replies from what a window keeps of them."""

from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace as changed

from app import protocol as p
from app.host.model_worker import ModelWorker
from app.host.recording_player import RecordingPlayer
from app.inference.verification import OtherModelError, OtherPromptError
from engine.audit import identical_width
from engine.audit.identical_width import IdenticalWidth
from engine.audit.receipt import Receipt
from engine.audit.verify_blocks import BLOCK_WIDTH
from engine.errors import ContextError, UsageError
from tests.app.host.process import asked, of_kind
from tests.app.host.replies import LENGTH, QUESTION, SAMPLINGS, ask, ask_and_stop, end_of, ids_of
from tests.engine.rounding_by_rows import compute_row_by_row


def request(answers: list[p.AnyAnswer], sampling: p.SamplingSettings, **changes: Any) -> p.Verify:
    """The request to check a reply that consists of these answers."""
    done = end_of(answers)
    made = p.Verify(
        id=9,
        messages=QUESTION,
        sampling=replace(sampling, seed=done.seed, identical_width=done.sampling.identical_width),
        rounds=p.RoundTokens.of(told.round for told in of_kind(answers, p.RoundDone)),
        complete=True,
        prompt_digest=done.prompt_digest,
        prompt_tokens=of_kind(answers, p.PrefillProgress)[0].progress.total,
    )
    return changed(made, **changes)


def verify(worker: ModelWorker, wanted: p.Verify, stop: Event | None = None) -> list[p.AnyAnswer]:
    return list(worker.verify(wanted, stop or Event()))


def receipt_of(answers: list[p.AnyAnswer]) -> Receipt:
    assert isinstance(answers[-1], p.VerifyDone), answers[-1]
    return answers[-1].receipt


def forgery_of(wanted: p.Verify, position: int, token: int) -> p.Verify:
    """The same request with another token at one position of the reply."""
    rounds, start = [], 0
    for said in wanted.rounds:
        tokens = list(said.tokens)
        if start <= position < start + len(tokens):
            tokens[position - start] = token
        rounds.append(changed(said, tokens=tuple(tokens)))
        start += len(tokens)
    return changed(wanted, rounds=tuple(rounds))


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_reply_is_identical_and_the_next_one_is_what_it_was(worker: ModelWorker, name: str) -> None:
    sampling = SAMPLINGS[name]
    before = ask(worker, sampling)
    answers = verify(worker, request(before, sampling))
    assert receipt_of(answers) == Receipt(LENGTH)
    kinds = [type(answer) for answer in answers]
    assert kinds == sorted(kinds, key=[p.PrefillProgress, p.VerifyProgress, p.VerifyDone].index)
    assert [c.done for c in of_kind(answers, p.VerifyProgress)] == [0, 8, 16]
    assert {c.total for c in of_kind(answers, p.VerifyProgress)} == {LENGTH}
    assert {answer.id for answer in answers} == {9}  # type: ignore[union-attr]
    assert ids_of(ask(worker, sampling)) == ids_of(before)


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_forged_token_is_found_and_named(worker: ModelWorker, name: str) -> None:
    told = ask(worker, SAMPLINGS[name])
    wanted = request(told, SAMPLINGS[name])
    other = (ids_of(told)[5] + 1) % 256
    found = receipt_of(verify(worker, forgery_of(wanted, 5, other))).differences[0]
    assert (found.position, found.plain_token, found.other_token) == (5, ids_of(told)[5], other)
    assert not found.near_tie and (found.gap_ulps or 0) > 0
    piece = worker._pair.target.tokenizer.piece
    assert (found.plain_text, found.other_text) == (piece(ids_of(told)[5]), piece(other))


def test_a_reply_that_was_stopped_is_identical_as_far_as_it_came(worker: ModelWorker) -> None:
    sampling = SAMPLINGS["greedy"]
    heard = ask_and_stop(worker, sampling)
    receipt = receipt_of(verify(worker, request(heard, sampling, complete=False)))
    assert receipt == Receipt(len(ids_of(heard))) and receipt.tokens < LENGTH
    failed = receipt_of(verify(worker, request(heard, sampling, complete=True)))
    assert [d.other_token for d in failed.failures] == [None]


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("name", SAMPLINGS)
def test_an_exact_reply_is_identical_to_the_last_bit(
    worker: ModelWorker, name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the machine that made it and on one where passes of another width have the bits of single steps."""
    compute_row_by_row(monkeypatch)
    sampling = replace(SAMPLINGS[name], exact=True)
    with monkeypatch.context() as here:
        here.setitem(identical_width._measured, worker._pair.target.model.weights_key, IdenticalWidth(width))
        told = ask(worker, sampling)
    assert {told.round.width for told in of_kind(told, p.RoundDone)} >= ({1, 4} if width > 1 else {BLOCK_WIDTH})
    wanted = request(told, sampling)
    monkeypatch.setitem(identical_width._measured, worker._pair.target.model.weights_key, IdenticalWidth(6 - width))
    receipt = receipt_of(verify(worker, wanted))
    assert receipt == Receipt(LENGTH, same_bits=True, identical_width=width)
    because = ": bit-identical by construction up to width 5" if width > 1 else ""
    assert receipt.summary == f"identical over {LENGTH} tokens, to the last bit{because}"
    first = wanted.rounds[0]
    tampered = changed(first, fingerprints=(first.fingerprints[0] ^ 1, *first.fingerprints[1:]))
    other = receipt_of(verify(worker, changed(wanted, rounds=(tampered, *wanted.rounds[1:]))))
    assert other.identical and other.same_bits is False and "not to the last bit" in other.summary
    assert receipt_of(verify(worker, forgery_of(wanted, 5, (ids_of(told)[5] + 1) % 256))).differences[0].noise_ulps == 0
    assert ids_of(ask(worker, SAMPLINGS[name])) == ids_of(told)  # laid on no grid again


REFUSED: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "no tokens": (UsageError, "no tokens to check", {"rounds": ()}),
    "ids of another model": (UsageError, "not tokens of the model", {"rounds": (p.RoundTokens(tokens=(10**6,)),)}),
    "no seed": (UsageError, "the seed", {"sampling": replace(SAMPLINGS["coupled"], seed=None)}),
    "nonsense for a sampling": (UsageError, "top-p", {"sampling": p.SamplingSettings(top_p=7.0)}),
    "too many tokens for a round": (UsageError, "is inconsistent", {"rounds": (p.RoundTokens(tokens=(1, 2)),)}),
    "a path without a tree": (
        UsageError,
        "is inconsistent",
        {"rounds": (p.RoundTokens(tokens=(1,), drafted=(1,), path=(0,)),)},
    ),
    "a tree that is none": (
        UsageError,
        "is inconsistent",
        {"rounds": (p.RoundTokens(tokens=(1, 2), drafted=(1, 1), parents=(-1, 1), path=(0,)),)},
    ),
    "another number of tokens": (
        OtherPromptError,
        r"has changed \(it had 7 tokens and now has \d+\): ",
        {"prompt_tokens": 7},
    ),
    "another digest": (OtherPromptError, r"has changed \(it now has \d+ tokens\): ", {"prompt_digest": "0" * 16}),
    "other weights": (OtherModelError, "are not the ones that wrote this reply", {"prompt_digest": "." + "0" * 16}),
    "other messages": (OtherPromptError, "has changed", {"messages": asked("why is the sea blue?")}),
    "a longer context": (ContextError, "context", {"rounds": (p.RoundTokens(tokens=(5,)),) * 600}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_checked_is_refused_with_the_reason(worker: ModelWorker, name: str) -> None:
    kind, said, changes = REFUSED[name]
    wanted = changed(request(ask(worker, SAMPLINGS["greedy"]), SAMPLINGS["greedy"]), **changes)
    with pytest.raises(kind, match=said) as error:
        verify(worker, wanted)
    assert "\n" not in str(error.value)


@pytest.mark.slow_for("3")
@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_check_can_be_stopped_and_leaves_the_target_usable(worker: ModelWorker, after: int) -> None:
    told, stop, seen = ask(worker, SAMPLINGS["greedy"]), Event(), list[p.AnyAnswer]()
    for answer in worker.verify(request(told, SAMPLINGS["greedy"]), stop):
        seen.append(answer)
        if len(seen) == after:
            stop.set()
    assert isinstance(seen[-1], p.Failed) and seen[-1].kind == "Cancelled"
    assert of_kind(seen, p.VerifyDone) == [] and len(seen) == after + 1
    assert ids_of(ask(worker, SAMPLINGS["greedy"])) == ids_of(told)


# --- a recording --------------------------------------------------------------------------------


def test_a_recording_plays_its_check_and_invents_none(worker: ModelWorker) -> None:
    told = ask(worker, SAMPLINGS["greedy"])
    wanted = request(told, SAMPLINGS["greedy"])
    checked = verify(worker, wanted)
    replay = RecordingPlayer([*told, *checked], 0.0)
    played = list(replay.verify(changed(wanted, id=33), Event()))
    assert receipt_of(played) == receipt_of(checked) and {answer.id for answer in played} == {33}  # type: ignore[union-attr]
    for other in (forgery_of(wanted, 5, 1), changed(wanted, rounds=wanted.rounds[:-1])):
        with pytest.raises(UsageError, match="a recording has no model"):
            list(replay.verify(other, Event()))
    with pytest.raises(UsageError, match="a recording has no model"):
        list(RecordingPlayer(told, 0.0).verify(wanted, Event()))
    reply = p.Reply(id=1, messages=QUESTION, sampling=p.SamplingSettings())
    assert ids_of(list(replay.reply(reply, Event()))) == ids_of(told)
