"""A reply is checked from its tokens alone: whatever is wrong with it is found, and nothing else."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.nn as nn
import pytest

from engine.audit import reply_check
from engine.audit.receipt import Difference, Receipt
from engine.audit.reply_check import EndConditions, check_reply
from engine.cache.model_cache import ModelCache
from engine.events import PromptProgress, Round
from engine.loop import Limits
from engine.sampling import Sampler
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.audit.test_rounding import Altered, ulp_apart
from tests.engine.fakes import ByteStream
from tests.engine.replies import CONTEXT, PROMPT, Scripted, ids_of, reply
from tests.toys.architectures import build

WARM = SamplingSettings(temperature=0.9, seed=5)
FREE = EndConditions(ByteStream)
LENGTH = 24


def rounds_of(
    network: Any,
    sampling: SamplingSettings,
    rule: AcceptanceRule = "coupled",
    wrong: frozenset[int] = frozenset({1, 9, 10, 20}),
) -> list[Round]:
    """A reply in rounds of up to five tokens, drafts wrong at some places."""
    target = CachedModel(network)
    truth, _, _ = reply(target, sampling=sampling, rule=rule, tokens=LENGTH)
    return reply(target, Scripted(len(PROMPT), truth, wrong), 4, sampling, rule, LENGTH)[1]


def with_forged_token(rounds: Sequence[Round], position: int, token: int) -> list[Round]:
    """The same with another token at one place."""
    made, start = [], 0
    for round_ in rounds:
        tokens = list(round_.tokens)
        if start <= position < start + len(tokens):
            tokens[position - start] = token
        made.append(replace(round_, tokens=tuple(tokens)))
        start += len(tokens)
    return made


def receipt_of(
    network: Any,
    rounds: Sequence[Round],
    sampling: SamplingSettings = WARM,
    rule: AcceptanceRule = "coupled",
    ends: EndConditions = FREE,
    target: CachedModel | None = None,
) -> tuple[Receipt, list[PromptProgress | int]]:
    """The receipt, and what was told on the way."""
    target = target or CachedModel(network)
    steps = check_reply(target, Sampler(replace(sampling, acceptance=rule), target.vocabulary), PROMPT, rounds, ends)
    seen: list[PromptProgress | int] = []
    while True:
        try:
            seen.append(next(steps))
        except StopIteration as done:
            assert target.length == 0
            return done.value, seen


def plain_choices(network: Any, tokens: Sequence[int], sampling: SamplingSettings) -> list[int]:
    """Slowly: what plain decoding says after every part of `tokens`, each from nothing."""
    return [
        reply(network, sampling=sampling, tokens=1, prompt=[*PROMPT, *tokens[:i]])[0][0] for i in range(len(tokens))
    ]


SHAPED = SamplingSettings(temperature=1, top_p=0.9, repetition_penalty=1.3, seed=7)


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return build("llama")


@pytest.fixture(scope="module")
def warm(network: nn.Module) -> list[Round]:
    return rounds_of(network, WARM)


@pytest.mark.slow_for("gemma3_text-*", "mamba2-*")
@pytest.mark.parametrize(
    ("name", "sampling"),
    [("gemma3_text", WARM), ("mamba2", SamplingSettings()), ("qwen3_next", WARM), ("llama", SHAPED)],
)
def test_a_sound_reply_is_identical(name: str, sampling: SamplingSettings) -> None:
    network = build(name)
    receipt, seen = receipt_of(network, rounds_of(network, sampling), sampling)
    assert receipt == Receipt(LENGTH)
    assert receipt.identical and receipt.summary == f"identical over {LENGTH} tokens"
    assert [step for step in seen if isinstance(step, int)] == [0, 8, 16, 24]
    assert [step.done for step in seen if isinstance(step, PromptProgress)] == [0, len(PROMPT) - 1]


@pytest.mark.slow_for("greedy")
@pytest.mark.parametrize("sampling", [SamplingSettings(), SHAPED], ids=["greedy", "shaped"])
def test_every_difference_is_told_as_plain_decoding_has_it_after_the_same_tokens(
    network: nn.Module, sampling: SamplingSettings
) -> None:
    rounds = rounds_of(network, sampling)
    wrong = (ids_of(rounds)[7] + 1) % 64
    rounds = with_forged_token(rounds, 7, wrong)
    receipt, _ = receipt_of(network, rounds, sampling)
    tokens = ids_of(rounds)
    truth = plain_choices(network, tokens, sampling)
    expected = [(i, truth[i], tokens[i]) for i in range(LENGTH) if truth[i] != tokens[i]]
    assert [(d.position, d.plain_token, d.other_token) for d in receipt.differences] == expected
    assert expected[0][0] == 7 and receipt.tokens == LENGTH
    first = receipt.differences[0]
    assert not first.near_tie and first.gap_ulps is not None and first.noise_ulps is not None
    assert first.gap_ulps > 100 * first.noise_ulps
    assert receipt.verdict == "failure" and "at token 7" in receipt.summary


def test_what_a_wrong_rewind_left_behind_is_found(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewind lies while the reply is written, and goes on lying while it is checked."""

    def lie(cache: ModelCache, length: int) -> int:
        cache.length = min(length, cache.length)
        return cache.length

    truth, _, _ = reply(network)
    target = CachedModel(network)
    monkeypatch.setattr(ModelCache, "rewind", lie)
    target.cache.reset()
    rounds = reply(target, Scripted(len(PROMPT), truth, frozenset({2, 8, 14})), 4)[1]
    assert ids_of(rounds) != truth
    receipt, _ = receipt_of(network, rounds, SamplingSettings(), target=target)
    at = next(i for i, (a, b) in enumerate(zip(truth, ids_of(rounds), strict=True)) if a != b)
    assert receipt.failures[0].position == at == receipt.differences[0].position
    assert receipt.failures[0].plain_token == truth[at]


