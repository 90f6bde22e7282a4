"""Rejection keeps the target's distribution with the drafts of every kind: by enumeration, nothing is drawn.

Over six tokens each drafter makes every chain of two that it can. What it says of them, log q, is compared with the
noise at which its choice turns, which gives the distribution that it draws from; then each chain is accepted, corrected
or continued with its exact chance by the rules of `engine.acceptance`, and all chances together must be the target's
own, of all texts of three tokens.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import pytest

from engine import acceptance
from engine.drafters import DraftContext
from engine.drafters.cross_tokenizer import CrossTokenizerModel, TokenBytes
from engine.drafters.draft_model import DraftModel
from engine.drafters.eagle3 import Eagle3
from engine.refusal import rule_of
from engine.sampling import Sampler, TokenCounts
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.fewer import paired
from tests.engine.oracle import TOLERANCE, Distributions, Text, assert_is_the_targets
from tests.engine.replies import attach
from tests.toys.architectures import build
from tests.toys.block_heads import random_assistant, random_block, random_mtp
from tests.toys.heads import random_eagle3

SIZE, LENGTH = 6, 2
PROMPT = [3, 1, 4, 1, 5, 0, 2, 3, 5, 3, 5, 1, 2, 0, 4, 3, 2]
TARGET = [b"a", b"b", b"c", b"d", b"ab", b""]
DRAFTER = [b"", b"c", b"a", b"e", b"b", b"ca", b"f"]  # three of the target's letters, at other ids, and its end
SETTINGS = {
    "penalties": SamplingSettings(temperature=1.2, repetition_penalty=1.3, acceptance="rejection"),
    "nucleus": SamplingSettings(temperature=1.4, top_k=5, top_p=0.97, acceptance="rejection"),
}


def across(network: Any) -> CrossTokenizerModel:
    def encode(text: str) -> list[int]:
        return [DRAFTER.index(bytes([byte])) for byte in text.encode() if bytes([byte]) in DRAFTER]

    tokens = TokenBytes(TARGET, DRAFTER, encode, start=(0,), ends=((5, 0),))
    return CrossTokenizerModel(CachedModel(build("qwen3", 2, vocab_size=len(DRAFTER))), tokens)


def eagle(network: Any, **changes: Any) -> Eagle3:
    head = random_eagle3(vocab_size=SIZE, draft_vocab_size=4, **changes)
    return Eagle3(head, CachedModel(network))


KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "DFlash 2": ("qwen3", lambda net: random_block(net, "dflash2", candidates=3)),
    "DFlash": ("qwen3", lambda net: random_block(net, "dflash")),
    "Gemma 4, ordered": ("gemma4_text", lambda net: random_assistant(net, ordered=True)),
    "DSpark": ("qwen3", lambda net: random_block(net, "dspark")),
    "TLI": ("qwen3", across),
    "gated DSpark": ("qwen3_5", lambda net: random_block(net, "gated dspark")),
    "EAGLE-3": ("qwen3", eagle),
    "Gemma 4": ("gemma4_text", random_assistant),
    "P-EAGLE": ("qwen3", lambda net: eagle(net, mask_id=4, own_embedding=True)),
    "MTP": ("qwen3_5", lambda net: random_mtp(net, "qwen3_5")),
    "PARD": ("qwen3", lambda net: DraftModel(CachedModel(build("qwen3", 2, vocab_size=SIZE)), SIZE, mask_id=5)),
}
SPARSE = {"DFlash 2": 3, "Gemma 4, ordered": 4, "TLI": 4, "EAGLE-3": 4, "P-EAGLE": 4}  # tokens that may be drafted
INDEPENDENT = ("DFlash", "P-EAGLE", "PARD")  # the tokens of a draft


class Directed(Sampler):
    """A sampler whose noise for what a drafter draws is given, (LENGTH, SIZE); it notes what it was asked for."""

    def __init__(self, settings: SamplingSettings, noise: np.ndarray) -> None:
        super().__init__(settings, SIZE)
        self._given = mx.array(noise.astype(np.float32))
        self.asked: list[tuple[int, int]] = []

    def draft_noise(self, positions: mx.array | int, ids: mx.array | None, salt: int = 0) -> mx.array:
        assert isinstance(positions, int) and not self.accepts_by_match
        self.asked.append((positions, salt))
        row = self._given[salt - 1]
        return (row if ids is None else row[ids])[None]


class Chain(NamedTuple):
    """What was drafted, (LENGTH,), and log q of each place, (LENGTH, SIZE)."""

    tokens: Text
    logq: np.ndarray


class Drafting:
    """One drafter after the prompt, which drafts again and again with the noise that it is given."""

    def __init__(self, kind: str, settings: SamplingSettings) -> None:
        name, make = KINDS[kind]
        self.drafter, target, self.settings = make(network_of(name)), CachedModel(network_of(name)), settings
        attach(self.drafter, target)
        target.feed(PROMPT[:-1])

    def chain(self, noise: np.ndarray) -> Chain:
        sampler = Directed(self.settings, noise)
        self.drafter.rewind(len(PROMPT) - 1)
        context = DraftContext(PROMPT, TokenCounts(sampler.distribution, PROMPT), sampler)
        draft = self.drafter.propose(context, LENGTH)
        assert rule_of(sampler, draft) == "rejection" and draft.tokens.size == LENGTH
        assert len(set(sampler.asked)) == LENGTH  # so that the places are drawn independently of each other
        return Chain(tuple(draft.tokens.tolist()), np.array(draft.logq, np.float64))  # type: ignore[arg-type]

    def every_chain(self) -> Iterator[Chain]:
        """Every chain that can be drafted."""
        for wanted in itertools.product(range(SIZE), repeat=LENGTH):
            chain = self.chain(1e6 * np.eye(SIZE)[list(wanted)])
            possible = np.isfinite(chain.logq[range(LENGTH), wanted])
            assert (chain.tokens == wanted) == possible.all()
            if possible.all():
                yield chain


@cache
def network_of(name: str) -> Any:
    return build(name, vocab_size=SIZE, vocab_size_per_layer_input=SIZE)


@cache
def target_rows(name: str, settings: str) -> dict[Text, mx.array]:
    """log p (LENGTH + 1, SIZE) of the target's pass over each chain."""
    sampler, target, rows = Sampler(SETTINGS[settings], SIZE), CachedModel(network_of(name)), {}
    counts = TokenCounts(sampler.distribution, PROMPT)
    target.feed(PROMPT[:-1])
    for tokens in itertools.product(range(SIZE), repeat=LENGTH):
        draft = mx.array(tokens, mx.int32)
        logits, _ = target.continue_from(PROMPT, draft)
        rows[tokens] = sampler.distribution.logprobs(sampler.distribution.adjust(logits, counts.rows(draft)))
        mx.eval(rows[tokens])
        target.rewind(len(PROMPT) - 1)
    return rows


