"""The receipt tells rounding from mistakes, says where and by how much, and leaves the target usable."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine import acceptance
from engine.acceptance import Acceptance
from engine.audit.exact_target import ExactTarget
from engine.audit.receipt import Receipt
from engine.audit.reply_check import compare_replies
from engine.audit.rounding import _step, mismatch_at
from engine.audit.verify_blocks import VerifyBlocks
from engine.events import Round
from engine.noise import Stream
from engine.sampling import Sampler
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.replies import PROMPT, Scripted, reply
from tests.engine.rounding_by_rows import coarse, round_by_rows
from tests.toys.architectures import build

TWINS = (10, 11)
WARM = SamplingSettings(temperature=0.9, seed=5)


class Altered:
    """A network whose logits go through `alter(logits, rows)`; it keeps the caches of the one inside."""

    def __init__(self, network: Any, alter: Any) -> None:
        self.layers, self._network, self._alter = network.layers, network, alter
        self.modules, self.parameters = network.modules, network.parameters

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        return self._alter(self._network(tokens, cache=cache), tokens.shape[1])


def ulp_apart(logits: mx.array, rows: int) -> mx.array:
    """The twins are far ahead of the rest, and a step of float32 apart: one first in single steps, the other else."""
    ahead, behind = TWINS if rows == 1 else TWINS[::-1]
    ids = mx.arange(logits.shape[-1])
    logits = mx.where(ids == ahead, 40.0, logits)
    return mx.where(ids == behind, 40.0 - 2.0**-18, logits)


def far_off_when_wide(logits: mx.array, rows: int) -> mx.array:
    """Passes of several rows are wrong, by more than any rounding."""
    return logits if rows == 1 else logits + 3.0 * mx.sin(mx.arange(logits.shape[-1]))


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return build("llama")


def receipt(
    network: Any,
    wrong: frozenset[int] = frozenset(),
    sampling: SamplingSettings | None = None,
    rule: AcceptanceRule = "coupled",
    length: int = 4,
) -> tuple[Receipt | None, list[int], list[Round]]:
    """Of a reply whose drafts are plain decoding's tokens but for the `wrong` ones."""
    target = CachedModel(network)
    truth, _, _ = reply(target, sampling=sampling, rule=rule)
    drafter = Scripted(len(PROMPT), truth, wrong, target.vocabulary)
    _, rounds, _ = reply(target, drafter, length, sampling, rule)
    sampler = Sampler(replace(sampling or SamplingSettings(), acceptance=rule), target.vocabulary)
    return compare_replies(target, sampler, PROMPT, truth, rounds), truth, rounds


def keep_all(choices: mx.array, draft: mx.array) -> Acceptance:
    """An acceptance rule with the worst mistake: whatever is drafted is kept."""
    tokens = mx.concatenate([draft.astype(mx.int32), choices[-1:].astype(mx.int32)])
    return Acceptance(mx.array(draft.size, mx.int32), tokens)


@pytest.mark.parametrize(("sampling", "name"), [(SamplingSettings(), "qwen3_next"), (WARM, "gemma3_text")])
def test_a_wrong_token_is_a_failure_at_its_place(
    name: str, sampling: SamplingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptance, "match", keep_all)
    found, truth, rounds = receipt(build(name), frozenset({7}), sampling)
    assert found is not None and found.difference is not None
    assert not found.near_tie
    assert found.difference.position == 7 and found.tokens == 8
    assert (found.difference.plain_token, found.difference.other_token) == (truth[7], (truth[7] + 1) % 64)
    assert found.difference.gap_ulps is not None and found.difference.noise_ulps is not None
    assert found.difference.gap_ulps > 100 * found.difference.noise_ulps
    assert "a failure" in str(found)
    assert [t for r in rounds for t in r.tokens][:7] == truth[:7]


def test_twins_that_rounding_tells_apart_are_a_near_tie(network: nn.Module) -> None:
    found, _, _ = receipt(Altered(network, ulp_apart))
    assert found is not None and found.difference is not None
    assert found.difference.near_tie and not found.identical
    assert (found.difference.position, found.difference.plain_token, found.difference.other_token) == (0, *TWINS)
    assert found.difference.gap_ulps == 1  # 2^-18 is the step of float32 between 32 and 64
    assert "a near-tie, gap 1 ULPs" in str(found)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 3.0])
