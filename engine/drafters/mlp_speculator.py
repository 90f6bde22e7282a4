"""MLP speculators (Wertheimer 2024, arXiv 2404.19124): the network, and the drafter that runs it as a chain.

A stage for each drafted token, a recurrence over one vector:

    s_0 = the target's last normed state, normed once more and over sqrt(2) where `scale_input` says so
    s_i = GELU(norm_i(proj_i(s_(i-1)) + weight * emb_i(t_(i-1))));  logits of t_i = head_i(s_i)

t_0 is the last committed token. weight is fixed by the sizes (`MlpSpeculatorConfig.weight`), so that the state counts
for half of what the last stage reads. Names of parameters, and the order of operations, are those of
foundation-model-stack/fms-extras, `fms_extras/models/speculator.py`, and of vllm-project/vllm,
`vllm/model_executor/models/mlp_speculator.py`.
"""

import math
from dataclasses import dataclass
from functools import partial

import mlx.core as mx
import mlx.nn as nn

from engine.drafters import Draft, DraftContext, Traits
from engine.drafters.chain import draw_chain
from engine.drafters.head_drafter import LatestStateDrafter
from engine.target.cached_model import CachedModel
from engine.target.joint_pass import RowsPass
from engine.together import run

_EPS = 1e-6


@dataclass(frozen=True)
class MlpSpeculatorConfig:
    """Sizes. hidden_size: of the target's state. inner_size: of the recurrence. stages: drafted tokens at most. tied:
    all stages share one set of weights, but for the first projection. scale_input: norms the target's state."""

    hidden_size: int
    inner_size: int
    vocab_size: int
    stages: int
    tied: bool = False
    scale_input: bool = False

    @property
    def weight(self) -> float:
        """The factor of the embedding in each stage's sum."""
        state = math.pow(0.5, 0.5 / self.stages)
        return math.sqrt((1 - state**2) * self.inner_size / 2) / state


class _Norm(nn.Module):
    """An RMS norm with a bias."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight, self.bias = mx.ones(size), mx.zeros(size)

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self.weight, _EPS) + self.bias


class MlpSpeculatorNetwork(nn.Module):
    """All stages. Tied ones have one entry in `emb`, `head` and `ln`, and two in `proj`."""

    def __init__(self, config: MlpSpeculatorConfig) -> None:
        super().__init__()
        self.config = config
        inner, count = config.inner_size, 1 if config.tied else config.stages
        later = min(config.stages - 1, 1) if config.tied else config.stages - 1
        widths = [config.hidden_size, *[inner] * later]
        self.emb = [nn.Embedding(config.vocab_size, inner) for _ in range(count)]
        self.proj = [nn.Linear(width, inner, bias=False) for width in widths]
        self.head = [nn.Linear(inner, config.vocab_size, bias=False) for _ in range(count)]
        self.ln = [_Norm(inner) for _ in range(count)]

    def scaled(self, hidden: mx.array) -> mx.array:
        """Returns what the first stage reads of the target's states (..., hidden)."""
        return mx.fast.rms_norm(hidden, None, _EPS) / math.sqrt(2) if self.config.scale_input else hidden

    def advance(self, state: mx.array, tokens: mx.array, stage: int) -> mx.array:
        """Returns the states (..., inner) of a stage after `tokens` (...,). state: (..., hidden) of the target,
        `scaled`, for stage 0, else (..., inner) of the stage before."""
        own = 0 if self.config.tied else stage
        projected = self.proj[min(stage, len(self.proj) - 1)](state)
        out: mx.array = nn.gelu(self.ln[own](projected + self.config.weight * self.emb[own](tokens)))
        return out

    def logits(self, state: mx.array, stage: int) -> mx.array:
        """Returns the logits (..., vocabulary) of a stage's states (..., inner)."""
        out: mx.array = self.head[0 if self.config.tied else stage](state)
        return out


class MlpSpeculator(LatestStateDrafter):
    """Drafts chains with `network` for `target`."""

    name = "mlp-speculator"

    def __init__(self, network: MlpSpeculatorNetwork, target: CachedModel) -> None:
        super().__init__(target)
        self.network = network
        self.traits = Traits(longest=network.config.stages)

    def draft(self, context: DraftContext, state: mx.array, length: int) -> Draft:
        length, network = min(length, self.network.config.stages), self.network
        state, stages = network.scaled(state), iter(range(length))

        def next_logits(token: mx.array) -> mx.array:
            nonlocal state
            stage = next(stages)
            weights = (id(network), stage)
            state = run(RowsPass(partial(network.advance, stage=stage), [state, token], weights=(*weights, "state")))
            return run(RowsPass(partial(network.logits, stage=stage), [state], weights=(*weights, "logits")))

        first = next_logits(mx.array([context.tokens[-1]], mx.int32))
        return draw_chain(context, first, next_logits, length)