def committed(chain: Chain, logp: mx.array) -> Iterator[tuple[Text, float]]:
    """Every text that a round with this chain may commit, and its chance."""
    draft, logq = mx.array(chain.tokens, mx.int32), mx.array(chain.logq.astype(np.float32))
    kept = np.array(acceptance.accept_probability(logp, draft, logq), np.float64)
    alive = float(np.exp(chain.logq[range(LENGTH), chain.tokens]).prod())
    for place in range(LENGTH + 1):
        refused = acceptance.refused_probs(draft, logq, mx.array(place), SIZE)
        ends = alive * (1 - kept[place]) if place < LENGTH else alive
        for token, share in enumerate(np.array(acceptance.residual(logp[place], refused), np.float64)):
            yield (*chain.tokens[:place], token), ends * share
        alive *= kept[place] if place < LENGTH else 1.0


@pytest.mark.slow_for("DFlash*", "Gemma 4, ordered*", "TLI*", "gated*")
@pytest.mark.parametrize(("kind", "settings"), paired(KINDS, SETTINGS))
def test_what_is_committed_has_the_targets_distribution(kind: str, settings: str) -> None:
    """Tokens that cannot be drafted come by the correction, as often as the target wants them."""
    drafting, rows = Drafting(kind, SETTINGS[settings]), target_rows(KINDS[kind][0], settings)
    p: Distributions = {}
    for tokens, logp in rows.items():
        p |= {tokens[:place]: np.exp(np.array(logp[place], np.float64)) for place in range(LENGTH + 1)}
    outcomes: dict[Text, float] = defaultdict(float)
    corrected, drawn = np.zeros(SIZE), 0.0
    for chain in drafting.every_chain():
        drawn += np.exp(chain.logq[range(LENGTH), chain.tokens]).prod()
        for text, chance in committed(chain, rows[chain.tokens]):
            corrected[text[0]] += chance if len(text) == 1 else 0.0
            outcomes[text] += chance
    assert drawn == pytest.approx(1, abs=TOLERANCE)
    assert_is_the_targets(outcomes, p, SIZE, LENGTH + 1)
    assert 0.05 < corrected.sum() < 0.95
    outside = ~np.isfinite(chain.logq[0])
    assert corrected[outside] == pytest.approx(p[()][outside], abs=TOLERANCE)
    if kind in SPARSE and settings == "penalties":
        assert outside.sum() == SIZE - SPARSE[kind] and corrected[outside].sum() > 0.01


@pytest.mark.slow_for("PARD", "Gemma 4*", "gated DSpark", "DFlash", "P-EAGLE", "TLI")
@pytest.mark.parametrize("kind", KINDS)
def test_each_token_is_drawn_from_the_q_that_is_told(kind: str) -> None:
    """By Gumbel noise a token is drawn with its probability when it wins over the likeliest just where its noise leads
    by more than log q says; and what has no probability never wins. In chains the second q is that after the first."""
    drafting = Drafting(kind, SamplingSettings(temperature=1.2, acceptance="rejection"))
    seconds: dict[int, np.ndarray] = {}
    for first in range(SIZE):
        noise = np.zeros((LENGTH, SIZE))
        noise[0, first] = 1e6
        plain = drafting.chain(noise)
        if plain.tokens[0] == first:
            seconds[first] = np.exp(plain.logq[1])
            for place in range(LENGTH) if len(seconds) == 1 else [1]:
                check_draws(drafting, plain, place, noise * (np.arange(LENGTH) < place)[:, None])
    apart = max(np.abs(one - other).max() for one in seconds.values() for other in seconds.values())
    assert len(seconds) == SPARSE.get(kind, SIZE) and (apart > 1e-3) == (kind not in INDEPENDENT)


def check_draws(drafting: Drafting, plain: Chain, place: int, noise: np.ndarray) -> None:
    """Where each token begins to win at this place. noise: that leads there, 0 at the place itself."""
    logq, best = plain.logq[place], plain.logq[place].argmax()
    assert np.exp(logq).sum() == pytest.approx(1, abs=TOLERANCE)
    for token in set(range(SIZE)) - {best}:
        lead = logq[best] - logq[token]
        for led in (lead + 0.001, lead - 0.001) if np.isfinite(lead) else (1e6,):
            noise[place] = led * (np.arange(SIZE) == token)
            chain = drafting.chain(noise)
            assert (chain.tokens[place] == token) == (led > lead)
            assert np.allclose(chain.logq[: place + 1], plain.logq[: place + 1], atol=TOLERANCE)
