"""Structured output: drafting keeps what plain masked decoding writes, and each row has the mask of its own prefix."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine import acceptance
from engine.errors import UsageError
from engine.events import Finished, Round
from engine.grammar import Matcher, ReplyGrammar
from engine.policy import Policy
from engine.policy.fixed import FixedLength
from engine.reply_channels import ReplyFormat
from engine.sampling import Sampler, TokenCounts
from engine.session import Prompt, Session
from engine.settings import Grammar, SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.drafters.eagles import eagle, network_of
from tests.engine.fakes import ByteTokenizer, nearby
from tests.engine.grammars import CountingMatcher
from tests.engine.replies import attach, draft_model, ids_of
from tests.engine.test_waits import Instrument, Watched

SIZE, EOS = 64, 63
FORMAT = ReplyFormat(opens=frozenset({1}), closes=frozenset(range(8, 20)))
TOY = Grammar("regex", "what CountingMatcher allows")
GREEDY = SamplingSettings(max_tokens=30, grammar=TOY)
SAMPLINGS = {
    "greedy": replace(GREEDY, repetition_penalty=1.2),
    "coupled": replace(GREEDY, temperature=1.0, top_k=40, min_p=0.01, acceptance="coupled", seed=4),
    "rejection": replace(GREEDY, temperature=1.0, top_p=0.9, seed=4),
}


def drafter_of(kind: str) -> Any:
    if kind == "plain":
        return None
    if kind == "draft model":
        return draft_model(nearby(network_of("llama"), 0.05), SIZE)
    return eagle("llama", trees=kind == "eagle trees")


def reply_of(
    kind: str,
    settings: SamplingSettings,
    thinks: bool = False,
    before: Sequence[int] = (),
    policy: Policy | None = None,
    matcher: Matcher | None = None,
) -> tuple[list[Round], Finished]:
    """The reply of the toy target under CountingMatcher. thinks: its prompt has opened a thought, which ends soon."""
    tokenizer = ByteTokenizer(frozenset({EOS}), FORMAT if thinks else None)
    target = CachedModel(network_of("llama"))
    session = Session(target, tokenizer, 400, lambda grammar: matcher or CountingMatcher(SIZE, EOS, first=20))
    prompt = [3, 1, 4, 40, 5, 9, 2, 6, 1] if thinks else [3, 7, 4, 40, 5, 9, 2, 6]
    drafter = drafter_of(kind)
    attach(drafter, target)
    length = 0 if drafter is None else 5
    *events, last = session.continue_tokens(
        Prompt(prompt), settings, drafter, policy or FixedLength(length), continuation_ids=before
    )
    assert isinstance(last, Finished)
    return [one for one in events if isinstance(one, Round)], last


def follows(answer: Sequence[int]) -> bool:
    """Whether an answer is one that the grammar allows, its end included."""
    matcher = CountingMatcher(SIZE, EOS, first=20)
    whole = all(matcher.consume(token) for token in answer[:-1])
    return whole and answer[-1] == EOS and EOS in matcher.tokens()


@pytest.mark.parametrize(
    ("kind", "sampling"),
    [
        *(("draft model", "coupled"), ("eagle", "rejection")),
        *(("eagle trees", "greedy"), ("eagle trees", "coupled"), ("eagle trees", "rejection")),
    ],
)
def test_a_drafted_answer_follows_the_grammar_and_is_that_of_plain_masked_decoding(kind: str, sampling: str) -> None:
    settings = SAMPLINGS[sampling]
    rounds, last = reply_of(kind, settings)
    assert last.reason == "eos" and follows(ids_of(rounds))
    assert any(len(one.drafted) > 1 for one in rounds)
    assert all(one.waits == (2 if one.drafted else 1) for one in rounds)
    if sampling != "rejection":
        assert ids_of(rounds) == ids_of(reply_of("plain", settings)[0])


@pytest.mark.slow_for("eagle trees")
@pytest.mark.parametrize("kind", ["draft model", "eagle trees"])
def test_the_grammar_begins_right_behind_the_thought_wherever_it_ends(kind: str) -> None:
    inside = 0
    for seed in range(6):
        settings = replace(SAMPLINGS["coupled"], seed=seed, max_tokens=60)
        plain, _ = reply_of("plain", settings, thinks=True)
        rounds, last = reply_of(kind, settings, thinks=True)
        assert ids_of(rounds) == ids_of(plain)
        reply = ids_of(rounds)
        closed = next((i for i, token in enumerate(reply) if token in FORMAT.closes), None)
        if closed is None:
            continue
        rest = reply[closed + 1 :]
        if rest and rest[0] != 1:
            assert last.reason == "eos" and follows(rest)
        inside += any(token in FORMAT.closes for one in rounds for token in one.tokens[: one.accepted])
    assert inside, "no thought ended inside a draft"


def test_what_the_grammar_forces_is_drafted_first_and_verified() -> None:
    rounds, _ = reply_of("draft model", GREEDY)
    forced = [one for one in rounds if one.reason == "the grammar allows nothing else"]
    assert forced and all(one.accepted == len(one.drafted) and one.rule == "greedy" for one in forced)
    assert not any("nothing else" in one.reason for one in reply_of("plain", GREEDY)[0])


@pytest.mark.parametrize("kind", ["plain", "eagle trees"])
def test_a_round_with_a_grammar_waits_once_more_for_its_draft_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unforced(CountingMatcher):
        def forced(self) -> list[int]:
            return []

    instrument = Instrument(monkeypatch)
    policy = Watched(FixedLength(0 if kind == "plain" else 5), instrument)
    rounds, _ = reply_of(kind, SAMPLINGS["coupled"], policy=policy, matcher=Unforced(SIZE, EOS, first=20))
    assert np.diff(policy.counts).tolist() == [one.waits for one in rounds]
    assert all(one.waits == (2 if one.drafted else 1) for one in rounds)


def test_a_reply_that_goes_on_goes_on_in_the_grammar() -> None:
    whole = ids_of(reply_of("plain", GREEDY)[0])
    for cut in range(len(whole)):
        assert ids_of(reply_of("draft model", GREEDY, before=whole[:cut])[0]) == whole[cut:]
    with pytest.raises(UsageError, match="does not follow the grammar"):
        reply_of("plain", GREEDY, before=[20])


def test_each_node_of_a_tree_has_the_mask_of_its_own_path() -> None:
    grammar = ReplyGrammar(CountingMatcher(SIZE, EOS), SIZE, {EOS})
    draft, parents = [3, 5, 4, 7, 6, 8, 11, 2], [-1, -1, 0, 0, 1, 2, 3, 4]
    masks = np.array(grammar.rows(draft, parents))
    for node in range(len(draft)):
        path, here = [], node
        while here >= 0:
            path, here = [draft[here], *path], parents[here]
        alone = CountingMatcher(SIZE, EOS)
        reached = all(alone.consume(token) for token in path)
        expected = alone.tokens() if reached else range(SIZE)
        assert np.flatnonzero(masks[node + 1]).tolist() == list(expected)
    assert np.flatnonzero(masks[0]).tolist() == list(range(0, 63, 3))
    assert np.array_equal(masks, np.array(grammar.rows(draft, parents))), "the matcher is where it was"


def test_rejection_keeps_the_distribution_of_plain_masked_decoding() -> None:
    """By enumeration, with the engine's own rule: every draft of two tokens, what is kept of it, and what follows."""
    size, eos, rng = 7, 6, np.random.default_rng(1)
    logits = {n: rng.normal(0, 1.5, (size,) * n + (size,)).astype(np.float32) for n in range(3)}
    q = rng.dirichlet(np.ones(size), 2).astype(np.float32)
    grammar = ReplyGrammar(CountingMatcher(size, eos, least=1), size, {eos})
    sampler = Sampler(SamplingSettings(temperature=0.8, top_k=4), size)
    counts = TokenCounts(sampler.distribution, [])

    def masked(draft: tuple[int, ...]) -> mx.array:
        rows = mx.array(np.stack([logits[n][draft[:n]] for n in range(len(draft) + 1)]))
        rows = mx.where(grammar.rows(draft), rows, -np.inf)
        return sampler.distribution.logprobs(sampler.distribution.adjust(rows, counts.rows()))

    def plain(tokens: tuple[int, ...]) -> float:
        logp = np.array(masked(tokens))
        return float(np.exp(sum(logp[i, token] for i, token in enumerate(tokens))))

    first: dict[tuple[int, ...], float] = {}
    for draft in itertools.product(range(size), repeat=2):
        logp, drafted, logq = masked(draft), mx.array(draft), mx.log(mx.array(q))
        assert not bool(mx.any(mx.isnan(logp)))
        keep = np.array(acceptance.accept_probability(logp, drafted, logq))
        drawn = float(q[0, draft[0]] * q[1, draft[1]])
        for n, chance in ((0, 1 - keep[0]), (1, keep[0] * (1 - keep[1]))):
            rest = np.array(acceptance.residual(logp[n], mx.array(q[n])))
            for token in np.flatnonzero(rest):
                outcome = (*draft[:n], int(token))
                first[outcome] = first.get(outcome, 0.0) + drawn * float(chance) * float(rest[token])
        first[draft] = first.get(draft, 0.0) + drawn * float(keep[0] * keep[1])
    for token in range(size):
        begun = sum(chance for tokens, chance in first.items() if tokens[0] == token)
        assert begun == pytest.approx(plain((token,)), abs=1e-5)
        after = {tokens[1]: chance for tokens, chance in first.items() if len(tokens) == 2 and tokens[0] == token}
        for second, chance in after.items():
            share = plain((token, second)) / plain((token,)) if plain((token,)) else 0.0
            assert chance == pytest.approx(sum(after.values()) * share, abs=1e-5)
