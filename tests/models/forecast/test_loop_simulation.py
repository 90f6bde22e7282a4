"""The loop simulated along a text has the rounds of writing that text, for every kind of drafter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from engine.drafters import Drafter
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.medusa import Medusa
from engine.drafters.prompt_lookup import PromptLookup
from engine.loop import Limits
from engine.metrics import Metrics
from engine.policy import Plan, Policy
from engine.policy.adaptive import Adaptive, Candidate
from engine.policy.costs import Costs
from engine.policy.expected_length import TreeExpectedLength
from engine.policy.fixed import FixedLength
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from models.forecast.round_totals import RoundTotals
from models.forecast.teacher_forcing import TargetText
from models.forecast.text_forecast import TextForecast
from tests.engine.conversations import MODELS, NEARBY
from tests.engine.drafters.eagles import eagle
from tests.engine.replies import CONTEXT, PROMPT, draft_model, reply
from tests.models.training.training_plans import CHEAP
from tests.toys.heads import Remembering

COSTS = replace(CHEAP, plain=0.9 * CHEAP.pass_s(1))
TOKENS = 60
WARM = SamplingSettings(temperature=1, seed=3)
SHAPED = SamplingSettings(temperature=0.8, top_p=0.95, top_k=20, repetition_penalty=1.2, seed=3)
GREEDY = SamplingSettings()


@cache
def target() -> CachedModel:
    return CachedModel(MODELS["llama"])


def text_of(sampling: SamplingSettings, tokens: int = TOKENS) -> TargetText:
    """What the target says by itself."""
    said = reply(target(), sampling=sampling, tokens=tokens)[0]
    return TargetText((*PROMPT, *said), len(PROMPT), tokens)


def drafter(kind: str) -> list[Drafter]:
    if kind.startswith("medusa"):
        heads: Any = Remembering(MODELS["llama"], list(text_of(GREEDY).tokens), wrong=frozenset(range(30, 60, 4)))
        return [Medusa(heads, [(0,), (1,), (0, 0), (0, 1), (0, 0, 0)], target(), trees=kind.endswith("tree"))]
    kinds: dict[str, Callable[[], Sequence[Drafter]]] = {
        "lookup": lambda: [PromptLookup(shortest=1)],
        "draft": lambda: [draft_model(NEARBY["llama"], 64)],
        "eagle": lambda: [eagle("llama")],
        "eagle tree": lambda: [eagle("llama", trees=True)],
        "several": lambda: [PromptLookup(shortest=1), draft_model(NEARBY["llama"], 64)],
    }
    return list(kinds[kind]())


KINDS = ["lookup", "draft", "eagle", "eagle tree", "several", "medusa", "medusa tree"]


def policy_for(kind: str, drafters: Sequence[Drafter], length: int | None) -> Policy:
    if length is not None:
        return FixedLength(length)
    if kind.endswith("tree"):
        return Adaptive([Candidate(one.name, CHEAP, TreeExpectedLength({})) for one in drafters])
    return Adaptive([Candidate(one.name, CHEAP) for one in drafters])


def measured(kind: str, length: int | None, sampling: SamplingSettings, rule: AcceptanceRule) -> Metrics:
    drafters = drafter(kind)
    together = drafters[0] if len(drafters) == 1 else DrafterGroup(drafters)
    policy = policy_for(kind, drafters, length)
    rounds = reply(target(), together, sampling=sampling, rule=rule, tokens=TOKENS, draft=policy)[1]
    return Metrics.of(rounds)


def walked(
    kind: str, length: int | None, sampling: SamplingSettings, rule: AcceptanceRule, prices: Costs = COSTS
) -> RoundTotals:
    drafters = drafter(kind)
    along = TextForecast(target(), drafters, 8, frozenset())
    read = along.outputs(text_of(sampling))
    return along.simulate(read, policy_for(kind, drafters, length), sampling, rule, prices)


@pytest.mark.slow
@pytest.mark.parametrize("length", [4, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sampling", "rule"), [(GREEDY, "rejection"), (SHAPED, "coupled")], ids=["0", "shaped"])
def test_a_walk_has_the_rounds_that_writing_has(
    kind: str, length: int | None, sampling: SamplingSettings, rule: AcceptanceRule
) -> None:
    found, true = walked(kind, length, sampling, rule), measured(kind, length, sampling, rule)
    assert (found.tokens, found.rounds, found.drafted) == (true.tokens, true.rounds, true.drafted)
    assert list(found.reached) == true.reached
    assert list(found.kept) == true.kept


@pytest.mark.slow
def test_drafts_are_right_often_enough_to_prove_something() -> None:
    for kind in KINDS:
        assert (measured(kind, 3, GREEDY, "rejection").mean_acceptance_length or 0) > 1.1, kind


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["draft", "eagle", "several"])
def test_chains_in_one_pass_have_the_rounds_of_the_walk(kind: str) -> None:
    drafters = drafter(kind)
    along = TextForecast(target(), drafters, 6, frozenset())
    text = text_of(GREEDY)
    read = along.outputs(text)
    chances, _ = along.compare(read, GREEDY, ["rejection"])["rejection"]
    for length in range(1, 7):
        one = along.expect(text, chances, length, COSTS)
        other = along.simulate(read, FixedLength(length), GREEDY, "rejection", COSTS)
        assert (one.tokens, one.rounds, one.drafted) == pytest.approx((other.tokens, other.rounds, other.drafted))
        assert one.kept[:length] == pytest.approx(other.kept)
        assert one.seconds == pytest.approx(other.seconds, rel=0.02)  # a walk prices what is read before a draft
        assert one.seconds <= other.seconds * (1 + 1e-9)


@pytest.mark.slow_for("draft")
@pytest.mark.parametrize("kind", ["draft", "eagle"])
def test_a_reply_that_ends_by_itself_ends_its_rounds(kind: str) -> None:
    """Drafts may go past the end then, and what is drafted there counts."""
    whole = text_of(GREEDY)
    end = next(place for place in range(20, TOKENS) if whole.reply.index(whole.reply[place]) == place)
    eos = frozenset({whole.reply[end]})
    text = TargetText(whole.tokens[: whole.prompt + end + 1], whole.prompt, TOKENS)
    drafters = drafter(kind)
    along = TextForecast(target(), drafters, 6, eos)
    read = along.outputs(text)
    chances, _ = along.compare(read, GREEDY, ["rejection"])["rejection"]
    rounds = reply(target(), drafter(kind)[0], 5, GREEDY, "rejection", Limits(TOKENS, CONTEXT, eos))[1]
    true = Metrics.of(rounds)
    for found in (
        along.expect(text, chances, 5, COSTS),
        along.simulate(read, FixedLength(5), GREEDY, "rejection", COSTS),
    ):
        assert (found.tokens, found.rounds, found.drafted) == pytest.approx((true.tokens, true.rounds, true.drafted))
        assert found.kept[:5] == pytest.approx(true.kept)


@pytest.mark.parametrize(("queues", "waited"), [(True, 1), (False, 2)])
def test_plain_steps_that_run_ahead_cost_what_they_take(
    queues: bool, waited: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the first, which nothing came before, and the second, where it waits until the first is told."""
    monkeypatch.setattr("engine.backend.queues", lambda: queues)
    found = walked("draft", 0, GREEDY, "rejection")
    assert found.seconds == pytest.approx(CHEAP.pass_s(1) * (waited + 0.9 * (TOKENS - waited)))
    assert found.plain_s == pytest.approx(0.9 * CHEAP.pass_s(1) * TOKENS)


