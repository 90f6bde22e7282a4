"""Targets in bfloat16 and 4 bits whose products round by the rows of a pass, as on Metal: every text that differs from
plain decoding is a near-tie by the receipt's own measure, and no mistake is excused as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from engine.audit.receipt import Receipt
from engine.audit.reply_check import compare_replies
from engine.audit.rounding import _step, mismatch_at
from engine.sampling import Sampler
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.audit.test_rounding import Altered
from tests.engine.replies import PROMPT, Scripted, reply
from tests.engine.rounding_by_rows import coarse, round_by_rows

GREEDY, WARM = SamplingSettings(), SamplingSettings(temperature=0.9, seed=5)
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
