"""The forecast of each kind of drafter has the rounds of the loop that writes the same text, or there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from engine.policy.costs import Costs

from engine.drafters.draft_model import DraftModel
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.eagle3 import Eagle3
from engine.drafters.medusa import Medusa
from engine.drafters.prompt_lookup import PromptLookup
from engine.loop import Limits
from engine.metrics import Metrics
from engine.policy import Plan, Policy
from engine.policy.adaptive import Adaptive, Candidate
from engine.policy.expected_length import TreeExpectedLength
from engine.policy.fixed import FixedLength
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from models.forecast.round_totals import RoundTotals
from models.forecast.teacher_forcing import TargetOutputs, TargetText, chain_logits, target_outputs
from models.forecast.text_forecast import TextForecast
from tests.engine.conversations import MODELS, NEARBY
from tests.engine.drafters.eagles import eagle, network_of
from tests.engine.drafters.test_cross_tokenizer import TARGET, drafter_of
from tests.engine.replies import CONTEXT, PROMPT, draft_model, plain_reply, reply
from tests.models.training.training_plans import CHEAP
from tests.toys.block_heads import random_assistant, random_block, random_mtp
from tests.toys.heads import Remembering, random_eagle3

VOCABULARY, LONGEST = 64, 6
COSTS = replace(CHEAP, plain=0.9 * CHEAP.pass_s(1))
GREEDY = SamplingSettings()
SHAPED = SamplingSettings(temperature=0.8, top_p=0.95, top_k=20, repetition_penalty=1.2, seed=3)
WARM = SamplingSettings(temperature=1, seed=3)


def nearby() -> DraftModel:
    return draft_model(NEARBY["llama"], VOCABULARY)


def medusa(trees: bool) -> Medusa:
    """Heads that remember the text, but for some places."""
    heads: Any = Remembering(MODELS["llama"], list(text_of("draft", GREEDY).tokens), wrong=frozenset(range(30, 60, 4)))
    return Medusa(heads, [(0,), (1,), (0, 0), (0, 1), (0, 0, 0)], target_of("llama"), trees=trees)


def random_eagle(network: Any, **changes: Any) -> Eagle3:
    return Eagle3(random_eagle3(seed=3, draft_vocab_size=VOCABULARY, **changes), CachedModel(network))


# By kind: the toy target, the drafter or drafters, and where its logits are made if it must be made to know the text.
KINDS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "lookup": ("llama", lambda _: PromptLookup(shortest=1), ""),
    "draft": ("llama", lambda _: nearby(), ""),
    "eagle": ("llama", lambda _: eagle("llama"), ""),
    "eagle tree": ("llama", lambda _: eagle("llama", trees=True), ""),
    "several": ("llama", lambda _: [PromptLookup(shortest=1), nearby()], ""),
    "medusa": ("llama", lambda _: medusa(False), ""),
    "medusa tree": ("llama", lambda _: medusa(True), ""),
    "lookup tree": ("qwen3", lambda _: PromptLookup(shortest=1, trees=True), ""),
    "pard": ("qwen3", lambda _: DraftModel(CachedModel(NEARBY["qwen3"]), VOCABULARY, mask_id=63), "_target_logits"),
    "tli": ("qwen3", lambda _: drafter_of("qwen3"), "_shared_logits"),
    "slem": ("qwen3", lambda _: drafter_of("qwen3", kind="SLEM"), "_likeliest"),
    "eagle3, more layers": ("qwen3", lambda net: random_eagle(net, windows=(7, None)), "head.logits"),
    "p-eagle": ("qwen3", lambda net: random_eagle(net, mask_id=5, own_embedding=True), "head.logits"),
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


def tokens_of(kind: str) -> int:
    return 60 if KINDS[kind][0] == "llama" else 24


def text_of(kind: str, sampling: SamplingSettings) -> TargetText:
    """What the target says by itself."""
    said = plain_reply(network_of(KINDS[kind][0]), sampling, tokens_of(kind))
    return TargetText((*PROMPT, *said), len(PROMPT), tokens_of(kind))


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


def drafters_of(kind: str, sampling: SamplingSettings) -> list[Any]:
    name, make, made = KINDS[kind]
    found = make(network_of(name))
    if made:
        Favouring(found, made, text_of(kind, sampling).tokens)
    return found if isinstance(found, list) else [found]


def policy_for(kind: str, length: int | None) -> Policy:
    if length is not None:
        return FixedLength(length)
    names = [one.name for one in drafters_of(kind, GREEDY)]
    if "tree" in kind:
        return Adaptive([Candidate(name, CHEAP, TreeExpectedLength({})) for name in names])
    return Adaptive([Candidate(name, CHEAP) for name in names])


def metrics_of_loop(kind: str, length: int | None, sampling: SamplingSettings, rule: AcceptanceRule) -> Metrics:
    drafters, target = drafters_of(kind, sampling), target_of(KINDS[kind][0])
    together = drafters[0] if len(drafters) == 1 else DrafterGroup(drafters)
    return Metrics.of(reply(target, together, policy_for(kind, length), sampling, rule, tokens_of(kind))[1])


def forecast_along(
    kind: str, sampling: SamplingSettings, longest: int = LONGEST, eos: frozenset[int] = frozenset()
) -> TextForecast:
    """As `app.forecast.forecaster` makes it."""
    drafters = drafters_of(kind, sampling)
    first = drafters[0]
    target = first.target.model if first.needs.taps else target_of(KINDS[kind][0])
    return TextForecast(target, drafters, longest, eos)


def outputs_and_chances(along: TextForecast, text: TargetText) -> tuple[TargetOutputs, Any]:
    """What the target says along the text, and how likely each draft is to be accepted, at temperature 0."""
    outputs = along.outputs(text)
    return outputs, along.compare(outputs, GREEDY, ["rejection"])["rejection"][0]


def totals_of_simulation(
    kind: str, length: int | None, sampling: SamplingSettings, rule: AcceptanceRule, costs: Costs = COSTS
) -> RoundTotals:
    along = forecast_along(kind, sampling)
    return along.simulate(along.outputs(text_of(kind, sampling)), policy_for(kind, length), sampling, rule, costs)


def check(kind: str, length: int | None, sampling: SamplingSettings, rule: AcceptanceRule) -> None:
    true = metrics_of_loop(kind, length, sampling, rule)
    forecasts = [totals_of_simulation(kind, length, sampling, rule)]
    along = forecast_along(kind, sampling)
    certain = sampling is GREEDY or KINDS[kind][2]  # else what is expected is a mean over the noise
    if length is not None and along.has_distributions and certain:
        outputs = along.outputs(text_of(kind, sampling))
        chances, _ = along.compare(outputs, sampling, [rule])[rule]
        forecasts.append(along.expect(outputs.text, chances, length, COSTS))
    for found in forecasts:
        assert (found.tokens, found.rounds, found.drafted) == pytest.approx((true.tokens, true.rounds, true.drafted))
        assert [kept for kept in found.kept if kept] == pytest.approx([kept for kept in true.kept if kept])
    if length is not None and (KINDS[kind][2] or (sampling is GREEDY and kind != "lookup tree")):
        assert (true.mean_acceptance_length or 0) > 1.1


@pytest.mark.slow_for("gemma 4*", "tli", "dspark", "dflash", "pard", "eagle*", "medusa*", "several")
@pytest.mark.parametrize("kind", KINDS)
def test_a_forecast_has_the_rounds_of_the_loop(kind: str) -> None:
    check(kind, 4, GREEDY, "rejection")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sampling", "length"), [(GREEDY, None), (SHAPED, 3), (SHAPED, None)])
def test_other_forecasts_have_the_rounds_of_the_loop(kind: str, sampling: SamplingSettings, length: int | None) -> None:
    check(kind, length, sampling, "coupled")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["draft", "eagle", "several"])
def test_chains_in_one_pass_have_the_rounds_of_the_walk(kind: str) -> None:
    along = forecast_along(kind, GREEDY)
    outputs, chances = outputs_and_chances(along, text_of(kind, GREEDY))
    for length in range(1, 7):
        one = along.expect(outputs.text, chances, length, COSTS)
        other = along.simulate(outputs, FixedLength(length), GREEDY, "rejection", COSTS)
        assert (one.tokens, one.rounds, one.drafted) == pytest.approx((other.tokens, other.rounds, other.drafted))
        assert one.kept[:length] == pytest.approx(other.kept)
        assert one.seconds == pytest.approx(other.seconds, rel=0.02)  # a walk prices what is read before a draft
        assert one.seconds <= other.seconds * (1 + 1e-9)


@pytest.mark.slow_for("draft")
@pytest.mark.parametrize("kind", ["draft", "eagle"])
def test_a_reply_that_ends_by_itself_ends_its_rounds(kind: str) -> None:
    """Drafts may go past the end then, and what is drafted there counts."""
    whole = text_of(kind, GREEDY)
    end = next(place for place in range(20, 60) if whole.reply.index(whole.reply[place]) == place)
    eos = frozenset({whole.reply[end]})
    text = TargetText(whole.tokens[: whole.prompt + end + 1], whole.prompt, 60)
    along = forecast_along(kind, GREEDY, eos=eos)
    outputs, chances = outputs_and_chances(along, text)
    (drafter,) = drafters_of(kind, GREEDY)
    true = Metrics.of(reply(target_of("llama"), drafter, 5, GREEDY, "rejection", Limits(60, CONTEXT, eos))[1])
    for found in (
        along.expect(text, chances, 5, COSTS),
        along.simulate(outputs, FixedLength(5), GREEDY, "rejection", COSTS),
    ):
        assert (found.tokens, found.rounds, found.drafted) == pytest.approx((true.tokens, true.rounds, true.drafted))
        assert found.kept[:5] == pytest.approx(true.kept)


# --- what it costs --------------------------------------------------------------------------------


@pytest.mark.parametrize(("queues", "waited"), [(True, 1), (False, 2)])
def test_plain_steps_that_run_ahead_cost_what_they_take(
    queues: bool, waited: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the first, which nothing came before, and the second, where it waits until the first is told."""
    monkeypatch.setattr("engine.backend.queues", lambda: queues)
    found = totals_of_simulation("draft", 0, GREEDY, "rejection")
    assert found.seconds == pytest.approx(CHEAP.pass_s(1) * (waited + 0.9 * (60 - waited)))
    assert found.plain_s == pytest.approx(0.9 * CHEAP.pass_s(1) * 60)