def test_a_reply_in_parts_is_checked_as_one(network: nn.Module) -> None:
    """Gone on with twice: the same text as without a break, in other rounds."""
    whole = ids_of(rounds_of(network, SHAPED))
    parts: list[Round] = []
    for start, tokens in ((0, 11), (11, 2), (13, LENGTH - 13)):
        drafter = Scripted(len(PROMPT) + start, whole[start:], frozenset({3}))
        parts += reply(network, drafter, 3, SHAPED, tokens=tokens, prompt=[*PROMPT, *whole[:start]])[1]
    assert receipt_of(network, parts, SHAPED)[0] == Receipt(LENGTH)


# --- where a reply ends, what is possible, how a check is bounded ---

COUPLED = replace(WARM, acceptance="coupled")


# --- how it ends --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (EndConditions(ByteStream, whole=False, longest=50), None),
        (EndConditions(ByteStream, whole=True, longest=LENGTH), None),
        (EndConditions(ByteStream, whole=True, longest=50), LENGTH),
    ],
)
def test_a_reply_that_says_it_is_whole_must_have_a_reason_to_end(
    network: nn.Module, warm: list[Round], ends: EndConditions, expected: int | None
) -> None:
    receipt, _ = receipt_of(network, warm, ends=ends)
    assert receipt.tokens == LENGTH
    if expected is None:
        assert receipt.identical
    else:
        goes_on = plain_choices(network, [*ids_of(warm), 0], WARM)[-1]
        assert receipt.differences == (Difference(expected, goes_on, None, None, None, near_tie=False),)


def test_what_stands_after_an_end_is_a_failure(network: nn.Module, warm: list[Round]) -> None:
    rounds = warm
    tokens = ids_of(rounds)
    eos = next(token for i, token in enumerate(tokens) if i > 10 and token not in tokens[:i])
    at = tokens.index(eos) + 1
    receipt, _ = receipt_of(network, rounds, ends=EndConditions(ByteStream, frozenset({eos})))
    assert receipt.differences == (Difference(at, None, tokens[at], None, None, near_tie=False),)
    end = EndConditions(ByteStream, frozenset({eos}), whole=True, longest=99)
    short = reply(network, sampling=WARM, tokens=Limits(at, CONTEXT, frozenset({eos})))[1]
    assert receipt_of(network, short, ends=end)[0] == Receipt(at)


def test_a_stop_string_ends_a_reply_where_it_is_complete(network: nn.Module, warm: list[Round]) -> None:
    rounds = warm
    text, stream, at = "", ByteStream(), 0
    while len(text) < 6:
        text += stream.push(ids_of(rounds)[at])
        at += 1
    stops = (text[-3:],)
    cut = [Round(i, (token,), (), 0, (), (), 1, 0.0) for i, token in enumerate(ids_of(rounds)[:at])]
    ends = EndConditions(ByteStream, stops=stops, whole=True, longest=99)
    end = ends.first(ids_of(rounds))
    assert end is not None and end <= at
    assert receipt_of(network, cut[:end], ends=ends)[0] == Receipt(end)
    receipt, _ = receipt_of(network, rounds, ends=ends)
    assert [d.position for d in receipt.differences] == [end] and receipt.differences[0].plain_token is None


