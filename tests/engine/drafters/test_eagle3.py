"""The EAGLE-3 head as a drafter: the text is plain's, and its memory is that of the committed tokens."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.events import Finished, PromptProgress, Round
from engine.loop import Limits, decode
from engine.policy import Plan
from engine.policy.fixed import FixedLength
from engine.sampling import Sampler
from engine.session import Prompt
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from engine.verify_pass import RoundQueue
from tests.engine.conversations import LONG, SHORT, answer, events_of, same, session
from tests.engine.drafters.eagles import eagle, network_of
from tests.engine.fewer import paired
from tests.engine.replies import PROMPT, attach, plain_reply, reply
from tests.engine.trees import way

# --- the text -----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [3, 16])
def test_greedy_trees_of_every_size_give_the_text(k: int) -> None:
    plain = plain_reply(network_of("qwen3"), tokens=20)
    ids, rounds, _ = reply(network_of("qwen3"), eagle("qwen3", trees=True), k, tokens=20)
    assert ids == plain
    assert sum(r.accepted for r in rounds) > 5
    assert all(len(r.drafted) <= k for r in rounds)


@pytest.mark.slow_for("kimi_k3")
@pytest.mark.parametrize("name", ["qwen3_next", "kimi_k3"])
def test_chains_over_states_that_cannot_drop_tokens_give_the_text(name: str) -> None:
    """In kimi_k3 the target is fed some tokens again, and so are their features."""
    plain = plain_reply(network_of(name), tokens=25)
    for k in (1, 3, 7):
        ids, rounds, _ = reply(network_of(name), eagle(name), k, tokens=25)
        assert ids == plain
        assert sum(r.accepted for r in rounds) > 3


class InTurn(FixedLength):
    """Plans these lengths again and again, and says truly whether a plain one follows."""

    def __init__(self, lengths: list[int]) -> None:
        super().__init__(0)
        self._lengths, self._rounds = lengths, 0

    def plan(self, hints: object = ()) -> Plan:
        return Plan(self._lengths[self._rounds % len(self._lengths)], "in turn")

    def observe(self, round_: Round) -> None:
        self._rounds += 1

    def next_is_plain(self, hints: Sequence[float | None] = ()) -> bool:
        return self._lengths[(self._rounds + 1) % len(self._lengths)] == 0


@pytest.mark.parametrize(
    ("name", "trees", "lengths"),
    [("qwen3", True, [0, 5]), ("qwen3", True, [0, 0, 0, 0, 0, 0, 7]), ("llama", False, [5, 0, 0, 0, 1])],
    ids=["every other", "after six", "of a chain"],
)
def test_plain_rounds_between_drafts_leave_nothing_out(
    name: str, trees: bool, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features pile up meanwhile, and steps run ahead; each draft is still what a fresh drafter proposes."""
    plain = plain_reply(network_of(name), tokens=30)
    drafter = eagle(name, trees)
    ahead, real = [], RoundQueue.submit_ahead
    monkeypatch.setattr(RoundQueue, "submit_ahead", lambda queue: (ahead.append(1), real(queue))[1])
    ids, told, _ = reply(network_of(name), drafter, draft=InTurn(lengths), tokens=30)
    assert ids == plain
    assert bool(ahead) == (lengths.count(0) > 1)
    said: list[int] = []
    for r in told:
        if r.drafted:
            _, (anew, *_), _ = reply(
                network_of(name), eagle(name, trees), len(r.drafted), tokens=len(r.drafted) + 1, prompt=[*PROMPT, *said]
            )
            assert anew.drafted == r.drafted
        said += r.tokens


# --- the distribution ----------------------------------------------------


