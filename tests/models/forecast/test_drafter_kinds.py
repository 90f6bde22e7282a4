"""The forecast of each kind of drafter has the rounds of the loop, or there is none."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.drafters.draft_model import DraftModel
from engine.drafters.eagle3 import Eagle3
from engine.drafters.prompt_lookup import PromptLookup
from engine.metrics import Metrics
from engine.policy import Policy
from engine.policy.adaptive import Adaptive, Candidate
from engine.policy.expected_length import TreeExpectedLength
from engine.policy.fixed import FixedLength
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from models.forecast.round_totals import RoundTotals
from models.forecast.teacher_forcing import TargetText, chain_logits, target_outputs
from models.forecast.text_forecast import TextForecast
from tests.engine.conversations import NEARBY
from tests.engine.drafters.eagles import network_of
from tests.engine.drafters.test_cross_tokenizer import TARGET, drafter_of
from tests.engine.replies import PROMPT, plain_reply, reply
from tests.models.training.training_plans import CHEAP
from tests.toys.block_heads import random_assistant, random_block, random_mtp
from tests.toys.heads import random_eagle3

VOCABULARY, TOKENS, LONGEST = 64, 24, 5
GREEDY = SamplingSettings()
SHAPED = SamplingSettings(temperature=0.8, top_p=0.95, top_k=20, repetition_penalty=1.2, seed=3)
WARM = SamplingSettings(temperature=1, seed=3)


def eagle(network: Any, **changes: Any) -> Eagle3:
    return Eagle3(random_eagle3(seed=3, draft_vocab_size=VOCABULARY, **changes), CachedModel(network))


# By kind: the toy target, the drafter, and where its logits are made, if it has any.
KINDS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "lookup tree": ("qwen3", lambda _: PromptLookup(shortest=1, trees=True), ""),
    "pard": ("qwen3", lambda _: DraftModel(CachedModel(NEARBY["qwen3"]), VOCABULARY, mask_id=63), "_target_logits"),
    "tli": ("qwen3", lambda _: drafter_of("qwen3"), "_shared_logits"),
    "slem": ("qwen3", lambda _: drafter_of("qwen3", kind="SLEM"), "_likeliest"),
    "eagle3, more layers": ("qwen3", lambda net: eagle(net, windows=(7, None)), "head.logits"),
    "p-eagle": ("qwen3", lambda net: eagle(net, mask_id=5, own_embedding=True), "head.logits"),
    "mtp": ("qwen3_5", lambda net: random_mtp(net, "qwen3_5"), "logits"),
    "dflash": ("qwen3", lambda net: random_block(net, "dflash"), "head.logits"),
    "dflash2": ("qwen3", lambda net: random_block(net, "dflash2"), "head.logits"),
    "dflash tree": ("qwen3", lambda net: random_block(net, "dflash", trees=True), "head.logits"),
    "dspark": ("qwen3", lambda net: random_block(net, "dspark"), "head.logits"),
    "gemma 4": ("gemma4_text", random_assistant, "head.logits"),
    "gemma 4, ordered": ("gemma4_text", lambda net: random_assistant(net, ordered=True), "head.logits"),
}


@cache
def target_of(name: str) -> CachedModel:
    return CachedModel(network_of(name))


def text_of(kind: str, sampling: SamplingSettings) -> TargetText:
    said = plain_reply(network_of(KINDS[kind][0]), sampling, TOKENS)
    return TargetText((*PROMPT, *said), len(PROMPT), TOKENS)


class Favouring:
    """Makes a drafter prefer the tokens that a text has next, but not so much that its own numbers never decide."""

    def __init__(self, drafter: Any, made: str, tokens: tuple[int, ...]) -> None:
        self._drafter, self._tokens, self._place = drafter, tokens, 0
        self._propose = drafter.propose
        drafter.propose = self.propose
        owner = drafter.head if made.startswith("head.") else drafter
        name = made.removeprefix("head.")
        self._made = getattr(owner, name)
        setattr(owner, name, self.own_tokens if name == "_likeliest" else self.logits)

    def propose(self, context: Any, length: int) -> Any:
        self._place = len(context.tokens)
        return self._propose(context, length)

    def logits(self, *given: Any) -> mx.array:
        out = self._made(*given)
        ids = self._drafter.needs.token_map
        columns = mx.arange(out.shape[-1]) if ids is None else ids
        places = range(self._place, self._place + out.shape[0])
        self._place += out.shape[0]
        follow = mx.array([self._tokens[place] if place < len(self._tokens) else -1 for place in places])
        return mx.where(mx.isfinite(out), out + 3.0 * (columns[None] == follow[:, None]), out)

    def own_tokens(self, count: int) -> list[int]:
        """Every third one is the model's own."""
        own = self._made(count)
        rest = b"".join(TARGET[token] for token in self._tokens[self._place :])
        said = [token for token, _ in self._drafter._encode(rest)][:count]
        return [own[i] if i % 3 == 2 or i >= len(said) else said[i] for i in range(count)]


def drafter(kind: str, sampling: SamplingSettings) -> Any:
    name, make, made = KINDS[kind]
    found = make(network_of(name))
    if made:
        Favouring(found, made, text_of(kind, sampling).tokens)
    return found


def policy_for(kind: str, length: int | None) -> Policy:
    if length is not None:
        return FixedLength(length)
    return Adaptive([Candidate(kind, CHEAP, TreeExpectedLength({})) if "tree" in kind else Candidate(kind, CHEAP)])