@pytest.mark.slow
def test_a_pass_that_is_built_while_its_draft_is_computed_takes_less() -> None:
    """Walked along, and in one pass."""
    quick = replace(COSTS, eager=1.02 * CHEAP.pass_s(1))
    spared_s = CHEAP.draft_s(1) + CHEAP.pass_s(2) - 1.02 * CHEAP.pass_s(1)
    along = forecast_along("draft", GREEDY, 2)
    outputs, chances = outputs_and_chances(along, text_of("draft", GREEDY))
    for length in (1, 2):
        walks = [along.simulate(outputs, FixedLength(length), GREEDY, "rejection", prices) for prices in (COSTS, quick)]
        usual, quicker = (along.expect(outputs.text, chances, length, prices) for prices in (COSTS, quick))
        assert walks[0].seconds - walks[1].seconds == pytest.approx(usual.seconds - quicker.seconds)
        assert usual.seconds - quicker.seconds > 0.4 * 60 / (length + 1) * spared_s
        assert length > 1 or usual.seconds - quicker.seconds == pytest.approx(usual.drafted * spared_s)


def test_what_a_drafter_must_read_first_is_priced() -> None:
    """Half of the tokens said without it, and then one draft after the other."""

    class Late(FixedLength):
        def __init__(self) -> None:
            super().__init__(1)
            self.rounds = 0

        def plan(self, hints: Sequence[float | None] = ()) -> Plan:
            self.rounds += 1
            return Plan(int(self.rounds > 30), "late")

        def next_is_plain(self, quiet: bool = False) -> bool:
            return False

    spent = {}
    for kind in ("draft", "lookup"):
        along = forecast_along(kind, GREEDY)
        found = along.simulate(along.outputs(text_of(kind, GREEDY)), Late(), GREEDY, "rejection", COSTS)
        passes_s = CHEAP.pass_s(1) * (found.rounds - found.drafted) + CHEAP.pass_s(2) * found.drafted
        spent[kind] = found.seconds - passes_s - CHEAP.draft_s(1) * found.drafted
    assert spent["lookup"] == pytest.approx(0, abs=1e-9)
    assert spent["draft"] > COSTS.reading_s(31) > 0