@pytest.mark.slow
def test_a_pass_that_is_built_while_its_draft_is_computed_takes_less() -> None:
    """Walked along, and in one pass."""
    quick = replace(COSTS, eager=1.02 * CHEAP.pass_s(1))
    spared_s = CHEAP.draft_s(1) + CHEAP.pass_s(2) - 1.02 * CHEAP.pass_s(1)
    drafters = drafter("draft")
    along = TextForecast(target(), drafters, 2, frozenset())
    text = text_of(GREEDY)
    read = along.outputs(text)
    chances, _ = along.compare(read, GREEDY, ["rejection"])["rejection"]

    def spared(policy: FixedLength) -> float:
        found = [along.simulate(read, policy, GREEDY, "rejection", prices) for prices in (COSTS, quick)]
        return found[0].seconds - found[1].seconds

    for length in (1, 2):
        usual, quicker = (along.expect(text, chances, length, prices) for prices in (COSTS, quick))
        assert spared(FixedLength(length)) == pytest.approx(usual.seconds - quicker.seconds)
        assert usual.seconds - quicker.seconds > 0.4 * TOKENS / (length + 1) * spared_s
    assert spared(FixedLength(1)) == pytest.approx(along.expect(text, chances, 1, COSTS).drafted * spared_s)


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
        drafters = drafter(kind)
        read = TextForecast(target(), drafters, 4, frozenset()).outputs(text_of(GREEDY))
        found = TextForecast(target(), drafters, 4, frozenset()).simulate(read, Late(), GREEDY, "rejection", COSTS)
        passes_s = CHEAP.pass_s(1) * (found.rounds - found.drafted) + CHEAP.pass_s(2) * found.drafted
        spent[kind] = found.seconds - passes_s - CHEAP.draft_s(1) * found.drafted
    assert spent["lookup"] == pytest.approx(0, abs=1e-9)
    assert spent["draft"] > COSTS.reading_s(31) > 0


def test_trees_whose_children_are_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="not known"):
        walked("eagle tree", 4, WARM, "rejection")
