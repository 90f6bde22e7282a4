"""A drafter with other tokens: the text is the target's, and what the drafter has read is the same bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters import DraftContext
from engine.drafters.cross_tokenizer import CrossTokenizerModel, TokenBytes
from engine.policy.fixed import FixedLength
from engine.sampling import Sampler, TokenCounts
from engine.session import Session
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.conversations import MODELS, NEARBY, read
from tests.engine.fakes import ByteTokenizer
from tests.engine.replies import PROMPT, plain_reply, reply
from tests.engine.test_waits import Instrument, Watched, instrument

# 64 tokens each, of which 40 are single bytes that both have, at other ids; é is two bytes, whole in no token.
LETTERS = [
    bytes([byte]) for byte in (*range(ord("a"), ord("z") + 1), *range(ord("0"), ord("9") + 1), 0xC3, 0xA9, 32, 10)
]
PAIRS = [left + right for left in LETTERS[:6] for right in LETTERS[:4]]
TARGET = [*LETTERS, *PAIRS[:23], b""]
DRAFTER = [b"", *reversed(LETTERS), *(pair[::-1] for pair in PAIRS[:22]), b"abc"]
__all__ = ["instrument"]  # a fixture

SHAPED = SamplingSettings(temperature=0.9, top_p=0.95, repetition_penalty=1.2, seed=3)


def encode(text: str) -> Sequence[int]:
    """The longest tokens first."""
    data, found = text.encode(), []
    while data:
        best = max((token for token in DRAFTER if token and data.startswith(token)), key=len, default=b"")
        if not best:
            return found
        found.append(DRAFTER.index(best))
        data = data[len(best) :]
    return found


TOKENS = TokenBytes(TARGET, DRAFTER, encode, start=(0,), ends=((63, 0),))


def drafter_of(name: str, tokens: TokenBytes = TOKENS) -> CrossTokenizerModel:
    return CrossTokenizerModel(CachedModel(NEARBY[name]), tokens)


def read_bytes(drafter: Any) -> bytes:
    return b"".join(DRAFTER[token] for token in drafter._tokens)


@pytest.mark.parametrize(("name", "sampling"), [("qwen3", None), ("qwen3_next", SHAPED)])
def test_the_text_is_that_of_plain_decoding(name: str, sampling: SamplingSettings | None) -> None:
    plain = plain_reply(MODELS[name], sampling=sampling)
    ids, rounds, _ = reply(MODELS[name], drafter_of(name), 3, sampling)
    assert ids == plain
    assert sum(len(round_.drafted) for round_ in rounds) > 20


@pytest.mark.parametrize("name", ["qwen3", "qwen3_next"])
def test_what_is_read_is_the_committed_text_whatever_was_refused_or_edited(name: str) -> None:
    """Turns, an edited turn and a shorter one: the own tokens stand for the committed bytes, but for an unfinished
    character, and the cache holds a prefix of them."""
    drafter, target = drafter_of(name), CachedModel(MODELS[name])
    session, settings = Session(target, ByteTokenizer(), 1000), SamplingSettings(max_tokens=8, temperature=0.8, seed=1)
    prompt = list(PROMPT)
    for turn in ([7, 8, 9], [40, 41], [], [5, 6]):
        events = list(session.continue_tokens(prompt, settings, drafter, FixedLength(3)))
        committed = b"".join(TARGET[token] for token in session.tokens[:-1])
        drafter._read(session.tokens[:-1])
        assert committed.startswith(read_bytes(drafter)) and len(committed) - len(read_bytes(drafter)) <= 3
        assert drafter.model.length <= len(drafter._tokens)
        prompt = [*prompt[:-2], *read(events).ids[:5], *turn]


def test_accepted_drafts_are_not_read_again() -> None:
    """Three drafted tokens, of which two are accepted: the cache keeps what it has read of those."""
    drafter, sampler = drafter_of("qwen3"), Sampler(SamplingSettings(), 64)
    context = DraftContext(PROMPT, TokenCounts(sampler.distribution, PROMPT), sampler)
    draft = drafter.propose(context, 3)
    own, tokens = len(drafter._tokens), [int(token) for token in np.array(draft.tokens)]
    drafter.rewind(len(PROMPT) + 2)
    assert drafter.model.length == own + 2
    drafter._read([*PROMPT, *tokens[:2], 3])
    assert drafter._tokens[own : own + 1] == [drafter._own[tokens[0]]]
    assert read_bytes(drafter) == b"".join(TARGET[token] for token in [*PROMPT, *tokens[:2], 3])
    assert drafter.model.length >= own + 1


def test_an_unfinished_character_is_waited_for() -> None:
    drafter, sampler = drafter_of("qwen3"), Sampler(SamplingSettings(), 64)
    half = [1, 2, TARGET.index(b"\xc3")]

    def drafted(tokens: list[int]) -> int:
        draft = drafter.propose(DraftContext(tokens, TokenCounts(sampler.distribution, tokens), sampler), 2)
        drafter.rewind(len(tokens))
        return int(draft.tokens.size)

    assert drafted(half) == 0
    assert drafted([*half, TARGET.index(b"\xa9")]) == 2
    assert read_bytes(drafter) == b"bc\xc3\xa9"


def test_a_tokenizer_that_changes_the_text_is_not_trusted() -> None:
    """Where encoding does not give back the bytes, the longest tokens that fit are taken."""
    lower = dataclasses.replace(TOKENS, encode=lambda text: encode(text.replace("a", "b")))
    drafter = drafter_of("qwen3", lower)
    drafter._read([0, 1, 2, 0])
    assert read_bytes(drafter) == b"abca"


def test_only_tokens_that_both_have_are_drafted_and_ends_by_their_role() -> None:
    pairs = dict(TOKENS.shared())
    assert all(TARGET[number] == DRAFTER[own] for number, own in pairs.items() if number != 63)
    assert pairs[63] == 0 and len(pairs) > 40
    drafter = drafter_of("qwen3")
    assert set(np.array(drafter.needs.token_map).tolist()) == set(pairs)
    with pytest.raises(ValueError, match="no token in common"):
        drafter_of("qwen3", TokenBytes([b"x"], [b"y"], encode))


def test_each_token_is_drawn_from_the_q_that_is_told() -> None:
    drafter, counts, q = drafter_of("qwen3"), np.zeros(64), np.zeros(64)
    for seed in range(300):
        sampler = Sampler(SamplingSettings(temperature=1.5, seed=seed, acceptance="rejection"), 64)
        draft = drafter.propose(DraftContext(PROMPT, TokenCounts(sampler.distribution, PROMPT), sampler), 1)
        drafter.rewind(len(PROMPT) - 1)
        q = np.exp(np.array(draft.logq[0], np.float64))
        counts[int(np.array(draft.tokens)[0])] += 1
    likely = q * 300 > 4
    chi = ((counts - q * 300) ** 2 / np.maximum(q * 300, 1e-9))[likely].sum()
    assert abs(q.sum() - 1) < 1e-4 and chi < likely.sum() + 6 * (2 * likely.sum()) ** 0.5
    assert counts[q == 0].sum() == 0 and mx.sum(drafter.needs.token_map).item() > 0


def test_a_round_waits_for_the_device_once(instrument: Instrument) -> None:
    policy = Watched(FixedLength(3), instrument)
    _, rounds, _ = reply(MODELS["qwen3"], drafter_of("qwen3"), sampling=SHAPED, policy=policy, tokens=20)
    assert set(np.diff(policy.counts)) == {1} and sum(len(round_.drafted) for round_ in rounds) > 10