@pytest.mark.parametrize(("rule", "trees"), paired(["coupled", "rejection"], [False, True]))
def test_q_is_the_heads_probability_of_each_token(rule: AcceptanceRule, trees: bool) -> None:
    """Found again by a fresh drafter that walks every way alone."""
    sampling, network = SamplingSettings(temperature=0.8, top_k=20, repetition_penalty=1.1, seed=4), network_of("qwen3")
    ids, rounds, _ = reply(network, eagle("qwen3", trees), 6, sampling, rule, tokens=12)
    said = list(PROMPT)
    for r in rounds[:2]:
        parents = r.parents or tuple(range(-1, len(r.drafted) - 1))
        for node in range(len(r.drafted)):
            tokens = [r.drafted[i] for i in way(parents, node)]
            distribution = head_distribution(network, said, tokens[:-1], sampling)
            assert r.q[node] == pytest.approx(distribution[tokens[-1]], abs=1e-4)
        said += r.tokens
    assert said[len(PROMPT) :] == ids[: len(said) - len(PROMPT)]


def head_distribution(network: Any, committed: list[int], drafted: list[int], sampling: SamplingSettings) -> np.ndarray:
    """The head's distribution of the token after `drafted`, from nothing."""
    target, d = CachedModel(network), eagle("qwen3")
    attach(d, target)
    target.feed(committed[:-1])
    hidden = d._catch_up(committed, len(committed) - 1)[-1:]
    for token in drafted:
        hidden = d.steps(hidden, mx.array([token]))
    sampler = Sampler(replace(sampling, acceptance="coupled"), 64)
    counts = mx.array(np.bincount([*committed, *drafted], minlength=64)[None].astype(np.float32))
    shaped = sampler.distribution.adjust(d.head.logits(hidden), counts, d.head.ids)
    return np.exp(np.array(sampler.widen(sampler.distribution.logprobs(shaped), d.head.ids)[0]))


# --- its memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "trees"), paired(["llama", "qwen3"], [False, True]))
def test_the_heads_cache_holds_the_committed_pairs_and_no_others(name: str, trees: bool) -> None:
    """After every round, key by key, it is the cache of a drafter that reads the committed tokens anew."""
    target, d, sequence = CachedModel(network_of(name)), eagle(name, trees), list(PROMPT)
    attach(d, target)
    target.feed(sequence[:-1])
    sampler = Sampler(SamplingSettings(), 64)
    kept = 0
    for event in decode(target, d, FixedLength(6), sampler, sequence, Limits(40, 1000), 0.0):
        if isinstance(event, Finished):
            break
        kept += event.accepted
        assert d.known <= len(sequence) - 2
        assert not event.drafted or d.known == len(sequence) - len(event.tokens) - 1
        start, end = d.target.recorded
        assert start <= d.known and end == len(sequence) - 1
        anew, other = eagle(name), CachedModel(network_of(name))
        attach(anew, other)
        other.feed(sequence[:-1])
        anew._catch_up(sequence, d.known)
        attach(d, target)
        for mine, fresh_ in ((d._caches[0].keys, anew._caches[0].keys), (d._caches[0].values, anew._caches[0].values)):
            assert np.allclose(mine[..., : d.known, :], fresh_[..., : d.known, :], atol=1e-4)
    assert kept > 10


def test_features_of_a_prompt_are_let_go_as_it_is_read() -> None:
    """While it is read no more than the last two chunks are held, and at the end no more than one round's."""
    s, d = session("qwen3"), eagle("qwen3", trees=True)
    attach(d, s.target)
    prompt = (LONG * 4)[: 3 * PREFILL_CHUNK + 70]
    held = []
    for event in s.continue_tokens(Prompt(prompt), SHORT, d, FixedLength(5)):
        held.append((type(event), sum(rows.shape[0] for _, rows in s.target.taps._stretches)))
    assert max(rows for kind, rows in held if kind is PromptProgress) <= 2 * PREFILL_CHUNK
    assert held[-1][1] <= 6 + 1


def test_a_prompt_cancelled_half_way_can_be_asked_again() -> None:
    s, d = session("qwen3"), eagle("qwen3", trees=True)
    prompt, seen = (LONG * 3)[: 2 * PREFILL_CHUNK + 70], []
    for event in events_of(s, prompt, SHORT, d, cancelled=lambda: len(seen) > 2):
        seen.append(event)
    for again in (prompt, [*prompt[:700], 5, 6]):
        same(answer(s, again, SHORT, d), answer(session("qwen3"), again, SHORT, eagle("qwen3", trees=True)))