def test_a_flip_by_rounding_is_a_near_tie_at_every_temperature(
    network: nn.Module, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """Temperature divides the logits, so it makes gap and noise larger or smaller alike."""
    sampler = Sampler(SamplingSettings(temperature=temperature, seed=4, acceptance="coupled"), 64)
    luck = np.array(sampler.noise.gumbel(Stream.CHOICE, mx.array([len(PROMPT)]), 64)[0], dtype=np.float64)
    logits = np.full(64, -40.0)
    logits[TWINS[0]], logits[TWINS[1]] = 0.0, temperature * (luck[TWINS[0]] - luck[TWINS[1]])

    def tilted(by: float) -> mx.array:
        return mx.array((logits + by * (np.arange(64) == TWINS[1]))[None].astype(np.float32))

    monkeypatch.setattr("engine.audit.reply_check._plain_logits", lambda *_: tilted(-2e-5))
    monkeypatch.setattr("engine.audit.rounding._wide_logits", lambda *_: tilted(+2e-5))
    other = Round(0, (TWINS[1],), (), 0, (0.5,), (), 1, 0.0)
    found = compare_replies(CachedModel(network), sampler, PROMPT, [TWINS[0]], [other])
    assert found is not None and found.near_tie
    monkeypatch.setattr("engine.audit.reply_check._plain_logits", lambda *_: tilted(-5e-3))
    monkeypatch.setattr("engine.audit.rounding._wide_logits", lambda *_: tilted(-4.99e-3))
    found = compare_replies(CachedModel(network), sampler, PROMPT, [TWINS[0]], [other])
    assert found is not None and not found.near_tie


def test_a_wide_pass_that_is_plainly_wrong_is_no_rounding(network: nn.Module) -> None:
    """Its noise is larger than the gap, and proves nothing."""
    found, _, _ = receipt(Altered(network, far_off_when_wide))
    assert found is not None and found.difference is not None
    assert found.difference.gap_ulps is not None and found.difference.noise_ulps is not None
    assert found.difference.gap_ulps < 2 * found.difference.noise_ulps
    assert not found.difference.near_tie


def test_a_reply_that_ends_early_is_a_failure_without_a_gap(network: nn.Module) -> None:
    target = CachedModel(network)
    truth, rounds, _ = reply(target)
    found = compare_replies(target, Sampler(SamplingSettings(), target.vocabulary), PROMPT, truth, rounds[:-2])
    assert found is not None and found.difference is not None
    assert (found.difference.position, found.difference.gap_ulps, found.near_tie) == (38, None, False)
    assert (found.difference.plain_token, found.difference.other_token) == (truth[38], None)


def test_rejection_above_temperature_zero_has_no_receipt(network: nn.Module) -> None:
    assert receipt(network, sampling=WARM, rule="rejection")[0] is None
    assert receipt(network, sampling=SamplingSettings(), rule="rejection")[0] is not None


@pytest.mark.parametrize(("name", "sampling"), [("llama", WARM), ("qwen3_next", SamplingSettings())])
def test_in_exact_verify_no_rounding_excuses_a_difference(name: str, sampling: SamplingSettings) -> None:
    """On the grid there is none: the passes that judge are the reply's own, to the last bit."""
    target = CachedModel(build(name))
    truth, rounds, _ = reply(ExactTarget(target, VerifyBlocks.for_prompt(len(PROMPT))), sampling=sampling)
    other = [*rounds[:20], Round(20, ((truth[20] + 1) % 64,), (), 0, (), (), 1, 0.0)]
    sampler = Sampler(replace(sampling, acceptance="coupled"), target.vocabulary)
    found = compare_replies(target, sampler, PROMPT, truth, other, exact=True)
    assert found is not None and found.difference is not None
    assert (found.difference.position, found.difference.noise_ulps, found.near_tie) == (20, 0.0, False)
    assert target.length == 0


# --- 16 and 4 bits ---

GREEDY = SamplingSettings()
TOKENS = 40
KINDS = [("llama", None), ("qwen3", 4), ("gemma3_text", 4), ("mamba2", None)]
QUICK = KINDS[:2]  # tested every time; all of them are slow


def receipts(
    network: Any,
    sampling: SamplingSettings,
    lengths: tuple[int, ...] = (1, 3, 7),
    wrong: frozenset[int] = frozenset({3, 4, 12}),
) -> list[Receipt]:
    """Of replies with drafts of these lengths, wrong at some places."""
    target = CachedModel(network)
    sampler = Sampler(replace(sampling, acceptance="coupled"), target.vocabulary)
    truth, _, _ = reply(target, sampling=sampling, tokens=TOKENS)
    found = []
    for length in lengths:
        drafter = Scripted(len(PROMPT), truth, wrong, target.vocabulary)
        _, rounds, _ = reply(target, drafter, length, sampling, tokens=TOKENS)
        receipt = compare_replies(target, sampler, PROMPT, truth, rounds)
        assert receipt is not None
        found.append(receipt)
    return found


@pytest.mark.parametrize(
    ("kinds", "lengths"), [(QUICK, (1, 7)), pytest.param(KINDS, (1, 3, 7), marks=pytest.mark.slow)]
)
def test_texts_that_differ_where_rounding_goes_by_rows_are_near_ties(
    kinds: list[tuple[str, int | None]], lengths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    round_by_rows(monkeypatch)
    networks = [coarse(*kind) for kind in kinds]
    found = [one for network in networks for sampling in (GREEDY, WARM) for one in receipts(network, sampling, lengths)]
    differences = [one.difference for one in found if one.difference is not None]
    print(f"{len(found)} texts, {len(differences)} differ:", *differences, sep="\n")
    assert differences, "the rounding put in on purpose changes no text, so this shows nothing"
    assert all(one.near_tie for one in differences)
    assert all(one.gap_ulps is not None and abs(one.gap_ulps) <= 16 for one in differences)


def ahead_by_one(logits: mx.array, rows: int) -> mx.array:
    """Of several rows, each gets some of the logits of the one behind it, as with a wrong mask."""
    return logits if rows == 1 else logits + 0.06 * (mx.roll(logits, -1, 1) - logits)


def tilted(logits: mx.array, rows: int) -> mx.array:
    """Passes of several rows favour later tokens a little: less than rounding in bfloat16 may make."""
    size = mx.max(mx.abs(logits)) * 2.0**-5
    return logits if rows == 1 else logits + (size * mx.linspace(-1, 1, logits.shape[-1])).astype(logits.dtype)


class AlteredModule(Altered):
    """With the parameters of the network inside."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


@pytest.mark.slow
@pytest.mark.parametrize(("sampling", "alter"), [(GREEDY, ahead_by_one), (WARM, tilted), (GREEDY, tilted)])
def test_a_mistake_in_wide_passes_is_no_rounding_in_any_type(
    alter: Callable[[mx.array, int], mx.array], sampling: SamplingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_by_rows(monkeypatch)
    differences = [
        one.difference
        for kind in KINDS[:3]
        for one in receipts(AlteredModule(coarse(*kind), alter), sampling, (3,))
        if one.difference is not None
    ]
    assert differences
    assert not any(one.near_tie for one in differences)


@pytest.mark.slow
def test_the_target_is_as_it_was_after_it_was_computed_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    round_by_rows(monkeypatch)
    network = AlteredModule(coarse("qwen3", 4), tilted)
    before = {name: value.dtype for name, value in _flat(network)}
    assert any(one.difference for one in receipts(network, GREEDY))
    assert {name: value.dtype for name, value in _flat(network)} == before
    assert mx.bfloat16 in before.values()


@pytest.mark.parametrize(
    ("dtype", "size", "step"),
    [(mx.bfloat16, 20.0, 1 / 8), (mx.bfloat16, 33.0, 1 / 4), (mx.float16, 20.0, 1 / 64), (mx.float32, 40.0, 2.0**-18)],
)
def test_a_ulp_is_that_of_the_logits_own_type(dtype: mx.Dtype, size: float, step: float) -> None:
    assert _step(dtype, size) == step
    logits = mx.array([[size, size - step, 0.0]]).astype(dtype)
    for sampling in (GREEDY, SamplingSettings(temperature=0.5, acceptance="coupled")):
        assert mismatch_at(Sampler(sampling, 3), logits, [1], 0, 0, 1).ulp == step / (sampling.temperature or 1)


def _flat(network: Any) -> list[tuple[str, mx.array]]:
    return tree_flatten(network.parameters())  # type: ignore[no-any-return]
