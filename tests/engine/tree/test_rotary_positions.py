"""Rotary positions row by row: each row turns as it would at its own offset, in every rotary module of mlx-lm."""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.backend.mlx_lm_imports import initialize_rope, make_prompt_cache
from engine.tree.rotary_positions import enable_row_positions, rows_as_batch
from tests.toys.architectures import build

WIDTH = 16
POSITIONS = [7, 9, 8, 8, 30, 0]
SCALINGS: dict[str, Any] = {
    "plain": None,
    "linear": {"type": "linear", "factor": 4.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    "longrope": {
        "type": "longrope",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "short_factor": [1.0] * (WIDTH // 2),
        "long_factor": [1.5] * (WIDTH // 2),
    },
}


def one_by_one(rope: Any, x: mx.array, positions: list[int]) -> mx.array:
    rows = [rope(x[:, :, i : i + 1], offset=position) for i, position in enumerate(positions)]
    return mx.concatenate(rows, 2)


def rope_of(scaling: str) -> Any:
    return initialize_rope(WIDTH, 10_000.0, False, SCALINGS[scaling], 1024)


def heads(count: int = 3) -> mx.array:
    return mx.random.normal((1, count, len(POSITIONS), WIDTH), key=mx.random.key(0))


@pytest.mark.parametrize("scaling", SCALINGS)
def test_each_row_turns_as_at_its_own_offset(scaling: str) -> None:
    rope, x = rope_of(scaling), heads()
    assert mx.allclose(rows_as_batch(rope)(x, offset=mx.array(POSITIONS)), one_by_one(rope, x, POSITIONS), atol=1e-5)
    assert mx.allclose(rows_as_batch(rope)(x, offset=5), one_by_one(rope, x, [5] * len(POSITIONS)), atol=1e-5)


class Layer(nn.Module):
    def __init__(self, rope: Any) -> None:
        super().__init__()
        self.rope = rope


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_taught_module_takes_rows_and_is_otherwise_as_before(scaling: str) -> None:
    layer, x = Layer(rope_of(scaling)), heads()
    kind, at_five = type(layer.rope), layer.rope(x, offset=5)
    enable_row_positions(layer)
    enable_row_positions(layer)
    assert isinstance(layer.rope, kind) and type(layer.rope).__name__ == kind.__name__
    assert len([c for c in type(layer.rope).__mro__ if "rotates_rows" in vars(c)]) == 1
    assert mx.array_equal(layer.rope(x, offset=5), at_five)
    assert mx.array_equal(layer.rope(x, offset=mx.array(5)), at_five)
    texts = mx.concatenate([x, x[:, :, ::-1]])
    each = mx.array([5, 9])
    assert mx.array_equal(layer.rope(texts, offset=each), rope_of(scaling)(texts, offset=each))  # one for each text
    for offset in (layer.rope(x, offset=mx.array(POSITIONS)), layer.rope(x, mx.array(POSITIONS))):
        assert mx.allclose(offset, one_by_one(rope_of(scaling), x, POSITIONS), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "rotary"),
    [("qwen3", "RoPE"), ("deepseek_v2", "DeepseekV2YarnRotaryEmbedding"), ("smollm3", "NoPE"), ("phixtral", "RoPE")],
)
def test_rotary_modules_are_known_by_their_call_not_by_their_name(name: str, rotary: str) -> None:
    """phixtral's attention is called RoPEAttention, and deepseek's rotary module is not called RoPE."""
    model = build(name)
    enable_row_positions(model)
    taught = {type(module).__name__ for module in model.modules() if hasattr(module, "rotates_rows")}
    assert rotary in taught and taught <= {"RoPE", rotary}
    assert model(mx.array([[1, 2, 3]]), cache=make_prompt_cache(model)).shape == (1, 3, 64)