# --- the distribution alone ----------------------------------------------------

NARROW = SamplingSettings(temperature=1.0, top_k=3, seed=11)


def test_under_rejection_each_token_must_be_possible(network: nn.Module) -> None:
    target = CachedModel(network)
    truth, _, _ = reply(target, sampling=NARROW, rule="rejection", tokens=LENGTH)
    rounds = reply(target, Scripted(len(PROMPT), truth, frozenset({3, 12})), 4, NARROW, "rejection", LENGTH)[1]
    receipt, _ = receipt_of(network, rounds, NARROW, "rejection")
    assert receipt == Receipt(LENGTH, (), "distribution")
    assert not receipt.identical and receipt.verdict == "possible"
    assert receipt.summary == f"{LENGTH} tokens, all possible for the target"
    impossible = next(
        t for t in range(64) if receipt_of(network, with_forged_token(rounds, 4, t), NARROW, "rejection")[0].failures
    )
    failed = receipt_of(network, with_forged_token(rounds, 4, impossible), NARROW, "rejection")[0].failures
    assert any(d.position == 4 and d.plain_token is None and d.other_token == impossible for d in failed)


def test_rejection_that_never_drafted_is_bound_to_its_seed(network: nn.Module) -> None:
    rounds = reply(network, sampling=NARROW, rule="rejection", tokens=LENGTH)[1]
    assert receipt_of(network, rounds, NARROW, "rejection")[0] == Receipt(LENGTH)
    other = reply(network, sampling=replace(NARROW, seed=12), rule="rejection", tokens=LENGTH)[1]
    assert receipt_of(network, other, NARROW, "rejection")[0].verdict == "failure"


def test_a_token_that_rounding_moved_past_the_edge_is_a_near_tie(network: nn.Module) -> None:
    """Of the twins top-k keeps the first, which is another in wide passes."""
    twins, sampling = Altered(network, ulp_apart), SamplingSettings(temperature=0.5, top_k=1, seed=3)
    rounds = [Round(0, (11, 11), (11,), 1, (), (), 2, 0.0)]
    receipt, _ = receipt_of(twins, rounds, sampling, "rejection")
    assert receipt.promise == "distribution" and receipt.near_tie and len(receipt.differences) == 2


# --- bounds and breaks --------------------------------------------------------------------------


def test_of_many_differences_all_are_told_and_the_first_are_measured(
    network: nn.Module, warm: list[Round], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []
    judge = reply_check.measure_noise  # type: ignore[attr-defined]

    def counted(*given: Any) -> Difference:
        measured.append(given[2].position)
        return judge(*given)

    monkeypatch.setattr(reply_check, "measure_noise", counted)
    monkeypatch.setattr(reply_check, "MEASURED", 6)
    receipt, _ = receipt_of(network, warm, replace(WARM, seed=6))
    assert len(receipt.differences) > 12 and measured == [d.position for d in receipt.differences[:6]]
    assert receipt.verdict == "failure" and len(receipt.failures) == len(receipt.differences)
    assert all(d.gap_ulps is not None and d.noise_ulps is not None for d in receipt.differences)


def test_near_ties_beyond_those_measured_go_by_them(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_check, "MEASURED", 2)
    twins = Altered(network, ulp_apart)
    rounds = [Round(0, (11,) * 6, (11,) * 5, 5, (), (), 6, 0.0)]
    receipt, _ = receipt_of(twins, rounds, SamplingSettings())
    assert len(receipt.differences) == 6 and receipt.near_tie


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_a_check_that_is_let_go_leaves_the_target_empty_and_usable(
    network: nn.Module, warm: list[Round], steps: int
) -> None:
    target, rounds = CachedModel(network), warm
    bad = with_forged_token(rounds, 22, (ids_of(rounds)[22] + 1) % 64)
    running = check_reply(target, Sampler(COUPLED, target.vocabulary), PROMPT, bad, FREE)
    for _ in range(steps):
        next(running, None)
    running.close()
    assert target.length == 0
    assert reply(target, sampling=WARM, tokens=LENGTH)[0] == ids_of(rounds)


def test_a_measurement_can_be_broken_off(network: nn.Module, warm: list[Round]) -> None:
    class Enough(Exception):
        pass

    def between() -> None:
        raise Enough

    target, rounds = CachedModel(network), warm
    bad = with_forged_token(rounds, 20, (ids_of(rounds)[20] + 1) % 64)
    with pytest.raises(Enough):
        list(check_reply(target, Sampler(COUPLED, target.vocabulary), PROMPT, bad, FREE, between))
    assert target.length == 0
