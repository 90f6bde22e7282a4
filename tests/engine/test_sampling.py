"""The distribution p, its noise, and the counts that penalties look at."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.noise import Noise, Stream
from engine.sampling import Distribution, TokenCounts
from engine.settings import SamplingSettings
from tests.engine import oracle

SIZE = 12
samplings = st.builds(
    SamplingSettings,
    temperature=st.sampled_from([0.3, 0.7, 1.0, 2.0]),
    top_p=st.sampled_from([0.05, 0.5, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 3, 11, 12, 50]),
    min_p=st.sampled_from([0.0, 0.05, 0.5]),
    repetition_penalty=st.sampled_from([0.8, 1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.7]),
    frequency_penalty=st.sampled_from([0.0, 0.4]),
    logit_bias=st.dictionaries(st.integers(0, SIZE - 1), st.sampled_from([-3.0, 2.0]), max_size=2),
)


texts = st.lists(st.integers(0, SIZE - 1), max_size=5)


@settings(max_examples=150, deadline=None)
@given(samplings, texts, st.integers(0, 10_000))
def test_the_distribution_is_the_oracles(sampling: SamplingSettings, context: list[int], seed: int) -> None:
    logits = np.random.default_rng(seed).normal(0, 2, SIZE).astype(np.float32)
    distribution = Distribution(sampling, SIZE)
    shaped = distribution.adjust(mx.array(logits)[None], TokenCounts(distribution, context).rows(mx.zeros(0, mx.int32)))
    p = np.exp(np.array(distribution.logprobs(shaped)[0], dtype=np.float64))
    wanted = oracle.distribution(logits, context, sampling)
    assert p.sum() == pytest.approx(1, abs=1e-5)
    assert np.abs(p - wanted).max() < 1e-5


@settings(max_examples=60, deadline=None)
@given(
    samplings,
    texts,
    st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=5),
)
def test_a_verify_row_has_the_distribution_of_the_single_step(
    sampling: SamplingSettings, context: list[int], draft: list[int]
) -> None:
    """Row i of a wide pass has seen draft[:i], just as plain decoding would have."""
    distribution = Distribution(sampling, SIZE)
    logits = mx.array(np.random.default_rng(len(draft)).normal(0, 2, (len(draft) + 1, SIZE)).astype(np.float32))
    rows = distribution.logprobs(
        distribution.adjust(logits, TokenCounts(distribution, context).rows(mx.array(draft, mx.int32)))
    )
    for i in range(len(draft) + 1):
        single = TokenCounts(distribution, context + draft[:i]).rows(mx.zeros(0, mx.int32))
        alone = distribution.logprobs(distribution.adjust(logits[i : i + 1], single))
        assert mx.array_equal(rows[i], alone[0], equal_nan=True).item()


def test_extending_the_context_is_counting_from_scratch() -> None:
    distribution = Distribution(SamplingSettings(temperature=1, frequency_penalty=1), SIZE)
    longer = TokenCounts(distribution, [1, 2]).extended(mx.array([2, 3, 2])).rows(mx.array([4]))
    assert longer is not None
    assert longer[0].tolist() == np.bincount([1, 2, 2, 3, 2], minlength=SIZE).tolist()
    assert longer[1].tolist() == np.bincount([1, 2, 2, 3, 2, 4], minlength=SIZE).tolist()


def test_bias_can_forbid_a_token() -> None:
    distribution = Distribution(SamplingSettings(temperature=1, logit_bias={1: -math.inf, 99: 5.0}), 3)
    assert math.exp(distribution.logprobs(distribution.adjust(mx.zeros((1, 3))))[0, 1].item()) == 0


@pytest.mark.parametrize(
    "nonsense",
    [
        *({"temperature": wrong} for wrong in (-1, math.nan, math.inf, 1e-39, 101)),
        *({"top_p": wrong} for wrong in (0, 1.5)),
        *({"min_p": wrong} for wrong in (1, -0.1)),
        *({"repetition_penalty": wrong} for wrong in (0, 101)),
        *({"logit_bias": wrong} for wrong in ({-1: 1.0}, {1: math.nan}, {1: math.inf})),
        *({"top_k": -1}, {"presence_penalty": math.nan}, {"frequency_penalty": math.inf}, {"seed": -1}),
        *({"max_tokens": 0}, {"stop": ("",)}, {"acceptance": "typical"}, {"draft_length": 33}),
    ],
)
def test_nonsense_is_refused_in_one_line_that_names_it(nonsense: dict) -> None:
    with pytest.raises(UsageError) as error:
        SamplingSettings(**nonsense).check()
    message = str(error.value)
    assert next(iter(nonsense)).replace("_", "-") in message
    assert "\n" not in message


# --- noise ------------------------------------------------------------------------------------


def test_noise_differs_by_seed_stream_and_position() -> None:
    draws = [
        tuple(Noise(seed).gumbel(stream, mx.array([position]), 4)[0].tolist())
        for seed in (0, 1, 2**32, 2**62)
        for stream in Stream
        for position in (0, 1, 70_000)
    ]
    assert len(set(draws)) == len(draws)


def test_gumbel_argmax_draws_from_the_distribution() -> None:
    """Chi-square over 20,000 positions: 4 degrees of freedom, refused at 1 in 10^6 (30.7)."""
    p = np.array([0.5, 0.25, 0.15, 0.07, 0.03])
    n = 20_000
    noise = Noise(3).gumbel(Stream.CHOICE, mx.arange(n), 5)
    drawn = np.bincount(np.array(mx.argmax(mx.array(np.log(p).astype(np.float32)) + noise, -1)), minlength=5)
    assert ((drawn - n * p) ** 2 / (n * p)).sum() < 33.4


def test_uniforms_are_uniform_and_below_one() -> None:
    u = np.array(Noise(3).uniform(Stream.ACCEPT, mx.arange(20_000)))
    assert u.min() >= 0
    assert u.max() < 1
    counts = np.bincount((u * 10).astype(int), minlength=10)
    assert ((counts - 2000) ** 2 / 2000).sum() < 45


@pytest.mark.parametrize("salt", [0, 3])
def test_a_known_position_has_the_noise_that_it_has_among_others(salt: int) -> None:
    several = Noise(7).gumbel(Stream.CHOICE, mx.array([4, 5, 6]), 32, salt)
    for alone in (5, mx.array([5])):
        assert mx.array_equal(Noise(7).gumbel(Stream.CHOICE, alone, 32, salt), several[1:2])