def measured(kind: str, length: int | None, sampling: SamplingSettings, rule: AcceptanceRule) -> Metrics:
    target, policy = target_of(KINDS[kind][0]), policy_for(kind, length)
    return Metrics.of(reply(target, drafter(kind, sampling), policy, sampling, rule, TOKENS)[1])


def forecast(kind: str, length: int | None, sampling: SamplingSettings, rule: AcceptanceRule) -> RoundTotals:
    """As `app.forecast.forecaster` makes it."""
    one = drafter(kind, sampling)
    along = TextForecast(one.target.model if one.needs.taps else target_of(KINDS[kind][0]), [one], LONGEST, frozenset())
    outputs = along.outputs(text_of(kind, sampling))
    if length is not None and along.has_distributions:
        acceptance, _ = along.compare(outputs, sampling, [rule])[rule]
        return along.expect(outputs.text, acceptance, length, CHEAP)
    return along.simulate(outputs, policy_for(kind, length), sampling, rule, CHEAP)


def check(kind: str, length: int | None, sampling: SamplingSettings, rule: AcceptanceRule) -> None:
    found, true = forecast(kind, length, sampling, rule), measured(kind, length, sampling, rule)
    assert (found.tokens, found.rounds, found.drafted) == pytest.approx((true.tokens, true.rounds, true.drafted))
    assert [kept for kept in found.kept if kept] == pytest.approx([kept for kept in true.kept if kept])
    if length is not None and KINDS[kind][2]:
        assert (true.mean_acceptance_length or 0) > 1.1


@pytest.mark.slow_for("gemma 4*", "tli", "dspark", "dflash", "pard", "eagle3, more layers")
@pytest.mark.parametrize("kind", KINDS)
def test_a_forecast_has_the_rounds_of_the_loop(kind: str) -> None:
    check(kind, 4, GREEDY, "rejection")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sampling", "length"), [(GREEDY, None), (SHAPED, 3), (SHAPED, None)])
def test_other_forecasts_have_the_rounds_of_the_loop(kind: str, sampling: SamplingSettings, length: int | None) -> None:
    check(kind, length, sampling, "coupled")


def test_trees_of_blocks_whose_children_are_drawn_are_refused() -> None:
    one = drafter("dflash tree", WARM)
    along = TextForecast(one.target.model, [one], LONGEST, frozenset())
    assert along.can_simulate(GREEDY, "rejection") and along.can_simulate(WARM, "coupled")
    assert not along.can_simulate(WARM, "rejection")
    with pytest.raises(ValueError, match="not known"):
        forecast("dflash tree", 4, WARM, "rejection")


def test_trees_whose_children_are_copied_are_not_refused() -> None:
    along = TextForecast(target_of("qwen3"), [drafter("lookup tree", WARM)], LONGEST, frozenset())
    assert along.can_simulate(WARM, "rejection")
    check("lookup tree", 4, WARM, "rejection")


def test_trees_that_are_copied_are_not_forecast_as_chains() -> None:
    """Beside a draft model, whose chains can be."""
    for trees in (False, True):
        both = [PromptLookup(shortest=1, trees=trees), DraftModel(CachedModel(NEARBY["qwen3"]), VOCABULARY)]
        assert TextForecast(target_of("qwen3"), both, LONGEST, frozenset()).has_distributions == (not trees)


@pytest.mark.parametrize("variant", ["plain", "own embedding", "quantized"])
def test_the_logits_of_a_head_over_a_text_are_those_that_it_drafts_from(variant: str) -> None:
    one = eagle(network_of("qwen3"), own_embedding=variant == "own embedding")
    if variant == "quantized":
        nn.quantize(one.head, 32, 8, class_predicate=lambda name, _: name in ("fc", "lm_head"))
    text, target, place = text_of("p-eagle", GREEDY), one.target.model, 5
    chain = chain_logits(one, target, 3)
    assert chain is not None
    chain.begin(target_outputs(target, text, one.needs))
    target.record(one.needs.taps)
    target.feed(text.tokens)
    known = text.prompt + place
    hidden = one._catch_up(text.tokens[:known], known - 1)[-1:]
    for depth in range(3):
        found = chain.logits(depth, place + depth, place + depth + 1)
        assert np.allclose(np.array(found), np.array(one.logits(hidden)), atol=1e-4), depth
        hidden = one.steps(hidden, mx.array([text.tokens[known + depth]]))


def test_recorded_keys_and_values_are_those_that_the_target_shows() -> None:
    """At every length from the prompt on, with a window that is narrower than the prompt, and one after a reply that is
    longer than the window."""
    text, target = text_of("gemma 4", GREEDY), CachedModel(network_of("gemma4_text"))
    recorded = target_outputs(target, text, random_assistant(target.model).needs).kv
    target.feed(text.tokens[: text.prompt - 2])
    starts = set()
    for length in range(text.prompt - 1, len(text.tokens)):
        target.feed(text.tokens[length - 1 : length])
        for layer, rows in recorded.items():
            found, shown = rows.at(length), target.cache.kv(layer)
            assert found.start == shown.start
            assert np.allclose(np.array(found.keys), np.array(shown.keys), atol=1e-5)
            assert np.allclose(np.array(found.values), np.array(shown.values), atol=1e-5)
            starts.add((layer, shown.start > 0))
    assert starts == {(0, True), (1, False)}
