"""What is foreseen along a text is what the loop does when it writes that text, for every kind of drafter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from engine.adaptive import Adaptive, Candidate
from engine.choice import Rule
from engine.drafters import Drafter
from engine.drafters.medusa import Medusa
from engine.drafters.prompt_lookup import PromptLookup
from engine.drafters.several import Several
from engine.gate import Gate, Reliability, open_gate
from engine.metrics import Metrics
from engine.outlook import TreeOutlook
from engine.policy import FixedLength, Plan, Policy
from engine.sampling import Sampling
from engine.target import CachedModel
from models.predict.along import Along
from models.predict.prices import Prices
from models.predict.reading import Text
from models.predict.tally import Tally
from tests.engine.conversations import MODELS, NEARBY
from tests.engine.eagles import eagle
from tests.engine.replies import PROMPT, draft_model, reply
from tests.models.fit.plans import CHEAP
from tests.toys.heads import Remembering

PRICES = Prices(replace(CHEAP, plain=0.9 * CHEAP.pass_s(1)))
TOKENS = 60
WARM = Sampling(temperature=1, seed=3)
SHAPED = Sampling(temperature=0.8, top_p=0.95, top_k=20, repetition_penalty=1.2, seed=3)
GREEDY = Sampling()


@cache
def target() -> CachedModel:
    return CachedModel(MODELS["llama"])


def text_of(sampling: Sampling, tokens: int = TOKENS) -> Text:
    """What the target says by itself."""
    said = reply(target(), sampling=sampling, tokens=tokens)[0]
    return Text((*PROMPT, *said), len(PROMPT), tokens)


def drafter(kind: str) -> list[Drafter]:
    if kind.startswith("medusa"):
        heads: Any = Remembering(MODELS["llama"], list(text_of(GREEDY).tokens), wrong=frozenset(range(30, 60, 4)))
        return [Medusa(heads, [(0,), (1,), (0, 0), (0, 1), (0, 0, 0)], target(), trees=kind.endswith("tree"))]
    kinds: dict[str, Callable[[], Sequence[Drafter]]] = {
        "lookup": lambda: [PromptLookup(longest=2, shortest=1)],
        "draft": lambda: [draft_model(NEARBY["llama"], 64)],
        "eagle": lambda: [eagle("llama")],
        "eagle tree": lambda: [eagle("llama", trees=True)],
        "several": lambda: [PromptLookup(longest=2, shortest=1), draft_model(NEARBY["llama"], 64)],
    }
    return list(kinds[kind]())


KINDS = ["lookup", "draft", "eagle", "eagle tree", "several", "medusa", "medusa tree"]


def policy_for(kind: str, drafters: Sequence[Drafter], length: int | None) -> Policy:
    if length is not None:
        return FixedLength(length)
    gated = kind in ("draft", "eagle", "several")
    return Adaptive([_candidate(kind, one, gated) for one in drafters])


def _candidate(kind: str, one: Drafter, gated: bool) -> Candidate:
    if kind.endswith("tree"):
        return Candidate(one.name, CHEAP, TreeOutlook({}))
    return Candidate(one.name, CHEAP, gated=gated and not isinstance(one, PromptLookup))


def measured(kind: str, length: int | None, sampling: Sampling, rule: Rule) -> Metrics:
    drafters = drafter(kind)
    together = drafters[0] if len(drafters) == 1 else Several(drafters)
    policy = policy_for(kind, drafters, length)
    rounds = reply(target(), together, sampling=sampling, rule=rule, tokens=TOKENS, policy=policy)[1]
    return Metrics.of(rounds)


def walked(kind: str, length: int | None, sampling: Sampling, rule: Rule, prices: Prices = PRICES) -> Tally:
    drafters = drafter(kind)
    along = Along(target(), drafters, 8, frozenset())
    read = along.read(text_of(sampling))
    return along.walked(read, policy_for(kind, drafters, length), sampling, rule, prices)


@pytest.mark.parametrize("length", [4, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sampling", "rule"), [(GREEDY, "rejection"), (SHAPED, "coupled")], ids=["0", "shaped"])
def test_a_walk_has_the_rounds_that_writing_has(kind: str, length: int | None, sampling: Sampling, rule: Rule) -> None:
    found, true = walked(kind, length, sampling, rule), measured(kind, length, sampling, rule)
    assert (found.tokens, found.rounds, found.drafted) == (true.tokens, true.rounds, true.drafted)
    assert list(found.reached) == true.reached
    assert list(found.kept) == true.kept


def test_drafts_are_right_often_enough_to_prove_something() -> None:
    for kind in KINDS:
        assert (measured(kind, 3, GREEDY, "rejection").mean_acceptance_length or 0) > 1.15, kind


@pytest.mark.parametrize("kind", ["draft", "eagle", "several"])
def test_chains_in_one_pass_have_the_rounds_of_the_walk(kind: str) -> None:
    drafters = drafter(kind)
    along = Along(target(), drafters, 6, frozenset())
    text = text_of(GREEDY)
    read = along.read(text)
    chances, _ = along.compared(read, GREEDY, ["rejection"])["rejection"]
    for length in range(1, 7):
        one = along.expected(text, chances, length, PRICES)
        other = along.walked(read, FixedLength(length), GREEDY, "rejection", PRICES)
        assert (one.tokens, one.rounds, one.drafted) == pytest.approx((other.tokens, other.rounds, other.drafted))
        assert one.kept[:length] == pytest.approx(other.kept)
        assert one.seconds == pytest.approx(other.seconds, rel=0.02)  # a walk prices what is read before a draft
        assert one.seconds <= other.seconds * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["draft", "eagle"])
def test_a_reply_that_ends_by_itself_ends_its_rounds(kind: str) -> None:
    """Drafts may go past the end then, and what is drafted there counts."""
    whole = text_of(GREEDY)
    end = next(place for place in range(20, TOKENS) if whole.reply.index(whole.reply[place]) == place)
    eos = frozenset({whole.reply[end]})
    text = Text(whole.tokens[: whole.prompt + end + 1], whole.prompt, TOKENS)
    drafters = drafter(kind)
    along = Along(target(), drafters, 6, eos)
    read = along.read(text)
    chances, _ = along.compared(read, GREEDY, ["rejection"])["rejection"]
    rounds = reply(target(), drafter(kind)[0], 5, GREEDY, "rejection", TOKENS, eos=eos)[1]
    true = Metrics.of(rounds)
    for found in (
        along.expected(text, chances, 5, PRICES),
        along.walked(read, FixedLength(5), GREEDY, "rejection", PRICES),
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


class Asked(FixedLength):
    """Looks at every law, and takes the token."""

    def plan(self, hints: Sequence[float | None] = ()) -> Plan:
        return Plan(self.length, "asked", gate=open_gate(self.length))


def test_drafts_that_no_gate_is_asked_about_take_less() -> None:
    """Walked along, and in one pass."""
    quick = Prices(replace(PRICES.costs, eager=1.02 * CHEAP.pass_s(1)))
    spared_s = CHEAP.draft_s(1) + CHEAP.pass_s(2) - 1.02 * CHEAP.pass_s(1)
    drafters = drafter("draft")
    along = Along(target(), drafters, 2, frozenset())
    text = text_of(GREEDY)
    read = along.read(text)
    chances, _ = along.compared(read, GREEDY, ["rejection"])["rejection"]

    def spared(policy: FixedLength) -> float:
        found = [along.walked(read, policy, GREEDY, "rejection", prices) for prices in (PRICES, quick)]
        return found[0].seconds - found[1].seconds

    for length in (1, 2):
        usual, quicker = (along.expected(text, chances, length, prices) for prices in (PRICES, quick))
        assert spared(FixedLength(length)) == pytest.approx(usual.seconds - quicker.seconds)
        assert usual.seconds - quicker.seconds > 0.4 * TOKENS / (length + 1) * spared_s
        assert spared(Asked(length)) == pytest.approx(0)
    assert spared(FixedLength(1)) == pytest.approx(along.expected(text, chances, 1, PRICES).drafted * spared_s)


class Unsure(FixedLength):
    """Looks at one law a round, and never takes the token."""

    def plan(self, hints: Sequence[float | None] = ()) -> Plan:
        dear = [0.0, 9.0]
        return Plan(1, "unsure", gate=Gate(Reliability(), dear, [0.0, 0.0], 1.0, [1.0]))


def test_a_law_that_was_looked_at_for_nothing_costs_a_step() -> None:
    drafters = drafter("draft")
    along = Along(target(), drafters, 4, frozenset())
    read = along.read(text_of(GREEDY))
    found = along.walked(read, Unsure(1), GREEDY, "rejection", PRICES)
    assert found.drafted == 0
    rounds = CHEAP.pass_s(1) * TOKENS + CHEAP.draft_s(1) * (TOKENS - 1)  # the last token leaves no room for a draft
    assert found.seconds == pytest.approx(rounds)


def test_what_a_drafter_must_read_first_is_priced() -> None:
    """Half of the tokens said without it, and then one draft after the other."""

    class Late(FixedLength):
        def __init__(self) -> None:
            super().__init__(1)
            self.rounds = 0

        def plan(self, hints: Sequence[float | None] = ()) -> Plan:
            self.rounds += 1
            return Plan(int(self.rounds > 30), "late")

        def plain_next(self, quiet: bool = False) -> bool:
            return False

    spent = {}
    for kind in ("draft", "lookup"):
        drafters = drafter(kind)
        read = Along(target(), drafters, 4, frozenset()).read(text_of(GREEDY))
        found = Along(target(), drafters, 4, frozenset()).walked(read, Late(), GREEDY, "rejection", PRICES)
        passes_s = CHEAP.pass_s(1) * (found.rounds - found.drafted) + CHEAP.pass_s(2) * found.drafted
        spent[kind] = found.seconds - passes_s - CHEAP.draft_s(1) * found.drafted
    assert spent["lookup"] == pytest.approx(0, abs=1e-9)
    assert spent["draft"] > PRICES.reading_s(0, 31) > 0


def test_trees_whose_children_are_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="not known"):
        walked("eagle tree", 4, WARM, "rejection")
