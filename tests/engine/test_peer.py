"""Against mlx-lm's own speculative decoding, for the same pair: it accepts by sample-and-match."""

import mlx.core as mx
import pytest
from mlx.utils import tree_map
from mlx_lm.generate import speculative_generate_step
from mlx_lm.sample_utils import make_sampler

from engine.settings import SamplingSettings
from tests.engine.replies import PROMPT, draft_model, reply
from tests.toys.architectures import build

TOKENS = 200


def blurred(amount: float) -> object:
    """The toy llama with noise on every weight, `amount` times the weight's own spread."""
    network = build("llama")
    mx.random.seed(1)
    network.update(tree_map(lambda a: a + amount * mx.std(a) * mx.random.normal(a.shape), network.parameters()))
    return network


@pytest.mark.slow
@pytest.mark.parametrize("amount", [pytest.param(0.02, marks=pytest.mark.slow), 0.1])
def test_rejection_commits_half_again_as_many_tokens_a_pass(amount: float) -> None:
    network, other = build("llama"), blurred(amount)
    _, rounds, _ = reply(
        network, draft_model(other, 64), 4, SamplingSettings(temperature=1), "rejection", tokens=TOKENS
    )
    mx.random.seed(0)
    steps = speculative_generate_step(
        mx.array(PROMPT), network, other, num_draft_tokens=4, max_tokens=TOKENS, sampler=make_sampler(temp=1.0)
    )
    passes = sum(not from_draft for _, _, from_draft in steps)
    ours, theirs = TOKENS / len(rounds), TOKENS / passes
    print(f"tokens per pass at temperature 1, closeness {amount}: {ours:.2f} by rejection, {theirs:.2f} by mlx-lm")
    assert ours >= 1.5 * theirs