# --- what is not forecast -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dflash tree", "eagle tree"])
def test_trees_whose_children_are_drawn_are_refused(kind: str) -> None:
    along = forecast_along(kind, WARM)
    assert along.can_simulate(GREEDY, "rejection") and along.can_simulate(WARM, "coupled")
    assert not along.can_simulate(WARM, "rejection")
    with pytest.raises(ValueError, match="not known"):
        totals_of_simulation(kind, 4, WARM, "rejection")


def test_trees_whose_children_are_copied_are_not_refused() -> None:
    assert forecast_along("lookup tree", WARM).can_simulate(WARM, "rejection")
    check("lookup tree", 4, WARM, "rejection")


def test_trees_that_are_copied_are_not_forecast_as_chains() -> None:
    """Beside a draft model, whose chains can be."""
    for trees in (False, True):
        both = [PromptLookup(shortest=1, trees=trees), DraftModel(CachedModel(NEARBY["qwen3"]), VOCABULARY)]
        assert TextForecast(target_of("qwen3"), both, LONGEST, frozenset()).has_distributions == (not trees)


@pytest.mark.parametrize("variant", ["plain", "own embedding", "quantized"])
def test_the_logits_of_a_head_over_a_text_are_those_that_it_drafts_from(variant: str) -> None:
    one = random_eagle(network_of("qwen3"), own_embedding=variant == "own embedding")
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
